"""No test sees the homes of this machine, and the fixture that keeps it so is proven here."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.conftest import REAL_HOMES


def test_every_home_variable_points_into_this_tests_own_directory(own_home: Path) -> None:
    """HOME, the XDG directories and CLAUDE_CONFIG_DIR are inside the fresh directory."""
    names = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "CLAUDE_CONFIG_DIR"]

    assert all(Path(os.environ[name]).is_relative_to(own_home) for name in names)
    assert Path("~").expanduser() == own_home
    assert Path.home() == own_home


def test_the_real_home_is_none_of_them(own_home: Path) -> None:
    """The account's own home is not where the variables point, and holds nothing of this test's."""
    real = Path(pwd.getpwuid(os.getuid()).pw_dir)

    assert real != own_home
    assert not (real / ".claude").is_relative_to(own_home)


def test_a_subprocess_inherits_the_isolation(own_home: Path) -> None:
    """Commands that tests start see the same private home."""
    import subprocess
    import sys

    seen = subprocess.run(
        [sys.executable, "-c", "import pathlib; print(pathlib.Path.home())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    assert str(own_home) == seen


@pytest.mark.parametrize("directory", REAL_HOMES)
def test_touching_a_real_home_fails_at_once(directory: str) -> None:
    """Not only do the variables point elsewhere: opening or listing the real places raises, in every test."""
    with pytest.raises(PermissionError, match="a test touched the real"):
        Path(directory, "settings.json").read_bytes()
    with pytest.raises(PermissionError, match="a test touched the real"):
        os.listdir(directory)


@pytest.mark.parametrize("directory", REAL_HOMES)
def test_the_guard_compares_whole_names(directory: str) -> None:
    """What was fetched for tests stands in ~/.cache/recollect-test-...: a neighbour, not ours."""
    assert not os.path.exists(f"{directory}-neighbour")
    with pytest.raises(FileNotFoundError):
        os.listdir(f"{directory}-neighbour")
