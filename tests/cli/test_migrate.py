"""`recollect data migrate`: the list of steps, the plan, doing it, and rolling back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.change.migrations.old_sessions import put_inline
from tests.small_home import ONE, TALK, TWO, open_in_this_process, put, state


@pytest.fixture
def home(own_home: Path) -> Path:
    """A 1.0 session and one with nothing to migrate."""
    put_inline(own_home / ".claude")
    put(own_home / ".claude", TWO, TALK)
    return own_home / ".claude"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert 0 == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_steps_are_listed_with_from_and_to(capsys: pytest.CaptureFixture[str]) -> None:
    """Five of them, in their order."""
    steps = answer(capsys, "data", "migrate", "--list")["steps"]
    assert [1, 2, 3, 4, 5] == [step["number"] for step in steps]
    assert ("claude 2.0", "claude 2.1.325") == (steps[2]["from"], steps[2]["to"])
    assert 0 == main(["data", "migrate", "--list"])
    assert "4  todos-to-tasks: claude up to 2.1.30 -> claude 2.1.197 and later" in capsys.readouterr().out


def test_all_are_migrated_and_rolled_back_by_the_printed_command(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Byte for byte."""
    before = state(home)
    done = answer(capsys, "data", "migrate", "--to", "5", "--all", "--apply")
    (back,) = done["undo"]
    assert (True, 1, [ONE]) == (
        before != state(home),
        done["untouched"],
        [s["session"] for s in done["sessions"]],
    )
    assert 0 == main(back.split()[1:])

    assert before == state(home)


def test_one_that_is_refused_does_not_stop_the_others(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says that something was left out."""
    open_in_this_process(home, ONE)
    assert 1 == main(["data", "migrate", "--to", "2", "--all", "--apply", "--json"])
    done = json.loads(capsys.readouterr().out)

    assert ([TWO], [ONE]) == (
        [one["session"] for one in done["sessions"]],
        [one["session"] for one in done["refused"]],
    )
    assert 1 == len(done["undo"])
