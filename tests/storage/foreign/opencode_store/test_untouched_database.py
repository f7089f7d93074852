"""A database with a write-ahead log is read where it lies, and nothing there or beside it changes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from recollect.errors import StorageError
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.opencode_store import database as opencode_database
from recollect.storage.foreign.opencode_store.store import SessionMark
from recollect.storage.foreign.opencode_store.untouched_database import connected
from tests.storage.foreign import tiny_homes

LONG_AGO = time.time() - 3600
# A client that is gone without having emptied its log.
LEFT_BEHIND = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("UPDATE session SET title = 'only in the log'")
os._exit(0)
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    tiny_homes.opencode_database(home)
    (path,) = home.glob("*.db")
    subprocess.run([sys.executable, "-c", LEFT_BEHIND, path], check=True)
    path.with_name(path.name + "-shm").unlink()
    for one in home.iterdir():
        os.utime(one, (LONG_AGO, LONG_AGO))
    return path


def touched(home: Path) -> dict[str, tuple[int, ...]]:
    """What would change with any write: also owner and mode, by the time of the last change of an inode."""
    return {
        path.name: (seen.st_size, seen.st_ino, seen.st_mtime_ns, seen.st_ctime_ns)
        for path in sorted(home.iterdir())
        for seen in (path.stat(),)
    }


def has(mirror: AgentMirror, text: bytes) -> bool:
    return any(text in log.read_bytes() for log in mirror.root.rglob("*.jsonl"))


def titles(mirror: AgentMirror) -> bool:
    return has(mirror, b"only in the log")


def test_what_stands_only_in_the_log_is_read_where_it_lies(database: Path, tmp_path: Path) -> None:
    before = touched(database.parent)
    mirror = AgentMirror("opencode", database.parent, tmp_path / "data")
    mirror.refresh()
    assert titles(mirror)
    assert touched(database.parent) == before


def test_a_client_that_has_it_open_is_neither_locked_out_nor_waited_for(database: Path) -> None:
    writer = sqlite3.connect(database, isolation_level=None, timeout=0)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE session SET title = 'not committed'")
    reader = connected(database)
    assert reader.execute("SELECT DISTINCT title FROM session").fetchall() == [("only in the log",)]
    writer.execute("COMMIT")
    writer.execute("UPDATE session SET title = 'written while it is read'")
    reader.close()
    writer.close()


def test_nothing_can_be_written_through_it(database: Path) -> None:
    before = touched(database.parent)
    reader = connected(database)
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("UPDATE session SET title = 'changed'")
    reader.close()
    assert touched(database.parent) == before


def meanwhile(monkeypatch: pytest.MonkeyPatch, done: Callable[[], object]) -> list[int]:
    """Do something after each time that a store was listed; how often that was is returned."""
    listed, times = opencode_database._RowStore.listed, [0]

    def listing(store: opencode_database._RowStore, known: dict[str, SessionMark]) -> dict[str, SessionMark]:
        found = listed(store, known)
        times[0] += 1
        done()
        return found

    monkeypatch.setattr(opencode_database._RowStore, "listed", listing)
    return times


def test_what_a_client_writes_meanwhile_does_not_disturb(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes to the end of the log, behind what is read; the next pass has it."""
    writer = sqlite3.connect(database, isolation_level=None)
    mirror = AgentMirror("opencode", database.parent, tmp_path / "data")
    with monkeypatch.context() as patched:
        written = partial(writer.execute, "UPDATE session SET title = 'written meanwhile'")
        times = meanwhile(patched, written)
        mirror.refresh()
    assert times == [1]
    assert titles(mirror)
    assert not has(mirror, b"written meanwhile")
    mirror.refresh()
    assert has(mirror, b"written meanwhile")
    writer.close()


def test_a_log_that_is_copied_into_the_database_meanwhile_is_read_again(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was listed and what is read after it may not fit together. Then the log begins again, which is noticed too."""
    writer = sqlite3.connect(database, isolation_level=None)
    left = [
        ("UPDATE session SET title = 'first'", "PRAGMA wal_checkpoint(PASSIVE)"),
        ("UPDATE session SET title = 'second'", "PRAGMA wal_checkpoint(RESTART)"),
        ("UPDATE session SET title = 'third'",),
    ]

    def done() -> None:
        for statement in left.pop(0) if left else ():
            writer.execute(statement).fetchall()

    mirror = AgentMirror("opencode", database.parent, tmp_path / "data")
    times = meanwhile(monkeypatch, done)
    mirror.refresh()
    writer.close()
    assert times == [4]
    assert not mirror.problems
    assert has(mirror, b"third")
    assert not has(mirror, b"first")


def test_a_database_that_changes_all_the_time_is_told_and_taken_with_the_next_pass(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is taken for gone."""
    mirror = AgentMirror("opencode", database.parent, tmp_path / "data")
    with monkeypatch.context() as patched:
        meanwhile(patched, partial(os.utime, database))
        mirror.refresh()
    assert [one.reason for one in mirror.problems] == ["it changes all the time; it is read at the next call"]
    assert not titles(mirror)
    mirror.refresh()
    assert titles(mirror)
    assert not mirror.problems


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(b"no database" * 100)
    path.with_name("opencode.db-wal").write_bytes(b"no log" * 100)
    os.utime(path.with_name("opencode.db-wal"), (LONG_AGO, LONG_AGO))
    with pytest.raises(StorageError, match=r"opencode\.db"), opencode_database.opened(path):
        pass
