"""The list of sessions: filters, order, paging, facets; before there is an index, and after."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.system.locations import MIRROR_FACTS
from tests.small_home import ONE, TALK, TWO, link, open_in_this_process, prompt, put, reply, said
from tests.web.pages import Browser, served

OLD = "7c1d9c1e-0000-4000-8000-000000000003"


def _old_talk() -> list[dict[str, Any]]:
    talk = [
        prompt(1, None, "Long ago", gitBranch="old"),
        reply(2, 1, said("Yes"), answer="old_a", gitBranch="old"),
    ]
    for entry, time_ in zip(talk, ("2025-03-01T10:00:00.000Z", "2025-03-01T11:00:00.000Z"), strict=True):
        entry["timestamp"] = time_
    message = dict(talk[1]["message"])
    message |= {"model": "claude-opus-4-1-20250805", "usage": {"input_tokens": 0, "output_tokens": 1_000_000}}
    talk[1]["message"] = message
    return talk


@pytest.fixture
def browser(home: Path, data: Path) -> Any:
    """Three sessions: two of November 2026 (the third second of ten o'clock), one of March 2025."""
    put(home, OLD, _old_talk(), cwd="/srv/old-shop")
    with Browser(served(home, data)) as one:
        yield one


def _ids(browser: Browser, query: str) -> list[str]:
    return [row["id"] for row in browser.get(f"/api/sessions?{query}")["sessions"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {ONE, TWO, OLD}),
        ("project=shop", {TWO, OLD}),
        ("project=/srv/shop", {TWO}),
        ("branch=main", {TWO}),
        ("branch=none", set()),
        ("model=opus", {OLD}),
        ("model=SONNET", {ONE, TWO}),
        ("since=2026-01-01", {ONE, TWO}),
        ("until=2025-03-01", {OLD}),
        ("until=2025-02-28", set()),
        ("since=2025-03-01T10:59:59Z&until=2025-03-01T11:00:00Z", {OLD}),
        ("min_cost=75", {OLD}),
        ("min_cost=75.01", set()),
        ("max_cost=0.01", {ONE, TWO}),
        ("damaged=true", set()),
        ("damaged=false", {ONE, TWO, OLD}),
        ("live=true", set()),
        ("text=shop ago", {OLD}),
        ("text=3f2a9c1e", {ONE}),
        ("archived=true", set()),
        ("tag=none", set()),
    ],
)
def test_filters(browser: Browser, query: str, expected: set[str]) -> None:
    """Each filter keeps what it says, and the total counts that."""
    assert expected == set(_ids(browser, query))
    assert browser.get(f"/api/sessions?{query}")["total"] == len(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sort=last&order=asc", OLD),
        ("sort=cost", OLD),
        ("sort=title&order=asc", OLD),
        ("sort=lines&order=asc", OLD),
        ("sort=first&order=asc", OLD),
        ("sort=bytes", TWO),
    ],
)
def test_order(browser: Browser, query: str, expected: str) -> None:
    """The first in each order, by arithmetic: the old one is the dearest, shortest and first; "Long" comes before "Q", "R"."""
    assert _ids(browser, query)[0] == expected


def test_list_and_head_count_the_same_lines(home: Path, data: Path) -> None:
    """Four lines, one of metadata and one that is repeated: every line of the log counts, here and there."""
    log = next(home.rglob(f"{ONE}.jsonl"))
    first = log.read_bytes().splitlines(keepends=True)[0]
    with log.open("ab") as file:
        file.write(b'{"type": "summary", "summary": "s", "leafUuid": "x"}\n' + first)
    with Browser(served(home, data)) as one:
        row = next(row for row in one.get("/api/sessions")["sessions"] if row["id"] == ONE)
        assert (row["lines"], one.get(f"/api/sessions/{ONE}")["lines"]) == (6, 6)


def test_the_cost_of_a_session_and_of_all(browser: Browser) -> None:
    """A million tokens out of Opus 4.1 are 75 dollars; two answers of 0.00033 each make 0.00066, twice."""
    found = browser.get("/api/sessions")
    assert {row["id"]: row["cost_usd"] for row in found["sessions"]} == {
        ONE: "0.00066",
        TWO: "0.00066",
        OLD: "75",
    }
    assert found["total_cost_usd"] == "75.00132"


def test_pages_put_together_are_the_list(browser: Browser) -> None:
    """Windows of one, in order, without gap or repeat; facets come with the first only."""
    whole = _ids(browser, "")
    assert whole == [_ids(browser, f"from={place}&count=1")[0] for place in range(3)]
    assert _ids(browser, "from=3") == []
    first, second = browser.get("/api/sessions?count=1"), browser.get("/api/sessions?count=1&from=1")
    assert ("facets" in first, "facets" in second) == (True, False)
    assert {"/srv/app": 1, "/srv/shop": 1, "/srv/old-shop": 1} == dict(first["facets"]["projects"])


def test_a_session_that_is_open_is_live(browser: Browser, home: Path) -> None:
    """As its marker says."""
    open_in_this_process(home, TWO)
    assert _ids(browser, "live=true") == [TWO]


def test_what_expires_is_found(browser: Browser, home: Path) -> None:
    """The client goes by the file's time: 25 days old with 30 days to keep is within a week of its end."""
    log = next(home.rglob(f"{OLD}.jsonl"))
    then = time.time() - 25 * 86_400
    os.utime(log, (then, then))
    assert _ids(browser, "expiring=true") == [OLD]
    health = browser.get("/api/health")["expiring"]
    assert (health["total"], health["not_archived"], health["sessions"][0]["title"]) == (1, 1, "Long ago")
    assert health["action"] == {"path": "/api/archive", "body": {"which": "expiring"}}


def test_a_new_session_is_listed_before_it_is_indexed(home: Path, data: Path) -> None:
    """Without an index: titles, times and sizes from the logs, nothing made up about costs."""
    with Browser(served(home, data, is_built=False)) as browser:
        browser.page.page.backend.index.refresh = lambda: None  # type: ignore[method-assign]
        found = browser.get("/api/sessions")
        assert found["index"] == "none"
        rows = {row["id"]: row for row in found["sessions"]}
        assert (rows[ONE]["title"], rows[ONE]["cost_usd"], rows[ONE]["is_indexed"]) == ("Q1", None, False)
        assert browser.get(f"/api/sessions/{ONE}")["cost_usd"] is None
        for asked in ("/api/search?q=reading", "/api/cost?by=day"):
            assert "is being built" in browser.ask("GET", asked).json()["error"]


def test_what_is_added_later_is_in_the_next_answers(browser: Browser, home: Path) -> None:
    """A log that appears is listed at once, and its cost is there after the next refresh."""
    new, before = "9c1d9c1e-0000-4000-8000-000000000004", browser.get("/api/stats")["total_cost_usd"]
    put(
        home,
        new,
        [{**entry, "uuid": entry["uuid"].replace("8000", "9000", 1)} for entry in TALK],
        cwd="/srv/new",
    )
    desk = browser.page.page.backend
    desk.changed()
    assert new in _ids(browser, "")
    desk.index._rests_until = 0.0
    desk.index.refresh()
    desk.index.wait(60)
    assert browser.get("/api/sessions?project=new")["sessions"][0]["is_indexed"] is True
    assert browser.get("/api/stats")["total_cost_usd"] != before


def test_projects_add_up(browser: Browser) -> None:
    """Every session is in one project, and so is its cost; the project used last comes first."""
    projects = browser.get("/api/projects")["projects"]
    assert sum(one["sessions"] for one in projects) == 3
    assert {one["cwd"]: one["cost_usd"] for one in projects} == {
        "/srv/app": "0.00066",
        "/srv/shop": "0.00066",
        "/srv/old-shop": "75",
    }
    assert projects[-1]["project"] == "old-shop"


def test_an_index_that_is_broken_is_built_anew(browser: Browser, data: Path) -> None:
    """Meanwhile the list is there without costs; after the next refresh it has them again."""
    (index,) = (data / "cache").glob("index-*.sqlite")
    for side in (data / "cache").glob("index-*.sqlite-*"):
        side.unlink()
    index.write_bytes(b"not a database" * 1000)
    desk = browser.page.page.backend
    assert browser.get("/api/sessions")["total"] == 3
    desk.index._rests_until = 0.0
    desk.index.refresh()
    desk.index.wait(60)
    assert browser.get("/api/sessions")["total_cost_usd"] == "75.00132"


def test_what_a_session_of_another_agent_cost_is_unknown_where_no_usage_was_recorded(
    data: Path, tmp_path: Path
) -> None:
    """Never 0: not in the list, its sum, the head, the turns' session or the statistics; and each says whose it is."""
    home = tmp_path / "codex-1"
    put(home, ONE, [prompt(1, None, "Q"), link(2, 1, type="assistant", message=SILENT)])
    (home / MIRROR_FACTS).write_text("{}")
    with Browser(served(home, data)) as browser:
        listed = browser.get("/api/sessions")
        (row,) = listed["sessions"]
        assert (row["agent"], row["cost_usd"], row["known_cost_usd"], row["unpriced"]) == (
            "codex",
            None,
            None,
            [],
        )
        assert (row["is_indexed"], listed["unrecorded"], listed["total_cost_usd"]) == (True, 1, None)
        head = browser.get(f"/api/sessions/{ONE}")
        assert (head["agent"], head["cost_usd"], head["known_cost_usd"]) == ("codex", None, None)
        assert browser.get(f"/api/sessions/{ONE}/costs")["session"]["cost_usd"] is None
        assert browser.get("/api/stats")["uncertainty"]["unrecorded_sessions"] == 1


SILENT = {"role": "assistant", "content": [said("A")]}
