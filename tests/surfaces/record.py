"""What is compared of a session, and how a difference is told.

A surface gives one flat record for each session, with the fields it shows. The record of the library has all of
them; every other record must say the same in the fields it has.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
    "web_searches",
)
USAGE = ("responses", *TOKENS, "cost_usd", "is_unpriced")
# A client that wrote down no usage: the cost is unknown, not 0. Costs by session have no row for it.
UNRECORDED = "is_unrecorded"
FIELDS = (
    "title",
    "cwd",
    "first_at",
    "last_at",
    "messages",
    "lines",
    "agents",
    "tag",
    "damaged",
    *USAGE,
    UNRECORDED,
)

Record = dict[str, object]
Records = dict[str, Record]


class Surface(NamedTuple):
    """One way to ask. ``shown`` is what becomes of a fact on the way: text is cut, money is rounded."""

    name: str
    fields: tuple[str, ...]
    records: Records
    shown: Mapping[str, Callable[[Record], object]] = {}
    names: Sequence[str] | None = None  # the sessions it must have; None for all


def differences(library: Records, surface: Surface) -> Iterator[str]:
    """Every fact that a surface tells otherwise than the library."""
    wanted_names = library if surface.names is None else surface.names
    for name in sorted(set(wanted_names) - set(surface.records)):
        yield f"{surface.name}: session {name} is missing"
    for name, record in surface.records.items():
        if name not in library:
            yield f"{surface.name}: session {name} is not in the library"
            continue
        for field in surface.fields:
            as_shown = surface.shown.get(field)
            wanted = library[name][field] if as_shown is None else as_shown(library[name])
            if field not in record:
                yield f"{surface.name}: session {name}: {field} is not said"
            elif record[field] != wanted:
                yield f"{surface.name}: session {name}: {field}: {record[field]!r}, library: {wanted!r}"


def moment(value: object) -> dt.datetime | None:
    """A time as documents have it: ISO 8601, or milliseconds since 1970."""
    if value is None or isinstance(value, dt.datetime):
        return value
    if isinstance(value, int):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=value)
    return dt.datetime.fromisoformat(str(value))


def dollars(value: object) -> Decimal | None:
    """Money as documents have it: a decimal number."""
    return None if value is None else Decimal(str(value))


def known_cost(one: Record) -> object:
    """For documents that say no cost where a part of it has no price."""
    return None if one["is_unpriced"] or one[UNRECORDED] else one["cost_usd"]


def priced_cost(one: Record) -> object:
    """For cost reports, which say a lower bound where a part has a price, and none where nothing has."""
    return None if one["is_unpriced"] and not one["cost_usd"] else one["cost_usd"]


def is_unrecorded(row: Mapping[str, object]) -> bool:
    """Whether a document says that no usage was recorded: no cost, though no model lacks a price."""
    return row["cost_usd"] is None and not row.get("unpriced") and row.get("responses") == 0


def nothing_used() -> Record:
    """The usage of a session that no response belongs to."""
    return {"responses": 0, **dict.fromkeys(TOKENS, 0), "cost_usd": Decimal(0), "is_unpriced": False}
