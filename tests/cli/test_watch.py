"""`recollect limits --watch`: drawn when something changed, and only then."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.watch import ActiveBlock, WatchedSession, WatchSnapshot
from recollect.cli import watch
from recollect.cli.main import main
from tests.cli.session_logs import PAYLOADS, SESSION, drives_a_terminal, hostile
from tests.small_home import ONE, lines, link, open_in_this_process, prompt, put

SONNET = "claude-sonnet-4-5-20250929"
CENT = 10**10
NOW = 1_794_744_420.0  # 2026-11-15T12:07:00Z


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is seven minutes past noon, and stays so."""
    monkeypatch.setattr(time, "time", lambda: NOW)


def answer(number: int) -> dict[str, Any]:
    """An answer of a moment ago that cost 0.30 dollars."""
    usage = {"input_tokens": 100_000, "output_tokens": 0}
    message = {
        "id": f"msg_{number}",
        "model": SONNET,
        "content": [],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    entry = link(number, None, type="assistant", message=message, requestId=f"req_{number}", gitBranch="main")
    at = dt.datetime.fromtimestamp(NOW - 1, dt.UTC)
    return {**entry, "timestamp": at.isoformat(), "sessionId": ONE}


@pytest.fixture
def log(own_home: Path) -> Path:
    """A session that is open in this process, with one answer."""
    open_in_this_process(own_home / ".claude", ONE)
    return put(own_home / ".claude", ONE, [prompt(1, None, "Why is it red?"), answer(2)])


class Waiting:
    """Stands in for the pause between two looks: does something in each, and interrupts after the last."""

    def __init__(self, *actions: object) -> None:
        self.actions = list(actions)
        self.pauses: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if not self.actions:
            raise KeyboardInterrupt
        action = self.actions.pop(0)
        if callable(action):
            action()


def test_one_look_for_people(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Totals, then two lines for the session."""
    assert 0 == main(["limits", "--watch", "--once"])
    totals, _, heading, figures = capsys.readouterr().out.splitlines()

    assert "today $0.30  block $0.30, 293 min left, $18.00/h, $88.20 at its end at this rate" == totals
    assert f"3f2a9c1e  open?   {'Why is it red?':<40}  /srv/app  main  sonnet 4.5" == heading
    assert (
        "          $0.30  last 10 min $0.30 ($1.80/h)"
        "  100.0k in, 0 out, 0 written to and 0 read from the cache  ctx 100.0k (50%)"
    ) == figures


def test_it_ends_when_it_is_interrupted(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 130, without a traceback, and what was shown stays."""
    monkeypatch.setattr(time, "sleep", Waiting())

    assert 130 == main(["limits", "--watch"])
    shown = capsys.readouterr()
    assert ("today $0.30" in shown.out, "recollect: interrupted\n") == (True, shown.err)


def test_nothing_is_drawn_where_nothing_has_changed(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Forty looks within a minute, a pause before each, one frame."""
    waiting = Waiting(*[None] * 39)
    monkeypatch.setattr(time, "sleep", waiting)

    main(["limits", "--watch", "--every", "7"])

    assert 1 == capsys.readouterr().out.count("today $")
    assert [7.0] * 40 == waiting.pauses


def test_a_change_is_drawn(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second answer between two looks: a second frame, below the first where there is no terminal."""

    def append() -> None:
        with log.open("ab") as file:
            file.write(lines([answer(3)]))

    monkeypatch.setattr(time, "sleep", Waiting(None, append, None))

    main(["limits", "--watch"])

    shown = capsys.readouterr().out
    assert ["$0.30", "$0.60"] == [line.split()[1] for line in shown.splitlines() if line.startswith("today")]
    assert "\x1b" not in shown


def test_on_a_terminal_it_is_drawn_over_the_last(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the top, no wider and no longer than the window."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("LINES", "4")
    monkeypatch.setattr(time, "sleep", Waiting())

    main(["limits", "--watch"])
    shown = capsys.readouterr().out

    assert shown.startswith("\x1b[H\x1b[Jtoday $0.30")
    assert ["", "… 2 more lines"] == shown.splitlines()[1:]
    assert [] == [line for line in shown.removeprefix("\x1b[H\x1b[J").splitlines() if len(line) > 30]


def test_a_remark_that_comes_and_goes_is_drawn_once() -> None:
    """That another process is refreshing is said at the first time, and not at every other look."""
    quiet, remark = WatchSnapshot((), 0), WatchSnapshot((), 0, notes=("busy",))

    assert [True, False, False] == [
        watch._news(remark, quiet),
        watch._news(quiet, remark),
        watch._news(remark, remark),
    ]


def test_everything_is_shown_in_a_frame() -> None:
    """A session of which nothing is known but that it is there, models without a price, large numbers."""
    block = ActiveBlock(0, 18_000, 123_456 * CENT, 7, 10, 5 * CENT, 200_000 * CENT)
    session = WatchedSession("0123456789", 7, True, "busy", cwd="/srv/x")

    assert [
        "today $12.34+  block $1,234.56+, 7 min left, $0.05/h, $2,000.00 at its end at this rate",
        "",
        f"01234567  busy    {'(no title)':<40}  /srv/x",
        "          no log yet",
        "",
        "+ without these models, which have no price: claude-x",
        "",
        "a note",
    ] == list(watch._lines(WatchSnapshot((session,), 1_234 * CENT, block, ("claude-x",), ("a note",))))


def test_transcripts_cannot_drive_the_terminal(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Titles, directories and models full of control sequences, and a client that names itself so."""
    home = own_home / ".claude"
    hostile().write(home)
    marker = home / "sessions" / f"{os.getpid()}.json"
    marker.parent.mkdir(parents=True)
    evil = "".join(PAYLOADS)
    marker.write_text(json.dumps({"pid": os.getpid(), "sessionId": SESSION, "status": evil, "name": evil}))

    assert 0 == main(["limits", "--watch", "--once"])
    assert [] == drives_a_terminal(capsys.readouterr().out)
