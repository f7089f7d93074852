"""Which sessions of a database have other rows than before, found without reading what the rows say.

Time and size of a row differ where it was written again. SQLite adds them up for each session: of a gigabyte of rows some
hundred lines are returned, and its index by session saves sorting.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from recollect.storage.foreign.lines import encode
from recollect.storage.foreign.opencode_store.growing import GrowingEnd

if TYPE_CHECKING:
    import apsw

# The columns that a table is listed by.
LISTED_BY = frozenset(["id", "session_id", "time_updated", "data"])
# How new a row may be for its time to tell nothing yet: its client may be about to write it again.
_YOUNG_MS = 2000
# A product and a remainder, so that what one row gains in time or size and another loses does not even out.
_SUMS = (
    "SELECT session_id, count(*), coalesce(sum(octet_length(data)), 0),"
    " coalesce(sum((time_updated * 1000003 + coalesce(octet_length(data), 0)) % 2147483647), 0),"
    " max(time_updated), sum(typeof(time_updated) <> 'integer')"
)


class TableRows(NamedTuple):
    """The rows of one session in one table: what differs where one changed, how many they are, and how large.

    ``is_young``: one is so new, or its time so odd, that an equal mark does not tell yet that it is the same.
    """

    mark: str
    rows: int
    size: int
    is_young: bool = False

    @classmethod
    def of_mark(cls, mark: str) -> TableRows:
        """What a mark of ``rows_of_sessions`` says."""
        rows, size, _ = mark.split(":")
        return cls(mark, int(rows), int(size))


_NONE = TableRows("", 0, 0)


def rows_of_sessions(
    connection: apsw.Connection, table: str, sessions: Collection[str] | None = None
) -> dict[str, TableRows]:
    """The rows of these sessions, or of all; "" has those that name none."""
    only = "" if sessions is None else " WHERE session_id IN (SELECT value FROM json_each(?))"
    given = () if sessions is None else (encode([*sessions]).decode(),)
    found: dict[str, TableRows] = {}
    young = time.time_ns() // 1_000_000 - _YOUNG_MS
    asked = f"{_SUMS} FROM {table}{only} GROUP BY session_id"
    for session, rows, size, check, latest, odd in connection.execute(asked, given):
        name = session if isinstance(session, str) else ""
        before = found.get(name, _NONE)  # there are several ways of naming none
        is_young = bool(odd) or latest >= young
        found[name] = TableRows(
            f"{rows}:{size}:{check}", rows + before.rows, size + before.size, before.is_young or is_young
        )
    return found


def rows_before(connection: apsw.Connection, table: str, session: str, end: GrowingEnd) -> TableRows:
    """The rows of a session but those of its last messages."""
    asked = f"{_SUMS} FROM {table} WHERE session_id = ? AND NOT {_at_end(table)}"
    ((_, rows, size, check, latest, odd),) = connection.execute(asked, (session, *_named(end)))
    young = time.time_ns() // 1_000_000 - _YOUNG_MS
    is_young = bool(odd) or (latest is not None and latest >= young)
    return TableRows(f"{rows}:{size}:{check}", rows, size, is_young)


def rows_at_end(table: str, session: str, end: GrowingEnd) -> tuple[str, tuple[str, ...]]:
    """The condition for the other rows, with its values."""
    return f"session_id = ? AND {_at_end(table)}", (session, *_named(end))


def _at_end(table: str) -> str:
    """Where no message is named, it is not the end."""
    message = "id" if table == "message" else "message_id"
    return f"coalesce({message} > ? OR {message} IN (SELECT value FROM json_each(?)), 0)"  # noqa: S608 - a constant


def _named(end: GrowingEnd) -> tuple[str, str]:
    return end.last, encode(end.messages).decode()


def nameless_rows(connection: apsw.Connection, table: str) -> list[str]:
    """The sources of rows that name no session."""
    asked = f"SELECT id, rowid FROM {table} WHERE typeof(session_id) <> 'text' OR session_id = ''"  # noqa: S608 - a constant
    return [f"{table}/{name or row}" for name, row in connection.execute(asked)]
