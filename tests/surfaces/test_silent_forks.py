"""A fork whose calls are all copies cost nothing; a session without any usage has an unknown cost: on every surface."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

import recollect
from tests.agents.tiny_homes import CHANGED, UNTOUCHED
from tests.surfaces.case import Case
from tests.surfaces.homes import SILENT_FORKS, made_copied
from tests.web.pages import Browser, served


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(made_copied(tmp_path / "home"), tmp_path)


def test_lists_and_reports_tell_nothing_spent_from_nothing_known(case: Case) -> None:
    listed = {one["id"]: one["cost_usd"] for one in case.document("list")["sessions"]}
    assert [listed[name] for name in (*SILENT_FORKS, CHANGED)] == ["0", "0", None]
    assert Decimal(listed[UNTOUCHED]) > 0
    for name, cost, unknown in (
        (SILENT_FORKS[0], "0", 0),
        (SILENT_FORKS[1], "0", 0),
        (CHANGED, None, 1),
    ):
        told = case.document("cost", "--session", name)
        assert (told["totals"]["cost_usd"], len(told["unrecorded_sessions"])) == (cost, unknown)
    assert case.document("cost")["unrecorded_sessions"] == [CHANGED]


def test_overview_statistics_and_page_count_the_one_that_is_unknown(case: Case) -> None:
    assert case.document()["cost"]["unrecorded_sessions"] == 1
    assert case.document("report", "--figures")["uncertainty"]["unrecorded_sessions"] == 1
    with Browser(served(case.home, case.data)) as browser:
        rows = browser.get("/api/sessions")
        assert rows["unrecorded"] == 1
        listed = {row["id"]: row["cost_usd"] for row in rows["sessions"]}
        opened = [browser.get(f"/api/sessions/{name}")["cost_usd"] for name in SILENT_FORKS]
        assert [listed[name] for name in SILENT_FORKS] == opened == ["0", "0"]


def test_tables_tell_them_apart(case: Case) -> None:
    """``sql`` and the lake of this machine."""
    asked = "SELECT id, pico_usd FROM sessions"
    case.said("data", "parquet", "--to", str(case.place / "lake"))
    for options in ((), ("--lake", str(case.place / "lake"))):
        rows = dict(case.document("data", "sql", asked, *options)["rows"])
        assert [rows[name] for name in (*SILENT_FORKS, CHANGED)] == [0, 0, None], options


def test_a_session_by_itself_is_unknown_only_without_a_record(case: Case) -> None:
    """Where the session it was made of is not there, copied calls are the only ones; copied answers were paid for elsewhere."""
    home = recollect.Home(case.home, data=case.data)
    based, copied, silent = (home.session(name) for name in (*SILENT_FORKS, CHANGED))
    assert [one.spending().is_unknown for one in (based, copied, silent)] == [False, False, True]
    alone = [recollect.Session(one.home, one.file).spending() for one in (based, copied, silent)]
    assert [one.is_unknown for one in alone] == [False, False, True]
    assert (alone[0].pico_usd, alone[1].pico_usd > 0) == (0, True)
