"""Defects that were seen on the page, each by its name; other files of this room have those of their subject."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Chromium
from tests.browser.home import EMPTY, LIVE, LONG, LONG_MESSAGES, RICH, SENT, SNAPSHOT, WINDOWS
from tests.surfaces.case import Case
from tests.surfaces.homes import made_unrecorded

ROW: dict[str, Any] = {
    "id": RICH,
    "agent": "claude",
    "project": "shop",
    "cwd": "/srv/shop",
    "title": "",
    "tag": None,
    "branch": None,
    "first_at": None,
    "last_at": None,
    "messages": None,
    "responses": None,
    "lines": None,
    "bytes": 9,
    "agents": None,
    "cost_usd": None,
    "known_cost_usd": None,
    "unpriced": [],
    "models": [],
    "live": False,
    "damaged": None,
    "expires_at": None,
    "is_archived": False,
    "is_archive_only": False,
    "is_indexed": False,
}
FACETS: dict[str, Any] = {"projects": [], "branches": [], "models": [], "tags": [], "repositories": []}
LIST: dict[str, Any] = {
    "sessions": [ROW],
    "from": 0,
    "total": 1,
    "total_cost_usd": "0",
    "unrecorded": 0,
    "unlisted_cost_usd": None,
    "unpriced": [],
    "index": "building",
    "facets": FACETS,
}


@pytest.fixture
def pretending(page: Chromium) -> Iterator[Chromium]:
    """A page whose server may be given words; afterwards it speaks for itself again."""
    yield page
    page.do("honest")


def test_while_the_first_index_is_built_nothing_is_untitled_or_free_or_red_and_it_refreshes_by_itself(
    pretending: Chromium,
) -> None:
    do = pretending.do
    do("pretend", path="/api/sessions", body=LIST)
    do("pretend", path="/api/stats", status=409, body={"error": "not built yet", "hint": "wait"})
    do("go", hash="#/sessions?sort=first", wait=".list .row:has-text('Not read yet')")
    told = do("wait", selector=".sessions")
    assert "Reading the logs for the first time" in told
    assert [word in told for word in ("Untitled", "$0.00")] == [False, False]
    do("go", hash="#/home?since=all", wait=".waiting:has-text('Reading your logs for the first time')")
    assert do("count", selector=".trouble") == 0
    do("honest")
    do("wait", selector=".home .figure")


def test_the_list_says_why_its_sum_is_not_that_of_cost_and_what_is_unknown(pretending: Chromium) -> None:
    do = pretending.do
    known = {**ROW, "is_indexed": True, "title": "Silent", "agent": "codex"}
    sums = {"total_cost_usd": "104.63", "unlisted_cost_usd": "0.59", "unrecorded": 1, "index": "ready"}
    free = {**known, "id": SENT, "title": "Free", "agent": "claude", "known_cost_usd": "0", "unpriced": ["x"]}
    part = {**free, "id": LIVE, "title": "Part", "known_cost_usd": "335.66"}
    do("pretend", path="/api/sessions", body={**LIST, **sums, "sessions": [known, free, part], "total": 3})
    do("go", hash="#/sessions?sort=first", wait=".list .row:has-text('Silent')")
    told = do("wait", selector=".sums", text="$104.63")
    assert "and $0.59 of sessions that were deleted" in told
    assert "and 1 session of unknown cost" in told
    row = do("wait", selector=".list .row")
    assert ["Codex" in row, "unknown" in row, "$0.00" in row] == [True, True, False]
    assert do("wait", selector=".list .row:has-text('Part') .money") == "$335.66 + unpriced"
    # A model without a price is something else than a client that recorded nothing.
    assert ["unpriced", False] == [
        do("wait", selector=".list .row:has-text('Free') .money"),
        "unknown" in do("wait", selector=".list .row", text="Free"),
    ]


def test_home_calls_a_cost_unknown_that_no_client_recorded(pretending: Chromium, tmp_path: Path) -> None:
    told = Case(made_unrecorded(tmp_path / "home"), tmp_path).document("report", "--figures")
    pretending.do("pretend", path="/api/stats", body=told)
    pretending.do("go", hash="#/home?since=all", wait=".home .figure:has-text('unknown')")
    shown = dict(one.split("\n")[:2] for one in pretending.do("texts", selector=".home .figure"))
    assert shown["All time"] == shown["Saved by caching"] == "unknown"
    assert shown["Today"] == "$0.00"
    assert "1 session of other agents recorded no usage" in pretending.do("wait", selector=".doubts")


def test_files_without_a_word_are_not_on_top_and_paths_of_windows_are_shortened(page: Chromium) -> None:
    page.do("wait", selector=".list .row")
    assert page.do("attribute", selector="[data-session]", name="data-session") not in (EMPTY, SNAPSHOT)
    assert "Today" not in page.do("texts", selector=".row .gutter")
    page.do("go", hash=f"#/s/{WINDOWS}", wait=".head .about a")
    assert page.do("wait", selector=".head .about a") == "till"


def test_nothing_covers_text_or_is_cut_off(page: Chromium) -> None:
    """The place of reading stands below the text; the panel's × is inside the panel; notices are two at most and cover
    no control."""
    for width in (1440, 1024):
        page.do("size", width=width, height=900)
        page.do("go", hash=f"#/s/{LONG}", wait=".panel .hide")
        page.do("wait", selector=".status", text=f"{LONG_MESSAGES:,} messages")
        messages, status = (page.do("box", selector=one) for one in (".messages", ".status"))
        assert messages["y"] + messages["height"] <= status["y"] + 0.5
        panel, cross = (page.do("box", selector=one) for one in (".panel", ".panel .hide"))
        assert cross["x"] + cross["width"] <= panel["x"] + panel["width"] <= width
        for part in ("Prompts", "Branches", "Sub-agents", "Find"):
            box = page.do("box", selector=f".panel .parts button:has-text('{part}')")
            assert box["y"] <= cross["y"] + 5, part
            assert not _meet(box, cross), part
            assert box["x"] + box["width"] <= panel["x"] + panel["width"], part
        for key in ("y", "]", "y"):
            page.do("press", keys=[key])
        page.do("wait", selector=".notice", text="Copied")
        assert page.do("count", selector=".notice") <= 2
        notices = page.do("box", selector=".notices")
        for control in (".head .do", ".panel .foot", ".panel .parts", ".tabs"):
            assert not _meet(notices, page.do("box", selector=control)), control
        page.do("go", hash="#/home?since=all", wait=".home .figure")
        heights = {
            page.do("box", selector=f".figure:nth-of-type({place}) .big")["height"] for place in range(1, 6)
        }
        assert len(heights) == 1, width
        page.do("go", hash="#/sessions", wait=".list .row")
        project, order = (
            page.do("box", selector=f"select[aria-label='{one}']") for one in ("Project", "Order")
        )
        assert width < 1200 or project["y"] == order["y"]
        field, row = (page.do("box", selector=one) for one in ("[data-search]", ".list .row > a"))
        assert field["x"] + field["width"] == row["x"] + row["width"]
    page.do("size", width=390, height=900)
    page.do("go", hash=f"#/s/{SENT}", wait=".boundary")
    assert page.do("texts", selector=".boundary .fold")[1].endswith("6 messages")
    assert page.do("cut", selector=".boundary .fold") == 0


def test_an_error_of_the_page_speaks_of_no_options_of_a_command(pretending: Chromium) -> None:
    do = pretending.do
    refused = {"error": "session: it is busy", "hint": "add `--force` to go on"}
    do("pretend", path=f"/api/sessions/{SENT}/todos", status=409, body=refused)
    do("go", hash=f"#/s/{SENT}/todos", wait=".waiting.trouble")
    told = do("wait", selector=".waiting.trouble")
    assert ["it is busy" in told, "--force" in told] == [True, False]


def test_the_button_of_homes_unfolds_what_was_found_and_folds_it_again(pretending: Chromium) -> None:
    do = pretending.do
    do("go", hash="#/health", wait=".health .lines")
    health = do("answer", path="/api/health")
    finding = {"code": "E07", "severity": "warning", "what": "Odd", "fix": "Look at it", "path": "/srv/odd"}
    do("pretend", path="/api/health", body={**health, "homes": [finding]})
    do("go", hash="#/sessions", wait=".list .row")
    do("go", hash="#/health", wait=".lines li:has-text('Homes')")
    line = ".lines li:has-text('Homes')"
    assert do("count", selector=f"{line} details[open]") == 0
    do("click", selector=f"{line} .do button")
    assert "Odd" in do("wait", selector=f"{line} details[open] li")
    do("click", selector=f"{line} .do button")
    assert do("count", selector=f"{line} details[open]") == 0


def test_settings_say_that_an_address_ends_and_how_one_stays(pretending: Chromium) -> None:
    do = pretending.do
    do("go", hash="#/settings", wait=".settings .card")
    told = do("wait", selector=".settings")
    assert ["This address ends with the command" in told, "recollect web --remember" in told] == [True, True]
    me = do("answer", path="/api/me")
    do("pretend", path="/api/me", body={**me, "is_remembered": True})
    do("reload", wait=".settings .card")
    told = do("wait", selector=".settings")
    assert ["This address stays" in told, "recollect web --forget" in told] == [True, True]
    assert "--remember" not in told


def test_an_axis_names_the_year_where_there_are_several(pretending: Chromium) -> None:
    do = pretending.do
    do("go", hash="#/home?since=all", wait=".home .figure")
    stats = do("answer", path="/api/stats")
    day = stats["days"][-1]
    chart = ".home .card:has-text('Cost by day') svg text"
    for first, pattern in (("2025-12-20", "^2025-12-[0-9]{2}$"), ("2026-01-02", "^01-[0-9]{2}$")):
        days = [{**day, "day": first}, {**day, "day": "2026-01-09"}]
        do("pretend", path="/api/stats", body={**stats, "days": days})
        do("go", hash="#/sessions", wait=".list .row")
        do("go", hash="#/home?since=all", wait=f"{chart}:text-matches('{pattern}')")
        do("honest")


def test_a_server_that_goes_on_the_way_to_cost_is_said_and_cost_comes_by_itself(page: Chromium) -> None:
    page.do("wait", selector=".list .row")
    page.do("offline", on=True)
    try:
        page.do("go", hash="#/cost?since=all", wait=".gone")
        told = page.do("wait", selector="main")
        assert ["does not answer" in told, "preload" in told.lower()] == [True, False]
    finally:
        page.do("offline", on=False)
    page.do("wait", selector=".cost .figures .money")
    page.do("gone", selector=".gone", text="does not answer")


def _meet(one: dict[str, float], other: dict[str, float]) -> bool:
    across = one["x"] < other["x"] + other["width"] and other["x"] < one["x"] + one["width"]
    return across and one["y"] < other["y"] + other["height"] and other["y"] < one["y"] + one["height"]
