"""Net changes of sessions: before the first change, after the last; reads count for nothing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.blame.changes import FileNetChange, is_path, net_changes
from recollect.ask.library import Home
from tests.small_home import ONE, TWO, link, prompt, put
from tests.talk import call, result

A, B = "/srv/shop/a.py", "/srv/shop/b.py"


def used(number: int, tool: str, told: dict[str, Any], **given: Any) -> list[dict[str, Any]]:
    """A call and its result, the second with what the client tells of the file."""
    name = f"call{number}"
    asked = link(
        number,
        number - 1,
        type="assistant",
        message={
            "id": f"m{number}",
            "role": "assistant",
            "model": "m",
            "content": [call(name, tool, **given)],
        },
    )
    answer = prompt(number + 1, number, [result(name, "ok")], toolUseResult=told)
    return [asked, answer]


def edit(number: int, path: str, whole: str, old: str, new: str) -> list[dict[str, Any]]:
    told = {
        "filePath": path,
        "oldString": old,
        "newString": new,
        "originalFile": whole,
        "structuredPatch": [],
    }
    return used(number, "Edit", told, file_path=path, old_string=old, new_string=new)


def write(number: int, path: str, content: str) -> list[dict[str, Any]]:
    told = {"type": "create", "filePath": path, "content": content, "structuredPatch": []}
    return used(number, "Write", told, file_path=path, content=content)


def read(number: int, path: str, content: str) -> list[dict[str, Any]]:
    told = {
        "type": "text",
        "file": {"filePath": path, "content": content, "numLines": 1, "startLine": 1, "totalLines": 1},
    }
    return used(number, "Read", told, file_path=path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One session reads a file and edits another twice; a second edits that too, and makes and unmakes a line."""
    home = tmp_path / "home"
    first = [*read(2, B, "seen\n"), *edit(4, A, "one\n", "one", "two"), *edit(6, A, "two\n", "two", "three")]
    put(home, ONE, [prompt(1, None, "Q"), *first], cwd="/srv/shop")
    second = [*edit(12, A, "three\n", "three", "three\nfour"), *write(14, B, "made\n")]
    put(home, TWO, [prompt(11, None, "Q"), *second], cwd="/srv/shop")
    return home


def changes(home: Path, **query: Any) -> dict[str, FileNetChange]:
    sessions = list(Home(home, data=home.parent / "data", index=False).sessions())
    return {change.path: change for change in net_changes(sessions, **query).files}


def test_several_edits_of_two_sessions_are_one_change(home: Path) -> None:
    """One line became two; what lay between is not shown."""
    found = changes(home)
    assert set(found) == {A, B}
    assert (found[A].added, found[A].removed, found[A].changes, found[A].kind) == (2, 1, 3, "changed")
    assert (found[A].diff or "").splitlines()[3:] == ["-one", "+three", "+four"]
    assert found[A].sessions == [ONE, TWO]


def test_a_file_that_was_only_read_before_it_was_made_is_changed_once(home: Path) -> None:
    found = changes(home, path="b.py")
    assert list(found) == [B]
    assert (found[B].changes, found[B].added, found[B].sessions) == (1, 1, [TWO])


def test_only_the_time_that_was_asked_for_counts(home: Path) -> None:
    last = changes(home)[A].last_at
    assert last is not None
    found = changes(home, since=last)[A]
    assert (found.added, found.removed, found.changes) == (1, 0, 1)
    assert changes(home, until=last - dt.timedelta(days=1)) == {}


def test_a_file_that_is_edited_unseen_is_not_new(tmp_path: Path) -> None:
    told = {"filePath": A, "oldString": "one", "newString": "two", "structuredPatch": []}
    edited = used(2, "Edit", told, file_path=A, old_string="one", new_string="two")
    put(tmp_path / "home", ONE, [prompt(1, None, "Q"), *edited], cwd="/srv/shop")
    assert changes(tmp_path / "home")[A].kind == "changed"


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("a.py", True),
        ("shop/a.py", True),
        ("/srv/shop", True),
        ("shop", True),
        ("./a.py", True),
        ("/shop", False),
        (".py", False),
        ("op/a.py", False),
    ],
)
def test_a_path_is_named_by_its_end_or_a_directory_above(wanted: str, fits: bool) -> None:
    assert is_path(A, wanted) is fits
