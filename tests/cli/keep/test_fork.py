"""`recollect fork`: a new session, planned first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.services.homes import Home
from tests.small_home import ONE, TALK, put, state, uuid_of


def test_without_apply_nothing_changes(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan says how much would be copied; the new session has no id yet."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)
    assert 0 == main(["fork", ONE, "--json"])
    document = json.loads(capsys.readouterr().out)

    assert before == state(own_home)
    assert (ONE, uuid_of(4), 4, None, False, "Q1 (fork)") == tuple(
        document[key] for key in ("session", "at", "entries", "new", "applied", "title")
    )


def test_the_plan_can_be_typed(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line it prints forks at the same entry under the same title."""
    put(own_home / ".claude", ONE, TALK)
    main(["fork", ONE, "--at", uuid_of(2)])
    shown = capsys.readouterr().out

    assert "Would fork 3f2a9c1e at 00000000: 2 entries" in shown
    assert f"recollect fork {ONE} --at {uuid_of(2)} --title 'Q1 (fork)' --apply" in shown


def test_with_apply_there_is_a_new_session_and_the_undo_removes_it(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The home is then as it was before."""
    home = own_home / ".claude"
    put(home, ONE, TALK)
    before = state(home)
    main(["fork", ONE, "--at", uuid_of(2), "--title", "Again", "--apply", "--json"])
    document = json.loads(capsys.readouterr().out)
    fork = Home().session(document["new"])
    texts, title = [message.text for message in fork.conversation().messages], fork.title
    main(document["undo"].split()[1:])

    assert (["Q1", "A1"], "Again", str(fork.path)) == (texts, title, document["path"])
    assert before == state(home)


@pytest.mark.parametrize(("at", "code"), [("ffff", 3), ("", 3)])
def test_an_entry_that_is_not_there_is_not_found(
    own_home: Path, capsys: pytest.CaptureFixture[str], at: str, code: int
) -> None:
    """Exit 3 and no new file."""
    put(own_home / ".claude", ONE, TALK)
    before = state(own_home)

    assert (code, before) == (main(["fork", ONE, "--at", at, "--apply"]), state(own_home))
    assert "recollect:" in capsys.readouterr().err


def test_a_session_without_a_conversation_says_why(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3 with the reason, as for show."""
    put(own_home / ".claude", ONE, [{"type": "custom-title", "customTitle": "Only a title"}])

    assert 3 == main(["fork", ONE, "--apply"])
    assert "metadata but no conversation" in capsys.readouterr().err
