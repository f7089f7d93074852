"""The database of OpenCode from 1.2 on, with its write-ahead log, and its event log from 1.16 on.

Only session, message, part, todo, project and event are read: other tables hold tokens. The client never empties its
write-ahead log at the end, so most databases have one. They are read where they lie, without touching them, also while a client
writes: what it adds to its log afterwards is not seen. Only where it copies its log into the database meanwhile, or begins it
again, what was read may not fit together, and is read again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from recollect.errors import StorageError
from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.lines import encode
from recollect.storage.foreign.loose import COUNT, Fields, fitted, parsed
from recollect.storage.foreign.opencode_store.growing import GrowingEnd, GrowingSession
from recollect.storage.foreign.opencode_store.row_marks import (
    LISTED_BY,
    TableRows,
    nameless_rows,
    rows_at_end,
    rows_before,
    rows_of_sessions,
)
from recollect.storage.foreign.opencode_store.store import (
    LEFT_OUT,
    SHAPED,
    OpenCodeRecord,
    OpenCodeRecords,
    SessionMark,
    StoreChangedError,
    StoreProblem,
    checksum,
)
from recollect.storage.foreign.opencode_store.untouched_database import connected
from recollect.system.paths import named_store

if TYPE_CHECKING:
    import apsw

_TABLES = ("project", "session", "message", "part", "todo")
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
_LAST_EVENTS = (
    "SELECT last.aggregate_id, last.seq, event.id FROM event_sequence AS last"
    " CROSS JOIN event ON event.aggregate_id = last.aggregate_id AND event.seq = last.seq"
)
_OF_SESSIONS = "session_id IN (SELECT value FROM json_each(?))"
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
    found = []
    for database in databases:
        key = database.name if database.parent == home else str(database)
        with contextlib.suppress(OSError):
            found.append(Unit(key, _state(database), database, database.name))
    return found


@contextlib.contextmanager
def opened(path: Path) -> Iterator[_RowStore]:
    """A database, for reading."""
    try:
        store = _RowStore(path, _Snapshot.settled(path))
    except OSError as cause:
        hint = "its sessions stay as they were mirrored last"
        raise StorageError("read", path, cause, hint=hint) from cause
    with contextlib.closing(store):
        yield store


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


def _unchanging(path: Path) -> apsw.Connection:
    """Without a write-ahead log the file is all there is: nothing is created beside it."""
    import apsw

    address = f"file:{quote(str(path))}?immutable=1"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


class _RowStore:
    """One database, as it was when it was opened."""

    def __init__(self, path: Path, snapshot: _Snapshot) -> None:
        import apsw

        self._path, self._snapshot, self._error = path, snapshot, apsw.Error
        self.problems: list[StoreProblem] = []
        # Small tables, and those without the usual columns: their records, each with its session.
        self._held: dict[str, list[tuple[str, OpenCodeRecord]]] = {}
        try:
            self._connection = connected(path) if snapshot.log else _unchanging(path)
            asked = self._connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            self._tables = {str(row[0]) for row in asked}
            # A client makes all of them at once: while one is missing, it migrates, or it is another one's database.
            self.is_whole = self._tables >= SHAPED.keys()
            self._large = [name for name in _LARGE if self._columns(name) >= LISTED_BY]
            self.problems += [*self._unknown_tables(), *self._unknown_columns()]
        except apsw.Error as cause:
            problem = OSError(0, str(cause))
            raise StorageError("read", path, problem, hint="it may be of a newer client") from cause

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        if not self._snapshot.is_still(self._path):
            raise StoreChangedError(f"{self._path} changed while it was read")

    # ---- what there is -----------------------------------------------------------------------------------

    def listed(self, known: Mapping[str, SessionMark]) -> dict[str, SessionMark]:
        self._hold()
        events = self._last_events()
        tables = {table: dict(_held_rows(held)) for table, held in self._held.items()}
        # A write adds an event and changes the row of the session: without both, the other rows are those of the last pass.
        trusted = {
            session: mark
            for session, mark in known.items()
            if mark.events is not None
            and mark.events == events.get(session)
            and all(
                mark.tables.get(table) == (rows[session].mark if session in rows else None)
                for table, rows in tables.items()
            )
        }
        others = {*known, *events, *(session for rows in tables.values() for session in rows)}
        others -= trusted.keys()
        for table in self._large:
            with self._reading(table):
                tables[table] = self._listed_rows(table, trusted, others)
        marks: dict[str, SessionMark] = {}
        now = time.time_ns()
        for session in {*events, *(session for rows in tables.values() for session in rows)}:
            own = {table: rows[session] for table, rows in tables.items() if session in rows}
            marks[session] = SessionMark(
                {table: rows.mark for table, rows in own.items()},
                events.get(session),
                sum(rows.size for rows in own.values()),
                now if any(rows.is_young for rows in own.values()) else 0,
            )
        return marks

    def _listed_rows(
        self, table: str, trusted: Mapping[str, SessionMark], others: Collection[str]
    ) -> dict[str, TableRows]:
        """The rows of every session: as they were for those that did not change, unless rows were added or removed there too."""
        if trusted:
            found = {
                session: TableRows.of_mark(mark.tables[table])
                for session, mark in trusted.items()
                if table in mark.tables
            }
            found |= rows_of_sessions(self._connection, table, others)
            ((count,),) = self._connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - a constant
            if sum(own.rows for own in found.values()) == count:
                return found
        return rows_of_sessions(self._connection, table)

    def _hold(self) -> None:
        """Read what is small, and what has not the columns that tell whether a row has changed."""
        for table in _TABLES:
            if table in self._tables and table not in self._large:
                with self._reading(table):
                    records = [*self._rows(table)]
                    above = self._message_sessions() if table == "part" else {}
                    self._held[table] = [(_session_of(record, above), record) for record in records]

    def _message_sessions(self) -> Mapping[str, str]:
        if "message" in self._held:
            return {record.id: session for session, record in self._held["message"]}
        asked = "SELECT id, session_id FROM message"
        return dict(self._connection.execute(asked)) if "message" in self._tables else {}

    def _last_events(self) -> dict[str, str]:
        """The last event of each session: its number, and its id where it has one, since a session that is deleted and returns
        counts from 0 again.
        """
        found: dict[str, str] = {}
        if "event" in self._tables:
            with self._reading("event"):
                if "event_sequence" in self._tables and "id" in self._columns("event"):
                    asked = _LAST_EVENTS
                else:
                    asked = "SELECT aggregate_id, max(seq), '' FROM event GROUP BY aggregate_id"
                for session, last, name in self._connection.execute(asked):
                    found[str(session)] = f"{last}:{name}"
        return found

    def nameless(self) -> list[str]:
        found = [
            record.source for name in _LARGE for session, record in self._held.get(name, ()) if not session
        ]
        for table in self._large:
            with self._reading(table):
                found += nameless_rows(self._connection, table)
        return found

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

    def may_have(self, session: str) -> bool:
        found = None
        with self._reading("session"):
            found = self._connection.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone()
        return not self.is_whole or found is not None

    def sessions(self) -> dict[str, OpenCodeRecord]:
        return {record.id: record for _, record in self._held.get("session", ())}

    def of(self, sessions: Collection[str]) -> OpenCodeRecords:
        found = OpenCodeRecords({}, {}, [], set(sessions))
        for record in self._others(sessions):
            found.put(record)
        done = 0
        for table in self._large:
            with self._reading(table):
                for record in self._rows(table, _OF_SESSIONS, (encode([*sessions]).decode(),)):
                    found.put(record)
                done += 1
        if done == len(self._large):
            found.unread.clear()
        if "event" in self._tables:
            with self._reading("event"):
                for record in self._events(sessions):
                    found.put(record)
        return found

    def _others(self, sessions: Collection[str]) -> list[OpenCodeRecord]:
        """What is held of them, but for the sessions themselves."""
        return [
            record
            for table in _TABLES
            for session, record in self._held.get(table, ())
            if table != "session" and session in sessions
        ]

    def before(self, session: str, end: GrowingEnd) -> str | None:
        marks = []
        for table in self._large:
            with self._reading(table):
                rows = rows_before(self._connection, table, session, end)
                marks += [] if rows.is_young else [rows.mark]
        return " ".join(marks) if len(marks) == len(_LARGE) else None

    def at_end(self, session: str, known: GrowingSession) -> OpenCodeRecords | None:
        if self.before(session, known.end) != known.before or self._may_lack(session, known.events):
            return None
        found = OpenCodeRecords({}, {}, self._others([session]), set())
        for table in self._large:
            with self._reading(table):
                for record in self._rows(table, *rows_at_end(table, session, known.end)):
                    found.put(record)
        return found if self.is_whole else None

    def _may_lack(self, session: str, since: str | None) -> bool:
        """Whether a record was written since an event, and removed again: only the event log still has it."""
        if "event" not in self._tables:
            return since is not None
        number, _, name = ("-1::" if since is None else since).partition(":")
        asked = "SELECT id FROM event WHERE aggregate_id = ? AND seq = ?"
        if since is not None and [(name,)] != [*self._connection.execute(asked, (session, int(number)))]:
            return True
        asked = f"SELECT DISTINCT type, name FROM ({_NAMED_EVENTS} AND aggregate_id = ? AND seq > ?)"  # noqa: S608 - constants
        named: dict[str, set[str]] = {table: set() for table in _LARGE}
        for kind, own in self._connection.execute(asked, (session, int(number))):
            named[_table_of(kind)].add(str(own))
        return any(names - self._there(table, names) for table, names in named.items())

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        for table in tables:
            with self._reading(table):
                held = self._held.get(table)
                yield from (record for _, record in held) if held is not None else self._rows(table)
        if "event" in self._tables:
            with self._reading("event"):
                yield from (record for record in self._events(None) if record.table in tables)

    def _rows(self, table: str, condition: str = "", bound: tuple[str, ...] = ()) -> Iterator[OpenCodeRecord]:
        if table not in self._tables:
            return
        cursor = self._connection.cursor()
        is_numbered = table in self._large
        asked = f"SELECT {'rowid, ' * is_numbered}* FROM {table}"  # noqa: S608 - constants
        rows = cursor.execute(asked + (f" WHERE {condition} ORDER BY rowid" if condition else ""), bound)
        names: list[str] = []
        left_out: frozenset[str] = frozenset()
        kinds = None  # of the columns, where they are those of all clients so far
        for counted, values in enumerate(rows):
            number, row = (values[0], values[1:]) if is_numbered else (counted, values)
            if not names:
                names = [column[0] for column in cursor.getdescription()][is_numbered:]
                left_out = LEFT_OUT.intersection(names)
                kinds = _USUAL.get((table, *names))
            given = dict(zip(names, row, strict=True))
            record = _usual(table, given) if kinds is not None and [*map(type, row)] == kinds else None
            if record is None:
                for name in left_out:
                    del given[name]
                record = _record(table, number, given)
            yield record

    def _events(self, sessions: Collection[str] | None) -> Iterator[OpenCodeRecord]:
        """The last state of every message and part that only the event log still has.

        Nearly all events are of rows that are still there: the database itself looks up whose they are, and only
        what is needed is sorted and decoded.
        """
        mine = "" if sessions is None else " AND aggregate_id IN (SELECT value FROM json_each(?))"
        which = () if sessions is None else (encode(list(sessions)).decode(),)
        asked = self._connection.execute(f"SELECT DISTINCT type, name FROM ({_NAMED_EVENTS}{mine})", which)  # noqa: S608 - constants
        named: dict[str, set[str]] = {}
        for kind, name in asked:
            named.setdefault(_table_of(kind), set()).add(str(name))
        gone = [name for table, names in named.items() for name in names - self._there(table, names)]
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

    def _there(self, table: str, names: set[str]) -> set[str]:
        """Those of which there is a row."""
        if table not in self._tables:
            return set()
        asked = f"SELECT id FROM {table} WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
        return {str(row[0]) for row in self._connection.execute(asked, (encode([*names]).decode(),))}


def _session_of(record: OpenCodeRecord, above: Mapping[str, str]) -> str:
    """The session of a record; that of its message counts more than its own word."""
    if record.table == "session":
        return record.id
    return str(above.get(str(record.fields.get("messageID"))) or record.fields.get("sessionID") or "")


def _held_rows(held: list[tuple[str, OpenCodeRecord]]) -> Iterator[tuple[str, TableRows]]:
    """The records of each session."""
    by_session: dict[str, list[OpenCodeRecord]] = {}
    for session, record in held:
        by_session.setdefault(session, []).append(record)
    for session, own in by_session.items():
        contents = (f"{one.source}\0{blake2b(one.original, digest_size=15).hexdigest()}" for one in own)
        yield session, TableRows(checksum(contents), len(own), sum(len(one.original) for one in own))


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
