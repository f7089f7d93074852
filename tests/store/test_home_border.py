"""Which files are part of a home, with every link followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.errors import UsageError
from recollect.store.session_files import HomeBorder


def test_a_directory_of_the_home_on_another_disk_is_part_of_it(tmp_path: Path) -> None:
    home, disk = tmp_path / "me" / "home", tmp_path / "disk"
    home.mkdir(parents=True)
    disk.mkdir()
    (home / "projects").symlink_to(disk)
    border = HomeBorder(home)

    assert (True, False) == (border.holds(home / "projects" / "a.jsonl"), border.holds(tmp_path / "other"))
    assert disk / "a.jsonl" == border.require(home / "projects" / "a.jsonl")


@pytest.mark.parametrize("up", ["home", "home/..", "home/../.."])
def test_a_link_to_a_directory_above_makes_nothing_there_part_of_the_home(tmp_path: Path, up: str) -> None:
    """Otherwise ``projects`` that leads to the user's own directory would open all of it to every command."""
    home = tmp_path / "me" / "home"
    home.mkdir(parents=True)
    (home / "projects").symlink_to(tmp_path / "me" / up)
    border = HomeBorder(home)

    assert not border.holds(tmp_path / "me" / ".ssh" / "config")
    assert border.holds(home / "history.jsonl")
    with pytest.raises(UsageError, match="lies outside the home"):
        border.require(tmp_path / "me" / "diary.jsonl")
