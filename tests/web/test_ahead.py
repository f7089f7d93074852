"""What the home screen will ask for is added up before it asks, and once for each state of the index."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace

import pytest

from recollect.services.indexing.access import OpenIndex
from recollect.services.page import stats
from recollect.services.stats.stats import range_figures
from tests.small_home import ONE, prompt, put, reply, said
from tests.web.pages import Browser

RANGES = ("/api/stats?since=30d", "/api/stats")


@pytest.fixture
def made(data: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The ranges that were added up for this page; that of an earlier test may still look ahead."""
    ranges: list[object] = []
    real = range_figures

    def counted(opened: OpenIndex, *asked: object) -> object:
        if opened.path.is_relative_to(data):
            ranges.append(asked[1:])
        return real(opened, *asked)  # type: ignore[arg-type]

    monkeypatch.setattr(stats, "range_figures", counted)
    return ranges


def test_the_ranges_of_the_home_screen_are_ready_before_the_first_request(
    browser: Browser, made: list[object]
) -> None:
    browser.page.page.stopping.set()
    browser.page.page.look_ahead()
    assert len(made) == 2
    asked = [browser.get(path) for path in RANGES]
    assert len(made) == 2
    assert asked[1]["total_cost_usd"] != "0"


def test_figures_are_kept_until_the_index_changes_whatever_the_minute(
    browser: Browser, home: Path, made: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = browser.get("/api/stats")

    class Later(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime.now(tz) + dt.timedelta(minutes=2)

    with monkeypatch.context() as changed:
        changed.setattr(stats, "dt", SimpleNamespace(datetime=Later, UTC=dt.UTC))
        again = browser.get("/api/stats")
    assert (len(made), again["now"] > first["now"]) == (1, True)
    put(home, ONE, [prompt(1, None, "Q1"), reply(2, 1, said("A1"), answer="other")])
    backend = browser.page.page.backend
    backend.index.hurry()
    backend.index.refresh()
    backend.index.wait(60)
    assert browser.get("/api/stats")["total_cost_usd"] != first["total_cost_usd"]
