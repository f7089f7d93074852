"""The figures of the home screen are those of the commands: stats, cost, list and the page agree."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from recollect.model.lines.ids import short_id
from tests.surfaces.case import Case
from tests.surfaces.homes import HomeCase, cases, made_unrecorded
from tests.web.pages import Browser, served

_UNRECORDED = HomeCase("unrecorded", lambda place: made_unrecorded(place / "home"))
_HOMES = {one.name: one for one in cases() if one.name in ("titles", "usage", "sample", "agents/unrecorded")}
_HOMES[_UNRECORDED.name] = _UNRECORDED


@pytest.fixture(scope="module", params=sorted(_HOMES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    place = tmp_path_factory.mktemp("stats")
    return Case(_HOMES[request.param].make(Path(place)), place)


def _rows(case: Case, key: str) -> dict[str, tuple[str | None, int]]:
    """The exact amount, null where no response has a price."""
    return _named(case.document("cost", "--by", key)["rows"], key)


def _named(rows: list[dict[str, Any]], key: str = "name") -> dict[str, tuple[str | None, int]]:
    return {row[key]: (row["cost_usd"], row["responses"]) for row in rows}


def test_statistics_equal_cost_by_every_key(case: Case) -> None:
    told = case.document("report", "--figures")

    assert _named(told["models"]) == _rows(case, "model")
    assert _named(told["projects"]) == _rows(case, "project")
    assert _named(told["repositories"]) == _rows(case, "repo")
    assert _named([row for row in told["days"] if row["responses"]], "day") == _rows(case, "day")
    total = case.document("cost")["totals"]
    whole = next(one for one in told["periods"] if one["name"] == "all_time")
    assert (whole["cost_usd"], whole["responses"]) == (total["cost_usd"], total["responses"])
    assert told["total_cost_usd"] == total["cost_usd"]
    unknown = len(case.document("cost")["unrecorded_sessions"])
    assert told["uncertainty"]["unrecorded_sessions"] == unknown


def test_the_text_names_the_sessions_as_the_document_does_and_stays_narrow(case: Case) -> None:
    """By the id that every command takes, under their projects, which add up to the cost."""
    told = case.document("report", "--since", "2000", "-n", "1000")
    lines = case.said("report", "--since", "2000", "-n", "1000").splitlines()
    ids = [short_id(one["id"]) for project in told["projects"] for one in project["sessions"]]
    rows = [line.split()[0] for line in lines[4:] if line.startswith("  ")]
    assert ids == rows
    total = case.document("cost", "--since", "2000")["totals"]["cost_usd"]
    assert (told["cost_usd"] or "0") == (total or "0")
    known = (Decimal(project["cost_usd"] or 0) for project in told["projects"])
    assert sum(known, Decimal(0)) == Decimal(total or 0)


def test_each_period_equals_cost_between_its_bounds(case: Case) -> None:
    for one in case.document("report", "--figures")["periods"]:
        bounds = [word for name in ("since", "until") if one[name] for word in (f"--{name}", one[name])]
        total = case.document("cost", "--by", "total", *bounds)["totals"]
        assert (one["cost_usd"], one["responses"]) == (total["cost_usd"], total["responses"]), one["name"]


def test_the_page_tells_what_the_command_prints_and_its_list_adds_up_to_cost(case: Case) -> None:
    told = case.document("report", "--figures")
    sessions = {one["id"]: one for one in case.document("list")["sessions"]}
    with Browser(served(case.home, case.data)) as browser:
        page = browser.get("/api/stats")
        listed = browser.get("/api/sessions?count=500")

    # A day or a quarter of an hour may end in between: the page tells what was true before or after.
    assert {**page, "now": ""} in [{**one, "now": ""} for one in (told, case.document("report", "--figures"))]
    total = Decimal(listed["total_cost_usd"] or 0) + Decimal(listed["unlisted_cost_usd"])
    assert total == Decimal(case.document("cost")["totals"]["cost_usd"] or 0)
    for row in listed["sessions"]:
        own = sessions[row["id"]]
        assert row["known_cost_usd"] == (own["cost_usd"] or own.get("known_cost_usd"))
    for one in told["top"]["by_messages"]:
        assert one["messages"] == sessions[one["id"]]["messages"]


def test_where_no_usage_is_recorded_no_amount_is_zero(tmp_path: Path) -> None:
    """Neither in the document nor in the text, nor in an exported report; another day than that of the session cost nothing."""
    case = Case(made_unrecorded(tmp_path / "home"), tmp_path)
    told = case.document("report", "--figures")
    amounts = [told["total_cost_usd"], told["agents"]["cost_usd"], told["blocks"]["most_cost_usd"]]
    amounts += [told["cache"][name] for name in ("saved_usd", "uncached_usd")]
    amounts += [one["cost_usd"] for one in told["days"]]
    assert set(amounts) == {None}
    periods = {one["name"]: one["cost_usd"] for one in told["periods"]}
    assert (periods["all_time"], periods["today"]) == (None, "0")
    assert case.document("cost", "--since", "1d")["totals"]["cost_usd"] == "0"
    assert case.document("cost", "--since", "1d", "--no-index")["totals"]["cost_usd"] == "0"

    text = case.said("report", "--since", "2000")
    assert text.splitlines()[1].startswith("unknown, ")
    assert "No usage recorded in 1 session of other agents: cost unknown." in text

    case.said("export", "--project", "/w", "--format", "html", "--output", str(tmp_path / "report"))
    report = (tmp_path / "report" / "index.html").read_text()
    assert "no usage recorded: cost unknown" in report
    assert "$" not in report[report.index("<h1>") :]
