"""Lines as bytes, and what a reader says about bytes that are not an entry.

Damage is a value, not an exception: one bad line must never hide the next one
(promise P3). Codes are stable; scripts rely on them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from recollect.model.brief_repr import brief_repr

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class Limits(msgspec.Struct, frozen=True):
    """Limits that are enforced before a parser runs (rule L3)."""

    line_bytes: int = 64 * 1024 * 1024
    depth: int = 64


DEFAULT_LIMITS = Limits()


# A mirror keeps a line of another client's file that is no record under such a type, after the agent's name. The bytes are
# damaged there; our line around them is sound. One with the field ``TOO_LONG`` stands behind a sound record that is too long for a line.
UNREADABLE = ":unreadable"
FOREIGN_SOURCE = "foreign-source"  # the line before the records of a file
TOO_LONG = "tooLong"
RECORD_DAMAGE = "unreadable-record"
RECORD_TOO_LONG = "oversize-record"


class DamageCode(enum.StrEnum):
    """Why bytes could not be turned into an entry."""

    INVALID_JSON = "invalid-json"
    GLUED = "glued-objects"
    NUL_RUN = "nul-run"
    NOT_AN_OBJECT = "not-an-object"
    INVALID_UTF8 = "invalid-utf8"
    OVERSIZE = "oversize-line"
    TOO_DEEP = "too-deep"


class Notice(enum.StrEnum):
    """What was unusual about a line that could still be read."""

    BOM = "byte-order-mark"
    CRLF = "crlf"
    LONE_SURROGATE = "lone-surrogate"
    FIELD_SHAPE = "field-shape"


class Line(msgspec.Struct, frozen=True, gc=False):
    """One line of a log; ``line_split`` decides what is one. ``offset`` is where it starts in its log.

    ``data`` is without its newline. ``ended`` is False where there is none: after a whole value at the end of
    the log.
    """

    data: bytes
    offset: int = 0
    ended: bool = True

    @property
    def length(self) -> int:
        """The bytes of the line, newline included if there is one."""
        return len(self.data) + self.ended

    @property
    def text_lines(self) -> int:
        """How many lines it is to an editor: a value may go over several."""
        return 1 + self.data.count(b"\n") if b"\n" in self.data else 1  # searching is faster than counting

    @property
    def end(self) -> int:
        """Where to read on: the start of the next line, or the end of what was read of this one."""
        return self.offset + len(self.data) + self.ended

    __repr__ = brief_repr


class Damage(msgspec.Struct, frozen=True):
    """Bytes a reader could not turn into an entry.

    ``length`` counts the newline, as an entry's does. ``data`` holds the bytes, except for an oversize line,
    which is never held in memory as a whole. ``readable`` is what the client reads of the line, if anything:
    the object it begins with, or the whole line with replacement characters.
    """

    code: DamageCode
    offset: int
    length: int
    detail: str
    data: bytes = b""
    readable: Entry | None = None

    @property
    def text_lines(self) -> int:
        """How many lines it is to an editor."""
        return 1 + self.data.count(b"\n")

    @property
    def ended(self) -> bool:
        """Whether its newline is there."""
        return not self.data or self.length > len(self.data)

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + self.length

    __repr__ = brief_repr


def readable(item: Entry | Damage | None) -> Entry | None:
    """The entry, or what the client reads of a damaged line."""
    return item.readable if isinstance(item, Damage) else item


def readable_entries(items: Iterable[Entry | Damage]) -> Iterator[Entry]:
    """The entries among some items, and what the client reads of damaged lines."""
    return (entry for item in items if (entry := readable(item)) is not None)


class PendingTail(msgspec.Struct, frozen=True):
    """The end of a log that is no whole line yet. It may be a write in progress, so it is not damage (S3)."""

    offset: int
    length: int
