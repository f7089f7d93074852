"""Projects are called by the directories they were worked in, and chosen by one rule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.ask.sessions.projects import ProjectFilter
from recollect.model.text.titles import directory_name, project_name


@pytest.mark.parametrize(
    ("cwd", "name"),
    [("/srv/shop", "shop"), ("C:\\work\\shop", "shop"), ("/srv/a\\b", "a\\b"), ("/", "/"), ("", "-srv-shop")],
)
def test_a_project_is_named_by_its_directory(cwd: str, name: str) -> None:
    """On either system; without one, by the directory of its logs."""
    assert project_name(cwd, "-srv-shop") == name
    assert directory_name(cwd) in (name, "")


@pytest.mark.parametrize(
    ("project", "cwd", "fits"),
    [
        ("/srv/shop", "/srv/shop", True),
        ("/srv/shop", "/srv/shop/below", True),
        ("/srv/shop/", "/srv/shop", True),
        ("/srv/shop", "/srv/shop-two", False),
        ("/", "/srv/shop", True),
        ("shop", "/srv/My-Shop", True),
        ("shop", "/srv/shop/below", False),
        ("shop", "C:\\work\\Shop", True),
        ("work", "C:\\work\\shop", False),
        ("C:\\work\\shop", "c:\\work\\Shop\\till", True),
        ("C:\\work\\shop", "C:\\work\\shop-two", False),
        ("C:/work/shop", "C:\\work\\shop", True),
        ("C:\\work\\shop", "/srv/shop", False),
        ("shop", "", False),
        ("shop", None, False),
        ("/srv/\0", "/srv/shop", False),
    ],
)
def test_a_project_is_a_directory_with_all_below_it_or_part_of_a_name(
    project: str, cwd: str | None, fits: bool
) -> None:
    """A name is looked for in the last part of a path, whatever its case and whichever system wrote it."""
    assert ProjectFilter(project).fits(cwd) is fits


def test_a_directory_is_looked_up_from_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dot, a way up, the user's home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    for project in (".", "./", "below/..", "~/"):
        assert ProjectFilter(project).fits(os.path.realpath(tmp_path))
