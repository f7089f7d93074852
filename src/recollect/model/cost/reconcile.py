"""What the client recorded of a session beyond what its logs say.

A client writes its running total of a session (``cost-state``) when it ends: by model, in tokens and dollars. The
logs lack what compaction, aborted streams and side questions cost. Here the total is compared with the responses
that the session's own logs hold, copies of other sessions included, because a fork takes its parent's total along.

Per model: where the client counted more tokens than the logs hold, the rest of its dollars is *unlogged*. Where the
logs hold responses without a price, the rest of its dollars stands for them. Where neither is so, a difference is one
of prices, and ours stand. Nothing is ever counted twice: of several sessions with one beginning (forks) the largest
rest stands for all, and no session adds more than its total exceeds what its logs cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recollect.model.cost.calendar import QUARTER_MS
from recollect.model.cost.line_usage import ResponseCopy, counted
from recollect.model.cost.prices import PriceList, canonical

TokenCounts = tuple[int, int, int, int, int, int]
NO_COUNTS: TokenCounts = (0, 0, 0, 0, 0, 0)


class RecordedCost(NamedTuple):
    """What a client's running total of a session says of one model.

    One that is not booked lies outside the report (in time, or by its model), but covers its session still.
    ``started`` is when the session began: forks of one session share it.
    """

    quarter: int
    log: int
    model: str | None
    pico_usd: int
    is_booked: bool = True
    counts: TokenCounts = NO_COUNTS
    started: int | None = None
    is_unlogged: bool = False


class LoggedCopy(NamedTuple):
    """What one log says of one response."""

    log: int
    message: str | None
    copy: ResponseCopy
    model: str | None
    variant: int
    counts: TokenCounts


class _ModelUse:
    """What the logs of a session say of one model."""

    def __init__(self) -> None:
        self.counts = [0] * len(NO_COUNTS)
        self.pico = self.unpriced = 0


def rests(
    records: Sequence[RecordedCost],
    copies: Iterable[LoggedCopy],
    owners: Mapping[int, str],
    prices: PriceList,
) -> list[RecordedCost]:
    """What the clients' totals add to the logs. ``records``: one total a session; ``owners``: the session of each log."""
    totals: dict[str, list[RecordedCost]] = {}
    for record in records:
        totals.setdefault(owners[record.log], []).append(record)
    said: dict[str, list[LoggedCopy]] = {owner: [] for owner in totals}
    for one in copies:
        if (known := said.get(owners[one.log])) is not None:
            known.append(one)
    found: list[RecordedCost] = []
    for family in _families(totals):
        answers = [_rest(totals[owner], _used(_heritage(owner, family, said), prices)) for owner in family]
        found += max(answers, key=lambda rest: sum(record.pico_usd for record in rest))
    return found


def _families(totals: Mapping[str, Sequence[RecordedCost]]) -> list[list[str]]:
    """Sessions with one beginning, together."""
    found: dict[object, list[str]] = {}
    for owner, records in sorted(totals.items()):
        started = records[0].started
        found.setdefault(owner if started is None else started, []).append(owner)
    return list(found.values())


def _heritage(
    owner: str, family: Sequence[str], said: Mapping[str, Sequence[LoggedCopy]]
) -> list[LoggedCopy]:
    """What a session's logs hold, and what its relatives' hold from before it went its own way.

    A fork of a compacted session copies only what follows the summary, and takes along what all of it cost.
    """
    own = list(said[owner])
    others = [copy for other in family if other != owner for copy in said[other]]
    if not others:
        return own
    elsewhere = {copy.message for copy in others}
    parted = min((one.copy.at for one in own if one.message not in elsewhere), default=None)
    return own if parted is None else own + [one for one in others if one.copy.at < parted]


def _used(copies: Iterable[LoggedCopy], prices: PriceList) -> dict[str, _ModelUse]:
    """By model: each response once, as ``model.cost.line_usage`` decides."""
    by_message: dict[object, list[LoggedCopy]] = {}
    for place, one in enumerate(copies):
        by_message.setdefault(place if one.message is None else one.message, []).append(one)
    found: dict[str, _ModelUse] = {}
    names: dict[str, str] = {}
    for several in by_message.values():
        for place, amounts in counted([one.copy for one in several]):
            one, at = several[amounts], several[place].copy.at
            model = one.model or ""
            name = names[model] = names.get(model) or canonical(model)
            use = found.setdefault(name, _ModelUse())
            use.counts = [sum(pair) for pair in zip(use.counts, one.counts, strict=True)]
            pico, missing = prices.cost(model, at // QUARTER_MS, one.variant, one.counts)
            use.pico += pico
            use.unpriced += missing is not None
    return found


def _rest(total: Sequence[RecordedCost], used: Mapping[str, _ModelUse]) -> list[RecordedCost]:
    left = sum(record.pico_usd for record in total) - sum(use.pico for use in used.values())
    by_model: dict[str, list[RecordedCost]] = {}
    for record in total:
        by_model.setdefault(canonical(record.model or ""), []).append(record)
    found = []
    for model, records in sorted(by_model.items()):
        use = used.get(model) or _ModelUse()
        recorded = [sum(column) for column in zip(*(record.counts for record in records), strict=True)]
        missing = tuple(max(one - other, 0) for one, other in zip(recorded, use.counts, strict=True))
        pico = min(sum(record.pico_usd for record in records) - use.pico, left)
        if pico <= 0 or not (use.unpriced or any(missing)):
            continue
        left -= pico
        is_unlogged = not use.unpriced
        counts = missing if is_unlogged else NO_COUNTS
        found.append(records[0]._replace(pico_usd=pico, counts=counts, is_unlogged=is_unlogged))
    return found
