"""One SQLite file, opened safely: made where there is none, set aside where it is broken.

Nothing in it is precious, so it is tuned for speed: a power cut may cost the last
commits, never the order of the rest, and what is missing is read again from the logs.
Readers never wait for the writer (WAL); a second writer waits its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from recollect.index.schema import TABLES, VERSION

if TYPE_CHECKING:
    from pathlib import Path

BUSY_MS = 60_000
_CACHE_KIB = 16_000
MAPPED_BYTES = 1 << 28
# What an unusable file says; everything else (full disk, no permission) is about the place, not the file.
BROKEN = (apsw.CorruptError, apsw.NotADBError, apsw.SchemaChangeError, apsw.FormatError)
UNUSABLE = (apsw.CantOpenError, apsw.ReadOnlyError, apsw.FullError, apsw.IOError, apsw.PermissionsError)
# Whatever SQLite complains of.
Failure = apsw.Error
_ABOUT_THE_FILE = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS)


def is_full(problem: Exception) -> bool:
    """Whether there was no room left."""
    return isinstance(problem, apsw.FullError)


def is_busy(problem: Exception) -> bool:
    """Whether another connection held the file for too long."""
    return isinstance(problem, apsw.BusyError)


def is_about_the_place(problem: Exception) -> bool:
    """Whether the disk or the rights are to blame and the file itself is sound, as far as one can tell."""
    if isinstance(problem, apsw.IOError):
        return getattr(problem, "extendedresult", 0) not in _ABOUT_THE_FILE
    return isinstance(problem, UNUSABLE)


class IndexDatabase:
    """A connection and the few habits all tables share. Not for two threads at once."""

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
        """Close; may be called again."""
        self.connection.close()

    def _prepare(self, read_only: bool) -> None:
        one = self.connection
        one.set_busy_timeout(BUSY_MS)
        one.pragma("cache_size", -_CACHE_KIB)
        one.pragma("mmap_size", MAPPED_BYTES)
        if read_only:
            return
        one.pragma("journal_mode", "wal")
        one.pragma("synchronous", "normal")
        if one.pragma("user_version") != VERSION:
            with self.transaction():
                # Asked again inside: another process may have made the tables while we waited.
                if one.pragma("user_version") != VERSION:
                    one.execute(TABLES)
                    one.pragma("user_version", VERSION)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing; one writer at a time."""
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
        """Everything read within is as of one moment, whatever others write meanwhile."""
        one = self.connection
        one.execute("BEGIN")
        try:
            yield
        finally:
            if one.in_transaction:
                one.execute("ROLLBACK")

    def rows(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        """All rows of a query."""
        return list(self.connection.execute(sql, values))

    def value(self, sql: str, *values: object) -> object:
        """The first column of the first row, None where there is none."""
        row = next(iter(self.connection.execute(sql, values)), None)
        return None if row is None else row[0]

    def meta(self, name: str) -> object:
        """A remark about the index itself."""
        return self.value("SELECT value FROM meta WHERE name = ?", name)

    def set_meta(self, name: str, value: object) -> None:
        """Write a remark about the index itself."""
        self.connection.execute("REPLACE INTO meta VALUES(?, ?)", (name, value))
