"""`recollect secrets remove`: the plan, the change, and what is said about the copy that is kept."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.secret_home import OF_THE_SESSION, make, token
from tests.small_home import ONE, TWO, open_in_this_process, state


def test_done_it_says_what_still_holds_the_secrets(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The undo line and the line that drops the copy can both be typed."""
    make(own_home / ".claude")
    before = state(own_home / ".claude")
    assert 0 == main(["secrets", "remove", "3f2a", "--apply"])
    shown = capsys.readouterr().out
    undo = next(line for line in shown.splitlines() if line.startswith("Undo with: "))
    forget = next(line for line in shown.splitlines() if "still holds the secrets" in line)
    log = next((own_home / ".claude").glob(f"projects/*/{ONE}.jsonl")).read_text()

    assert [] == [place for place, kind in OF_THE_SESSION.items() if token(place, kind) in log]
    assert "--forget --apply" in forget
    assert 0 == main(shlex.split(undo.removeprefix("Undo with: "))[1:])
    assert before == state(own_home / ".claude")


def test_nothing_to_do(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said, and nothing is written down."""
    make(own_home / ".claude")
    main(["secrets", "remove", "3f2a", "--apply"])
    capsys.readouterr()

    assert 0 == main(["secrets", "remove", "3f2a", "--apply"])
    assert "No secrets found in 3f2a9c1e: nothing to do\n" == capsys.readouterr().out


def test_an_open_session_is_refused(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5; the plan says it beforehand."""
    make(own_home / ".claude")
    open_in_this_process(own_home / ".claude", ONE)
    assert 0 == main(["secrets", "remove", "3f2a"])

    assert "refused until it is closed" in capsys.readouterr().out
    assert 5 == main(["secrets", "remove", "3f2a", "--apply"])
    assert "a client has it open" in capsys.readouterr().err


def test_what_stays_is_named_and_the_exit_status_is_4(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client of another session runs, so the prompt history waits; a second time nothing else is left to say."""
    make(own_home / ".claude")
    open_in_this_process(own_home / ".claude", TWO)
    assert 4 == main(["secrets", "remove", "3f2a", "--apply", "--json"])
    done = json.loads(capsys.readouterr().out)
    assert 4 == main(["secrets", "remove", "3f2a", "--apply"])
    told = capsys.readouterr()

    assert {"history", "paste"} == {one["role"] for one in done["left"]}
    assert done["applied"]
    assert told.out.startswith("Not removed: 2 secrets\n")
    assert ("nothing to do" in told.out, "redact again later" in told.err) == (False, True)
    assert 4 == main(["secrets", "remove", "3f2a", "--everywhere", "--apply"])
    assert capsys.readouterr().out.startswith("Not removed: 2 secrets\n")


def test_no_value_is_printed(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In no step of it."""
    make(own_home / ".claude")
    for arguments in ([], ["--json"], ["--apply"], ["--json", "--apply"]):
        main(["secrets", "remove", "3f2a", *arguments])
    captured = capsys.readouterr()
    pieces = [token(place, kind)[at : at + 8] for place, kind in OF_THE_SESSION.items() for at in (8, 16, 24)]

    assert [] == [piece for piece in pieces if len(piece) == 8 and piece in captured.out + captured.err]
