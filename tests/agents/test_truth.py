"""Homes of strangers: what we read of each agent is what an independent parser counted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recollect.agents.mirror import AgentMirror
from tests.agents.truth import counts, known
from tests.needs import TRANSCRIPTS

HOMES = {
    "copilot": ".copilot",
    "pi": ".pi",
    "openclaw": ".openclaw",
    "cursor-agent": ".cursor",
    "droid": ".factory",
}
# A session that was put away goes by the name that it had.
PUT_AWAY = re.compile(r"\.(deleted|reset)\.[^/]*$")
# Documents of Copilot from before its logs.
NOT_READ = ("history-session-state/",)
# Tokens that we count beside the truth's, by a part of the sample's name: a compaction is a call of its own, and the truth holds it apart.
BESIDE = {"252d6b6b": {"input": 176_397, "output": 1_807}}


@pytest.mark.transcripts
@pytest.mark.parametrize("agent", HOMES)
def test_counts_are_those_of_an_independent_parser(agent: str, tmp_path: Path) -> None:
    """Prompts, answers, calls and tokens of every file; no record of an unknown type."""
    samples = TRANSCRIPTS / "dialects" / "more"
    truth = known(TRANSCRIPTS, agent)
    compared = 0
    for home in sorted((samples / agent).glob(f"*/{HOMES[agent]}")):
        mirror = AgentMirror(agent, home, tmp_path / f"{compared}")
        mirror.refresh()
        assert mirror.problems == []
        ours = counts(mirror)
        prefix = home.relative_to(samples).as_posix()
        for name, facts in truth.items():
            source = name.removeprefix(f"{prefix}/")
            if source == name or source.startswith(NOT_READ):
                continue
            counted = ours[PUT_AWAY.sub("", source)]
            wanted = {
                what: facts[what] for what in ("prompts", "answers", "tool_calls") if facts[what] is not None
            }
            assert {what: counted[what] for what in wanted} == wanted, name
            tokens = {
                what: count
                for what, count in (facts["tokens"] or {}).items()
                if what in counted["tokens"] and count is not None
            }
            for part, more in BESIDE.items():
                if part in name:
                    tokens = {what: count + more.get(what, 0) for what, count in tokens.items()}
            assert {what: counted["tokens"][what] for what in tokens} == tokens, name
            assert counted["unknown"] == 0, name
            compared += 1
    assert compared
