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
from contextlib import AbstractContextManager
from pathlib import Path

from recollect.agents.databases import LONGEST_VALUE, Snapshot, Tables, database_stamp, database_units
from recollect.agents.growth import Unit
from recollect.agents.lines import encode, mark_of
from recollect.agents.loose import Fields, fitted, known_types, parsed
from recollect.agents.opencode_store import LEFT_OUT, SHAPES, OpenCodeRecord
from recollect.system.paths import named_store

_SMALL, _LARGE = ("session", "todo"), ("message", "part")
_NEEDED = {"message": {"id", "session_id", "data"}, "part": {"id", "session_id", "data"}, "session": {"id"}}
# What else a database holds; what is new is named. A new table is never read: it may hold tokens.
_KNOWN = known_types("opencode")
_LINKS = (("sessionID", "session_id"), ("messageID", "message_id"), ("parentID", "parent_id"))
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


def units(home: Path) -> list[Unit]:
    """Every database of a home with its write-ahead log, and the one that a variable names."""
    result = database_units(home, "opencode*.db")
    named = named_store("opencode", str(home), os.environ)
    if named is not None and all(unit.path != Path(named) for unit in result):
        database = Path(named)
        key = database.name if database.parent == home else named
        with contextlib.suppress(OSError):
            result.append(Unit(key, database_stamp(database), database, database.name))
    return result


def opened(path: Path) -> AbstractContextManager[RowStore]:
    """A database, for reading."""
    return RowStore.opened(path)


class RowStore(Tables):
    """One database, as it was when it was opened."""

    def __init__(self, path: Path, snapshot: Snapshot) -> None:
        wanted = {name: _NEEDED.get(name, set()) for name in (*_SMALL, *_LARGE, "event")}
        super().__init__(path, snapshot, wanted, tuple(SHAPES))
        self._small: dict[str, list[OpenCodeRecord]] = {}
        for name in sorted(self.names.keys() - wanted.keys() - _KNOWN["tables"]):
            if not name.startswith("sqlite_"):
                self.problem(f"table {name}", "a table of a newer client: not read", is_unknown=True)
        for name in SHAPES:
            if new := sorted(self.columns.get(name, set()) - _KNOWN[name] - LEFT_OUT):
                reason = f"kept, and not understood: {', '.join(new)}"
                self.problem(f"columns of {name}", reason, is_unknown=True)

    # ---- what there is -----------------------------------------------------------------------------------

    def listed(self) -> dict[str, str]:
        result: dict[str, list[str]] = {}
        for table in _SMALL:
            with self.reading(table):
                self._small[table] = list(self._rows(table))
                for record in self._small[table]:
                    result.setdefault(_session_of(record), []).append(mark_of(record.original))
        for table, marks in (*((table, self._marks) for table in _LARGE), ("event", self._last_events)):
            with self.reading(table):
                for session, mark in marks(table):
                    result.setdefault(session, []).append(mark)
        result.pop("", None)
        return {session: "|".join(marks) for session, marks in result.items()}

    def _marks(self, table: str) -> Iterator[tuple[str, str]]:
        """The rows of every session. One that is young, or whose time is odd, may be written again with the same mark."""
        if table not in self.columns:
            return
        young, nameless = time.time_ns() // 1_000_000 - _YOUNG_MS, 0
        changed = "time_updated" if "time_updated" in self.columns[table] else "0"
        for session, rows, size, check, latest, odd in self.connection.execute(
            _SUMS.format(table=table, time=changed)
        ):
            if not isinstance(session, str) or not session:
                nameless += rows
                continue
            again = f":{time.time_ns()}" if odd or latest >= young else ""
            yield session, f"{table}:{rows}:{size}:{check}{again}"
        if nameless:
            self.problem(f"table {table}", f"{nameless:,} records name no session")

    def _last_events(self, _table: str) -> Iterator[tuple[str, str]]:
        """The last event of each session: its number and its id, since a session that is deleted and returns counts from 0 again."""
        if "event" in self.columns:
            asked = "SELECT aggregate_id, max(seq), id FROM event GROUP BY aggregate_id"
            for session, last, name in self.connection.execute(asked):
                yield str(session), f"{last}:{name}"

    # ---- contents ----------------------------------------------------------------------------------------

    def may_have(self, session: str) -> bool:
        result = None
        if self.is_whole:
            with self.reading("session"):
                result = self.connection.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone()
        return not self.is_whole or result is not None

    def sessions(self) -> dict[str, OpenCodeRecord]:
        return {record.id: record for record in self._small.get("session", ())}

    def of(self, session: str) -> list[OpenCodeRecord]:
        result = [record for record in self._small.get("todo", ()) if _session_of(record) == session]
        for table in _LARGE:
            with self.reading(table, session):
                result += self._rows(table, "session_id = ?", session)
                self._leave_out_long(table, session)
        with self.reading("event", session):
            result += self._events("aggregate_id = ?", session)
        return result

    def _leave_out_long(self, table: str, session: str) -> None:
        """A session with a row that is too long is looked at again until it is not."""
        asked = f"SELECT id, octet_length(data) FROM {table} WHERE session_id = ? AND NOT {_FITS}"  # noqa: S608 - constants
        for name, size in self.connection.execute(asked, (session,)) if table in self.columns else ():
            why = f"{size:,} bytes in one row, and {LONGEST_VALUE:,} are read at most"
            self.problem(f"{table} {name}", why)
            self.unread.add(session)

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        for table in tables:
            with self.reading(table):
                yield from self._rows(table)
        with self.reading("event"):
            yield from (record for record in self._events() if record.table in tables)

    def _rows(self, table: str, condition: str = "", *bound: str) -> Iterator[OpenCodeRecord]:
        if table not in self.columns:
            return
        cursor = self.connection.cursor()
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
        if "event" not in self.columns:
            return
        gone = "".join(
            f" AND NOT EXISTS (SELECT 1 FROM {table} WHERE id = name)"  # noqa: S608 - constants
            for table in _LARGE
            if table in self.columns
        )
        asked = f"SELECT type, name, data FROM ({_NAMED_EVENTS} AND {condition}) WHERE true{gone} ORDER BY aggregate_id, seq"  # noqa: S608 - constants
        last: dict[tuple[str, str], str] = {}
        for kind, name, data in self.connection.execute(asked, bound):
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
