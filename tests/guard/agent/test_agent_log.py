"""The chain the runtime writes is its own, whatever others append meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.model.lines import draft
from tests.guard.agent.workshop import Workshop


def test_each_entry_follows_our_own_last_one(tmp_path: Path) -> None:
    """Another program's line in between does not become the parent of ours."""
    workshop = Workshop(tmp_path)
    log = workshop.session.log
    (first,) = log.put(draft.user("One"))
    foreign = {**workshop.lines()[0], "uuid": "99999999-9999-4999-8999-999999999999", "parentUuid": first}
    with log.path.open("ab") as file:
        file.write(json.dumps(foreign).encode() + b"\n")

    log.put(draft.assistant("Two", model="m"))

    assert first == workshop.last()["parentUuid"]


def test_metadata_is_no_link(tmp_path: Path) -> None:
    """Notes before, between and behind entries leave the chain straight."""
    workshop = Workshop(tmp_path)
    note = draft.metadata("note", text="x")

    ids = workshop.session.log.put(note, draft.user("One"), note, draft.user("Two"), note)
    workshop.session.log.put(note)
    (last,) = workshop.session.log.put(draft.user("Three"))

    links = [(line["uuid"], line["parentUuid"]) for line in workshop.lines() if "uuid" in line]
    assert [(ids[1], None), (ids[3], ids[1]), (last, ids[3])] == links


def test_times_rise_in_file_order(tmp_path: Path) -> None:
    """Older clients choose the leaf by time, so no two entries share a millisecond."""
    workshop = Workshop(tmp_path)

    workshop.session.log.put(*(draft.user(str(number)) for number in range(50)))

    times = [line["timestamp"] for line in workshop.lines()]
    assert sorted(set(times)) == times


def test_a_new_session_has_no_file_before_its_first_entry(tmp_path: Path) -> None:
    """An empty log is what ``claude --continue`` would pick up."""
    workshop = Workshop(tmp_path)

    assert not workshop.session.log.path.exists()


def test_a_new_log_appears_with_its_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no call to the system is there an empty file under its name."""
    from recollect.system import fsops

    workshop = Workshop(tmp_path)
    path, empty = workshop.session.log.path, []
    write = fsops.write_all

    def watched(fd: int, data: bytes) -> None:
        empty.append(path.exists() and not path.stat().st_size)
        write(fd, data)

    monkeypatch.setattr(fsops, "write_all", watched)

    workshop.session.log.put(draft.user("One"))

    assert (True, False, 1) == (bool(empty), any(empty), len(workshop.lines()))


def test_no_lock_of_ours_lies_in_the_home(tmp_path: Path) -> None:
    """A Claude home belongs to the client (law 5)."""
    workshop = Workshop(tmp_path)

    workshop.session.log.put(draft.user("One"))

    files = [path for path in workshop.home.root.rglob("*") if path.is_file()]
    assert [workshop.session.log.path] == files
    assert 2 == len(list((workshop.data / "locks").iterdir()))
