"""Usage counted once per response, whatever number of lines and files speaks of it.

One answer of the API is spread over several lines that share ``message.id`` and ``requestId`` and repeat
its usage, some with the counts of the stream's start. Forks copy those lines into other files; side
questions replay them in sub-agents' files, under another request id; agents' news repeat them in the
parent's file. Which copy counts is decided here, by pure functions of the copies alone: in whatever
order they are found, by a scan or by the index, the same one wins.

Among copies with the same request id: the conversation's own before a side chain's before an agent's
news; then the largest output; then one with a stop reason; then the latest, so that a response that
spans midnight belongs to the day of its last line; then one that no fork copied; then the smallest path.

Where the conversation itself speaks of a message, only its own copies can count, one for each request.
Where it does not, one copy counts for the whole message, whatever request ids the replays invented.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import NamedTuple

from recollect.model.entry import parsed_time
from recollect.model.money import Spending, spending
from recollect.model.prices import PriceList
from recollect.model.scan import UsageRecord

# Who speaks of a response.
MAIN, SIDECHAIN, AGENT_PROGRESS = 2, 1, 0

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)


class Copy(NamedTuple):
    """What one line, or all lines of one file together, say of a response."""

    request_id: str = ""
    speaker: int = MAIN
    output: int = 0
    has_stop: bool = False
    at: int = 0  # milliseconds since 1970
    forked: bool = False
    path: str = ""


def preference(copy: Copy) -> tuple[int, int, bool, int, bool]:
    """The larger, the better; where equal, the smaller path decides."""
    return copy.speaker, copy.output, copy.has_stop, copy.at, not copy.forked


def better(one: Copy, other: Copy) -> bool:
    """Whether ``one`` speaks for the response rather than ``other``."""
    mine, theirs = preference(one), preference(other)
    # The request id decides last and only between replays: without it their order would.
    place, other_place = (one.path, one.request_id), (other.path, other.request_id)
    return mine > theirs or (mine == theirs and place < other_place)


def counted(copies: Sequence[Copy]) -> list[int]:
    """Which of all copies of one message count, by their place in ``copies``."""
    has_main = any(copy.speaker == MAIN for copy in copies)
    best: dict[str, int] = {}
    for place, copy in enumerate(copies):
        if has_main and copy.speaker != MAIN:
            continue
        request = copy.request_id if has_main else ""
        if request not in best or better(copy, copies[best[request]]):
            best[request] = place
    return sorted(best.values())


class Ledger:
    """Adds up usage records, correcting itself when a better copy of a response arrives."""

    def __init__(self, prices: PriceList | None = None) -> None:
        self._prices = PriceList() if prices is None else prices
        self._kept: dict[str, list[tuple[Copy, UsageRecord]]] = {}
        self._without_id: list[tuple[Copy, UsageRecord]] = []

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


def _copy_of(record: UsageRecord, forked: bool, path: str) -> Copy:
    moment = parsed_time(record.timestamp)
    return Copy(
        record.request_id or "",
        SIDECHAIN if record.is_sidechain else MAIN,
        record.usage.output_tokens or 0,
        record.stop_reason is not None,
        0 if moment is None else (moment - _EPOCH) // _MILLISECOND,
        forked,
        path,
    )
