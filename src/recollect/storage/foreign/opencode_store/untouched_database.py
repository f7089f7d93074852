"""A SQLite database that another program may have open, with its write-ahead log, read in place.

SQLite itself would create or change the file ``-shm`` beside it, lock it, and as root give the log another owner. This way
of opening files knows none of that: every file is opened for reading alone, locks are not taken, nothing is deleted, and the
index of the log is kept in memory (what SQLite does where one connection has a database to itself). Without locks no one waits:
who reads looks at the end whether the files are still as they were at the beginning.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    import apsw

_NAME = "recollect-untouched"


def connected(path: Path) -> apsw.Connection:
    """A connection that changes nothing. Raises ``apsw.Error``."""
    import apsw

    _registered()
    address = f"file:{quote(str(path))}?mode=ro"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(address, flags=flags, vfs=_NAME)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    return connection


@cache
def _registered() -> apsw.VFS:
    import apsw

    class UnlockedFile(apsw.VFSFile):
        def xLock(self, level: int) -> None:  # noqa: N802 - SQLite's name
            """No one is kept out."""

        def xUnlock(self, level: int) -> None:  # noqa: N802
            """There is nothing to give back."""

        def xCheckReservedLock(self) -> bool:  # noqa: N802
            return False

    class Untouched(apsw.VFS):
        def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
            if name is None:  # for sorting, elsewhere
                return super().xOpen(name, flags)
            kind = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            if kind & apsw.SQLITE_OPEN_WAL:  # for root, SQLite would give a log to the owner of the database
                kind = kind & ~apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_DB
            flags[0] = kind | apsw.SQLITE_OPEN_READONLY
            return UnlockedFile("", name, flags)

        def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
            raise apsw.ReadOnlyError(name)

    return Untouched(_NAME, "")
