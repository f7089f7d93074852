"""The prompt history: everything typed, from either end, whatever state the file is in."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from recollect.store.home import ClaudeHome
from recollect.store.prompt_history import prompts


@pytest.fixture
def home(tmp_path: Path) -> ClaudeHome:
    return ClaudeHome(tmp_path)


def typed(display: str, **more: Any) -> bytes:
    return json.dumps(
        {"display": display, "pastedContents": {}, "timestamp": 0, "project": "/w", **more}
    ).encode()


def put(home: ClaudeHome, *lines: bytes) -> None:
    home.history_file.write_bytes(b"".join(line + b"\n" for line in lines))


def displays(home: ClaudeHome, *, newest_first: bool = False) -> list[str]:
    return [prompt.display for prompt in prompts(home, newest_first=newest_first)]


# ---- real histories --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "count", "first_session"),
    [("1.0.128", 9, None), ("2.0.76", 7, "10b0a0f8-5bfe-44c5-90a5-aac215076487"),
     ("2.1.325", 25, "a9e213c4-1051-4259-9848-edb35dfcaa33")],
)  # fmt: skip
def test_real_histories_are_read_whole(
    transcripts: Path, client: str, count: int, first_session: str | None
) -> None:
    """Every line is a prompt; the earliest clients named no session."""
    home = ClaudeHome(transcripts / f"samples/claude-home/{client}-interactive/.claude")

    found = list(prompts(home))

    assert (count, first_session, []) == (len(found), found[0].session_id, home.problems)


def test_a_real_prompt_has_its_time_project_and_text(transcripts: Path) -> None:
    """Times are milliseconds since 1970: 1794767982216 is 18:39:42.216 on that day."""
    home = ClaudeHome(transcripts / "samples/claude-home/2.1.325-interactive/.claude")

    prompt = list(prompts(home))[2]

    assert (
        "!echo from bash mode",
        "/tmp/demo/w-tui/everyday",
        dt.datetime(2026, 11, 15, 18, 39, 42, 216000, dt.UTC),
    ) == (
        prompt.display,
        prompt.project,
        prompt.at,
    )


# ---- order and pages -------------------------------------------------------------------------------------


# ---- damage ----------------------------------------------------------------------------------------------


def test_damage_costs_its_own_line_and_is_counted(home: ClaudeHome) -> None:
    """Torn, glued, foreign and NUL lines are passed over; blank ones are nothing."""
    put(home, typed("1"), b'{"display": "torn', b"", b"[]", b'{"x": 1}', b"\0\0", typed("2"))

    assert ["1", "2"] == displays(home)
    assert ["4 of its lines are not prompts"] == [problem.reason for problem in home.problems]


def test_a_line_that_is_being_written_does_not_exist_yet(home: ClaudeHome) -> None:
    """A last line is read once it is whole, before its newline is there (S3)."""
    home.history_file.write_bytes(typed("1") + b"\n" + typed("2")[:-1])

    assert ["1"] == displays(home)

    home.history_file.write_bytes(typed("1") + b"\n" + typed("2"))

    assert ["1", "2"] == displays(home)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"display":"caf\xe9"}', "caf\ufffd"),
        (b'{"display":"\\ud83d x"}', "\ufffd x"),
        (b'{"display":"x","timestamp":[],"project":7,"sessionId":{},"pastedContents":"none"}', "x"),
        (b'{"display":"x","timestamp":1e999,"pastedContents":{"1":5}}', "x"),
        (b'{"display":"x","timestamp":-1e300}', "x"),
        (b"\xef\xbb\xbf" + b'{"display":"x"}', "x"),
    ],
)
def test_an_odd_line_still_tells_what_was_typed(home: ClaudeHome, line: bytes, expected: str) -> None:
    """Odd bytes and odd fields cost themselves, not the prompt."""
    put(home, line)

    assert [expected] == displays(home)


def test_deep_nesting_is_refused_before_it_is_parsed(home: ClaudeHome) -> None:
    """A hundred thousand brackets are one damaged line, and so are seventy: sixty-four is the limit (L3)."""
    deep = b'{"display":"x","y":' + b"[" * 70 + b"]" * 70 + b"}"
    put(home, b'{"display":"x","pastedContents":' + b"[" * 100_000, deep, typed("1"))

    assert ["1"] == displays(home)
