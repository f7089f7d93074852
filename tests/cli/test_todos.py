"""`recollect show --todos`: what is left to do, in both ways clients keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, put, state


@pytest.fixture
def home(own_home: Path) -> Path:
    """One session with a list, an agent's empty list and two tasks; a list of a session that is gone."""
    root = own_home / ".claude"
    put(root, ONE, TALK)
    (root / "todos").mkdir()
    (root / "tasks" / ONE).mkdir(parents=True)
    items = [
        {"content": "Write \x1b[31mtests", "status": "in_progress", "activeForm": "Writing"},
        {"content": "Ship", "status": "pending", "activeForm": "Shipping"},
    ]
    (root / "todos" / f"{ONE}-agent-{ONE}.json").write_text(json.dumps(items))
    (root / "todos" / f"{ONE}-agent-a1.json").write_text("[]")
    (root / "todos" / f"{TWO}-agent-{TWO}.json").write_text('[{"content":"Lost","status":"completed"}]')
    for number, blockers in ((1, []), (2, ["1"])):
        task = {"id": str(number), "subject": f"Task {number}", "description": "", "status": "pending"}
        (root / "tasks" / ONE / f"{number}.json").write_text(
            json.dumps({**task, "blocks": [], "blockedBy": blockers})
        )
    return root


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """The lists of the JSON document."""
    assert 0 == main(["show", *arguments, "--todos", "--json"])
    lists: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["lists"]
    return lists


def test_lists_and_tasks_with_their_states(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty lists are hidden; what waits for what is said; nothing drives the terminal."""
    before = state(home)
    assert 0 == main(["show", "--todos"])
    shown = capsys.readouterr().out

    assert "[>] Write \\x1b[31mtests" in shown
    assert "[ ] Ship" in shown
    assert "[ ] 2. Task 2  (waits for 1)" in shown
    assert "[x] Lost" in shown
    assert shown.endswith("3 lists with items; 1 empty\n")
    assert before == state(home)


@pytest.mark.parametrize(("name", "kinds"), [("@last", ["todos", "tasks"]), (TWO[:6], ["todos"])])
def test_one_session_only(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, kinds: list[str]
) -> None:
    """By any of its names; one that is gone by the start of its id."""
    assert kinds == [one["kind"] for one in answer(capsys, name)]


def test_a_broken_list_is_noted_and_the_others_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The note is on stderr, so the JSON document stays whole."""
    (home / "todos" / f"{TWO}-agent-{TWO}.json").write_text("{torn")
    assert 0 == main(["show", "--todos", "--json"])
    output = capsys.readouterr()

    assert 2 == len(json.loads(output.out)["lists"])
    assert f"could not be read: {home / 'todos' / f'{TWO}-agent-{TWO}.json'}" in output.err
