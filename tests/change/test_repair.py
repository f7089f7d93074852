"""Repairing files: a copy by default, in place on request, quarantine always, undo byte for byte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.change import repair, undo
from recollect.change.repair import SessionRepair, planned_repair
from recollect.errors import Busy, DamagedData, UsageError
from recollect.model.repair import plan as proof
from tests.small_home import ONE, TALK, lines, open_in_this_process, put, state, written

TORN = b'{"type":"user","mess'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session: two lines glued, the last one torn."""
    log = put(tmp_path / "home", ONE, TALK)
    data = log.read_bytes().split(b"\n")
    log.write_bytes(data[0] + b"\n" + data[1] + data[2] + b"\n" + data[3] + b"\n" + TORN)
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Our own directory."""
    return tmp_path / "data"


def session_of(home: Path, name: str = ONE) -> Session:
    return Home(home).session(name)


def repaired(home: Path, data: Path, *, in_place: bool) -> SessionRepair:
    with planned_repair(session_of(home)) as plan:
        apply = repair.apply_in_place if in_place else repair.apply_as_copy
        return apply(plan, data)


def spoken(session: Session) -> list[str]:
    return [one.text for one in session.conversation().messages]


def test_the_line_of_an_action_is_that_of_an_editor(home: Path) -> None:
    """Below a value that goes over several lines as well."""
    log = session_of(home).path
    first, *others = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([json.dumps(json.loads(first), indent=1).encode(), *others]))
    shown = log.read_bytes().split(b"\n")
    with planned_repair(session_of(home)) as plan:
        found = {action.code: action.line for action in plan.mending.actions}

    assert {"glued-split": shown.index(others[0]) + 1, "torn-tail": shown.index(TORN) + 1} == found


def test_the_copy_is_a_session_of_its_own(home: Path, data: Path) -> None:
    """The whole talk under a new id, each line saying where it came from; the original is not touched."""
    before = state(home)
    done = repaired(home, data, in_place=False)
    new = session_of(home, done.new or "")
    entries = written(done.result or home)

    assert ["Q1", "A1", "Q2", "A2"] == spoken(new)
    assert {done.new} == {entry["sessionId"] for entry in entries}
    assert [{"sessionId": ONE, "messageUuid": entry["uuid"]} for entry in entries[:4]] == [
        entry["forkedFrom"] for entry in entries[:4]
    ]
    assert "Q1 (repaired)" == new.title
    assert before == {name: what for name, what in state(home).items() if str(done.new) not in name}


def test_backups_of_files_come_along(home: Path, data: Path) -> None:
    """A rewind works in the copy; undo takes them away again."""
    backup = home / "file-history" / ONE / "abc@v1"
    backup.parent.mkdir(parents=True)
    backup.write_bytes(b"old text")
    before = {name for name in state(home) if not name.startswith("file-history/")}
    done = repaired(home, data, in_place=False)
    copied = (home / "file-history" / str(done.new) / "abc@v1").read_bytes()
    undo.undo(data, undo.found_change(data, done.undo or ""))

    assert (b"old text", before) == (
        copied,
        {name for name in state(home) if not name.startswith("file-history/")},
    )


def test_in_place_and_back(home: Path, data: Path) -> None:
    """The log is mended; undo brings back every byte and the time."""
    before = state(home)
    log = session_of(home).path
    mode = log.stat().st_mode
    done = repaired(home, data, in_place=True)
    after = log.read_bytes()
    undo.undo(data, undo.found_change(data, done.undo or ""))

    assert (lines([{**entry, "sessionId": ONE} for entry in TALK]), mode) == (after, log.stat().st_mode)
    assert before == state(home)


def test_what_is_set_aside_lies_in_quarantine_exactly(home: Path, data: Path) -> None:
    """With line, byte, length and reason of each piece."""
    log = session_of(home).path
    size = log.stat().st_size
    done = repaired(home, data, in_place=True)
    assert done.quarantine is not None
    index = json.loads(done.quarantine.with_suffix(".index.json").read_bytes())

    assert (TORN, data / "quarantine" / ONE) == (done.quarantine.read_bytes(), done.quarantine.parent)
    assert [
        {"line": 4, "offset": size - len(TORN), "length": len(TORN), "reason": "torn-tail", "position": 0}
    ] == index["pieces"]
    assert 0o600 == done.quarantine.stat().st_mode & 0o777


def test_a_session_that_is_open_is_not_changed(home: Path, data: Path) -> None:
    """In place is refused while a client runs; a copy can be made; so can nothing be undone."""
    done = repaired(home, data, in_place=True)
    open_in_this_process(home, ONE)
    with pytest.raises(Busy, match="a client has it open"):
        undo.undo(data, undo.found_change(data, done.undo or ""))
    data_of = lines(TALK).split(b"\n")
    session_of(home).path.write_bytes(b"\n".join([data_of[0], data_of[1] + data_of[2], data_of[3], TORN]))
    before = state(home)

    with pytest.raises(Busy, match=f"process {os.getpid()}"):
        repaired(home, data, in_place=True)
    assert before == state(home)
    assert ["Q1", "A1", "Q2", "A2"] == spoken(
        session_of(home, repaired(home, data, in_place=False).new or "")
    )


def test_a_log_that_grew_since_it_was_planned_is_left(home: Path, data: Path) -> None:
    """What a client wrote meanwhile is not lost, and no quarantine is left behind."""
    log = session_of(home).path
    with planned_repair(session_of(home)) as plan:
        with log.open("ab") as file:
            file.write(b"more\n")
        before = state(home)
        with pytest.raises(Busy):
            repair.apply_in_place(plan, data)

    assert (before, []) == (state(home), list((data / "quarantine").rglob("*.json*")))


def test_a_log_behind_a_link_is_changed_where_it_lies(home: Path, data: Path) -> None:
    """The link stays a link."""
    log = session_of(home).path
    real = home / "elsewhere.jsonl"
    log.rename(real)
    log.symlink_to(real)
    repaired(home, data, in_place=True)

    assert (True, 4) == (log.is_symlink(), len(real.read_bytes().splitlines()))


def test_half_a_line_that_is_being_written_is_no_damage(home: Path, data: Path) -> None:
    """A client has the session open: there is nothing to repair, and `check` says so too."""
    session_of(home).path.write_bytes(lines(TALK) + TORN)
    open_in_this_process(home, ONE)

    with pytest.raises(UsageError, match="nothing to repair"):
        repaired(home, data, in_place=False)


def test_a_repair_that_cannot_be_proved_is_not_made(
    home: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the reason: the plan tells it, and nothing is changed."""
    unproved = proof.RepairProof(99, 99, 99, 4, problems=("the history would have 4 messages, and has 99",))
    monkeypatch.setattr(proof, "proved", lambda *_: (unproved, frozenset()))
    before = state(home)

    with pytest.raises(DamagedData, match=r"would not be sound: the history would have 4 messages"):
        repaired(home, data, in_place=True)
    assert before == state(home)
