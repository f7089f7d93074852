"""Three engines read the files of a lake as they are and come to the same total, to the pico-dollar."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest

from recollect import Home
from recollect.share.lake_export import export_lake
from tests.small_home import ONE, TWO, prompt, put, reply, said

Total = Callable[[Path], tuple[Decimal, int]]


def made_home(root: Path) -> Home:
    """Amounts with twelve digits behind the point, a fork, a model without a price, a line without a time."""
    talk = []
    for number in range(2, 40, 2):
        line = reply(number, number - 1, said("A"))
        line["message"]["usage"] |= {"cache_read_input_tokens": number, "input_tokens": 7**number % 99_991}
        line["timestamp"] = line["timestamp"].replace("2026-11-15", f"2026-11-{10 + number % 5}")
        talk += [prompt(number - 1, number - 2 or None, "Q"), line]
    talk[5]["message"]["model"] = "nobody-knows"
    talk[7]["timestamp"] = "no time"
    put(root / "home", ONE, talk)
    put(root / "home", TWO, talk[:20])
    return Home(root / "home", data=root / "data")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    root = tmp_path_factory.mktemp("engines")
    home = made_home(root)
    export_lake(home, root / "lake", data=root / "data")
    return home


@pytest.fixture(scope="module")
def lake(home: Home) -> Path:
    return home.roots[0].path.parent / "lake"


def _duckdb(lake: Path) -> tuple[Decimal, int]:
    found = import_module("duckdb").sql(
        f"SELECT sum(usd), count(*) FILTER (counted) FROM read_parquet('{lake}/responses/**/*.parquet',"
        " hive_partitioning=true, union_by_name=true)"
    )
    total, count = found.fetchall()[0]
    return Decimal(total), count


def _polars(lake: Path) -> tuple[Decimal, int]:
    polars = import_module("polars")
    rows = polars.scan_parquet(lake / "responses" / "**" / "*.parquet", hive_partitioning=True)
    found = rows.select(polars.col("usd").sum(), polars.col("counted").sum()).collect()
    return Decimal(found["usd"][0]), int(found["counted"][0])


def _chdb(lake: Path) -> tuple[Decimal, int]:
    found = import_module("chdb").query(
        f"SELECT sum(usd), countIf(counted) FROM file('{lake}/responses/*/*.parquet', Parquet)", "TSV"
    )
    total, count = str(found).split()
    return Decimal(total), int(count)


@pytest.mark.parametrize("engine", [_duckdb, _polars, _chdb])
def test_every_engine_comes_to_the_total_of_the_cost_report(home: Home, lake: Path, engine: Total) -> None:
    totals = home.costs().totals
    assert (totals.usd, totals.responses) == engine(lake)
    assert totals.pico_usd % 10**6


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_days_are_dates_and_no_day_is_null(home: Home, lake: Path, engine: str) -> None:
    if engine == "duckdb":
        text = (
            f"SELECT DISTINCT day FROM read_parquet('{lake}/responses/**/*.parquet', hive_partitioning=true)"
        )
        found = {row[0] for row in import_module("duckdb").sql(text).fetchall()}
    else:
        rows = import_module("polars").scan_parquet(
            lake / "responses" / "**" / "*.parquet", hive_partitioning=True, try_parse_hive_dates=True
        )
        found = set(rows.select("day").unique().collect()["day"].to_list())
    assert {None, *(dt.date(2026, 11, day) for day in range(10, 15))} == found
