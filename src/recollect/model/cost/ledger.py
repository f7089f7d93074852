"""Usage of one session added up as its lines come, each response once (``model.copies`` says which copy)."""

from __future__ import annotations

import datetime as dt

from recollect.model.cost.copies import MAIN, SIDECHAIN, ResponseCopy, counted
from recollect.model.cost.money import Spending, spending
from recollect.model.cost.prices import PriceList
from recollect.model.line_views.scan import UsageRecord
from recollect.model.moments import parsed_time

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


class Ledger:
    """Adds up usage records, correcting itself when a better copy of a response arrives."""

    def __init__(self, prices: PriceList | None = None) -> None:
        self._prices = PriceList() if prices is None else prices
        self._kept: dict[str, list[tuple[ResponseCopy, UsageRecord]]] = {}
        self._without_id: list[tuple[ResponseCopy, UsageRecord]] = []

    def add(self, record: UsageRecord, *, forked: bool = False, path: str = "") -> None:
        """Count a record, unless a better copy of the same response is there. Without an id it is one of its own."""
        new = (_copy_of(record, forked, path), record)
        if record.message_id is None:
            self._without_id.append(new)
            return
        # Those that lost before can never win again, so only the winners are kept.
        copies = [*self._kept.get(record.message_id, ()), new]
        self._kept[record.message_id] = [copies[place] for place in counted([copy for copy, _ in copies])]

    @property
    def responses(self) -> int:
        """How many answers were counted."""
        return sum(map(len, self._kept.values())) + len(self._without_id)

    def total(self, prices: PriceList | None = None) -> Spending:
        """Tokens and money of everything counted, by the ledger's prices or by others."""
        prices = prices or self._prices
        responses = [*self._without_id, *(one for kept in self._kept.values() for one in kept)]
        spent = (spending(record.usage, record.model, copy.at, prices) for copy, record in responses)
        return sum(spent, Spending())


def _copy_of(record: UsageRecord, forked: bool, path: str) -> ResponseCopy:
    moment = parsed_time(record.timestamp)
    return ResponseCopy(
        record.request_id or "",
        SIDECHAIN if record.is_sidechain else MAIN,
        record.usage.output_tokens or 0,
        record.stop_reason is not None,
        0 if moment is None else (moment - _EPOCH) // _MILLISECOND,
        forked,
        path,
    )
