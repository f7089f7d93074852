"""What every session cost, by model, for a list of ten thousand: `cost --by session,model` without its report.

The sums are those of the report, from the same table and at the same prices, but nothing else is made of them.
Where a sum holds tokens of a kind that has no price, the report itself is asked: it takes such sums apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from recollect.index import cost_queries
from recollect.index.cost_queries import UsageRowFilter
from recollect.index.database import IndexDatabase
from recollect.model.cost.calendar import UNKNOWN, Timeline
from recollect.model.cost.money import NO_MODEL
from recollect.model.cost.prices import PriceList
from recollect.services.cost.report import costs
from recollect.services.indexing.access import OpenIndex
from recollect.storage.config.our_config import price_list

Spent = dict[str, dict[str, int | None]]  # session, model, pico-dollars; None without a price

_SESSIONS = "SELECT id, session FROM files"


def spent_by_session(opened: OpenIndex, homes: Sequence[Path]) -> Spent:
    """By session and model, over its log and its agents'. Needs a database."""
    database = opened.database
    assert database is not None  # noqa: S101 - for the type checker: whoever calls has looked
    found = _summed(database, price_list())
    return _reported(opened, homes) if found is None else found


def _summed(database: IndexDatabase, prices: PriceList) -> Spent | None:
    """None where a price has a gap."""
    names = cost_queries.names(database)
    sessions = dict(cast("list[tuple[int, str | None]]", database.rows(_SESSIONS)))
    spans = Timeline((), lambda _: 0, changes=prices.changes()).spans()
    found: Spent = {}
    for row in cost_queries.rolled(database, spans, UsageRowFilter(frozenset(["file"]))):
        quarter, file, number, _, _, variant, messages, *counts = row
        if not messages:
            continue
        model = names.get(number)
        price = prices.find(model or "", max(quarter, 0), variant)
        pico = None if price is None else price.cost(*counts)
        if price is not None and pico is None:
            return None
        amounts = found.setdefault(sessions.get(file) or UNKNOWN, {})
        name = model or NO_MODEL
        before = amounts.get(name, 0)
        amounts[name] = None if pico is None or before is None else before + pico
    return found


def _reported(opened: OpenIndex, homes: Sequence[Path]) -> Spent:
    found: Spent = {}
    for row in costs(homes, ["session", "model"], opened=opened).rows:
        amounts = found.setdefault(row.keys["session"], {})
        amounts[row.keys["model"]] = None if row.unpriced_messages else row.pico_usd
    return found
