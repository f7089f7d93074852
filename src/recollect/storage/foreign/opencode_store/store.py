"""The stores of OpenCode, read without touching them: JSON files up to 1.1, a database from 1.2 on.

A store lists its sessions first, without the contents of their records: each with a mark that differs where one of its
records may have changed, is new or is gone. Only those sessions are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct

from recollect.errors import StorageError
from recollect.storage.foreign.growth import Unit, holds_none
from recollect.storage.foreign.loose import ANY, NUMBER, Fields, Shape, ShapedRecords
from recollect.storage.foreign.opencode_store.growing import GrowingEnd, GrowingSession
from recollect.system.peek import ReadProblems

# A link to a shared session opens it for anyone.
LEFT_OUT = frozenset(["share_url", "share", "secret"])
FILES = "files"
_TOKENS: Shape = {
    **dict.fromkeys(("input", "output", "reasoning", "total"), NUMBER),
    "cache": {"read": NUMBER, "write": NUMBER},
}
_IDS: dict[str, Shape] = dict.fromkeys(
    ("id", "sessionID", "messageID", "parentID", "session_id", "message_id", "parent_id"), str
)
_SHAPES: dict[str, dict[str, Shape]] = {
    "session": {
        **_IDS,
        **dict.fromkeys(("directory", "title", "version"), str),
        "time": {"created": NUMBER},
        "time_created": NUMBER,
        "revert": (str, {"messageID": str, "partID": str}),
    },
    "message": {
        **_IDS,
        **dict.fromkeys(("role", "modelID", "providerID", "finish"), str),
        "time": {"created": NUMBER, "completed": NUMBER},
        "time_created": NUMBER,
        "path": {"cwd": str},
        "summary": (bool, {}),
        "error": {"name": str, "data": {"message": str}},
        "tokens": _TOKENS,
        "cost": NUMBER,
    },
    "part": {
        **_IDS,
        **dict.fromkeys(("type", "text", "callID", "tool", "mime", "url", "filename", "tail_start_id"), str),
        **dict.fromkeys(("synthetic", "ignored"), bool),
        "tokens": _TOKENS,
        "cost": NUMBER,
        "state": {
            **dict.fromkeys(("status", "output", "error"), str),
            "input": {},
            "metadata": {"sessionId": str, **dict.fromkeys(("filediff", "diff", "exists", "summary"), ANY)},
            "time": {"end": NUMBER},
        },
    },
}
SHAPED = {table: ShapedRecords(shape) for table, shape in _SHAPES.items()}


class OpenCodeRecord(Struct, frozen=True):
    """One record as it is stored: its table, id, fields, where it stands and its bytes."""

    table: str
    id: str
    fields: Fields
    source: str
    original: bytes
    is_removed: bool = False  # only the event log still has it
    odd: tuple[str, ...] = ()  # the fields that are not as expected


class StoreProblem(NamedTuple):
    """What a store holds and could not be read, or is not known."""

    path: str
    reason: str
    is_retried: bool = False
    is_unknown: bool = False


class SessionMark(Struct, frozen=True, array_like=True, gc=False):
    """What differs where a record of a session may have changed, is new or is gone.

    ``tables`` has a text for the records of each table. ``events`` tells the last event. ``size`` is about that of
    all records. ``young`` is when it was listed, if a record was so new that its client may write it again within the same
    millisecond: so it differs once more.
    """

    tables: dict[str, str]
    events: str | None = None
    size: int = 0
    young: int = 0

    def differs(self, known: SessionMark | None, *, is_whole: bool) -> bool:
        """From what was ``known`` of the session. Unless the list ``is_whole``, what is not in it may still be there."""
        if known is None or (known.events, known.young) != (self.events, self.young):
            return True
        if is_whole:
            return known.tables != self.tables
        return any(known.tables.get(table) != mark for table, mark in self.tables.items())

    def after(self, known: SessionMark | None) -> SessionMark:
        """With what was known of tables that could not be listed."""
        tables = self.tables if known is None else {**known.tables, **self.tables}
        return SessionMark(tables, self.events, self.size, self.young)


class StoreChangedError(Exception):
    """A store was written to while it was read: what was read may not fit together."""


class OpenCodeRecords(NamedTuple):
    """Records of some sessions; not all of those that are ``unread``."""

    messages: dict[str, OpenCodeRecord]
    parts: dict[str, OpenCodeRecord]
    others: list[OpenCodeRecord]
    unread: set[str]

    def put(self, record: OpenCodeRecord) -> None:
        """Add one."""
        if record.table == "message":
            self.messages[record.id] = record
        elif record.table == "part":
            self.parts[record.id] = record
        else:
            self.others.append(record)


def checksum(texts: Iterable[str]) -> str:
    """The same for the same texts in any order."""
    return blake2b("\n".join(sorted(texts)).encode("utf-8", "surrogateescape"), digest_size=15).hexdigest()


class OpenCodeStore(Protocol):
    """A store while it is read."""

    problems: list[StoreProblem]
    is_whole: bool  # whether what is not listed is not there

    def listed(self, known: Mapping[str, SessionMark]) -> dict[str, SessionMark]:
        """Every session of which there is a record, "" for those that name none. ``known`` is what the last pass listed, as far as
        the store's own word is taken for what did not change since.
        """

    def nameless(self) -> list[str]:
        """The sources of messages and parts that name no session."""

    def may_have(self, session: str) -> bool:
        """Whether a session is there, or would not be seen if it were. Nothing has to be listed for it."""

    def sessions(self) -> dict[str, OpenCodeRecord]:
        """All sessions, by id."""

    def of(self, sessions: Collection[str]) -> OpenCodeRecords:
        """The other records of some sessions; those that only the event log still has included."""

    def before(self, session: str, end: GrowingEnd) -> str | None:
        """What differs where a row of a session changed that is not at its end; None where a row may change unnoticed."""

    def at_end(self, session: str, known: GrowingSession) -> OpenCodeRecords | None:
        """The records of the last messages, where the others are as they were known; None where they are not, or where that cannot
        be told.
        """

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        """All records of some tables, one at a time."""

    def check(self) -> None:
        """Raise ``StoreChangedError`` where the store has changed since it was opened."""


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The files as one unit, then every database with its write-ahead log."""
    from recollect.storage.foreign.opencode_store import database, files

    stamp, databases = files.stamp(home), database.units(home)
    of_files = [] if stamp is None else [Unit(FILES, stamp, home, FILES)]
    # A client that has a database does not look at files: they were copied when it was made, and stayed.
    read = databases or of_files
    return [
        unit._replace(holds=partial(_may_hold, unit, home) if unit in read else holds_none)
        for unit in (*of_files, *databases)
    ]


def _may_hold(unit: Unit, home: Path, session: str) -> bool:
    """Whether a store has a session; also where it cannot be read now: another message says so."""
    try:
        with opened(unit, home) as store:
            is_there = store.may_have(session)
            store.check()
            return is_there
    except (StorageError, StoreChangedError):
        return True


def opened(unit: Unit, home: Path) -> AbstractContextManager[OpenCodeStore]:
    """The store of a unit, for reading."""
    from recollect.storage.foreign.opencode_store import database, files

    return files.opened(home) if unit.key == FILES else database.opened(unit.path)
