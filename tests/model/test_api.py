"""Our list of messages is the list client 2.1.325 sends.

Expected values were recorded from the real client by tools/record_client_messages.py:
two hundred small logs in full, and every session of the shared samples as digests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.errors import NotFound
from recollect.services.homes import Home
from tests.oracle.what_is_sent import as_blocks, digests
from tests.talk import completed, log_at

DATA = Path(__file__).resolve().parents[1] / "data"
CASES: dict[str, Any] = json.loads((DATA / "api_cases.json").read_text(encoding="utf-8"))
SAMPLES: dict[str, list[str] | None] = json.loads((DATA / "sample_messages.json").read_text(encoding="utf-8"))


def api_of(log: Path) -> list[dict[str, Any]] | None:
    """What we say the client would send; None where it would find no conversation."""
    try:
        return as_blocks(Home(log.parents[2]).session(str(log)).conversation().to_api())
    except NotFound:
        return None


@pytest.mark.parametrize("name", list(CASES))
def test_a_log_gives_the_messages_the_client_sends(name: str, tmp_path: Path) -> None:
    """Leaf, branches, orphans, circles, parallel calls, repairs, notes, compaction: as recorded."""
    case = CASES[name]
    lines = [completed(line) for line in case["lines"]]
    log = log_at(tmp_path / "projects" / "-x" / "3f2a9c1e-0000-4000-8000-000000000001.jsonl", lines)

    assert case["sent"] == api_of(log)


# Client 2.1.197 did not store the words of its notes. 2.1.325 says them anew in its own words when it
# resumes such a session; those words are nowhere in the file.
UNSTORED_NOTES = "2.1.197-print/"
# The client takes an approved plan out of the call that proposed it.
APPROVED_PLAN = "2.1.325-interactive/.claude/projects/-tmp-demo-w-tui-plan-mode/"


def test_every_sample_gives_the_messages_the_client_sends(shared: Path) -> None:
    """All sessions of seven client versions, but for two known differences."""
    homes = shared / "samples" / "claude-home"
    differing = []
    for name, expected in SAMPLES.items():
        ours = api_of(homes / name)
        if expected != (None if ours is None else digests(ours)):
            differing.append(name)

    assert [] == [name for name in differing if not name.startswith((UNSTORED_NOTES, APPROVED_PLAN))]
    assert len(SAMPLES) == 239
    assert len(differing) == 30


def test_without_the_clients_own_notes_the_older_samples_agree_too(shared: Path) -> None:
    """In sessions of 2.1.197 every message that is not a note of the client is the one it sends."""
    homes = shared / "samples" / "claude-home"
    compared = 0
    for name, expected in SAMPLES.items():
        if name.startswith(UNSTORED_NOTES) and expected is not None:
            ours = api_of(homes / name)
            assert ours is not None
            answers = [one for one in digests(ours) if one.startswith("assistant")]
            assert answers == [one for one in expected if one.startswith("assistant")]
            compared += 1
    assert compared >= 29
