"""Homes of strangers: what we read of each agent is what an independent parser counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recollect.agents.mirror import AgentMirror
from tests.agents.truth import counts, known
from tests.needs import TRANSCRIPTS

# Where the homes lie in a sample; or a whole pattern below the samples, where the first name is that of the truth.
HOMES = {
    "crush": ".crush",
    "goose": ".local/share/goose",
    "hermes": "hermes-db/*/.hermes",
    "zed": ".local/share/zed",
    "kiro": ".local/share/kiro-cli",
    "amazon-q": "kiro/*/.local/share/amazon-q",
    "cline": "cline-roo-kilo/*/.config/*/User/globalStorage/saoudrizwan.claude-dev",
    "roo": "cline-roo-kilo/*/.config/*/User/globalStorage/rooveterinaryinc.roo-cline",
    "kilo": "cline-roo-kilo/*/.config/*/User/globalStorage/kilocode.kilo-code",
    "grok": ".grok",
    "antigravity": "antigravity/*/.gemini/antigravity*",
    "copilot": ".copilot",
    "pi": ".pi",
    "openclaw": ".openclaw",
    "cursor-agent": ".cursor",
    "droid": ".factory",
    "kimi": ".kimi",
    "iflow": ".iflow",
    "continue": ".continue",
    "amp": ".local/share/amp",
}
# A session that was put away goes by the name that it had.
PUT_AWAY = re.compile(r"\.(deleted|reset)\.[^/]*$")
# Documents of Copilot from before its logs.
NOT_READ = ("history-session-state/",)
# What we count beside the truth, by a part of the sample's name.
BESIDE: dict[str, dict[str, int]] = {
    # A compaction is a call of its own, and the truth holds it apart.
    "252d6b6b": {"input": 176_397, "output": 1_807},
    # A summary is a compaction, and no answer.
    "#cd613e30": {"lines": -1},
    "#20260910_101000": {"prompts": -1},
    # A title was made with another model, which the totals of the session leave out.
    "#20260910_100000": {"input": 200, "output": 8},
    # The producer's input holds what was read from and written to the cache.
    "20251230_1": {"input": -9_300},
    # Answers of sub-agents are answers. The last call is no call yet: its session was ended amid the arguments.
    "b1ea4a04-95d9": {"answers": 14, "tool_calls": -1},
    # One is only a thought, in the text.
    "session-1701a1c8": {"answers": -1},
}


@pytest.mark.transcripts
@pytest.mark.parametrize("agent", HOMES)
def test_counts_are_those_of_an_independent_parser(agent: str, tmp_path: Path) -> None:
    """Prompts, answers, calls and tokens of every file; no record of an unknown type."""
    samples = TRANSCRIPTS / "dialects" / "more"
    pattern = HOMES[agent] if "*" in HOMES[agent] else f"{agent}/*/{HOMES[agent]}"
    truth = known(TRANSCRIPTS, pattern.partition("/")[0])
    compared = 0
    for home in sorted(samples.glob(pattern)):
        mirror = AgentMirror(agent, home, tmp_path / f"{compared}")
        mirror.refresh()
        assert mirror.problems == []
        ours = counts(mirror)
        prefix = home.relative_to(samples).as_posix()
        for name, facts in truth.items():
            source = name.removeprefix(f"{prefix}/")
            if source == name or source.startswith(NOT_READ):
                continue
            if name.endswith("/transcript.jsonl") and name.replace(".jsonl", "_full.jsonl") in truth:
                continue  # the same, cut
            beside = next((more for part, more in BESIDE.items() if part in name), {})
            counted = ours[source] if source in ours else ours[PUT_AWAY.sub("", source).partition("#")[0]]
            wanted = {what: facts.get(what) for what in ("prompts", "answers", "lines", "tool_calls")}
            wanted = {
                what: count + beside.get(what, 0) for what, count in wanted.items() if count is not None
            }
            assert {what: counted[what] for what in wanted} == wanted, name
            tokens = {
                what: count + beside.get(what, 0)
                for what, count in (facts["tokens"] or {}).items()
                if what in counted["tokens"] and count is not None
            }
            assert {what: counted["tokens"][what] for what in tokens} == tokens, name
            assert counted["unknown"] == 0, name
            compared += 1
    assert compared
