"""Our cost of each session beside that of ccusage: which part of a difference has which cause.

Tokens are compared by model and class, and a difference in tokens is priced with our list. What is left is a matter of
prices: cache writes of an hour that are priced as those of five minutes, searches, another price. The causes of a
session add up to its difference exactly. A report that names directories instead of sessions is compared by directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec
from msgspec import Struct

from recollect.errors import UsageError
from recollect.model.cost.cents import PICO
from recollect.model.cost.prices import Price, PriceList, canonical
from recollect.model.cost.report import CostReport, CostRow
from recollect.model.project_key import project_key

_CENT = PICO // 100
_CLASSES = ("input", "output", "write", "hour", "read", "searches")  # in the order of ``Price.cost``
_NOW = 1 << 40  # a quarter after every change of a price
NOT_THERE = "not in ccusage: archived, deleted, or in a log that it does not read"
NOT_HERE = "not here: another home, or counted here with the session that was copied"
OUTPUT_HERE = "final output counts, where ccusage takes the first line of a response"
COPIES_THERE = "repeated lines or copies in forks that ccusage counts again"
MORE_HERE = "tokens of sub-agents, advisors or lines that ccusage leaves out"
HOUR = "cache writes of one hour, which ccusage prices as those of five minutes"
SEARCHES = "web searches, which ccusage does not price"
UNPRICED = "a model without a price here"
PRICES = "another price there"


class PeerModel(Struct, frozen=True, rename="camel"):
    """What ccusage says of one model in a session."""

    model_name: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    cost: Decimal = Decimal(0)


class PeerSession(Struct, frozen=True, rename="camel"):
    """What ccusage says of a session, or of a directory: which of both depends on its version."""

    session_id: str = ""
    project_path: str = ""
    total_cost: Decimal = Decimal(0)
    model_breakdowns: tuple[PeerModel, ...] = ()


class _PeerReport(Struct, frozen=True):
    sessions: tuple[PeerSession, ...] | None = None
    session: tuple[PeerSession, ...] | None = None


class DifferenceCause(NamedTuple):
    """Why, and how much of the difference it is."""

    what: str
    pico_usd: int


class SessionDifference(NamedTuple):
    """A session whose cost differs. The causes add up to the difference."""

    session: str
    title: str
    pico_usd: int
    peer_pico_usd: int
    causes: tuple[DifferenceCause, ...]


class CostComparison(NamedTuple):
    """Sessions that differ by a cent or more, the largest difference first, and how many agree."""

    differences: list[SessionDifference]
    equal: int
    pico_usd: int
    peer_pico_usd: int

    def by_cause(self) -> list[tuple[str, int]]:
        """The causes of all differences, the largest first."""
        sums: dict[str, int] = {}
        for one in self.differences:
            for cause in one.causes:
                sums[cause.what] = sums.get(cause.what, 0) + cause.pico_usd
        return sorted(sums.items(), key=lambda item: -abs(item[1]))


def peer_sessions(data: bytes) -> tuple[PeerSession, ...]:
    """The sessions of a report in JSON; ``UsageError`` if it is another report."""
    try:
        report = msgspec.json.decode(data, type=_PeerReport)
    except msgspec.DecodeError as problem:
        raise UsageError(f"the report of ccusage: {problem}", hint=_HINT) from None
    found = report.sessions if report.sessions is not None else report.session
    if found is None:
        raise UsageError("the report of ccusage: it has no sessions", hint=_HINT)
    return found


_HINT = "write it with: ccusage claude session --json --offline"


def compared(report: CostReport, peer: Iterable[PeerSession], prices: PriceList) -> CostComparison:
    """A report by session, project and model beside that of ccusage."""
    theirs: dict[str, list[PeerSession]] = {}
    for said in peer:
        theirs.setdefault(said.session_id.rpartition("/")[2], []).append(said)
    ours: dict[str, list[CostRow]] = {}
    for row in report.rows:
        ours.setdefault(_unit(row, theirs), []).append(row)
    found, equal = [], 0
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        one = _difference(name, ours.get(name, []), theirs.get(name, []), report.titles, prices)
        if abs(one.pico_usd - one.peer_pico_usd) < _CENT:
            equal += 1
        else:
            found.append(one)
    found.sort(key=lambda one: -abs(one.pico_usd - one.peer_pico_usd))
    there = sum(_pico(said.total_cost) for several in theirs.values() for said in several)
    return CostComparison(found, equal, report.totals.pico_usd, there)


def _unit(row: CostRow, theirs: Mapping[str, object]) -> str:
    """The session, or its directory where the other report names that."""
    session, directory = row.keys["session"], project_key(row.keys["project"])
    return directory if session not in theirs and directory in theirs else session


def _difference(
    name: str,
    rows: Sequence[CostRow],
    peers: Sequence[PeerSession],
    titles: Mapping[str, str],
    prices: PriceList,
) -> SessionDifference:
    here = sum(row.pico_usd for row in rows)
    there = sum(_pico(one.total_cost) for one in peers)
    if not peers or not rows:
        cause = DifferenceCause(NOT_HERE if not rows else NOT_THERE, here - there)
        return SessionDifference(name, titles.get(name, ""), here, there, (cause,))
    sums: dict[str, int] = {}
    for cause in _model_causes(rows, peers, prices):
        sums[cause.what] = sums.get(cause.what, 0) + cause.pico_usd
    sums[PRICES] = sums.get(PRICES, 0) + here - there - sum(sums.values())
    causes = sorted((DifferenceCause(*item) for item in sums.items()), key=lambda one: -abs(one.pico_usd))
    return SessionDifference(
        name, titles.get(name, ""), here, there, tuple(one for one in causes if one.pico_usd)
    )


def _model_causes(
    rows: Sequence[CostRow], peers: Sequence[PeerSession], prices: PriceList
) -> Iterator[DifferenceCause]:
    """What tokens and known prices explain; the rest is a matter of other prices."""
    models: dict[str, tuple[list[CostRow], list[PeerModel]]] = {}
    for row in rows:
        models.setdefault(canonical(row.keys["model"]), ([], []))[0].append(row)
    for one in peers:
        for part in one.model_breakdowns:
            models.setdefault(canonical(part.model_name), ([], []))[1].append(part)
    for model, (mine, parts) in models.items():
        there = sum(_pico(part.cost) for part in parts)
        price = prices.find(model, _NOW, 0)
        if price is not None:
            yield from _priced_causes(price, mine, parts, there)
        elif there and any(row.unpriced_responses for row in mine):
            yield DifferenceCause(UNPRICED, -there)


def _priced_causes(
    price: Price, mine: Sequence[CostRow], parts: Sequence[PeerModel], there: int
) -> Iterator[DifferenceCause]:
    own = [sum(column) for column in zip(*(row.tokens.counts for row in mine), strict=True)] or [0] * 6
    peer = [sum(column) for column in zip(*map(_peer_counts, parts), strict=True)] or [0] * 4

    def worth(**counts: int) -> int:
        return price.cost(*(counts.get(name, 0) for name in _CLASSES)) or 0

    deltas = (
        ("output", own[1] - peer[1], OUTPUT_HERE),
        ("input", own[0] - peer[0], MORE_HERE),
        ("write", own[2] + own[3] - peer[2], MORE_HERE),
        ("read", own[4] - peer[3], MORE_HERE),
    )
    for name, delta, more in deltas:
        if delta:
            pico = worth(**{name: abs(delta)})
            yield DifferenceCause(more if delta > 0 else COPIES_THERE, pico if delta > 0 else -pico)
    hour = worth(hour=own[3]) - worth(write=own[3])
    as_short = worth(input=peer[0], output=peer[1], write=peer[2], read=peer[3])
    if hour and abs(there - as_short) < abs(there - as_short - hour):
        yield DifferenceCause(HOUR, hour)
    if own[5]:
        yield DifferenceCause(SEARCHES, worth(searches=own[5]))


def _peer_counts(part: PeerModel) -> tuple[int, int, int, int]:
    return part.input_tokens, part.output_tokens, part.cache_creation_tokens, part.cache_read_tokens


def _pico(amount: Decimal) -> int:
    return int(amount * PICO)
