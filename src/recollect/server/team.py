"""The team's cost report: sums grouped by the requested keys, priced by the local code."""

from __future__ import annotations

import csv
import datetime as dt
import heapq
import io
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import encode

from recollect.index.schema import QUARTER_MS
from recollect.model.cost.money import NO_MODEL, exact
from recollect.model.cost.prices import PriceList
from recollect.model.cost.usage import Tokens
from recollect.server.database.records import UsageSum

Item = TypeVar("Item")
KEYS = ("person", "repository", "branch", "model", "project", "machine", "session", "day")
ALIASES = {"repo": "repository", "user": "person"}
_NOT_SAID = "(none)"
_AT_ONCE, _WRITTEN_AT_ONCE = 4_096, 256
_PRICED: frozenset[str] = frozenset()
_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
# A spreadsheet would treat such a cell as a formula, and branch names are untrusted.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class TeamCostRow(Struct, frozen=True):
    """One line of the report. ``usd`` is exact; ``unpriced`` names models whose tokens are not in it."""

    keys: dict[str, str]
    responses: int
    tokens: Tokens
    pico_usd: int
    usd: str
    unpriced: list[str]


class TeamCostReport(Struct, frozen=True):
    """Rows, the most expensive first, and the total."""

    by: list[str]
    rows: list[TeamCostRow]
    total: TeamCostRow


class _TeamTally:
    """The sums of one row; as small as they can be, because a report may have many thousands. Counts are those of the database,
    of 64 bits; money may be more."""

    __slots__ = ("counts", "pico_usd", "responses", "unpriced")

    def __init__(
        self,
        responses: int = 0,
        pico_usd: int = 0,
        counts: Iterable[int] = (0,) * 6,
        unpriced: frozenset[str] = _PRICED,
    ) -> None:
        self.responses, self.pico_usd = responses, pico_usd
        self.counts, self.unpriced = array("q", counts), unpriced

    def add(self, responses: int, pico_usd: int, counts: Iterable[int], unpriced: frozenset[str]) -> None:
        self.responses += responses
        self.pico_usd += pico_usd
        for place, count in enumerate(counts):
            self.counts[place] += count
        if unpriced:
            self.unpriced |= unpriced

    def row(self, keys: dict[str, str]) -> TeamCostRow:
        tokens, unpriced = Tokens(*self.counts), sorted(self.unpriced)
        return TeamCostRow(keys, self.responses, tokens, self.pico_usd, exact(self.pico_usd), unpriced)


class TeamCosts:
    """Sums as they come, by the keys of a report, priced. It takes them from a database (``UsageTaker``).

    ``models``: those that were seen. ``unclear``: those with a price that lacks a class of tokens of a sum: some of its responses may
    have one all the same. ``without``: models that are passed over.
    """

    def __init__(self, by: Sequence[str], prices: PriceList, without: Collection[str] = ()) -> None:
        self.by, self._prices, self._without = list(by), prices, without
        self._key_of = _key_reader(by)
        self.models: set[str] = set()
        self.unclear: set[str] = set()
        self._found: dict[tuple[str, ...], _TeamTally] = {}
        # The same text once: names of people and places recur in thousands of rows.
        self._names: dict[str, str] = {}

    def begin(self) -> None:
        for known in (self.models, self.unclear, self._found):
            known.clear()

    def take(self, sums: Iterable[UsageSum]) -> None:
        """By the rule of ``model.cost.money.priced``, without an object for each step: a report may have a million sums."""
        find, without, kept, key_of = self._prices.find, self._without, self._names.setdefault, self._key_of
        for one in sums:
            model, counts = one.model, one[10:16]
            if model in without:
                continue
            if model:
                self.models.add(model)
            price = find(model or "", one.quarter, one.variant)
            pico_usd = None if price is None else price.cost(*counts)
            unpriced = _PRICED
            if pico_usd is None:
                pico_usd, unpriced = 0, frozenset((model or NO_MODEL,))
                if model and price is not None:
                    self.unclear.add(model)
            key = tuple([kept(name, name) for name in key_of(one)])
            self._tally(key, one.messages, pico_usd, counts, unpriced)

    def _tally(
        self,
        key: tuple[str, ...],
        responses: int,
        pico_usd: int,
        counts: Iterable[int],
        unpriced: frozenset[str],
    ) -> None:
        known = self._found.get(key)
        if known is None:
            self._found[key] = _TeamTally(responses, pico_usd, counts, unpriced)
        else:
            known.add(responses, pico_usd, counts, unpriced)

    def add(self, other: TeamCosts) -> None:
        """What was summed apart, by the same keys."""
        for key, one in other._found.items():
            self._tally(key, one.responses, one.pico_usd, one.counts, one.unpriced)

    def total(self) -> TeamCostRow:
        everything = _TeamTally()
        for one in self._found.values():
            everything.add(one.responses, one.pico_usd, one.counts, one.unpriced)
        return everything.row({})

    def rows(self) -> Iterator[TeamCostRow]:
        """The most expensive first; each is given up when it was told. Sorted some at a time: sorting takes the interpreter for
        itself, and requests wait."""
        keys = list(self._found)
        parts = [
            sorted(map(self._order, keys[place : place + _AT_ONCE]), reverse=True)
            for place in range(0, len(keys), _AT_ONCE)
        ]
        del keys
        for *_, key in heapq.merge(*map(_drained, parts)):
            yield self._found.pop(key).row(dict(zip(self.by, key, strict=True)))

    def _order(self, key: tuple[str, ...]) -> tuple[int, int, tuple[str, ...]]:
        one = self._found[key]
        return -one.pico_usd, -sum(one.counts[:5]), key


def _drained(items: list[Item]) -> Iterator[Item]:
    """From the end, and gone as they are told."""
    while items:
        yield items.pop()


def cost_report(costs: TeamCosts) -> TeamCostReport:
    """All of it at once."""
    total = costs.total()
    return TeamCostReport(costs.by, list(costs.rows()), total)


def as_json(costs: TeamCosts) -> list[bytes]:
    """The report as its encoder writes it, in pieces: neither its rows nor its bytes are held twice."""
    total, rows = encode(costs.total()), costs.rows()
    pieces = [b'{"by":', encode(costs.by), b',"rows":[']
    while some := list(islice(rows, _WRITTEN_AT_ONCE)):
        pieces += (encode(some)[1:-1], b",")
    if pieces[-1] == b",":
        pieces.pop()
    return [*pieces, b'],"total":', total, b"}"]


def _key_reader(by: Sequence[str]) -> Callable[[UsageSum], list[str]]:
    """Reads the names of a row from a sum."""
    places = [
        (UsageSum._fields.index("quarter" if name == "day" else name), name == "day", _unnamed(name))
        for name in by
    ]

    def names(one: tuple[Any, ...]) -> list[str]:
        return [_day(one[place]) if is_day else one[place] or other for place, is_day, other in places]

    return names


def _unnamed(key: str) -> str:
    return NO_MODEL if key == "model" else _NOT_SAID


@lru_cache(maxsize=4_096)
def _day(quarter: int) -> str:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=quarter * QUARTER_MS)
    return moment.date().isoformat() if quarter else _NOT_SAID


def as_csv(costs: TeamCosts) -> list[bytes]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*costs.by, "responses", *_COUNTS, "usd", "unpriced"])
    for row in costs.rows():
        counts = [getattr(row.tokens, name) for name in _COUNTS]
        names = [_harmless(name) for name in row.keys.values()]
        writer.writerow([*names, row.responses, *counts, row.usd, _harmless(" ".join(row.unpriced))])
    return [text.getvalue().encode()]


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def as_parquet(costs: TeamCosts) -> list[bytes]:
    """Parquet; ``ImportError`` where pyarrow is not installed."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    report = cost_report(costs)
    columns = {name: pa.array([row.keys[name] for row in report.rows], pa.string()) for name in report.by}
    columns["responses"] = pa.array([row.responses for row in report.rows], pa.int64())
    for name in _COUNTS:
        columns[name] = pa.array([getattr(row.tokens, name) for row in report.rows], pa.int64())
    columns["pico_usd"] = pa.array([row.pico_usd for row in report.rows], pa.decimal128(38, 0))
    columns["unpriced"] = pa.array([row.unpriced for row in report.rows], pa.list_(pa.string()))
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return [sink.getvalue()]
