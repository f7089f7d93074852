"""What every session used and cost, for a list of ten thousand: `cost --by session,model` without its report.

The sums are those of the report, from the same table and at the same prices, but nothing else is made of them.
Where a sum holds tokens of a kind that has no price, or where there is no index, the report itself is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from pathlib import Path
from typing import cast

from msgspec import Struct

from recollect.index import cost_queries
from recollect.index.cost_queries import UsageRowFilter
from recollect.index.database import IndexDatabase
from recollect.model.cost.calendar import UNKNOWN, Timeline
from recollect.model.cost.money import NO_MODEL, usd
from recollect.model.cost.prices import Price, PriceList
from recollect.model.cost.usage import Tokens
from recollect.services.indexing.access import OpenIndex
from recollect.storage.config.our_config import price_list

_SESSIONS = "SELECT id, session FROM files"
# Up to so many sessions are asked for by their logs; more are summed with all others.
_FEW = 500


class SessionSum(Struct):
    """What a session and its agents used. ``spent`` is pico-dollars by model, None for one without a price.

    ``is_unknown``: a client of another agent wrote down no usage at all, so nothing here says what it cost.
    """

    responses: int
    tokens: Tokens
    spent: dict[str, int | None]
    is_unknown: bool = False

    @property
    def pico_usd(self) -> int:
        """What it cost, as far as there are prices."""
        return sum(filter(None, self.spent.values()))

    @property
    def usd(self) -> Decimal:
        """The same in dollars, exact."""
        return usd(self.pico_usd)

    @property
    def unpriced(self) -> list[str]:
        """Models without a price."""
        return sorted(model for model, amount in self.spent.items() if amount is None)


NOTHING_USED = SessionSum(0, Tokens(), {})


def session_sums(
    opened: OpenIndex, homes: Sequence[Path], only: Collection[str] | None = None
) -> dict[str, SessionSum]:
    """By session id, over its log and its agents'; ``only`` names those that are needed, others may be left out.

    One that is left out though it was asked for used nothing (``NOTHING_USED``).
    """
    if only is not None and len(only) > _FEW:
        only = None
    found = None if opened.database is None else _summed(opened.database, price_list(), only)
    return _reported(opened, homes) if found is None else found


def _summed(
    database: IndexDatabase, prices: PriceList, only: Collection[str] | None
) -> dict[str, SessionSum] | None:
    """None where a price has a gap."""
    names = cost_queries.names(database)
    chosen = "" if only is None else f" WHERE session IN ({','.join('?' * len(only))})"
    sessions = dict(cast("list[tuple[int, str | None]]", database.rows(_SESSIONS + chosen, *only or ())))
    models = [names[number] for number in cost_queries.models(database) if number in names]
    spans = Timeline((), lambda _: 0, changes=prices.changes(models)).spans()
    selected = UsageRowFilter(frozenset(["file"]), None if only is None else sessions.keys())
    found: dict[str, SessionSum] = {}
    priced: dict[tuple[int, int, int], tuple[str, Price | None]] = {}
    for row in cost_queries.rolled(database, spans, selected):
        quarter, file, number, _, _, variant, messages, *counts = row
        if not messages:
            continue
        kind = quarter, number, variant
        if kind not in priced:
            model = names.get(number)
            priced[kind] = model or NO_MODEL, prices.find(model or "", max(quarter, 0), variant)
        name, price = priced[kind]
        pico = None if price is None else price.cost(*counts)
        if price is not None and pico is None:
            return None
        session = sessions.get(file) or UNKNOWN
        known = found.get(session)
        if known is None:
            found[session] = SessionSum(messages, Tokens(*counts), {name: pico})
            continue
        known.responses += messages
        known.tokens += Tokens(*counts)
        before = known.spent.get(name, 0)
        known.spent[name] = None if pico is None or before is None else before + pico
    unused = [file for file, session in sessions.items() if session not in found]
    return found | (_unknown(database, unused) if unused else {})


def _unknown(database: IndexDatabase, unused: Collection[int]) -> dict[str, SessionSum]:
    """Sessions whose client recorded no usage; only few sessions of a list have to be looked at."""
    from recollect.services.foreign.unrecorded import unrecorded

    found = unrecorded(cost_queries.unused_logs(database, unused))
    return {log.session: SessionSum(0, Tokens(), {}, is_unknown=True) for log in found}


def _reported(opened: OpenIndex, homes: Sequence[Path]) -> dict[str, SessionSum]:
    # Not ``costs``: without an index that reads every log once more, for its title.
    from recollect.services.cost.report import CostReportBuilder, offset_of, usage_source

    found: dict[str, SessionSum] = {}
    by = ("session", "model")
    source = usage_source(homes, by, opened=opened)
    builder = CostReportBuilder(source, homes, by, None, None, database=opened.database)
    made = builder.made(offset_of("UTC"), price_list(), "calculate", 0, explain=False, performance=False)
    for row in made.rows:
        one = found.setdefault(row.keys["session"], SessionSum(0, Tokens(), {}))
        one.responses += row.responses
        one.tokens += row.tokens
        one.spent[row.keys["model"]] = None if row.unpriced_responses else row.pico_usd
    return found | {name: SessionSum(0, Tokens(), {}, is_unknown=True) for name in made.unrecorded}
