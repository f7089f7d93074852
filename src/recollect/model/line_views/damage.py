"""Whether a line is damaged, as the codec says it, without building the entries of sound lines."""

from __future__ import annotations

import re

from recollect.model.damage import (
    DEFAULT_LIMITS,
    RECORD_DAMAGE,
    RECORD_TOO_LONG,
    TOO_LONG,
    UNREADABLE,
    Damage,
    Line,
)
from recollect.model.json.text import deeper_than
from recollect.model.line_views.links import line_links

# A line of a mirror for a line of another client's file that is no record (storage/foreign/lines.py writes the type first).
_UNREADABLE_RECORD = re.compile(rb'\{"type":"[a-z]+' + UNREADABLE.encode() + b'"')
# In the bytes of a record, which stand there as text, each quotation mark has a backslash before it.
_IS_TOO_LONG = b'"%b":' % TOO_LONG.encode()


def damage_code(line: Line | Damage) -> str | None:
    """Why a line counts as damaged, for overview, list and page; `check` says more about each."""
    return code_of(line if isinstance(line, Damage) else damage_of(line), line.data)


def code_of(damage: Damage | None, data: bytes) -> str | None:
    """The code that a line is counted by, from what ``damage_of`` says of it."""
    if damage is not None:
        return damage.code.value
    if not _UNREADABLE_RECORD.match(data):
        return None
    return RECORD_TOO_LONG if _IS_TOO_LONG in data else RECORD_DAMAGE


def damage_of(line: Line) -> Damage | None:
    """What is wrong with a line."""
    data = line.data
    if (
        not deeper_than(data, DEFAULT_LIMITS.depth)
        and _is_utf8(data)
        and line_links.narrowly(data) is not None
    ):
        return None
    # Imported where a line is odd: the codec's decoders take longer to make than many lines to read.
    from recollect.model.codec import decode

    item = decode(line)
    return item if isinstance(item, Damage) else None


def _is_utf8(data: bytes) -> bool:
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False
