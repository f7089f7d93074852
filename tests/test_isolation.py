"""No test sees the homes of this machine, and the fixture that keeps it so is proven here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REAL_HOMES


def test_a_subprocess_inherits_the_isolation(own_home: Path) -> None:
    """Commands that tests start see the same private home."""
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
