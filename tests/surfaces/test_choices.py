"""A span of time and a project choose the same sessions and the same money on every surface."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

import recollect
from tests.small_home import prompt, reply, said
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

_NAMES = tuple(f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 6))


def _put(home: Path, name: str, at: dt.datetime, cwd: str) -> None:
    """A session of one question and one answer, both at one time."""
    moment = at.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines = [prompt(1, None, "Question"), reply(2, 1, said("Answer"), answer=f"msg_{name}")]
    log = home / "projects" / "-any" / f"{name}.jsonl"
    log.parent.mkdir(parents=True, exist_ok=True)
    entries = [{**line, "sessionId": name, "cwd": cwd, "timestamp": moment} for line in lines]
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    # A message with the id of another would be a copy of it.
    log.write_text(text.replace("00000000-0000-4000-8000-0000", f"{name[:8]}-1111-4000-8000-0000"))


@pytest.fixture(scope="module")
def midday() -> Iterator[None]:
    """A time zone in which it is noon now: no midnight passes between the writing of the sessions and the last question."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("TZ", f"NOON{dt.datetime.now(dt.UTC).hour - 12:+d}")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(scope="module")
def case(midday: None, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Sessions of today, of both sides of the midnight at which the last seven days began, and of two days long gone."""
    place = tmp_path_factory.mktemp("choices")
    today = dt.datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    first = (today - dt.timedelta(days=6)).replace(tzinfo=None).astimezone()
    times = (
        today,
        first,
        first - dt.timedelta(minutes=1),
        dt.datetime(2025, 3, 31, 12).astimezone(),
        dt.datetime(2025, 4, 1, 12).astimezone(),
    )
    directories = ("/srv/shop", "/srv/shop/below", "/srv/My-Shop", "C:\\work\\shop", "/srv/other")
    for name, at, cwd in zip(_NAMES, times, directories, strict=True):
        _put(place / "claude", name, at, cwd)
    return Case(place / "claude", place)


@pytest.fixture(scope="module")
def browser(case: Case) -> Iterator[Browser]:
    with Browser(served(case.home, case.data)) as one:
        yield one


SPANS = [
    ({"since": "7d"}, {0, 1}),
    ({"since": "1w"}, {0, 1}),
    ({"until": "7d"}, {2, 3, 4}),
    ({"since": "today"}, {0}),
    ({"since": "2025-03-31", "until": "20250331"}, {3}),
    ({"since": "march 2025", "until": "march 2025"}, {3}),
    ({"until": "2025"}, {3, 4}),
    ({"since": "2025-04-01T00:00:00Z", "until": "in april 2025"}, {4}),
]


@pytest.mark.parametrize(("span", "expected"), SPANS, ids=[" ".join(span.values()) for span, _ in SPANS])
def test_a_span_of_time_means_the_same(
    span: dict[str, str], expected: set[int], case: Case, browser: Browser
) -> None:
    """Days are whole and local, on the page and in the library as in the commands."""
    options = [word for name, value in span.items() for word in (f"--{name}", value)]
    names = {_NAMES[number] for number in expected}
    rows = {
        "list": case.document("list", *options)["sessions"],
        "list --no-index": case.document("list", "--no-index", *options)["sessions"],
        "page list": browser.get(f"/api/sessions?{urlencode(span)}")["sessions"],
    }
    costs = {
        "cost": case.document("cost", "--by", "session", *options)["rows"],
        "cost --no-index": case.document("cost", "--by", "session", "--no-index", *options)["rows"],
        "page cost": browser.get(f"/api/cost?by=session&{urlencode(span)}")["rows"],
        "search": case.document("search", "answer", *options)["hits"],
        "page search": browser.get(f"/api/search?q=answer&{urlencode(span)}")["groups"],
    }
    library = recollect.Home(case.home, data=case.data)
    found = {name: {row["id"] for row in one} for name, one in rows.items()}
    found |= {name: {_session(row) for row in one} for name, one in costs.items()}
    found["Home.costs"] = {row.keys["session"] for row in library.costs("session", **span).rows}  # type: ignore[arg-type]
    found["Home.search"] = {hit.session or "" for hit in library.search("answer", **span).hits}  # type: ignore[arg-type]

    assert dict.fromkeys(found, names) == found


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ("/srv/shop", {0, 1}),
        ("shop", {0, 2, 3}),
        ("SHOP", {0, 2, 3}),
        ("/srv", {0, 1, 2, 4}),
        ("nowhere", set()),
    ],
)
def test_a_project_means_the_same(
    project: str, expected: set[int], case: Case, browser: Browser, tmp_path: Path
) -> None:
    """A directory with all below it, or part of a directory's name, also of one of Windows."""
    names = {_NAMES[number] for number in expected}
    home = recollect.Home(case.home, data=case.data)
    asked = f"project={project}"
    exported = tmp_path / "out"
    if names:
        case.said("export", "--project", project, "--format", "html", "--output", str(exported))
    found = {
        "list": {row["id"] for row in case.document("list", "-p", project)["sessions"]},
        "list --no-index": {
            row["id"] for row in case.document("list", "-p", project, "--no-index")["sessions"]
        },
        "cost": {_session(row) for row in case.document("cost", "--by", "session", "-p", project)["rows"]},
        "search": {_session(row) for row in case.document("search", "answer", "-p", project)["hits"]},
        "page list": {row["id"] for row in browser.get(f"/api/sessions?{asked}")["sessions"]},
        "page cost": {_session(row) for row in browser.get(f"/api/cost?by=session&{asked}")["rows"]},
        "page search": {_session(row) for row in browser.get(f"/api/search?q=answer&{asked}")["groups"]},
        "Home.sessions": {one.id for one in home.sessions(project)},
        "Home.costs": {row.keys["session"] for row in home.costs("session", project=project).rows},
        "Home.search": {hit.session or "" for hit in home.search("answer", project=project).hits},
        "export": {path.stem for path in exported.glob("*.html")} - {"index"},
    }

    assert dict.fromkeys(found, names) == found


def _session(row: dict[str, str]) -> str:
    return row["session"] if "session" in row else row["id"]
