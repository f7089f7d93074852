"""How often `cost --mode auto` says what the client says: ``total_cost_usd``, and the cost of each model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

from recollect.ask.cost.report import costs
from recollect.index.access import OpenIndex, open_index
from recollect.model.cost.prices import canonical
from tests.oracle.money_runs import VERSION, MoneyRecord, asked, laid_out, recorded, runs
from tests.oracle.rates.rate import Rate

# The client adds floats: what is smaller than this is their noise.
NOISE = Decimal("1e-9")


def measure() -> Iterator[Rate]:
    """The runs that were recorded; and, where there is a client, all of them asked again."""
    yield rate("money: total_cost_usd, recorded", recorded())
    program = Path(os.environ.get("RECOLLECT_CLIENTS", ""), VERSION, "claude")
    if program.is_file():
        yield rate("money: total_cost_usd, asked now", (asked(run, [str(program)]) for run in runs()))


def rate(name: str, records: Iterable[MoneyRecord]) -> Rate:
    """How many runs cost the same."""
    found = [(record, differences(record)) for record in records]
    different = tuple(f"{record.name}: {'; '.join(lines)}" for record, lines in found if lines)
    return Rate(name, len(found) - len(different), len(found), 1.0, different)


def differences(record: MoneyRecord) -> list[str]:
    """What recollect says otherwise than the client, with a kept index and a temporary one."""
    with tempfile.TemporaryDirectory() as place:
        home = laid_out(record.logs, Path(place, "home"))
        with open_index([home], cache=Path(place, "cache")) as opened:
            kept = _said(opened)
        with open_index([home], is_temporary=True) as opened:
            temporary = _said(opened)
    wanted = {canonical(name): Decimal(0) for name in record.models} | {"": Decimal(repr(record.total_usd))}
    for name, amount in record.models.items():
        wanted[canonical(name)] += Decimal(repr(amount))
    found = []
    for way, said in (("index", kept), ("temporary", temporary)):
        found += [
            f"{way}: {name or 'total'} {said.get(name)}, client {amount}"
            for name, amount in wanted.items()
            if name not in said or abs(said[name] - amount) > NOISE
        ]
    return found


def _said(opened: OpenIndex) -> dict[str, Decimal]:
    """Dollars by model; the total has no name."""
    report = costs(["model"], opened=opened, mode="auto")
    found = {"": report.totals.usd or Decimal(0)}
    for row in report.rows:
        name = canonical(row.keys["model"])
        found[name] = found.get(name, Decimal(0)) + (row.usd or Decimal(0))
    return found
