"""Databases of agents, read where they lie: nothing is written, locked or created beside them, also while a client writes.

What a client adds to its write-ahead log afterwards is not seen. Only where it copies its log into the database
meanwhile, or begins it again, what was read may not fit together: ``check`` says so, and it is read again. A
database is hostile: only tables with rows of their own are read, and only those that are named; others may hold tokens.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import apsw

from recollect.agents.growth import Unit
from recollect.agents.lines import key_of
from recollect.agents.mirror_files import MirrorProblem
from recollect.errors import StorageError
from recollect.model.lines.damage import DEFAULT_LIMITS, QUERY_SECONDS

_NAME = "recollect-untouched"
LONGEST_VALUE = DEFAULT_LIMITS.line_bytes
# How much of a database a further second is enough for, and how many there are. Reading is many times as fast.
_BYTES_A_SECOND, _MOST_SECONDS = 10_000_000, 120
# Of SQLite's machine, between two looks at the clock: each may read a long value.
_STEPS = 1_000
# A name in the catalogue, and whether it is a table with rows of its own: SQLite holds the first word of its definition to the type.
_NAMES = "SELECT name, type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE %' FROM sqlite_master WHERE type IN ('table', 'view')"
TRIES = 5
# How long a file system may take a later write for the same time.
_TICK_NS = 50_000_000
# Of a write-ahead log, with the numbers that are drawn for it each time it is begun.
_LOG_HEAD = 32


class StoreChangedError(Exception):
    """A client wrote so that what was read may not fit together."""


def connected(path: Path) -> apsw.Connection:
    """A connection that changes nothing, to a database with a write-ahead log. Raises ``apsw.Error``."""
    _registered()
    connection = _restrained(path, "mode=ro", _NAME)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    return connection


def unchanging(path: Path) -> apsw.Connection:
    """The same to one without: the file is all there is, and nothing is created beside it."""
    return _restrained(path, "immutable=1", None)


def _restrained(path: Path, how: str, system: str | None) -> apsw.Connection:
    """A connection on which every question has the processor's time that a database of this size may need."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path))}?{how}", flags=flags, vfs=system)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    seconds = QUERY_SECONDS + min(path.stat().st_size / _BYTES_A_SECOND, _MOST_SECONDS)
    began = time.thread_time()
    is_late = False

    def begin(*_: object) -> bool:
        nonlocal began
        began = time.thread_time()
        return True

    def stop() -> bool:
        """After one question that was late no other is answered: each session of the database would take as long."""
        nonlocal is_late
        is_late = is_late or time.thread_time() - began > seconds
        return is_late

    connection.exec_trace = begin
    connection.set_progress_handler(stop, _STEPS)
    return connection


@cache
def _registered() -> apsw.VFS:
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


def wal_of(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def database_stamp(path: Path) -> tuple[int, ...]:
    """What changes with every write. A log that is emptied is as one that is not there."""
    log = wal_of(path)
    files = [path.stat(), *([log.stat()] if log.exists() else [])]
    return tuple(number for seen in files if seen.st_size for number in (seen.st_size, seen.st_mtime_ns))


class Snapshot(NamedTuple):
    """What stays as it is while all that was in a database and its log stays where it was.

    The head of a log differs each time that it is begun again. A log that comes into being later holds nothing of it.
    """

    inode: int
    size: int
    changed: int
    log: bytes

    @classmethod
    def settled(cls, path: Path) -> Snapshot:
        """Times of files are exact to some milliseconds: a write that was just done would hide the next one."""
        for _ in range(TRIES):
            taken = cls.taken(path)
            if abs(time.time_ns() - taken.changed) > _TICK_NS:
                break
            time.sleep(_TICK_NS / 1e9)
        return taken

    @classmethod
    def taken(cls, path: Path) -> Snapshot:
        log = b""
        with contextlib.suppress(FileNotFoundError), wal_of(path).open("rb") as file:
            log = file.read(_LOG_HEAD)
        seen = path.stat()
        return cls(seen.st_ino, seen.st_size, seen.st_mtime_ns, log)

    def is_still(self, path: Path) -> bool:
        now = self.taken(path)
        return now == self or (not self.log and now[:3] == self[:3])


def database_units(home: Path, *patterns: str) -> list[Unit]:
    """Databases below a home with their write-ahead logs, each a unit."""
    result = []
    for database in sorted({path for pattern in patterns for path in home.glob(pattern)}):
        source = database.relative_to(home).as_posix()
        with contextlib.suppress(OSError):
            result.append(Unit(source, database_stamp(database), database, source))
    return result


class Tables:
    """A database as it was when it was opened. ``wanted``: tables, and the columns that each must have to be read.

    Those of ``needed`` must be there; ``problems`` says what is wrong with the others.
    """

    is_retried = False

    def __init__(
        self, path: Path, snapshot: Snapshot, wanted: Mapping[str, set[str]], needed: tuple[str, ...] = ()
    ) -> None:
        self._path, self._snapshot, self._wanted, self._needed = path, snapshot, wanted, needed
        self.problems: list[MirrorProblem] = []
        self.unread: set[str] = set()
        self.columns: dict[str, set[str]] = {}  # of the tables that can be read
        try:
            self.connection = connected(path) if snapshot.log else unchanging(path)
            self.names = {str(name): bool(is_table) for name, is_table in self.connection.execute(_NAMES)}
            for name in wanted:
                refusal = self._refusal(name)
                if refusal:
                    self.problem(f"table {name}", refusal)
        except apsw.Error as cause:
            problem = OSError(0, reason_of(cause))
            raise StorageError("read", path, problem, hint="it may be of a newer client") from cause
        # A client makes all of them at once: while one is missing, it migrates, or it is another one's database.
        self.is_whole = not self.problems

    @classmethod
    @contextlib.contextmanager
    def opened(cls, path: Path, *how: Any) -> Iterator[Self]:
        """A database, for reading."""
        try:
            tables = cls(path, Snapshot.settled(path), *how)
        except OSError as cause:
            hint = "its sessions stay as they were mirrored last"
            raise StorageError("read", path, cause, hint=hint) from cause
        with contextlib.closing(tables):
            yield tables

    def _refusal(self, table: str) -> str | None:
        """Why a table is not read; None where it is, or may be missing. What is no plain rows could compute anything."""
        if table not in self.names:
            return "it is missing" if table in self._needed else None
        if not self.names[table]:
            return "it is a view or a virtual table, and not read"
        asked = self.connection.execute("SELECT name, hidden = 2 FROM pragma_table_xinfo(?)", (table,))
        columns = {str(name): is_computed for name, is_computed in asked}
        for column, is_computed in columns.items():
            if is_computed:
                return f"its column {column!a} would be computed while it is read: left out"
        if lacking := sorted(self._wanted[table] - columns.keys()):
            return f"it has no column {lacking[0]}"
        self.columns[table] = set(columns)
        return None

    def close(self) -> None:
        self.connection.close()

    def check(self) -> None:
        if not self._snapshot.is_still(self._path):
            raise StoreChangedError(f"{self._path} changed while it was read")

    def problem(self, where: str, reason: str, *, is_unknown: bool = False) -> None:
        problem = MirrorProblem(f"{self._path}: {where}", reason, is_unknown)
        if problem not in self.problems:
            self.problems.append(problem)

    @contextlib.contextmanager
    def reading(self, table: str, session: str = "") -> Iterator[None]:
        """Something of a table; the others can be read all the same."""
        try:
            yield
        except apsw.Error as cause:
            self.is_whole = False
            self.unread.add(session)
            self.problem(f"table {table}", reason_of(cause))

    def rows(
        self, table: str, *wanted: str, where: str = "", bound: tuple[object, ...] = ()
    ) -> Iterator[dict[str, Any]]:
        """The rows of a table in their order, with those of the wanted columns that there are; ``where`` is ours, never a client's."""
        if table not in self.columns:
            return
        names = [name for name in wanted if name in self.columns[table]]
        chosen = ", ".join(f'"{name}"' for name in names)
        asked = f'SELECT {chosen} FROM "{table}"{f" WHERE {where}" if where else ""} ORDER BY rowid'  # noqa: S608 - constants
        with self.reading(table):
            for row in self.connection.execute(asked, bound):
                yield dict(zip(names, row, strict=True))

    def marks(self, table: str, asked: str) -> dict[str, str]:
        """A mark for each session of a question of ours: its name, and what differs when a row of it changed."""
        result: dict[str, str] = {}
        with self.reading(table):
            for session, *facts in self.connection.execute(asked):
                result[str(session)] = key_of(*facts)
        return result


def reason_of(cause: apsw.Error) -> str:
    if isinstance(cause, apsw.InterruptError):
        return "reading it takes longer than it does in any sound database of this size"
    if isinstance(cause, apsw.TooBigError):
        return f"a value is longer than {LONGEST_VALUE:,} bytes"
    return str(cause)
