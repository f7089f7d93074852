"""A database with a write-ahead log is read where it lies, and nothing there or beside it changes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from recollect.agents import opencode_database
from recollect.agents.databases import connected
from recollect.agents.mirror import AgentMirror
from recollect.errors import StorageError
from tests.agents import tiny_homes

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


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    path.write_bytes(b"no database" * 100)
    path.with_name("opencode.db-wal").write_bytes(b"no log" * 100)
    os.utime(path.with_name("opencode.db-wal"), (LONG_AGO, LONG_AGO))
    with pytest.raises(StorageError, match=r"opencode\.db"), opencode_database.opened(path):
        pass
