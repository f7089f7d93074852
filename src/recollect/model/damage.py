"""Lines as bytes, and what a reader says about bytes that are not an entry.

Damage is a value, not an exception: one bad line must never hide the next one
(promise P3). Codes are stable; scripts rely on them.
"""

from __future__ import annotations

import enum
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
    """Bytes up to a newline. ``data`` has no newline; ``offset`` is where it starts in its log."""

    data: bytes
    offset: int = 0

    @property
    def end(self) -> int:
        """Where the next line starts."""
        return self.offset + len(self.data) + 1

    __repr__ = brief_repr


class Damage(msgspec.Struct, frozen=True):
    """Bytes a reader could not turn into an entry.

    ``length`` counts the newline, as an entry's does. ``data`` holds the bytes, except for an oversize line,
    which is never held in memory as a whole. ``readable`` is what could be recovered of the line, if
    anything.
    """

    code: DamageCode
    offset: int
    length: int
    detail: str
    data: bytes = b""
    readable: Entry | None = None

    @property
    def end(self) -> int:
        """Where the next line starts."""
        return self.offset + self.length

    __repr__ = brief_repr


class PendingTail(msgspec.Struct, frozen=True):
    """An unterminated tail. It may be a write in progress, so it is not damage (S3)."""

    offset: int
    length: int
