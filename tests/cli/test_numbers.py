"""The numbers of the last search, through a real terminal."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from recollect.cli.main import main
from recollect.cli.terminal.numbers import _MOST_TERMINALS, NumberedHit, numbered, remember
from tests.small_home import ONE, TWO, prompt, put, reply, said, uuid_of


@pytest.fixture
def home(own_home: Path) -> Path:
    """Two sessions; the second one is long, and its branch was left at the needle."""
    home = own_home / ".claude"
    put(home, ONE, [prompt(1, None, "Fix the totals"), reply(2, 1, said("the newest needle"))])
    talk = [prompt(10, None, "Q0"), reply(11, 10, said("an old needle"))]
    for number in range(20, 40, 2):
        talk += [
            prompt(number, 10 if number == 20 else number - 1, f"Q{number}"),
            reply(number + 1, number, said(f"A{number}")),
        ]
    put(home, TWO, [{**entry, "timestamp": "2026-11-14T10:00:00.000Z"} for entry in talk], cwd="/srv/shop")
    return home


def in_one_terminal(*commands: str) -> list[str]:
    """What each command prints, typed one after the other into one shell."""
    shell = pexpect.spawn("/bin/sh", ["-i"], encoding="utf-8", dimensions=(60, 200), timeout=60)
    shell.sendline("stty -echo; PS1=; PS2=; echo rea''dy")
    shell.expect_exact("ready")
    answers = []
    for command in commands:
        shell.sendline(
            f"{sys.executable} -m recollect {command} --no-pager; echo en''d"
            if command.startswith("show")
            else f"{sys.executable} -m recollect {command}; echo en''d"
        )
        shell.expect_exact("end")
        answers.append(shell.before or "")
    shell.close()
    return answers


@pytest.mark.usefixtures("home")
def test_a_number_opens_the_session_at_its_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another branch too; with the messages around it. The footer names the numbers."""
    monkeypatch.setenv("NO_COLOR", "1")
    found, shown, way = in_one_terminal("search needle", "show 2", "resume 2 --print --cwd /")

    assert "Open one: recollect show 1" in found
    assert "--- found here ---" in shown
    assert ("an old needle" in shown, "A30" in shown) == (True, False)
    assert f"{TWO}.jsonl" in way


def test_another_terminal_has_its_own_numbers(home: Path) -> None:
    """A number is the start of an id where nothing was searched for; ours are files for the user alone."""
    (first,) = in_one_terminal(f"search needle --home {home}")
    (shown,) = in_one_terminal("show 2")
    files = list(home.parent.rglob("terminals/*"))

    assert f"Open one: recollect --home {home} show 1" in " ".join(first.split())
    assert "session '2': not found" in shown
    assert [0o600] == [stat.S_IMODE(file.stat().st_mode) for file in files]
    assert b"needle" not in files[0].read_bytes()


def test_without_a_terminal_nothing_is_remembered(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A script reads ids."""
    main(["search", "needle"])

    assert f"recollect show {ONE[:8]}" in capsys.readouterr().err
    assert [] == list(home.parent.rglob("terminals"))


def test_only_the_last_terminals_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small and bounded; damage in the file is no number, not an error."""
    name = ["t0"]
    monkeypatch.setattr("recollect.cli.terminal.numbers._terminal", lambda: name[0])
    for number in range(_MOST_TERMINALS + 5):
        name[0] = f"t{number}"
        assert remember(tmp_path, ["~/x"], [NumberedHit(ONE, None, uuid_of(number))])
        os.utime(tmp_path / "terminals" / name[0], (number, number))
    left = {path.name for path in (tmp_path / "terminals").iterdir()}
    known = numbered(tmp_path, "1")
    (tmp_path / "terminals" / name[0]).write_bytes(b"\xff{")

    assert (_MOST_TERMINALS, False, True) == (len(left), "t3" in left, name[0] in left)
    assert known is not None
    assert (str(Path("~/x").expanduser()), uuid_of(_MOST_TERMINALS + 4)) == (known[0].homes[0], known[1].uuid)
    assert [None] * 5 == [numbered(tmp_path, text) for text in ("1", "2", "0", "01", "abc")]
