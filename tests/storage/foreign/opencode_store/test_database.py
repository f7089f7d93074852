"""Rows of a database of OpenCode: what the quick way says of one is what the other way says."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.opencode_store.database import _record, _usual, opened
from recollect.storage.foreign.opencode_store.store import OpenCodeRecord
from tests.storage.foreign import tiny_homes

ROW = {
    "id": "prt_1",
    "message_id": "msg_1",
    "session_id": "ses_1",
    "time_created": 1_763_283_600_000,
    "time_updated": 1_763_283_600_001,
    "data": '{"type":"text","text":"h\u00e9llo","time":{"start":1},"more":[1]}',
}


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"message_id": ""},
        {"time_updated": -1},
        {"data": '{"id":"other","messageID":"other","data":1,"time_created":5}'},
        {"data": '{"text":"no type"}'},
    ],
)
def test_a_usual_row_is_read_as_any_other(change: dict[str, object]) -> None:
    row = ROW | change
    assert _usual("part", row) == _record("part", 0, row)


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"time_created": -1},
        {"time_created": 1 << 53},
        {"data": '{"text":1}'},
        {"data": "[]"},
        {"data": "{}"},
        {"data": "no JSON"},
        {"data": '{"a":' * 60 + "1" + "}" * 60},
    ],
)
def test_a_row_in_which_something_is_odd_is_looked_at_field_by_field(change: dict[str, object]) -> None:
    assert _usual("part", ROW | change) is None


@pytest.mark.parametrize(
    ("column", "value"), [("time_created", "1.5"), ("session_id", "x'00'"), ("data", "NULL")]
)
def test_a_column_of_another_type_is_noticed(column: str, value: str, tmp_path: Path) -> None:
    names = ", ".join(ROW)
    with closing(sqlite3.connect(tmp_path / "opencode.db")) as database:
        for table in ("session", "message"):
            database.execute(f"CREATE TABLE {table} (id, session_id, time_updated, data)")
        database.execute(f"CREATE TABLE part ({names})")
        database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", list(ROW.values()))
        database.commit()
        (usual,) = parts(tmp_path)
        database.execute(f"UPDATE part SET {column} = {value}")
        database.commit()
    (changed,) = parts(tmp_path)
    assert not usual.odd
    assert changed.odd or changed.fields[column] == float(value)


@pytest.mark.parametrize(("age_ms", "is_seen"), [(0, True), (-60_000, True), (60_000, False)])
def test_a_row_that_is_written_twice_within_a_millisecond_is_read_twice(
    age_ms: int, is_seen: bool, tmp_path: Path
) -> None:
    """Same size, same time: where a pass read it in between, the next one compares it. So does one under a clock that was
    set back. An old row that is changed so, which no client does, is found with the next change of its session.
    """
    database = tiny_homes.opencode_database(tmp_path / "home")
    mirror = AgentMirror("opencode", tmp_path / "home", tmp_path / "data")
    written = time.time_ns() // 1_000_000 - age_ms
    change(
        database, *(f"ALTER TABLE {table} ADD COLUMN time_updated INTEGER" for table in ("message", "part"))
    )
    change(database, *(f"UPDATE {table} SET time_updated = {written}" for table in ("message", "part")))
    mirror.refresh()
    change(database, "UPDATE part SET data = replace(data, 'ask ses_0a', 'ask SES_0A')")
    mirror.refresh()
    assert has(mirror, b"ask SES_0A") is is_seen
    change(database, "UPDATE session SET title = 'changed' WHERE id = 'ses_0a'")
    mirror.refresh()
    assert has(mirror, b"ask SES_0A")


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def has(mirror: AgentMirror, text: bytes) -> bool:
    return any(text in log.read_bytes() for log in mirror.root.rglob("*.jsonl"))


def parts(home: Path) -> list[OpenCodeRecord]:
    with opened(home / "opencode.db") as store:
        return list(store.every("part"))
