"""The team's cost report: sums grouped by the requested keys, priced by the local code."""

from __future__ import annotations

import csv
import datetime as dt
import io
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import chain, islice
from operator import add
from typing import Any, TypeVar

from msgspec import Struct, defstruct
from msgspec.json import encode

from recollect.index.schema import QUARTER_MS
from recollect.model.cost.money import NO_MODEL, exact
from recollect.model.cost.prices import PriceList
from recollect.model.cost.usage import Tokens
from recollect.server.database.records import UsageSum

Item = TypeVar("Item", bound="tuple[Any, ...]")
_Key = tuple[str, ...]
# Pico-dollars, responses, and counts.
_Tally = tuple[int, ...]
# Model, quarter and variant: what a price depends on.
_Kind = tuple[str | None, int, int]
_CostOf = Callable[..., int | None]
KEYS = ("person", "repository", "branch", "model", "project", "machine", "session", "day")
ALIASES = {"repo": "repository", "user": "person"}
_NOT_SAID = "(none)"
_AT_ONCE, _WRITTEN_AT_ONCE = 4_096, 2_048
_MARKS = 16  # of a run, by which runs are divided
_KIND = [UsageSum._fields.index(name) for name in ("model", "quarter", "variant")]
_MODEL, _FIRST_COUNT = _KIND[0], UsageSum._fields.index("input")
_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
# A spreadsheet would treat such a cell as a formula, and branch names are untrusted.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class TeamCostRow(Struct, frozen=True, gc=False):
    """One line of the report. ``usd`` is exact, and null where nothing has a price; ``unpriced`` names models whose tokens are
    not in it. ``pico_usd`` is the same to be added up."""

    keys: dict[str, str]
    responses: int
    tokens: Tokens
    pico_usd: int
    usd: str | None
    unpriced: list[str]


class TeamCostReport(Struct, frozen=True):
    """Rows, the most expensive first, and the total."""

    by: list[str]
    rows: list[TeamCostRow]
    total: TeamCostRow


class TeamCosts:
    """Sums as they come, by the keys of a report, priced. It takes them from a database (``UsageTaker``).

    ``models``: those that were seen. ``unclear``: those with a price that lacks a class of tokens of a sum: some of its responses may
    have one all the same. ``without``: models that are passed over.
    """

    def __init__(self, by: Sequence[str], prices: PriceList, without: Collection[str] = ()) -> None:
        self.by, self._prices, self._without = list(by), prices, without
        self.models: set[str] = set()
        self.unclear: set[str] = set()
        # Plain tuples, and few names of models beside them: a report may have many hundred thousand rows.
        self._found: dict[_Key, _Tally] = {}
        self._unpriced: dict[_Key, set[str]] = {}
        # The same text once: names of people and places recur in thousands of rows.
        self._names: dict[str, str] = {}

    def begin(self) -> None:
        for known in (self.models, self.unclear, self._found, self._unpriced):
            known.clear()

    def take(self, sums: Sequence[Sequence[Any]]) -> None:
        """By the rule of ``model.cost.money.priced``; by columns, because a report may have a million sums."""
        if self._without:
            sums = [one for one in sums if one[_MODEL] not in self._without]
        if not sums:
            return
        columns = list(zip(*sums, strict=True))
        kinds = list(zip(*map(columns.__getitem__, _KIND), strict=True))
        costs, counts = self._costs_of(set(kinds)), columns[_FIRST_COUNT:]
        spent = [costs[kind](*each) for kind, each in zip(kinds, zip(*counts, strict=True), strict=True)]
        keys = self._keys(columns)
        if None in spent:
            for place in [place for place, amount in enumerate(spent) if amount is None]:
                spent[place] = 0
                self._leave_unpriced(keys[place], kinds[place][0], costs[kinds[place]])
        tallies = zip(spent, columns[_FIRST_COUNT - 1], *counts, strict=True)
        if len(set(keys)) == len(keys) and self._found.keys().isdisjoint(keys):
            self._found.update(zip(keys, tallies, strict=True))
        else:
            for key, one in zip(keys, tallies, strict=True):
                self._tally(key, one)

    def _costs_of(self, kinds: Collection[_Kind]) -> dict[_Kind, _CostOf]:
        """How each kind of sum is priced."""
        found: dict[_Kind, _CostOf] = {}
        for kind in kinds:
            model, quarter, variant = kind
            if model:
                self.models.add(model)
            price = self._prices.find(model or "", quarter, variant)
            found[kind] = _no_price if price is None else price.cost
        return found

    def _keys(self, columns: Sequence[Sequence[Any]]) -> list[_Key]:
        """The names of the rows that sums belong to."""
        kept, named = self._names.setdefault, []
        for name in self.by:
            column = columns[UsageSum._fields.index("quarter" if name == "day" else name)]
            if name == "day":
                column = list(map(_day, column))
            elif not all(column):
                other = NO_MODEL if name == "model" else _NOT_SAID
                column = [one or other for one in column]
            named.append(map(kept, column, column))
        return list(zip(*named, strict=True))

    def _leave_unpriced(self, key: _Key, model: str | None, cost: _CostOf) -> None:
        self._unpriced.setdefault(key, set()).add(model or NO_MODEL)
        if model and cost is not _no_price:
            self.unclear.add(model)

    def _tally(self, key: _Key, one: _Tally) -> None:
        known = self._found.get(key)
        self._found[key] = one if known is None else tuple(map(add, known, one))

    def add(self, other: TeamCosts) -> None:
        """What was summed apart, by the same keys."""
        for key, one in other._found.items():
            self._tally(key, one)
        for key, models in other._unpriced.items():
            self._unpriced.setdefault(key, set()).update(models)

    def total(self) -> TeamCostRow:
        everything: _Tally = (0,) * 8
        every = iter(self._found.values())
        while some := list(islice(every, _AT_ONCE)):
            everything = tuple(map(sum, zip(everything, *some, strict=True)))
        return _row({}, everything, set().union(*self._unpriced.values()))

    def rows(self) -> Iterator[TeamCostRow]:
        """The most expensive first. Each row is dropped once it was yielded."""
        for some in self.parts(lambda *key: dict(zip(self.by, key, strict=True))):
            yield from some

    def parts(self, named: Callable[..., Any]) -> Iterator[list[TeamCostRow]]:
        """The same, some at a time. ``named`` makes ``keys`` of the names of a row: what is only encoded may be more than
        a dict, and quicker to make."""
        unpriced = self._unpriced.get
        for part in self._ordered():
            for start in range(0, len(part), _WRITTEN_AT_ONCE):
                some = part[start : start + _WRITTEN_AT_ONCE]
                yield [_row(named(*key), one, unpriced(key, ())) for _, _, key, one in some]

    def _ordered(self) -> Iterator[list[tuple[int, int, _Key, _Tally]]]:
        runs = []
        while self._found:
            some = [self._found.popitem() for _ in range(min(len(self._found), _AT_ONCE))]
            runs.append(sorted([(-one[0], -sum(one[2:7]), key, one) for key, one in some]))
        return _merged(runs)


def _row(keys: Any, one: _Tally, unpriced: Collection[str]) -> TeamCostRow:
    pico_usd, responses, *counts = one
    names = sorted(unpriced) if unpriced else []
    usd = None if names and not pico_usd else exact(pico_usd)
    return TeamCostRow(keys, responses, Tokens(*counts), pico_usd, usd, names)


def _no_price(*_: int) -> int | None:
    return None


def _merged(runs: list[list[Item]]) -> Iterator[list[Item]]:
    """Sorted runs as one, in parts of about ``_AT_ONCE``: a long sort holds the interpreter, and requests wait. No two items
    are equal, so the parts are of about one size."""
    marks = sorted(mark for run in runs for mark in run[:: max(_AT_ONCE // _MARKS, 1)])
    for mark in marks[_MARKS::_MARKS]:
        part = []
        for run in runs:
            end = bisect_left(run, mark)
            part += run[:end]
            del run[:end]
        part.sort()
        yield part
    yield sorted(chain.from_iterable(runs))


def cost_report(costs: TeamCosts) -> TeamCostReport:
    """All of it at once."""
    total = costs.total()
    return TeamCostReport(costs.by, list(costs.rows()), total)


def as_json(costs: TeamCosts) -> Iterator[bytes]:
    """The report as its encoder writes it, in pieces: neither its rows nor its bytes are ever held as a whole."""
    total = encode(costs.total())
    yield b'{"by":' + encode(costs.by) + b',"rows":['
    comma = b""
    for some in costs.parts(defstruct("RowKeys", [(name, str) for name in costs.by], gc=False)):
        yield comma + encode(some)[1:-1]
        comma = b","
    yield b'],"total":' + total + b"}"


@lru_cache(maxsize=4_096)
def _day(quarter: int) -> str:
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=quarter * QUARTER_MS)
    return moment.date().isoformat() if quarter else _NOT_SAID


def as_csv(costs: TeamCosts) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*costs.by, "responses", *_COUNTS, "usd", "unpriced"])
    for row in costs.rows():
        counts = [getattr(row.tokens, name) for name in _COUNTS]
        names = [_harmless(name) for name in row.keys.values()]
        writer.writerow([*names, row.responses, *counts, row.usd, _harmless(" ".join(row.unpriced))])
    yield text.getvalue().encode()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def as_parquet(costs: TeamCosts) -> Iterator[bytes]:
    """Parquet; ``ImportError`` where pyarrow is not installed."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    report = cost_report(costs)
    columns = {name: pa.array([row.keys[name] for row in report.rows], pa.string()) for name in report.by}
    columns["responses"] = pa.array([row.responses for row in report.rows], pa.int64())
    for name in _COUNTS:
        columns[name] = pa.array([getattr(row.tokens, name) for row in report.rows], pa.int64())
    amounts = [None if row.usd is None else row.pico_usd for row in report.rows]
    columns["pico_usd"] = pa.array(amounts, pa.decimal128(38, 0))
    columns["unpriced"] = pa.array([row.unpriced for row in report.rows], pa.list_(pa.string()))
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    yield sink.getvalue()
