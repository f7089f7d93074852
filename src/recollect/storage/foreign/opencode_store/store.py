"""The stores of OpenCode, read without touching them: JSON files up to 1.1, a database from 1.2 on.

A store lists its records first, without their contents: each with its session and a mark that differs where it may
have changed. Only the sessions in which one did are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct

from recollect.storage.foreign.growth import Unit
from recollect.storage.foreign.loose import ANY, NUMBER, Fields, Shape, ShapedRecords
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
            "metadata": {"sessionId": str, **dict.fromkeys(("filediff", "diff", "exists"), ANY)},
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


class ListedRecord(Struct, frozen=True, array_like=True, gc=False):
    """A record without its content: whose it is, a mark that differs where it may have changed, about how large it is."""

    session: str
    mark: str
    size: int = 0


class OpenCodeRecords(NamedTuple):
    """Records of some sessions."""

    messages: dict[str, OpenCodeRecord]
    parts: dict[str, OpenCodeRecord]
    others: list[OpenCodeRecord]

    def put(self, record: OpenCodeRecord) -> None:
        """Add one."""
        if record.table == "message":
            self.messages[record.id] = record
        elif record.table == "part":
            self.parts[record.id] = record
        else:
            self.others.append(record)


class OpenCodeStore(Protocol):
    """A store while it is read."""

    problems: list[StoreProblem]
    is_whole: bool  # whether what is not listed is not there

    def listed(self, known: Mapping[str, ListedRecord]) -> dict[str, ListedRecord]:
        """Every record, by its source. ``known`` is what the last pass listed."""

    def sessions(self) -> dict[str, OpenCodeRecord]:
        """All sessions, by id."""

    def of(self, sessions: Collection[str]) -> OpenCodeRecords:
        """The other records of some sessions; those that only the event log still has included."""

    def every(self, *tables: str) -> Iterator[OpenCodeRecord]:
        """All records of some tables, one at a time."""

    def check(self) -> None:
        """Raise ``StorageError`` where the store has changed since it was opened."""


def units(home: Path, problems: ReadProblems | None = None) -> list[Unit]:
    """The files as one unit, then every database with its write-ahead log."""
    from recollect.storage.foreign.opencode_store import database, files

    stamp = files.stamp(home)
    of_files = [] if stamp is None else [Unit(FILES, stamp, home, FILES)]
    return [*of_files, *database.units(home)]


def opened(unit: Unit, home: Path) -> AbstractContextManager[OpenCodeStore]:
    """The store of a unit, for reading."""
    from recollect.storage.foreign.opencode_store import database, files

    return files.opened(home) if unit.key == FILES else database.opened(unit.path)
