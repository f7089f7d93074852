"""Every list of sessions has the same sessions in the same order, with the same figures."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect.ask import archive as keep
from recollect.ask.library import Home
from tests.small_home import prompt, put, reply, said
from tests.surfaces.case import Case
from tests.surfaces.commands import fine_cents
from tests.web.pages import Browser, served

_NAMES = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 5)]
_OLD, _NEW, _ARCHIVED, _SILENT = _NAMES
_ORDER = [_NEW, _ARCHIVED, _OLD, _SILENT]
_CWD = "/srv/app"


def _log(home: Path, name: str, title: str, at: str) -> Path:
    number = _NAMES.index(name) * 10
    talk = [prompt(number + 1, None, title), reply(number + 2, number + 1, said("Yes"), answer=f"msg_{name}")]
    return put(home, name, [{**entry, "timestamp": at} for entry in talk], _CWD)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Files whose times say the opposite of what their lines say; one is only in the archive, one holds no message."""
    place = tmp_path_factory.mktemp("lists")
    home, data = place / "claude", place / "data"
    logs = [
        _log(home, _OLD, "The oldest talk", "2026-01-01T10:00:00.000Z"),
        _log(home, _NEW, "The newest talk", "2026-03-01T10:00:00.000Z"),
        _log(home, _ARCHIVED, "A talk the archive has", "2026-02-01T10:00:00.000Z"),
    ]
    for log, days in zip(logs, (1, 3, 2), strict=True):
        moment = dt.datetime(2026, 6, 10, tzinfo=dt.UTC).timestamp() - days * 86_400
        os.utime(log, (moment, moment))
    silent = logs[0].with_name(f"{_SILENT}.jsonl")
    silent.write_text(
        json.dumps({"type": "custom-title", "customTitle": "No talk", "sessionId": _SILENT}) + "\n"
    )
    archived = [one for one in Home(home).sessions() if one.id == _ARCHIVED]
    keep.add_all(keep.archive_at(data), archived, dt.datetime(2026, 11, 16, tzinfo=dt.UTC))
    logs[2].unlink()
    return Case(home, place)


def _page(case: Case) -> list[dict[str, Any]]:
    with Browser(served(case.home, case.data)) as browser:
        rows: list[dict[str, Any]] = browser.get("/api/sessions")["sessions"]
        return rows


def _index_page(case: Case) -> list[list[str]]:
    """The cells of each row of an exported project's index, and the name of the page it leads to."""
    target = case.place / "exported"
    if not target.exists():
        case.said("export", "--project", _CWD, "--format", "html", "--output", str(target))
    text = (target / "index.html").read_text()
    rows = re.findall(r"<tr>(.*?)</tr>", text.rpartition("<tbody>")[2])
    names = [re.findall(r'href="([^"]*)\.html"', row) for row in rows]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    return [
        [*name, *(re.sub(r"<[^>]*>", "", cell) for cell in row)]
        for name, row in zip(names, cells, strict=True)
    ]


_LISTS: dict[str, Callable[[Case], list[str]]] = {
    "list": lambda case: [row["id"] for row in case.document("list")["sessions"]],
    "list --no-index": lambda case: [row["id"] for row in case.document("list", "--no-index")["sessions"]],
    "overview": lambda case: [row["id"] for row in case.document()["newest"]],
    "Home.listed": lambda case: [one.id for one in recollect.Home(case.home, data=case.data).listed()],
    "page": lambda case: [row["id"] for row in _page(case)],
    # A file without a message names no directory, so it belongs to no project.
    "export": lambda case: [row[0] for row in _index_page(case)],
}


@pytest.mark.parametrize("name", _LISTS)
def test_a_list_is_in_the_order_of_the_last_message(name: str, case: Case) -> None:
    """Not of the files: what only the archive has is in its place, and a file without a message stands last."""
    assert _LISTS[name](case) == (_ORDER[:3] if name == "export" else _ORDER)


def test_the_overview_has_as_many_sessions_as_the_list(case: Case) -> None:
    """Those in the home, and those that only the archive has, in text and document, with an index and without one."""
    told = case.document()
    rows = case.document("list")["sessions"]
    archived = sum(row["is_archive_only"] for row in rows)
    assert (3, 1) == (len(rows) - archived, archived) == (told["sessions"], told["only_archived"])
    assert "3 sessions (1 more only in the archive)" in case.said()


def test_what_only_the_archive_has_is_told_alike(case: Case) -> None:
    """Title, times, counts and cost of an archived session, in the list, on the page and in an exported index."""
    told = next(row for row in case.document("list")["sessions"] if row["id"] == _ARCHIVED)
    shown = next(row for row in _page(case) if row["id"] == _ARCHIVED)
    _, title, last, messages, agents, cost = next(row for row in _index_page(case) if row[0] == _ARCHIVED)

    assert (True, True, True) == (told["is_archive_only"], shown["is_archive_only"], shown["is_archived"])
    same = (
        "title",
        "project",
        "cwd",
        "first_at",
        "last_at",
        "messages",
        "responses",
        "lines",
        "bytes",
        "agents",
    )
    assert {field: told[field] for field in same} == {field: shown[field] for field in same}
    assert (told["cost_usd"], None, False) == (shown["cost_usd"], shown["expires_at"], shown["live"])
    at = dt.datetime.fromisoformat(told["last_at"])
    assert [f"{told['title']} archived", f"{at:%Y-%m-%d %H:%M} UTC"] == [title, last]
    amount = fine_cents({**told, "is_unpriced": False})
    assert [str(told["messages"]), str(told["agents"]), amount] == [messages, agents, cost]
    assert (0, 0) < (told["messages"], Decimal(told["cost_usd"]))


def test_what_only_the_archive_has_is_counted_without_an_index(case: Case) -> None:
    """The list, its sums and the costs are those of the index, the titles of sessions too."""
    for words in (("list",), ("cost",), ("cost", "--by", "session")):
        with_index, without = case.document(*words), case.document(*words, "--no-index")
        with_index.pop("notes", None)
        without.pop("notes", None)  # that the logs were read
        assert with_index == without
    rows = case.document("cost", "--by", "session", "--no-index")["rows"]
    assert 3 == len(rows)
    for more in ([], ["--no-index"]):
        assert "A talk the archive has" in case.said("cost", "--by", "session", *more)


def test_the_charts_of_an_exported_project_have_the_figures_of_the_commands(case: Case) -> None:
    """Cost by day, models and tools: cell by cell those of `stats --json`; days and total also those of `cost --json`."""
    _index_page(case)
    text = (case.place / "exported" / "index.html").read_text().rpartition("<main>")[2]
    days, models, tools, _ = (_cells(table) for table in re.findall(r"<table>(.*?)</table>", text, re.DOTALL))
    stats = case.document("report", "--figures", "-p", _CWD)
    cost = case.document("cost", "--by", "day", "-p", _CWD)

    assert [[day["day"], f"{day['responses']:,}", day["cost_usd"]] for day in stats["days"]] == days
    assert [[row["day"], f"{row['responses']:,}", row["cost_usd"]] for row in cost["rows"]] == days
    assert [[f"{one['responses']:,}", one["cost_usd"]] for one in stats["models"]] == [
        row[1:] for row in models
    ]
    assert [[one["name"], f"{one['calls']:,}", f"{one['failures']:,}"] for one in stats["tools"]] == [
        row[:3] for row in tools
    ]
    total = re.search(r'<span>Cost</span><b><data value="([^"]*)">', text)
    assert total is not None
    assert stats["total_cost_usd"] == cost["totals"]["cost_usd"] == total[1]
    assert (0, 0) < (len(days), len(models))


def _cells(table: str) -> list[list[str]]:
    """The cells of a table; an amount is what it says to programs."""
    rows = re.findall(r"<tr>(<td.*?)</tr>", table, re.DOTALL)
    exact = [re.sub(r'<data value="([^"]*)">.*?</data>', r"\1", row) for row in rows]
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in exact
    ]
