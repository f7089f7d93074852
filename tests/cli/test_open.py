"""`recollect open`, and `recollect resume` without words, in a real terminal."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect import Home
from recollect.cli.browser import last_messages
from recollect.cli.main import main
from tests.agents import tiny_homes
from tests.cli.terminals import InteractiveProgram, recollect
from tests.small_home import TALK, prompt, put, reply, said

ONE = "3f2a9c1e-0000-4000-8000-000000000001"
TWO = "5b1d9c1e-0000-4000-8000-000000000002"
HOSTILE = "\x1b]52;c;b3duZWQ=\x07\x1b]0;owned\x07\x1b[2J\u202e"
UP, DOWN, ENTER, ESC, COPY = "\x1b[A", "\x1b[B", "\r", "\x1b", "\x19"


@pytest.fixture
def home(own_home: Path, tmp_path: Path) -> Path:
    """Two sessions: one of a directory that is there, a newer one whose every text is hostile."""
    root, shop = own_home / ".claude", tmp_path / "shop"
    shop.mkdir()
    entries = [{**entry, "cwd": str(shop), "gitBranch": "fix/rounding"} for entry in TALK]
    title = {"type": "custom-title", "customTitle": "Basket totals", "sessionId": ONE}
    put(root, ONE, [*entries, title], str(shop))
    put(
        root,
        TWO,
        [
            prompt(50, None, f"{HOSTILE} first", sessionId=TWO, cwd=f"/srv/{HOSTILE}"),
            reply(51, 50, said(f"{HOSTILE} answer"), sessionId=TWO),
            {"type": "custom-title", "customTitle": f"{HOSTILE}Red", "sessionId": TWO},
        ],
        "/srv/app",
    )
    return root


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the place of the client: writes down where and how it was started."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$PWD $*" > {tmp_path}/started\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "started"


@pytest.fixture
def picker(home: Path, started: Path) -> Iterator[InteractiveProgram]:
    with InteractiveProgram(recollect("resume")) as program:
        program.wait_for("2/2")
        yield program


def test_enter_continues_the_session_that_was_filtered(
    picker: InteractiveProgram, started: Path, tmp_path: Path
) -> None:
    """By a word of the branch; the client runs in the session's directory, and the terminal is as before."""
    picker.send("round")
    rows = picker.wait_for("1/2")
    assert "round" in rows[0]
    assert "Basket totals" in rows[2]
    picker.wait_for("Claude: A2")
    picker.send(ENTER)

    assert 0 == picker.end()
    assert f"{tmp_path}/shop --resume {ONE}\n" == started.read_text()
    assert picker.written.count(b"\x1b[?1049h") == picker.written.count(b"\x1b[?1049l") == 1


@pytest.mark.parametrize(
    ("typed", "count", "title"),
    [
        ("agent:claude basket", "1/2", "Basket"),
        ("agent:codex", "0/2", ""),
        ("in:/srv", "1/2", "\\x1b"),
        ("answer", "1/2", "\\x1b"),
    ],
)
def test_the_list_is_narrowed_by_agent_place_and_what_was_said(
    picker: InteractiveProgram, typed: str, count: str, title: str
) -> None:
    """The word stands in an answer only: texts are searched once nothing was typed for a moment."""
    picker.send(typed)
    assert title in picker.wait_for(count)[2]


def test_arrows_move_and_the_preview_follows(picker: InteractiveProgram) -> None:
    picker.wait_for("answer")
    picker.send(DOWN)
    picker.wait_for("Claude: A2")
    picker.send(UP)
    picker.wait_for("Claude: A2", gone=True)
    picker.wait_for("answer")


def test_ctrl_y_copies_the_command(picker: InteractiveProgram, started: Path, tmp_path: Path) -> None:
    """Through the terminal (OSC 52); nothing is started."""
    picker.send("basket")
    picker.wait_for("1/2")
    picker.send(COPY)
    picker.wait_for("copied:")
    line = f"cd {tmp_path}/shop && claude --resume {ONE}"

    assert b"\x1b]52;c;" + base64.b64encode(line.encode()) + b"\x07" in picker.written
    picker.send(ESC)
    assert (0, False) == (picker.end(), started.exists())


def test_what_fits_no_session_can_be_taken_back(picker: InteractiveProgram) -> None:
    picker.send("nothing like that")
    picker.wait_for("no session fits")
    picker.send(ENTER)
    picker.send("\x15")
    picker.wait_for("2/2")


def test_hostile_text_does_not_reach_the_terminal(picker: InteractiveProgram) -> None:
    """Title, directory and messages are shown with their escapes spelled out, in the list and in the preview."""
    picker.wait_for("You: \\x1b]52")
    picker.send(ESC)

    assert 0 == picker.end()
    assert all(bad not in picker.written for bad in (b"owned\x07", b"b3duZWQ=\x07", "\u202e".encode()))
    assert b"\x1b]0;owned" not in picker.written


def test_a_terminal_of_another_size_is_painted_again(picker: InteractiveProgram) -> None:
    picker.resize(60, 14)
    picker.wait_for("2/2")
    rows = picker.wait_for("esc leave")

    assert not any("Claude: A2" in row for row in rows)  # there is no room for the preview
    assert all(len(row) <= 60 for row in rows)


def test_a_session_is_read_searched_and_left_again(home: Path, tmp_path: Path) -> None:
    """Enter opens at the end, / finds, [ jumps to prompts, q goes back to the list."""
    with InteractiveProgram(recollect("open"), rows=8) as program:
        program.wait_for("2/2")
        program.send("basket")
        program.wait_for("1/2")
        program.send(ENTER)
        assert "4/4  Basket totals" in program.wait_for("A2")[0]
        program.send("g")
        program.wait_for("Q1")
        program.send("/q2" + ENTER)
        assert program.wait_for("Q1", gone=True)[1].startswith("Q2")
        program.send("[")
        assert program.wait_for("You  ")[1].startswith("You  2026-11-15 10:00")
        program.send("/nowhere" + ENTER)
        program.wait_for("not found: nowhere")
        program.send("q")
        program.wait_for("1/2")
        program.send(ESC)
        assert 0 == program.end()


def test_a_session_that_is_read_can_be_continued(home: Path, started: Path, tmp_path: Path) -> None:
    with InteractiveProgram(recollect("open", ONE)) as program:
        program.wait_for("4/4  Basket totals")
        program.send("q")
        program.wait_for("2/2")
        program.send("basket")
        program.wait_for("1/2")
        program.send("\x12")
        assert 0 == program.end()
    assert f"{tmp_path}/shop --resume {ONE}\n" == started.read_text()


@pytest.mark.parametrize("words", [["resume"], ["open"], ["resume", "--print"]])
def test_without_a_terminal_it_says_what_to_type(
    words: list[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(words)
    assert "recollect" in capsys.readouterr().err


def test_the_preview_calls_a_model_of_another_vendor_a_model(tmp_path: Path) -> None:
    """As ``show`` does; only Claude is called so."""
    tiny_homes.codex(tmp_path / "home")
    for session in Home(tmp_path / "home", data=tmp_path / "data", index=False).sessions():
        said = "\n".join(last_messages(session.path))
        assert "Model" in said
        assert "Claude" not in said
