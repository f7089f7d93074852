"""`recollect rm`: to the trash and back, planned first."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, open_in_this_process, put, state


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert 0 == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_it_goes_is_listed_and_comes_back(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the undo command it printed; afterwards the home is as before and the trash empty."""
    home = own_home / ".claude"
    put(home, ONE, TALK)
    before = state(home)
    removed = answer(capsys, "rm", ONE, "--apply")
    listed = answer(capsys, "undo")
    left = len(list(Home().sessions()))
    back = answer(capsys, *removed["undo"][0].split()[1:])

    batch = removed["sessions"][0]["batch"]
    assert (True, 0) == (removed["applied"], left)
    assert [(batch, ONE, "Q1")] == [(one["id"], one["subject"], one["title"]) for one in listed["changes"]]
    assert (batch, True, before) == (back["change"]["id"], back["applied"], state(home))
    assert {"changes": []} == answer(capsys, "undo")


def test_several_go_at_once(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that is named twice goes once; one undo brings all of them back."""
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    removed = answer(capsys, "rm", ONE, TWO, ONE[:6], "--apply")

    assert [ONE, TWO] == [one["session"] for one in removed["sessions"]]
    assert [] == list(Home().sessions())
    (undo,) = removed["undo"]
    answer(capsys, *undo.split()[1:])
    assert {ONE, TWO} == {session.id for session in Home().sessions()}


def test_an_open_session_is_refused(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5 with the reason; the plan says it before."""
    home = own_home / ".claude"
    put(home, ONE, TALK)
    open_in_this_process(home, ONE)
    before = state(home)
    planned = answer(capsys, "rm", ONE)
    code = main(["rm", ONE, "--apply"])

    assert (os.getpid(), 5, before) == (planned["sessions"][0]["open_in"], code, state(home))
    assert f"a client has it open (process {os.getpid()})" in capsys.readouterr().err


def test_what_went_before_a_refusal_can_still_be_undone(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of two went, the second is open: the undo of the first is printed."""
    put(own_home / ".claude", ONE, TALK)
    put(own_home / ".claude", TWO, TALK)
    open_in_this_process(own_home / ".claude", TWO)

    assert 5 == main(["rm", ONE, TWO, "--apply"])
    assert 1 == capsys.readouterr().out.count("Undo with: recollect undo")


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        (["rm", "nope"], "recollect list"),
        (["undo", "nope"], "recollect undo"),
    ],
)
def test_what_is_not_there_is_not_found(
    own_home: Path, arguments: list[str], listed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3, and which list has the right names."""
    put(own_home / ".claude", ONE, TALK)

    assert 3 == main(arguments)
    told = capsys.readouterr().err
    assert "'nope'" in told
    assert f"`{listed}`" in told


def test_hostile_titles_do_not_reach_the_terminal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in the plan nor in the list."""
    title = {"type": "custom-title", "customTitle": "\x1b[31mRed", "sessionId": ONE}
    put(own_home / ".claude", ONE, [*TALK, title])
    main(["rm", ONE])
    main(["rm", ONE, "--apply"])
    main(["undo"])
    shown = capsys.readouterr().out

    assert (False, 3) == ("\x1b" in shown, shown.count("\\x1b[31mRed"))
