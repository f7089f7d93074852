"""The database of OpenCode from 1.2 on, with its write-ahead log, and its event log from 1.16 on.

Only session, message, part, todo and event are read: other tables hold tokens. The client never empties its
write-ahead log at the end, so most databases have one. They are read where they lie, without touching them, also while a client
writes: what it adds to its log afterwards is not seen. Only where it copies its log into the database meanwhile, or begins it
again, what was read may not fit together, and is read again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import apsw

from recollect.agents.growth import Unit
from recollect.agents.lines import encode, mark_of
from recollect.agents.loose import Fields, fitted, known_types, parsed
from recollect.agents.mirror_files import MirrorProblem
from recollect.agents.opencode_store import (
    LEFT_OUT,
    SHAPES,
    OpenCodeRecord,
    StoreChangedError,
)
from recollect.errors import StorageError
from recollect.model.lines.damage import DEFAULT_LIMITS, QUERY_SECONDS
from recollect.system.paths import named_store

_NAME = "recollect-untouched"
LONGEST_VALUE = DEFAULT_LIMITS.line_bytes
# How much of a database a further second is enough for, and how many there are. Reading is many times as fast.
_BYTES_A_SECOND, _MOST_SECONDS = 10_000_000, 120
# Of SQLite's machine, between two looks at the clock: each may read a long value.
_STEPS = 1_000


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


_SMALL, _LARGE = ("session", "todo"), ("message", "part")
_NEEDED = {"message": {"id", "session_id", "data"}, "part": {"id", "session_id", "data"}, "session": {"id"}}
# What else a database holds; what is new is named. A new table is never read: it may hold tokens.
_KNOWN = known_types("opencode")
_LINKS = (("sessionID", "session_id"), ("messageID", "message_id"), ("parentID", "parent_id"))
# A name in the catalogue, and whether it is a table with rows of its own: SQLite holds the first word of its definition to the type.
_NAMES = "SELECT name, type = 'table' AND rootpage > 0 AND sql LIKE 'CREATE TABLE %' FROM sqlite_master WHERE type IN ('table', 'view')"
# A product and a remainder, so that what one row gains in time or size and another loses does not even out.
_SUMS = (
    "SELECT session_id, count(*), coalesce(sum(octet_length(data)), 0),"
    " coalesce(sum(({time} * 1000003 + coalesce(octet_length(data), 0)) % 2147483647), 0),"
    " max({time}), sum(typeof({time}) <> 'integer') FROM {table} GROUP BY session_id"
)
_FITS = f"coalesce(octet_length(data), 0) <= {LONGEST_VALUE}"
_NAMED_EVENTS = (  # with the id of the record that an event is about; one without an id is kept as well
    "SELECT aggregate_id, seq, type, coalesce(CAST(CASE WHEN json_valid(data) THEN json_extract(data,"
    " CASE WHEN type LIKE 'message.part.%' THEN '$.part.id' ELSE '$.info.id' END) END AS TEXT), 'None') AS name, data"
    " FROM event WHERE (type LIKE 'message.updated.%' OR type LIKE 'message.part.updated.%')"
)
# How new a row may be for its time to tell nothing yet: its client may be about to write it again.
_YOUNG_MS = 2000
_TRIES = 5
# How long a file system may take a later write for the same time.
_TICK_NS = 50_000_000
# Of a write-ahead log, with the numbers that are drawn for it each time it is begun.
_LOG_HEAD = 32


def units(home: Path) -> list[Unit]:
    """Every database of a home with its write-ahead log, and the one that a variable names."""
    databases = sorted(home.glob("opencode*.db"))
    named = named_store("opencode", str(home), os.environ)
    if named is not None and Path(named) not in databases:
        databases.append(Path(named))
    result = []
    for database in databases:
        key = database.name if database.parent == home else str(database)
        with contextlib.suppress(OSError):
            result.append(Unit(key, _state(database), database, database.name))
    return result


@contextlib.contextmanager
def opened(path: Path) -> Iterator[RowStore]:
    """A database, for reading."""
    try:
        store = RowStore(path, _Snapshot.settled(path))
    except OSError as cause:
        hint = "its sessions stay as they were mirrored last"
        raise StorageError("read", path, cause, hint=hint) from cause
    with contextlib.closing(store):
        yield store


def _wal(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _state(path: Path) -> tuple[int, ...]:
    """What changes with every write. A log that is emptied is as one that is not there."""
    log = _wal(path)
    files = [path.stat(), *([log.stat()] if log.exists() else [])]
    return tuple(number for seen in files if seen.st_size for number in (seen.st_size, seen.st_mtime_ns))


class _Snapshot(NamedTuple):
    """What stays as it is while all that was in a database and its log stays where it was.

    The head of a log differs each time that it is begun again. A log that comes into being later holds nothing of it.
    """

    inode: int
    size: int
    changed: int
    log: bytes

    @classmethod
    def settled(cls, path: Path) -> _Snapshot:
        """Times of files are exact to some milliseconds: a write that was just done would hide the next one."""
        for _ in range(_TRIES):
            taken = cls.taken(path)
            if abs(time.time_ns() - taken.changed) > _TICK_NS:
                break
            time.sleep(_TICK_NS / 1e9)
        return taken

    @classmethod
    def taken(cls, path: Path) -> _Snapshot:
        log = b""
        with contextlib.suppress(FileNotFoundError), _wal(path).open("rb") as file:
            log = file.read(_LOG_HEAD)
        seen = path.stat()
        return cls(seen.st_ino, seen.st_size, seen.st_mtime_ns, log)

    def is_still(self, path: Path) -> bool:
        now = self.taken(path)
        return now == self or (not self.log and now[:3] == self[:3])


class RowStore:
    """One database, as it was when it was opened."""

    is_retried = False

    def __init__(self, path: Path, snapshot: _Snapshot) -> None:
        self._path, self._snapshot = path, snapshot
        self.problems: list[MirrorProblem] = []
        self.unread: set[str] = set()
        self._columns: dict[str, set[str]] = {}  # of the tables that can be read
        self._small: dict[str, list[OpenCodeRecord]] = {}
        try:
            self._connection = connected(path) if snapshot.log else unchanging(path)
            is_table = {str(name): bool(is_one) for name, is_one in self._connection.execute(_NAMES)}
            for name in (*_SMALL, *_LARGE, "event"):
                refusal = self._refusal(name, is_table)
                if refusal:
                    self._problem(f"table {name}", refusal)
        except apsw.Error as cause:
            problem = OSError(0, _reason(cause))
            raise StorageError("read", path, problem, hint="it may be of a newer client") from cause
        # A client makes all of them at once: while one is missing, it migrates, or it is another one's database.
        self.is_whole = not self.problems
        for name in sorted(is_table.keys() - {*_SMALL, *_LARGE, "event"} - _KNOWN["tables"]):
            if not name.startswith("sqlite_"):
                self._problem(f"table {name}", "a table of a newer client: not read", is_unknown=True)
        for name in SHAPES:
            if new := sorted(self._columns.get(name, set()) - _KNOWN[name] - LEFT_OUT):
                reason = f"kept, and not understood: {', '.join(new)}"
                self._problem(f"columns of {name}", reason, is_unknown=True)

    def _refusal(self, table: str, is_table: dict[str, bool]) -> str | None:
        """Why a table is not read; None where it is, or may be missing. What is no plain rows could compute anything."""
        if table not in is_table:
            return "it is missing" if table in SHAPES else None
        if not is_table[table]:
            return "it is a view or a virtual table, and not read"
        asked = self._connection.execute("SELECT name, hidden = 2 FROM pragma_table_xinfo(?)", (table,))
        columns = {str(name): is_computed for name, is_computed in asked}
        for column, is_computed in columns.items():
            if is_computed:
                return f"its column {column!a} would be computed while it is read: left out"
        if lacking := sorted(_NEEDED.get(table, set()) - columns.keys()):
            return f"it has no column {lacking[0]}"
        self._columns[table] = set(columns)
        return None

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        if not self._snapshot.is_still(self._path):
            raise StoreChangedError(f"{self._path} changed while it was read")

    def _problem(self, where: str, reason: str, *, is_unknown: bool = False) -> None:
        problem = MirrorProblem(f"{self._path}: {where}", reason, is_unknown)
        if problem not in self.problems:
            self.problems.append(problem)

    @contextlib.contextmanager
    def _reading(self, table: str, session: str = "") -> Iterator[None]:
        """Something of a table; the others can be read all the same."""
        try:
            yield
        except apsw.Error as cause:
            self.is_whole = False
            self.unread.add(session)
            self._problem(f"table {table}", _reason(cause))

    # ---- what there is -----------------------------------------------------------------------------------

    def listed(self) -> dict[str, str]:
        result: dict[str, list[str]] = {}
        for table in _SMALL:
            with self._reading(table):
                self._small[table] = list(self._rows(table))
                for record in self._small[table]:
                    result.setdefault(_session_of(record), []).append(mark_of(record.original))
        for table, marks in (*((table, self._marks) for table in _LARGE), ("event", self._last_events)):
            with self._reading(table):
                for session, mark in marks(table):
                    result.setdefault(session, []).append(mark)
        result.pop("", None)
        return {session: "|".join(marks) for session, marks in result.items()}

    def _marks(self, table: str) -> Iterator[tuple[str, str]]:
        """The rows of every session. One that is young, or whose time is odd, may be written again with the same mark."""
        if table not in self._columns:
            return
        young, nameless = time.time_ns() // 1_000_000 - _YOUNG_MS, 0
        changed = "time_updated" if "time_updated" in self._columns[table] else "0"
        for session, rows, size, check, latest, odd in self._connection.execute(
            _SUMS.format(table=table, time=changed)
        ):
            if not isinstance(session, str) or not session:
                nameless += rows
                continue
            again = f":{time.time_ns()}" if odd or latest >= young else ""
            yield session, f"{table}:{rows}:{size}:{check}{again}"
        if nameless:
            self._problem(f"table {table}", f"{nameless:,} records name no session")

    def _last_events(self, _table: str) -> Iterator[tuple[str, str]]:
        """The last event of each session: its number and its id, since a session that is deleted and returns counts from 0 again."""
        if "event" in self._columns:
            asked = "SELECT aggregate_id, max(seq), id FROM event GROUP BY aggregate_id"
            for session, last, name in self._connection.execute(asked):
                yield str(session), f"{last}:{name}"

    # ---- contents ----------------------------------------------------------------------------------------

    def may_have(self, session: str) -> bool:
        result = None
        if self.is_whole:
            with self._reading("session"):
                result = self._connection.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone()
        return not self.is_whole or result is not None

    def sessions(self) -> dict[str, OpenCodeRecord]:
        return {record.id: record for record in self._small.get("session", ())}

    def of(self, session: str) -> list[OpenCodeRecord]:
        result = [record for record in self._small.get("todo", ()) if _session_of(record) == session]
        for table in _LARGE:
            with self._reading(table, session):
                result += self._rows(table, "session_id = ?", session)
                self._leave_out_long(table, session)
        with self._reading("event", session):
            result += self._events("aggregate_id = ?", session)
        return result

    def _leave_out_long(self, table: str, session: str) -> None:
        """A session with a row that is too long is looked at again until it is not."""
        asked = f"SELECT id, octet_length(data) FROM {table} WHERE session_id = ? AND NOT {_FITS}"  # noqa: S608 - constants
        for name, size in self._connection.execute(asked, (session,)) if table in self._columns else ():
            why = f"{size:,} bytes in one row, and {LONGEST_VALUE:,} are read at most"
            self._problem(f"{table} {name}", why)
            self.unread.add(session)

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        for table in tables:
            with self._reading(table):
                yield from self._rows(table)
        with self._reading("event"):
            yield from (record for record in self._events() if record.table in tables)

    def _rows(self, table: str, condition: str = "", *bound: str) -> Iterator[OpenCodeRecord]:
        if table not in self._columns:
            return
        cursor = self._connection.cursor()
        conditions = " AND ".join(filter(None, (condition, _FITS if table in _LARGE else "")))
        where = f" WHERE {conditions}" if conditions else ""
        names: list[str] = []
        for number, *row in cursor.execute(f"SELECT rowid, * FROM {table}{where} ORDER BY rowid", bound):  # noqa: S608 - constants
            names = names or [column[0] for column in cursor.getdescription()][1:]
            given = {name: value for name, value in zip(names, row, strict=True) if name not in LEFT_OUT}
            yield _record(table, number, given)

    def _events(self, condition: str = "true", *bound: str) -> Iterator[OpenCodeRecord]:
        """The last state of every message and part that only the event log still has. Nearly all events are of rows that are
        still there: the database itself looks that up.
        """
        if "event" not in self._columns:
            return
        gone = "".join(
            f" AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = name)"  # noqa: S608 - constants
            for table in _LARGE
            if table in self._columns
        )
        asked = f"SELECT type, name, data FROM ({_NAMED_EVENTS} AND {condition}) WHERE true{gone} ORDER BY aggregate_id, seq"  # noqa: S608 - constants
        last: dict[tuple[str, str], str] = {}
        for kind, name, data in self._connection.execute(asked, bound):
            last["part" if kind.startswith("message.part.") else "message", name] = str(data)
        for (table, _), data in last.items():
            said = parsed(data.encode())
            held = said.get("info" if table == "message" else "part") if isinstance(said, dict) else None
            if isinstance(held, dict):
                fields, odd = fitted(held, SHAPES[table])
                own = str(fields.get("id"))
                source = f"event/{table}/{own}"
                yield OpenCodeRecord(
                    table, own, fields, source, encode(held), is_removed=True, odd=tuple(odd)
                )


def _session_of(record: OpenCodeRecord) -> str:
    return record.id if record.table == "session" else str(record.fields.get("sessionID") or "")


def _record(table: str, number: int, given: Fields) -> OpenCodeRecord:
    columns = {name: value for name, value in given.items() if not isinstance(value, bytes)}
    odd = [name for name in given if name not in columns]
    said = parsed(str(columns["data"]).encode()) if columns.get("data") else None
    if table in _LARGE and not isinstance(said, dict):
        odd.append("data")
    own = fitted({name: value for name, value in columns.items() if name != "data"}, SHAPES.get(table, {}))
    inner = fitted(said, SHAPES.get(table, {}))
    links = {name: own.fields[column] for name, column in _LINKS if own.fields.get(column)}
    name = str(columns.get("id") or f"{columns.get('session_id')}-{columns.get('position', number)}")
    fields = {**own.fields, **inner.fields, **links}
    odd += (*own.odd, *inner.odd)
    return OpenCodeRecord(table, name, fields, f"{table}/{name}", encode(columns), odd=tuple(odd))


def _reason(cause: apsw.Error) -> str:
    if isinstance(cause, apsw.InterruptError):
        return "reading it takes longer than it does in any sound database of this size"
    if isinstance(cause, apsw.TooBigError):
        return f"a value is longer than {LONGEST_VALUE:,} bytes"
    return str(cause)
