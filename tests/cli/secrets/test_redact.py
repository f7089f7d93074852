"""`recollect redact`: the plan, the change, and what is said about the copy that is kept."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from recollect.cli.main import COMMANDS, main
from tests.secret_home import OF_THE_SESSION, make, token
from tests.small_home import ONE, TWO, open_in_this_process, state


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands, whether or not the table has their rows yet."""
    monkeypatch.setitem(
        COMMANDS, "redact", ("recollect.cli.secrets.redact", "take credentials out of a session")
    )


def test_a_plan_changes_nothing(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says what would be replaced, where, and how to do it."""
    make(own_home / ".claude")
    before = state(own_home / ".claude")
    assert 0 == main(["redact", "3f2a"])
    shown = capsys.readouterr().out

    assert before == state(own_home / ".claude")
    assert shown.startswith("Would replace 18 secrets in 3f2a9c1e:\n")
    assert f"Nothing was changed. Do it with: recollect redact {ONE} --apply" in shown


def test_done_it_says_what_still_holds_the_secrets(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The undo line and the line that drops the copy can both be typed."""
    make(own_home / ".claude")
    before = state(own_home / ".claude")
    assert 0 == main(["redact", "3f2a", "--apply"])
    shown = capsys.readouterr().out
    undo = next(line for line in shown.splitlines() if line.startswith("Undo with: "))
    forget = next(line for line in shown.splitlines() if "still holds the secrets" in line)
    log = next((own_home / ".claude").glob(f"projects/*/{ONE}.jsonl")).read_text()

    assert [] == [place for place, kind in OF_THE_SESSION.items() if token(place, kind) in log]
    assert "--forget --apply" in forget
    assert 0 == main(shlex.split(undo.removeprefix("Undo with: "))[1:])
    assert before == state(own_home / ".claude")


def test_json(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The keys that others rely on, before and after."""
    make(own_home / ".claude")
    assert 0 == main(["redact", "3f2a", "--json"])
    planned = json.loads(capsys.readouterr().out)
    assert 0 == main(["redact", "3f2a", "--json", "--apply"])
    done = json.loads(capsys.readouterr().out)

    assert {
        "session",
        "findings",
        "files",
        "open_in",
        "unread",
        "applied",
        "change",
        "undo",
        "forget",
    } == set(planned)
    assert (False, None, True) == (planned["applied"], planned["change"], done["applied"])
    assert planned["findings"] == done["findings"]
    assert done["undo"].endswith(f"undo {done['change']} --apply")


def test_nothing_to_do(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Said, and nothing is written down."""
    make(own_home / ".claude")
    main(["redact", "3f2a", "--apply"])
    capsys.readouterr()

    assert 0 == main(["redact", "3f2a", "--apply"])
    assert "No secrets found in 3f2a9c1e: nothing to do\n" == capsys.readouterr().out


def test_an_open_session_is_refused(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 5; the plan says it beforehand."""
    make(own_home / ".claude")
    open_in_this_process(own_home / ".claude", ONE)
    assert 0 == main(["redact", "3f2a"])

    assert "refused until it is closed" in capsys.readouterr().out
    assert 5 == main(["redact", "3f2a", "--apply"])
    assert "a client has it open" in capsys.readouterr().err


def test_no_value_is_printed(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In no step of it."""
    make(own_home / ".claude")
    for arguments in ([], ["--json"], ["--apply"], ["--json", "--apply"]):
        main(["redact", "3f2a", *arguments])
    captured = capsys.readouterr()
    pieces = [token(place, kind)[at : at + 8] for place, kind in OF_THE_SESSION.items() for at in (8, 16, 24)]

    assert [] == [piece for piece in pieces if len(piece) == 8 and piece in captured.out + captured.err]


def test_another_session_is_not_touched(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its line of the prompt history is its own."""
    make(own_home / ".claude")
    assert 0 == main(["redact", TWO[:8], "--apply"])
    history = (own_home / ".claude" / "history.jsonl").read_text()

    assert (False, True) == (token("other prompt") in history, token("prompt") in history)
    assert "Replaced 1 secret in 5b1d9c1e" in capsys.readouterr().out
