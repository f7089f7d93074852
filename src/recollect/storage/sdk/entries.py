"""Entries of the Claude Agent SDK as lines, and lines as entries.

An entry is stored as one line that reads back deep-equal, or it is refused before anything is written.
Reading returns what was stored; a line that is not an entry is ``Damage``, never an exception. An entry is
identified by its ``uuid``, if it has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recollect.errors import UsageError
from recollect.model.damage import DEFAULT_LIMITS, Damage, DamageCode, Line
from recollect.model.line_views.links import line_key


def line_of(entry: Mapping[str, Any]) -> bytes:
    """An entry as one line that reads back equal; anything else is refused."""
    try:
        text = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        try:
            line = text.encode()
        except UnicodeEncodeError:  # half a surrogate pair: legal in JSON, but only as an escape
            line = json.dumps(entry, allow_nan=False, separators=(",", ":")).encode()
        same = isinstance(entry, dict) and json.loads(line) == entry
    except (TypeError, ValueError, RecursionError) as problem:
        raise _refused(str(problem)) from None
    if not same:
        raise _refused("it would not read back equal")
    if len(line) > DEFAULT_LIMITS.line_bytes:
        raise _refused(f"{len(line)} bytes; the limit is {DEFAULT_LIMITS.line_bytes}")
    return line


def _refused(reason: str) -> UsageError:
    return UsageError(
        f"entry: {reason}; nothing was stored", hint="use mappings, lists, text and finite numbers"
    )


def uuid_of(entry: Mapping[str, Any]) -> str | None:
    """The id that identifies a repeat; None for an entry without one."""
    name = entry.get("uuid")
    return name if isinstance(name, str) and name else None


def is_first(entry: Mapping[str, Any], seen: set[str]) -> bool:
    """Whether its id is new; adds it to ``seen``."""
    name = uuid_of(entry)
    if name is None:
        return True
    if name in seen:
        return False
    seen.add(name)
    return True


def entry_of(item: Line | Damage) -> dict[str, Any] | Damage | None:
    """A line as the SDK gave it; None for a blank one."""
    if isinstance(item, Damage):
        return item
    if not item.data.strip():
        return None
    try:
        entry = json.loads(item.data)
    except (ValueError, RecursionError) as problem:
        return Damage(DamageCode.INVALID_JSON, item.offset, len(item.data) + 1, str(problem), item.data)
    if isinstance(entry, dict):
        return entry
    return Damage(DamageCode.NOT_AN_OBJECT, item.offset, len(item.data) + 1, "not an object", item.data)


def stored_uuid(item: Line | Damage) -> str | None:
    """The id of a line in the log, read without the rest of the line."""
    if isinstance(item, Damage) or b'"uuid"' not in item.data:
        return None
    seen = line_key.sound(item.data)
    if seen is not None:
        return seen.uuid or None
    entry = entry_of(item)  # for lines that the view refuses, such as half a surrogate pair
    return uuid_of(entry) if isinstance(entry, dict) else None
