"""The turns of a conversation count the calls that the library counts."""

from __future__ import annotations

from pathlib import Path

from recollect import Home
from tests.small_home import ONE, call, link, outcome, prompt, put, reply, said
from tests.web.pages import Browser, served

HALF_A_PAIR = "\ud83d"  # a client wrote such text where it cut a string
HUNK = {"oldStart": 1, "oldLines": 0, "newStart": 1, "newLines": 2, "lines": ["+1", "+2"]}


def test_an_answer_with_half_a_surrogate_pair_keeps_its_calls(tmp_path: Path) -> None:
    """A line that the narrow view refuses is read by the codec, here as in the library."""
    home = tmp_path / "claude"
    edit = {"type": "tool_use", "id": "e", "name": "Edit", "input": {"file_path": "/a", "new_string": "x"}}
    done = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "e", "content": "ok"}]}
    kept = {"filePath": "/a", "structuredPatch": [HUNK], "note": HALF_A_PAIR}
    talk = [
        prompt(1, None, "go"),
        reply(2, 1, call("r"), said(HALF_A_PAIR)),
        outcome(3, 2, "r", HALF_A_PAIR),
        reply(4, 3, edit, said(HALF_A_PAIR)),
        link(5, 4, type="user", message=done, toolUseResult=kept),
        reply(6, 5, said("done")),
    ]
    put(home, ONE, talk)
    with Browser(served(home, tmp_path / "data")) as browser:
        (turn,) = browser.get(f"/api/sessions/{ONE}/costs")["turns"]

    assert (2, 1, 2) == (turn["calls"], turn["edits"], turn["added"])
    assert turn["calls"] == len(Home(home).session(ONE).tool_calls())
