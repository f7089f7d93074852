"""`recollect doctor --fix`: the plan, doing it, and taking it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.cli.main import main
from tests.small_home import ONE, TALK, open_in_this_process, put, state

TORN = b'{"type":"user","mess'


@pytest.fixture
def log(own_home: Path) -> Path:
    """A session with half a line at its end."""
    path = put(own_home / ".claude", ONE, TALK)
    path.write_bytes(path.read_bytes() + TORN)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document a command printed."""
    assert 0 == main([*arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_plan_names_line_byte_reason_sizes_and_proof(
    own_home: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the line to type; nothing changes."""
    before, size = state(own_home), log.stat().st_size
    assert 0 == main(["doctor", ONE[:4], "--fix"])
    shown = capsys.readouterr().out

    assert before == state(own_home)
    assert f"  error   torn-tail: line 5, byte {size - 20:,}: " in shown
    assert f"\n  line 5, byte {size - 20:,}: torn-tail: " in shown
    assert f"{size:,} before = {size - 20:,} kept + 20 set aside; {size - 20:,} after" in shown
    assert "Sent on resume: 4 messages now, 4 after the repair\n" in shown
    assert "History: 4 messages now, 4 after the repair\n" in shown
    assert f"recollect doctor {ONE} --fix --apply" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if "recollect doctor" not in line)


def test_a_copy_is_made_and_taken_back(own_home: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the undo command it printed."""
    home = own_home / ".claude"
    before = state(home)
    done = answer(capsys, "doctor", ONE, "--fix", "--copy", "--apply")
    copied = Home(home).session(done["new"]).conversation().to_api()
    back = answer(capsys, *done["undo"].split()[1:])

    assert (True, 4, TORN) == (done["applied"], len(copied), Path(done["quarantine"]).read_bytes())
    assert (True, before) == (back["applied"], state(home))


def test_in_place_and_back(own_home: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log itself is mended, and comes back with its half line."""
    before, data = state(own_home / ".claude"), log.read_bytes()
    done = answer(capsys, "doctor", ONE, "--fix", "--apply")
    after = log.read_bytes()
    answer(capsys, *done["undo"].split()[1:])

    assert (data[:-20], before) == (after, state(own_home / ".claude"))


def test_of_an_open_session_a_copy_is_mended(
    own_home: Path, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan says so, the log is as before, and the last line names the session to go on with."""
    log.write_bytes(log.read_bytes().replace(b"\n", b"", 1))  # two entries on one line
    open_in_this_process(own_home / ".claude", ONE)
    before = log.read_bytes()
    main(["doctor", ONE, "--fix"])
    assert "a repaired copy is written instead" in capsys.readouterr().out

    assert 0 == main(["doctor", ONE, "--fix", "--apply"])
    told = capsys.readouterr().out
    (copy,) = (path for path in log.parent.glob("*.jsonl") if path != log)
    assert (before, True) == (log.read_bytes(), f"Now: recollect resume {copy.stem}\n" in told)


def test_hostile_text_is_shown_harmless(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An id of a log may hold control characters; a terminal never sees them."""
    bad = [*TALK[:2], {**TALK[2], "parentUuid": "\x1b[31mgone"}, TALK[3]]
    put(
        own_home / ".claude",
        ONE,
        [{**one, "timestamp": f"2026-11-15T1{n}:00:00.000Z"} for n, one in enumerate(bad)],
    )
    main(["doctor", ONE, "--fix", "--copy"])
    shown = capsys.readouterr().out

    assert (True, False) == ("gone" in shown, "\x1b[31m" in shown)
