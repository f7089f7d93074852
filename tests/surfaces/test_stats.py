"""The figures of the home screen are those of the commands: stats, cost, list and the page agree."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.terminal.text import width
from recollect.model.ids import short_id
from tests.surfaces.case import Case
from tests.surfaces.homes import cases
from tests.web.pages import Browser, served

_HOMES = {one.name: one for one in cases() if one.name in ("titles", "usage", "sample")}


@pytest.fixture(scope="module", params=sorted(_HOMES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    place = tmp_path_factory.mktemp("stats")
    return Case(_HOMES[request.param].make(Path(place)), place)


def _rows(case: Case, key: str) -> dict[str, tuple[Decimal, int]]:
    """What is known: a row without any price adds nothing to a sum."""
    rows = case.document("cost", "--by", key)["rows"]
    return {row[key]: (Decimal(row["cost_usd"] or 0), row["responses"]) for row in rows}


def _named(rows: list[dict[str, Any]], key: str = "name") -> dict[str, tuple[Decimal, int]]:
    return {row[key]: (Decimal(row["cost_usd"]), row["responses"]) for row in rows}


def test_statistics_equal_cost_by_every_key(case: Case) -> None:
    told = case.document("stats")

    assert _named(told["models"]) == _rows(case, "model")
    assert _named(told["projects"]) == _rows(case, "project")
    assert _named(told["repositories"]) == _rows(case, "repo")
    assert _named([row for row in told["days"] if row["responses"]], "day") == _rows(case, "day")
    total = case.document("cost")["totals"]
    whole = next(one for one in told["periods"] if one["name"] == "all_time")
    assert (whole["cost_usd"], whole["responses"]) == (total["cost_usd"], total["responses"])
    assert told["total_cost_usd"] == total["cost_usd"]


def test_the_text_names_the_top_sessions_as_the_document_does_and_stays_narrow(case: Case) -> None:
    """By the id that every command takes; a title of many words is cut."""
    top = case.document("stats")["top"]["by_cost"][:8]
    lines = case.said("stats").splitlines()
    begin = lines.index("Top sessions") + 2
    assert [short_id(one["id"]) for one in top] == [
        line.split()[0] for line in lines[begin : begin + len(top)]
    ]
    assert max(map(width, lines[begin : begin + len(top)])) <= 100


def test_each_period_equals_cost_between_its_bounds(case: Case) -> None:
    for one in case.document("stats")["periods"]:
        bounds = [word for name in ("since", "until") if one[name] for word in (f"--{name}", one[name])]
        total = case.document("cost", "--by", "total", *bounds)["totals"]
        assert (one["cost_usd"], one["responses"]) == (total["cost_usd"], total["responses"]), one["name"]


def test_the_page_tells_what_the_command_prints_and_its_list_adds_up_to_cost(case: Case) -> None:
    told = case.document("stats")
    sessions = {one["id"]: one for one in case.document("list")["sessions"]}
    with Browser(served(case.home, case.data)) as browser:
        page = browser.get("/api/stats")
        listed = browser.get("/api/sessions?count=500")

    # A day or a quarter of an hour may end in between: the page tells what was true before or after.
    assert {**page, "now": ""} in [{**one, "now": ""} for one in (told, case.document("stats"))]
    total = Decimal(listed["total_cost_usd"]) + Decimal(listed["unlisted_cost_usd"])
    assert total == Decimal(case.document("cost")["totals"]["cost_usd"])
    for row in listed["sessions"]:
        own = sessions[row["id"]]
        assert row["known_cost_usd"] == (own["cost_usd"] or own.get("known_cost_usd"))
    for one in told["top"]["by_messages"]:
        assert one["messages"] == sessions[one["id"]]["messages"]
