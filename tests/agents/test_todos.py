"""What planning tools of other agents were last called with is a todo list like Claude's."""

from __future__ import annotations

from pathlib import Path

import pytest

import recollect
from recollect.agents.blocks import listed
from recollect.ask.todos import move_item, to_do_lists
from recollect.errors import UsageError

SESSION = "019a0000-0000-7000-8000-00000000000a"
SAMPLES = {
    "codex/0.166.0/tools/.codex": [("look", "completed"), ("do", "in_progress")],
    "opencode-1.18.33/data/opencode": [("do it", "in_progress"), ("check it", "pending")],
    "gemini-0.61.0/.gemini": [("do it", "in_progress")],
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_last_list_of_a_session_is_shown_and_not_changed(
    sample: str, transcripts: Path, tmp_path: Path
) -> None:
    home = recollect.Home(transcripts / "dialects" / "samples" / sample, data=tmp_path, index=False)
    (found,) = to_do_lists(home)
    assert [(item.text, item.status) for item in found.items] == SAMPLES[sample]
    assert (found.orphan, found.agent) == (False, None)
    with pytest.raises(UsageError, match=r"what recollect has is a copy"):
        move_item(home, found.session, "1", "completed", data=tmp_path)


def called(name: str, **given: object) -> dict[str, object]:
    return {"type": "tool_use", "name": name, "input": given}


@pytest.mark.parametrize(
    ("block", "items"),
    [
        (called("update_plan", plan=[{"step": "a", "status": "pending"}]), [("a", "pending")]),
        (called("write_todos", todos=[{"description": "a", "status": "blocked"}]), [("a", "blocked")]),
        (called("todo_write", todos=[{"id": "1", "content": "a", "status": 3}]), [("a", "pending")]),
        (called("todowrite", todos=[{"content": "a"}, {"status": "pending"}, 7]), [("a", "pending")]),
        (called("update_plan", plan="all of it"), []),
        (called("bash", todos=[{"content": "a"}]), []),
        ({"type": "text", "text": "update_plan"}, []),
    ],
)
def test_calls_of_every_agent_are_understood(block: dict[str, object], items: list[tuple[str, str]]) -> None:
    found = listed({"type": "assistant", "message": {"content": [block]}})
    assert [(item["content"], item["status"]) for item in found] == items
    assert not listed({"type": "user", "message": {"content": [block]}})
