"""Our list of messages is the list client 2.1.325 sends.

Expected values were recorded from the real client by tools/record_client_messages.py:
some 480 small logs in full, and every session of the shared samples as digests. Their names state the
rule, as docs/design/conversation.md does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.errors import NotFound
from tests.oracle.what_is_sent import as_blocks, digests
from tests.talk import completed, log_at

DATA = Path(__file__).resolve().parents[2] / "data"
CASES: dict[str, Any] = json.loads((DATA / "api_cases.json").read_text(encoding="utf-8"))
SAMPLES: dict[str, list[str] | None] = json.loads((DATA / "sample_messages.json").read_text(encoding="utf-8"))


def api_of(log: Path) -> list[dict[str, Any]] | None:
    """What we say the client would send; None where it would find no conversation."""
    try:
        return as_blocks(Home(log.parents[2]).session(str(log)).conversation().to_api())
    except NotFound:
        return None


# In parts of fifty: a test each would take longer to set up than to run.
@pytest.mark.parametrize("first", range(0, len(CASES), 50))
def test_a_log_gives_the_messages_the_client_sends(first: int, tmp_path: Path) -> None:
    """Leaf, branches, orphans, circles, parallel calls, repairs, notes, compaction: as recorded."""
    differing = {}
    for number, (name, case) in enumerate(list(CASES.items())[first : first + 50]):
        lines = [completed(line) for line in case["lines"]]
        home = tmp_path / str(number)
        log = log_at(home / "projects" / "-x" / "3f2a9c1e-0000-4000-8000-000000000001.jsonl", lines)
        ours = api_of(log)
        if case["sent"] != ours:
            differing[name] = (case["sent"], ours)

    assert {} == differing


KNOWN_DIFFERENCES = {
    # Plan mode's instructions are a long text of the client's own, not stored by 2.1.197.
    "2.1.197-print/.claude/projects/-tmp-demo-w-2-1-197-plan/959eb7e3-6c76-4d88-8fb6-10e4f661a5e0.jsonl",
    # The client takes an approved plan out of the call that proposed it.
    "2.1.325-interactive/.claude/projects/-tmp-demo-w-tui-plan-mode/c811bf40-b856-4254-9f13-b16b17508ff4.jsonl",
}


def test_every_sample_gives_the_messages_the_client_sends(transcripts: Path) -> None:
    """237 of 239 sessions of seven client versions to the letter; the two others are named with the reason."""
    homes = transcripts / "samples" / "claude-home"
    differing = set()
    for name, expected in SAMPLES.items():
        ours = api_of(homes / name)
        if expected != (None if ours is None else digests(ours)):
            differing.add(name)

    assert KNOWN_DIFFERENCES == differing
    assert len(SAMPLES) == 239
