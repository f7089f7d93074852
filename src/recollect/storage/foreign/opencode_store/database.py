"""The database of OpenCode from 1.2 on, with its write-ahead log, and its event log from 1.16 on.

Only session, message, part, todo, project and event are read: other tables hold tokens. The client never empties its
write-ahead log at the end, so most databases have one. They are read where they lie, without touching them; one that was
written to a moment ago is copied together with its log, in memory where there is a file system for that, since it would
change while it is read. The copy is removed at once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from recollect.errors import StorageError
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.lines import encode
from recollect.storage.foreign.loose import COUNT, Fields, fitted, parsed
from recollect.storage.foreign.opencode_store.store import (
    LEFT_OUT,
    SHAPED,
    ListedRecord,
    OpenCodeRecord,
    OpenCodeRecords,
    StoreProblem,
)
from recollect.storage.foreign.opencode_store.untouched_database import connected
from recollect.system.paths import named_store

if TYPE_CHECKING:
    import apsw

_TABLES = ("project", "session", "message", "part", "todo")
_LISTED_BY = frozenset(["id", "session_id", "time_updated", "data"])
# Many, and large: of these only rows that may have changed are read.
_LARGE = ("message", "part")
# What a database holds besides; new ones are named, never read: they may hold tokens.
_OTHER_TABLES = frozenset(
    [
        *("event", "event_sequence", "workspace", "permission", "project_directory", "session_share"),
        *("account", "account_state", "control_account", "credential"),
        *("migration", "data_migration", "__drizzle_migrations"),
        *("session_context_epoch", "session_input", "session_message"),
    ]
)
_COLUMNS = {
    "session": frozenset(
        [
            *(
                "id",
                "project_id",
                "workspace_id",
                "parent_id",
                "slug",
                "directory",
                "path",
                "title",
                "version",
            ),
            *("summary_additions", "summary_deletions", "summary_files", "summary_diffs", "metadata", "cost"),
            *("tokens_input", "tokens_output", "tokens_reasoning", "tokens_cache_read", "tokens_cache_write"),
            *("revert", "permission", "agent", "model"),
            *("time_created", "time_updated", "time_compacting", "time_archived"),
        ]
    ),
    "message": frozenset(["id", "session_id", "time_created", "time_updated", "data"]),
    "part": frozenset(["id", "message_id", "session_id", "time_created", "time_updated", "data"]),
}
_LINKS = (("sessionID", "session_id"), ("messageID", "message_id"), ("parentID", "parent_id"))
# Tables and columns as all clients so far have them, with the types of a usual row.
_USUAL = {
    ("message", "id", "session_id", "time_created", "time_updated", "data"): [str, str, int, int, str],
    ("part", "id", "message_id", "session_id", "time_created", "time_updated", "data"): [
        str,
        str,
        str,
        int,
        int,
        str,
    ],
}
_EVENT_NAME = (  # the id of the record that an event is about; one without an id is kept as well
    "coalesce(CAST(CASE WHEN json_valid(data) THEN json_extract(data,"
    " CASE WHEN type LIKE 'message.part.%' THEN '$.part.id' ELSE '$.info.id' END) END AS TEXT), 'None')"
)
_NAMED_EVENTS = (
    f"SELECT type, {_EVENT_NAME} AS name, data FROM event"  # noqa: S608 - constants
    " WHERE (type LIKE 'message.updated.%' OR type LIKE 'message.part.updated.%')"
)
_TRIES = 5
# How new a row may be for its time to tell nothing yet: its client may be about to write it again.
_YOUNG_MS = 2000
# How long after its last write a database is taken for one that is in use.
_BUSY_SECONDS = 60


def units(home: Path) -> list[Unit]:
    """Every database of a home with its write-ahead log, and the one that a variable names."""
    databases = sorted(home.glob("opencode*.db"))
    named = named_store("opencode", str(home), os.environ)
    if named is not None and Path(named) not in databases:
        databases.append(Path(named))
    found = []
    for database in databases:
        key = database.name if database.parent == home else str(database)
        with contextlib.suppress(OSError):
            found.append(Unit(key, _state(database), database, database.name))
    return found


@contextlib.contextmanager
def opened(path: Path) -> Iterator[_RowStore]:
    """A database, for reading."""
    with contextlib.ExitStack() as stack:
        try:
            state = _state(path)
            if _is_busy(state):
                store = _RowStore(path, partial(_of_copy, stack.enter_context(_copy(path))), None)
            else:
                store = _RowStore(path, partial(connected if state[2] else _unchanging, path), state)
        except OSError as cause:
            hint = "its sessions stay as they were mirrored last"
            raise StorageError("read", path, cause, hint=hint) from cause
        stack.callback(store.close)
        yield store


def _is_busy(state: tuple[int, int, int, int]) -> bool:
    """Whether a client is likely to write while we read. A clock that was set back makes no difference for long."""
    return state[2] > 0 and abs(time.time() - state[3] / 1e9) < _BUSY_SECONDS


def _wal(database: Path) -> Path:
    return database.with_name(database.name + "-wal")


def _state(path: Path) -> tuple[int, int, int, int]:
    seen, log = path.stat(), _wal(path)
    beside = log.stat() if log.exists() else None
    return (
        seen.st_size,
        seen.st_mtime_ns,
        beside.st_size if beside else 0,
        beside.st_mtime_ns if beside else 0,
    )


@contextlib.contextmanager
def _copy(path: Path) -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108 - a directory of our own is made there, readable by us alone
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        copy = Path(directory, "copy.db")
        for _ in range(_TRIES):
            before = _state(path)
            shutil.copyfile(path, copy)
            if before[2]:
                shutil.copyfile(_wal(path), _wal(copy))
            else:
                _wal(copy).unlink(missing_ok=True)
            if _state(path) == before:
                yield copy
                return
        raise StorageError(
            "read", path, OSError(0, "it changes all the time"), hint="it is read at the next call"
        )


def _of_copy(copy: Path) -> apsw.Connection:
    import apsw

    return apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READWRITE)


def _unchanging(path: Path) -> apsw.Connection:
    """Without a write-ahead log the file is all there is: nothing is created beside it."""
    import apsw

    address = f"file:{quote(str(path))}?immutable=1"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


class _RowStore:
    """One database; ``state`` is what it has to be in until all is read, where it is read in place."""

    def __init__(
        self, path: Path, connect: Callable[[], apsw.Connection], state: tuple[int, ...] | None
    ) -> None:
        import apsw

        self._path, self._expected, self._error = path, state, apsw.Error
        self.problems: list[StoreProblem] = []
        self.is_whole = True
        self._of: dict[str, dict[str, list[int]]] = {}  # the rows of each session, by table
        # Small tables, and those without the usual columns: their records, each with its session.
        self._held: dict[str, list[tuple[str, OpenCodeRecord]]] = {}
        self._names: set[str] = set()
        try:
            self._connection = connect()
            asked = self._connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            self._tables = {str(row[0]) for row in asked}
            self.problems += [*self._unknown_tables(), *self._unknown_columns()]
        except apsw.Error as cause:
            problem = OSError(0, str(cause))
            raise StorageError("read", path, problem, hint="it may be of a newer client") from cause

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        if self._expected is not None and _state(self._path) != self._expected:
            problem = OSError(0, "it changed while it was read")
            raise StorageError("read", self._path, problem, hint="it is read at the next call")

    # ---- what there is -----------------------------------------------------------------------------------

    def listed(self, known: Mapping[str, ListedRecord]) -> dict[str, ListedRecord]:
        found: dict[str, ListedRecord] = {}
        for table in (name for name in _TABLES if name in self._tables):
            with self._reading(table):
                if table in _LARGE and self._columns(table) >= _LISTED_BY:
                    found |= self._listed_rows(table)
                else:
                    found |= self._listed_contents(table, found)
        self._names = set(found)
        if "event" in self._tables:
            with self._reading("event"):
                asked = "SELECT aggregate_id, max(seq), count(*) FROM event GROUP BY aggregate_id"
                for session, last, count in self._connection.execute(asked):
                    found[f"event/{session}"] = ListedRecord(str(session), f"{last}:{count}")
        return found

    def _listed_rows(self, table: str) -> dict[str, ListedRecord]:
        """Without their contents; time and size of a row differ where it was written again.

        Within the millisecond of its time they may not: so a row that is that new differs once more, and its content is compared.
        """
        found = {}
        now = time.time_ns()
        young = now // 1_000_000 - _YOUNG_MS
        asked = f"SELECT rowid, id, session_id, time_updated, octet_length(data) FROM {table}"  # noqa: S608 - a constant
        for row, name, session, updated, size in self._connection.execute(asked):
            mine = str(session or "")
            self._of.setdefault(mine, {}).setdefault(table, []).append(row)
            mark = f"{updated}:{size}"
            if type(updated) is int and updated >= young:
                mark = f"{mark}:{now}"
            found[f"{table}/{name or f'{session}-{row}'}"] = ListedRecord(mine, mark, size or 0)
        return found

    def _listed_contents(self, table: str, found: dict[str, ListedRecord]) -> dict[str, ListedRecord]:
        listed = {}
        held = self._held.setdefault(table, [])
        for record in self._rows(table):
            own = record.id if table == "session" else str(record.fields.get("sessionID") or "")
            above = found.get(f"message/{record.fields.get('messageID')}") if table == "part" else None
            session = above.session if above is not None else own
            mark = blake2b(record.original, digest_size=15).hexdigest()
            listed[record.source] = ListedRecord(session, mark, len(record.original))
            held.append((session, record))
        return listed

    @contextlib.contextmanager
    def _reading(self, table: str) -> Iterator[None]:
        """The other tables can be read all the same."""
        try:
            yield
        except self._error as cause:
            self.is_whole = False
            problem = StoreProblem(f"{self._path}: table {table}", str(cause))
            if problem not in self.problems:
                self.problems.append(problem)

    def _columns(self, table: str) -> set[str]:
        asked = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {str(row[0]) for row in asked}

    def _unknown_tables(self) -> Iterator[StoreProblem]:
        for table in sorted(self._tables - {*_TABLES, *_OTHER_TABLES}):
            if not table.startswith("sqlite_"):
                yield StoreProblem(
                    f"{self._path}: table {table}", "a table of a newer client: not read", is_unknown=True
                )
        for table in sorted(SHAPED.keys() - self._tables):
            yield StoreProblem(f"{self._path}: table {table}", "it is missing")

    def _unknown_columns(self) -> Iterator[StoreProblem]:
        for table, known in _COLUMNS.items():
            if new := sorted(self._columns(table) - known - LEFT_OUT):
                reason = f"kept, and not understood: {', '.join(new)}"
                yield StoreProblem(f"{self._path}: columns of {table}", reason, is_unknown=True)

    # ---- contents ----------------------------------------------------------------------------------------

    def sessions(self) -> dict[str, OpenCodeRecord]:
        return {record.id: record for _, record in self._held.get("session", ())}

    def of(self, sessions: Collection[str]) -> OpenCodeRecords:
        found = OpenCodeRecords({}, {}, [])
        for table in _TABLES:
            for session, record in self._held.get(table, ()):
                if table != "session" and session in sessions:
                    found.put(record)
        for table in _LARGE:
            rows = [row for name in sessions for row in self._of.get(name, {}).get(table, ())]
            with self._reading(table):
                for record in self._rows(table, rows) if rows else ():
                    found.put(record)
        if "event" in self._tables:
            with self._reading("event"):
                for record in self._events(sessions):
                    found.put(record)
        return found

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        for table in tables:
            with self._reading(table):
                held = self._held.get(table)
                yield from (record for _, record in held) if held is not None else self._rows(table)
        if "event" in self._tables:
            with self._reading("event"):
                yield from (record for record in self._events(None) if record.table in tables)

    def _rows(self, table: str, wanted: list[int] | None = None) -> Iterator[OpenCodeRecord]:
        if table not in self._tables:
            return
        cursor = self._connection.cursor()
        names: list[str] = []
        order = sorted(wanted or ())
        if wanted is None:
            rows = cursor.execute(f"SELECT * FROM {table}")  # noqa: S608 - a constant
        else:
            asked = f"SELECT * FROM {table} WHERE rowid IN (SELECT value FROM json_each(?)) ORDER BY rowid"  # noqa: S608 - a constant
            rows = cursor.execute(asked, (encode(order).decode(),))
        left_out: frozenset[str] = frozenset()
        kinds = None  # of the columns, where they are those of all clients so far
        for number, row in enumerate(rows):
            if not names:
                names = [column[0] for column in cursor.getdescription()]
                left_out = LEFT_OUT.intersection(names)
                kinds = _USUAL.get((table, *names))
            given = dict(zip(names, row, strict=True))
            record = _usual(table, given) if kinds is not None and [*map(type, row)] == kinds else None
            if record is None:
                for name in left_out:
                    del given[name]
                record = _record(table, number if wanted is None else order[number], given)
            yield record

    def _events(self, sessions: Collection[str] | None) -> Iterator[OpenCodeRecord]:
        """The last state of every message and part that only the event log still has.

        Nearly all events are of rows that are still there: the database itself looks up whose they are, and only
        what is needed is sorted and decoded.
        """
        mine = "" if sessions is None else " AND aggregate_id IN (SELECT value FROM json_each(?))"
        which = () if sessions is None else (encode(list(sessions)).decode(),)
        asked = self._connection.execute(f"SELECT DISTINCT type, name FROM ({_NAMED_EVENTS}{mine})", which)  # noqa: S608 - constants
        gone = [str(name) for kind, name in asked if f"{_table_of(kind)}/{name}" not in self._names]
        last: dict[tuple[str, str], str] = {}
        wanted = (
            f"{_NAMED_EVENTS}{mine} AND name IN (SELECT value FROM json_each(?)) ORDER BY aggregate_id, seq"  # noqa: S608 - constants
        )
        for kind, name, data in (
            self._connection.execute(wanted, (*which, encode(gone).decode())) if gone else ()
        ):
            last[_table_of(kind), str(name)] = str(data)
        for (table, _), data in last.items():
            said = parsed(data.encode())
            held = said.get("info" if table == "message" else "part") if isinstance(said, dict) else None
            if not isinstance(held, dict):
                continue
            fields, odd = fitted(held, SHAPED[table].shape)
            own = str(fields.get("id"))
            source = f"event/{table}/{own}"
            yield OpenCodeRecord(table, own, fields, source, encode(held), is_removed=True, odd=tuple(odd))


def _record(table: str, number: int, given: Fields) -> OpenCodeRecord:
    columns = given
    if bytes in map(type, given.values()):
        columns = {name: value for name, value in given.items() if not isinstance(value, bytes)}
    plain = columns.copy()
    plain.pop("data", None)
    own, more = fitted(plain, SHAPED[table].shape if table in SHAPED else {})
    said, odd = _data_of(table, columns)
    fields = {**own, **(said or {})}
    for name, column in _LINKS:
        if own.get(column):
            fields[name] = own[column]
    if more or columns is not given:
        odd = [*odd, *more, *(given.keys() - columns.keys())]
    if said is None and table in _LARGE:
        odd.append("data")
    place = columns.get("position", number)
    name = str(columns.get("id") or f"{columns.get('session_id')}-{place}")
    return OpenCodeRecord(table, name, fields, f"{table}/{name}", encode(columns), odd=tuple(odd))


def _usual(table: str, given: Fields) -> OpenCodeRecord | None:
    """A row whose columns have the usual types, which need not be looked at one by one; None where something is odd in it."""
    name, said = given["id"], SHAPED[table].quickly(given["data"].encode())
    if said is None or not name or given["time_created"] not in COUNT:
        return None
    fields = given.copy()
    del fields["data"]
    fields |= said
    for field, column in _LINKS:
        if given.get(column):
            fields[field] = given[column]
    return OpenCodeRecord(table, name, fields, f"{table}/{name}", encode(given))


def _data_of(table: str, columns: Fields) -> tuple[Fields | None, list[str]]:
    """The fields in the column that holds them as JSON, and those that are not as expected; None where it holds none."""
    raw = str(columns["data"]).encode() if "data" in columns else b""
    shaped = SHAPED.get(table)
    if not raw or shaped is None:
        said = parsed(raw) if raw else None
        return (said if isinstance(said, dict) else None), []
    quick = shaped.quickly(raw)
    if quick is not None:
        return quick, []
    said = parsed(raw)
    return fitted(said, shaped.shape) if isinstance(said, dict) else (None, [])


def _table_of(kind: object) -> str:
    """The table of an event, by its type; a version follows it."""
    return "part" if str(kind).startswith("message.part.") else "message"
