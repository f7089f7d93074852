"""Short ``repr`` texts for debuggers and logs, without transcript text.

Names, ids, times and numbers are shown; texts, bytes and lists by their size. Log content is cut and escaped,
so that printing it neither floods nor controls a terminal (law 8).
"""

from __future__ import annotations

import enum

from msgspec import Raw, Struct, UnsetType

_LONGEST = 60
_MOST_FIELDS = 8
# Texts that name things, beside ids and amounts. All others may hold transcript text.
_NAMES = frozenset(
    (
        "agent",
        "at",
        "by_agent",
        "code",
        "hash",
        "id",
        "kind",
        "mode",
        "model",
        "name",
        "path",
        "role",
        "session",
        "stop_reason",
        "timestamp",
        "title",
        "type",
        "type_name",
        "uuid",
    )
)


def brief_repr(one: Struct) -> str:
    """The first informative fields of a struct."""
    shown = []
    for field in one.__struct_fields__:
        value = getattr(one, field)
        if value is None or isinstance(value, UnsetType) or value in ("", b"", (), [], False):
            continue
        shown.append(f"{field}={_brief(field, value)}")
    more = ", ..." if len(shown) > _MOST_FIELDS else ""
    return f"{type(one).__name__}({', '.join(shown[:_MOST_FIELDS])}{more})"


def _brief(field: str, value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, bool | int | float) or hasattr(value, "isoformat"):
        return str(value)
    if isinstance(value, str) and (field in _NAMES or field.endswith(("_id", "_uuid", "_usd"))):
        return ascii(value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "...")
    if isinstance(value, str):
        return f"<{len(value):,} characters>"
    if isinstance(value, bytes | Raw):
        return f"<{len(bytes(value)):,} bytes>"
    if isinstance(value, tuple | list | dict | set | frozenset):
        return f"<{len(value):,}>"
    return f"<{type(value).__name__}>"
