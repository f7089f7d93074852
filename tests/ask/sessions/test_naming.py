"""A session is told from its copies, and a session that went away says where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.home_guard import in_short
from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, put, reply, said

THREE = "7c2d9c1e-0000-4000-8000-000000000003"
_TITLE = {"type": "custom-title", "sessionId": ONE}


@pytest.fixture
def home(own_home: Path) -> Path:
    """A session, a fork and a repaired copy of it, all with one title."""
    home = own_home / ".claude"
    copied = [{**entry, "forkedFrom": {"sessionId": ONE, "messageUuid": entry["uuid"]}} for entry in TALK]
    put(home, ONE, [*TALK, {**_TITLE, "customTitle": "Totals"}])
    put(home, TWO, [*copied, {**_TITLE, "customTitle": "Totals (fork)"}])
    put(home, THREE, [*copied, {**_TITLE, "customTitle": "Totals (repaired)"}])
    return home


@pytest.mark.usefixtures("home")
def test_candidates_stand_one_to_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With date and project, and what each is a copy of."""
    assert 3 == main(["show", "Totals ("])
    lines = capsys.readouterr().err.splitlines()

    assert "recollect: session 'Totals (' fits 2:" == lines[0]
    assert {
        f"  {TWO[:8]}  2026-11-15 10:00  app  'Totals (fork)'  fork of {ONE[:8]}",
        f"  {THREE[:8]}  2026-11-15 10:00  app  'Totals (repaired)'  repaired copy of {ONE[:8]}",
    } == set(lines[1:3])


def test_a_whole_id_in_two_homes_is_told_apart_by_path(
    home: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """More characters would not help: each is named by its path, and one of them, typed, is that session."""
    logs = [put(place, ONE, TALK) for place in (home, own_home / "copy")]
    both = ["--home", str(home), "--home", str(own_home / "copy"), "show"]
    assert 3 == main([*both, ONE])
    told = capsys.readouterr().err

    assert all(f"  {log}\n" in told for log in logs)
    assert ("by its path" in told, "more characters" in told) == (True, False)
    assert 0 == main([*both, str(logs[1])])
    assert 3 == main([*both, ONE[:6]])
    assert "more characters" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_a_list_says_which_sessions_are_copies(capsys: pytest.CaptureFixture[str]) -> None:
    """The title alone may be cut before it says so."""
    main(["list"])
    rows = {line[:8]: line for line in capsys.readouterr().out.splitlines()}

    assert rows[TWO[:8]].endswith(f"fork of {ONE[:8]}")
    assert rows[THREE[:8]].endswith(f"repaired copy of {ONE[:8]}")
    assert "of " not in rows[ONE[:8]]


@pytest.mark.usefixtures("home")
def test_several_that_have_the_words_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """resume lists them in the same words."""
    assert 3 == main(["resume", "q1", "q2"])
    told = capsys.readouterr().err

    assert f"  {in_short(Home().session(TWO))}\n" in told


@pytest.mark.usefixtures("home")
def test_a_session_in_the_trash_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that brings it back, which does."""
    main(["rm", ONE, "--apply"])
    capsys.readouterr()
    code = main(["show", ONE[:8]])
    told = capsys.readouterr().err
    command = told.rpartition("recollect ")[2].split()
    main(command)

    assert (3, True) == (code, f"session {ONE}: it was moved to the trash on" in told)
    assert ONE == Home().session(ONE[:8]).id


def test_a_deleted_session_that_the_index_knows_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The client deleted it: nothing has its text."""
    put(home, ONE, [*TALK, reply(9, 4, said("paid for"))])
    main(["cost"])
    next(home.rglob(f"{ONE}.jsonl")).unlink()
    code = main(["show", ONE[:8]])

    assert (3, True) == (code, f"session {ONE}: its log was deleted from the home" in capsys.readouterr().err)


def test_only_what_is_still_deleted_is_counted_as_deleted(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two removed sessions one is restored, another is in the archive."""
    for name, start in ((ONE, 100), (TWO, 200), (THREE, 300)):
        put(home, name, [{**TALK[0], "parentUuid": None}, reply(start, 1, said("paid for"))])
    main(["cost"])
    main(["protect", "now", THREE])
    main(["rm", ONE, TWO, THREE, "--apply"])
    capsys.readouterr()
    main(["cost"])
    before = capsys.readouterr().err
    main(["show", ONE])
    main(capsys.readouterr().err.rpartition("recollect ")[2].split())
    capsys.readouterr()
    main(["cost"])

    assert "2 sessions deleted" in before
    assert "1 session deleted" in capsys.readouterr().err
