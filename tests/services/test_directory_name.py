"""Projects are called by the directories they were worked in."""

from __future__ import annotations

import pytest

from recollect.services.directory_name import directory_name, project_name


@pytest.mark.parametrize(
    ("cwd", "name"),
    [("/srv/shop", "shop"), ("C:\\work\\shop", "shop"), ("/srv/a\\b", "a\\b"), ("/", "/"), ("", "-srv-shop")],
)
def test_a_project_is_named_by_its_directory(cwd: str, name: str) -> None:
    """On either system; without one, by the directory of its logs."""
    assert project_name(cwd, "-srv-shop") == name
    assert directory_name(cwd) in (name, "")
