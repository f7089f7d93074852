"""What runs of the client cost is what the client said, without a client: from the record of its runs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from msgspec import UNSET

from recollect.ask.cost.report import costs
from recollect.index.access import open_index
from tests.oracle.money_runs import MoneyRecord, laid_out, recorded, runs
from tests.oracle.rates.money import differences

RECORDS = recorded()
# What a log lacks is the same for both ways to read it.
UNLOGGED = {"compacted", "compacted and resumed", "cut stream", "web search by a side question"}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_run_costs_what_the_client_said(record: MoneyRecord) -> None:
    """In all and by model, to a billionth of a dollar, from a kept index and a temporary one."""
    assert [] == differences(record)


def test_every_run_is_recorded() -> None:
    """A run that was added is asked of the client before it is compared."""
    assert [run.name for run in runs()] == [record.name for record in RECORDS]
    assert len(RECORDS) >= 40


@pytest.mark.parametrize("record", [one for one in RECORDS if one.name in UNLOGGED], ids=lambda one: one.name)
def test_what_the_log_lacks_is_a_row_of_its_own(record: MoneyRecord, tmp_path: Path) -> None:
    """With its tokens, and without it the total would be too low."""
    home = laid_out(record.logs, tmp_path / "home")
    with open_index([home], cache=tmp_path / "cache") as opened:
        auto, plain = (costs(["session"], opened=opened, mode=mode) for mode in ("auto", "calculate"))
    logged, unlogged = auto.rows

    assert (UNSET, True) == (logged.is_unlogged, unlogged.is_unlogged)
    assert logged.pico_usd == plain.totals.pico_usd < auto.totals.pico_usd
    assert (0, True) == (unlogged.responses, unlogged.tokens.total > 0)
    assert logged.keys == unlogged.keys


def test_a_time_before_the_total_was_written_has_no_part_of_it(tmp_path: Path) -> None:
    """The total is compared with the whole session, and booked when it was written."""
    (record,) = (one for one in RECORDS if one.name == "compacted")
    home = laid_out(record.logs, tmp_path / "home")
    (first,) = (
        dt.datetime.fromisoformat(line["timestamp"])
        for lines in record.logs.values()
        for line in lines
        if line["type"] == "assistant"
    )
    with open_index([home], cache=tmp_path / "cache") as opened:
        before = costs(opened=opened, mode="auto", until=first)
        after = costs(opened=opened, mode="auto", since=first)
        whole = costs(opened=opened, mode="auto")

    assert 0 == before.totals.pico_usd
    assert after.totals == whole.totals
