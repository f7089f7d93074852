"""What every session used and cost, for a list of ten thousand: `cost --by session,model` without its report.

The sums are those of the report, from the same table and at the same prices, but nothing else is made of them.
Where a sum holds tokens of a kind that has no price, or where there is no index, the report itself is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import cast

from msgspec import Struct

from recollect.index import cost_queries
from recollect.index.cost_queries import UsageRowFilter
from recollect.index.database import IndexDatabase
from recollect.model.cost.calendar import UNKNOWN, Timeline
from recollect.model.cost.money import NO_MODEL, usd
from recollect.model.cost.prices import PriceList
from recollect.model.cost.usage import Tokens
from recollect.services.indexing.access import OpenIndex
from recollect.storage.config.our_config import price_list

_SESSIONS = "SELECT id, session FROM files"
_COUNTS = 6


class SessionSum(Struct):
    """What a session and its agents used. ``spent`` is pico-dollars by model, None for one without a price."""

    responses: int
    tokens: Tokens
    spent: dict[str, int | None]

    @property
    def pico_usd(self) -> int:
        """What it cost, as far as there are prices."""
        return sum(amount or 0 for amount in self.spent.values())

    @property
    def usd(self) -> Decimal:
        """The same in dollars, exact."""
        return usd(self.pico_usd)

    @property
    def unpriced(self) -> list[str]:
        """Models without a price."""
        return sorted(model for model, amount in self.spent.items() if amount is None)


NOTHING_USED = SessionSum(0, Tokens(), {})


def session_sums(opened: OpenIndex, homes: Sequence[Path]) -> dict[str, SessionSum]:
    """By session id, over its log and its agents'."""
    found = None if opened.database is None else _summed(opened.database, price_list())
    return _reported(opened, homes) if found is None else found


def _summed(database: IndexDatabase, prices: PriceList) -> dict[str, SessionSum] | None:
    """None where a price has a gap."""
    names = cost_queries.names(database)
    sessions = dict(cast("list[tuple[int, str | None]]", database.rows(_SESSIONS)))
    models = [names[number] for number in cost_queries.models(database) if number in names]
    spans = Timeline((), lambda _: 0, changes=prices.changes(models)).spans()
    counted: dict[str, list[int]] = {}
    spent: dict[str, dict[str, int | None]] = {}
    for row in cost_queries.rolled(database, spans, UsageRowFilter(frozenset(["file"]))):
        quarter, file, number, _, _, variant, messages, *counts = row
        if not messages:
            continue
        model = names.get(number)
        price = prices.find(model or "", max(quarter, 0), variant)
        pico = None if price is None else price.cost(*counts)
        if price is not None and pico is None:
            return None
        session = sessions.get(file) or UNKNOWN
        amounts = spent.setdefault(session, {})
        before = amounts.get(model or NO_MODEL, 0)
        amounts[model or NO_MODEL] = None if pico is None or before is None else before + pico
        _add(counted.setdefault(session, [0] * (1 + _COUNTS)), (messages, *counts))
    return {name: SessionSum(sums[0], Tokens(*sums[1:]), spent[name]) for name, sums in counted.items()}


def _add(sums: list[int], more: Iterable[int]) -> None:
    for place, amount in enumerate(more):
        sums[place] += amount


def _reported(opened: OpenIndex, homes: Sequence[Path]) -> dict[str, SessionSum]:
    from recollect.services.cost.report import costs

    found: dict[str, SessionSum] = {}
    for row in costs(homes, ["session", "model"], opened=opened).rows:
        one = found.setdefault(row.keys["session"], SessionSum(0, Tokens(), {}))
        one.responses += row.responses
        one.tokens += row.tokens
        one.spent[row.keys["model"]] = None if row.unpriced_responses else row.pico_usd
    return found
