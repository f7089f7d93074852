"""One SQLite file, opened safely: created if missing.

Everything in it can be rebuilt, so it is tuned for speed: a power cut may lose the last commits, never
the consistency of the rest, and what is missing is read again from the logs. Readers never wait for the
writer (WAL); a second writer waits for the first.

Closing waits for no disk: what was written stays in the WAL, and a commit that finds it long copies it into the
file. SQLite would do that at each end of a process, with four syncs for one new line.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from recollect.index.schema import TABLES, VERSION

if TYPE_CHECKING:
    from pathlib import Path

# The name of a database that only its connection sees: in memory, and where that gets large in a file without a name.
TEMPORARY = ""
BUSY_MS = 60_000
_CACHE_KIB = 16_000
MAPPED_BYTES = 1 << 28
_LOGGED_PAGES = 100  # two or three refreshes; each process reads as much before its first query (500: 4 ms)
_LONG_LOG = 4 << 20
# Errors of an unusable file; all others (full disk, no permission) are about its location.
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SchemaChangeError, apsw.FormatError)
UNUSABLE = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError, apsw.PermissionsError)
# Any error of SQLite.
Failure = apsw.Error
_ABOUT_THE_FILE = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)


def is_full(problem: Exception) -> bool:
    return isinstance(problem, apsw.FullError)


def is_busy(problem: Exception) -> bool:
    """Whether another connection held the file for too long."""
    return isinstance(problem, apsw.BusyError)


def is_about_the_place(problem: Exception) -> bool:
    """Whether the disk or permissions are the cause, and the file itself seems sound."""
    if isinstance(problem, apsw.IOError):
        return getattr(problem, "extendedresult", 0) not in _ABOUT_THE_FILE
    return isinstance(problem, UNUSABLE)


class IndexDatabase:
    """A connection with the helpers that all tables share. Not thread-safe."""

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self.path = str(path)
        flags = (
            apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        )
        self.connection = apsw.Connection(self.path, flags=flags)
        try:
            self._prepare(read_only)
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Close. May be called twice."""
        self.connection.close()

    def settle(self) -> None:
        """Everything is in the file itself, and no WAL is left when this connection is the last to close."""
        self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)

    def shorten_log(self) -> None:
        """Empty a WAL that became long, as a merge of words makes it: every process would read all of it before its first
        query, until the next one writes. Not while others read: it does not wait for them."""
        try:
            is_long = os.stat(f"{self.path}-wal").st_size > _LONG_LOG  # noqa: PTH116 - imported by every command
        except OSError:
            return
        if is_long:
            self.connection.set_busy_timeout(0)
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.connection.set_busy_timeout(BUSY_MS)

    def map_file(self) -> None:
        """For an answer that visits much of the file: its pages are not copied. To map a page costs a new process more than
        to copy it, so that answers which visit little of the file are quicker without."""
        self.connection.pragma("mmap_size", MAPPED_BYTES)

    def _prepare(self, read_only: bool) -> None:
        one = self.connection
        one.set_busy_timeout(BUSY_MS)
        one.pragma("cache_size", -_CACHE_KIB)
        if read_only:
            return
        if self.path == TEMPORARY:
            one.pragma("journal_mode", "memory")
        else:
            self._use_wal()
        one.pragma("synchronous", "normal")
        one.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        one.pragma("wal_autocheckpoint", _LOGGED_PAGES)
        if one.pragma("user_version") != VERSION:
            with self.transaction():
                # Checked again inside: another process may have created the tables meanwhile.
                if one.pragma("user_version") != VERSION:
                    one.execute(TABLES)
                    one.pragma("user_version", VERSION)

    def _use_wal(self) -> None:
        """Switch a new file to WAL. While another process makes the same switch, SQLite refuses at once, whatever the busy
        timeout is; so the waiting is done here."""
        until = time.monotonic() + BUSY_MS / 1000
        while True:
            try:
                self.connection.pragma("journal_mode", "wal")
            except apsw.BusyError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; one writer at a time."""
        one = self.connection
        one.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if one.in_transaction:
                one.execute("ROLLBACK")
            raise
        one.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Everything read inside is from one moment, whatever others write meanwhile."""
        one = self.connection
        one.execute("BEGIN")
        try:
            yield
        finally:
            if one.in_transaction:
                one.execute("ROLLBACK")

    def rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def value(self, sql: str, *values: object) -> object:
        """The first column of the first row; None if there is no row."""
        row = next(iter(self.connection.execute(sql, values)), None)
        return None if row is None else row[0]

    def meta(self, name: str) -> object:
        """A property of the index itself."""
        return self.value("SELECT value FROM meta WHERE name = ?", name)

    def set_meta(self, name: str, value: object) -> None:
        self.connection.execute("REPLACE INTO meta VALUES(?, ?)", (name, value))
