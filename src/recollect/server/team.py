"""The team's cost report: sums grouped by the requested keys, priced by the local code."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterable, Sequence
from importlib import import_module

from msgspec import Struct

from recollect.index.schema import QUARTER_MS
from recollect.model.cost.money import NO_MODEL, Spending, exact, priced
from recollect.model.cost.prices import PriceList
from recollect.model.cost.usage import Tokens
from recollect.server.database.records import UsageSum

KEYS = ("person", "repository", "branch", "model", "project", "machine", "session", "day")
ALIASES = {"repo": "repository", "user": "person"}
_NOT_SAID = "(none)"
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


def cost_report(sums: Iterable[UsageSum], by: Sequence[str], prices: PriceList) -> TeamCostReport:
    found: dict[tuple[str, ...], tuple[int, Spending]] = {}
    for one in sums:
        spent = priced(Tokens(*one[10:16]), one.model, one.quarter, one.variant, prices)
        key = tuple([_named(one, name) for name in by])
        before = found.get(key)
        found[key] = (
            (one.messages, spent) if before is None else (before[0] + one.messages, before[1] + spent)
        )
    everything = sum((spent for _, spent in found.values()), Spending())
    responses = sum(count for count, _ in found.values())
    rows = [_row(dict(zip(by, key, strict=True)), *value) for key, value in found.items()]
    rows.sort(key=lambda row: (-row.pico_usd, -row.tokens.total, tuple(row.keys.values())))
    return TeamCostReport(list(by), rows, _row({}, responses, everything))


def _row(keys: dict[str, str], responses: int, spent: Spending) -> TeamCostRow:
    return TeamCostRow(
        keys, responses, spent.tokens, spent.pico_usd, exact(spent.pico_usd), sorted(spent.unpriced)
    )


def _named(one: UsageSum, name: str) -> str:
    if name == "day":
        moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=one.quarter * QUARTER_MS)
        return moment.date().isoformat() if one.quarter else _NOT_SAID
    value: str | None = getattr(one, name)
    return value or (NO_MODEL if name == "model" else _NOT_SAID)


def as_csv(report: TeamCostReport) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*report.by, "responses", *_COUNTS, "usd", "unpriced"])
    for row in report.rows:
        counts = [getattr(row.tokens, name) for name in _COUNTS]
        names = [_harmless(name) for name in row.keys.values()]
        writer.writerow([*names, row.responses, *counts, row.usd, _harmless(" ".join(row.unpriced))])
    return text.getvalue()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def as_parquet(report: TeamCostReport) -> bytes:
    """Parquet; ``ImportError`` where pyarrow is not installed."""
    pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")

    columns = {name: pa.array([row.keys[name] for row in report.rows], pa.string()) for name in report.by}
    columns["responses"] = pa.array([row.responses for row in report.rows], pa.int64())
    for name in _COUNTS:
        columns[name] = pa.array([getattr(row.tokens, name) for row in report.rows], pa.int64())
    columns["pico_usd"] = pa.array([row.pico_usd for row in report.rows], pa.decimal128(38, 0))
    columns["unpriced"] = pa.array([row.unpriced for row in report.rows], pa.list_(pa.string()))
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()
