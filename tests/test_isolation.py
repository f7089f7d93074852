"""No test sees the homes of this machine, and the fixture that keeps it so is proven here."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REAL_HOMES
from tests.memory import memory


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


@pytest.mark.slow
@pytest.mark.skipif(memory() is None, reason="tests write to the disk here")
def test_what_is_in_memory_goes_with_its_test_and_a_failed_one_leaves_a_copy_on_the_disk(
    tmp_path: Path,
) -> None:
    """Also the last one of the run, and where a test has changed how directories are listed; a room that judges paths is on
    the disk."""
    for room in ("web", "policy"):
        (tmp_path / "tests" / room).mkdir(parents=True)
        (tmp_path / "tests" / room / f"test_{room}.py").write_text(_ROOM)
    base = tmp_path / "base"
    alone = (
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        *alone,
        f"--basetemp={base}",
        str(tmp_path / "tests"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    told = re.findall(r"at=(/\S+) of (\d)", done.stdout)
    in_memory = [Path(place) for place, _ in told if place.startswith(str(memory()))]

    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert (4, 2) == (len(told), len(in_memory))
    assert ["1", "1"] == [number for place, number in told if Path(place) in in_memory]
    assert not any(place.parent.exists() for place in in_memory)
    assert 1 == sum((base / "t" / place.name / "file").is_file() for place in in_memory)


_ROOM = """
import os

def test_passes(tmp_path, monkeypatch, capsys):
    _tell(tmp_path, capsys)
    monkeypatch.setattr(os, "scandir", lambda *_: 1 / 0)

def test_fails(tmp_path, capsys):
    _tell(tmp_path, capsys)
    assert False

def _tell(place, capsys):
    (place / "file").write_text("here")
    with capsys.disabled():
        print(f"at={place} of {len(list(place.parent.glob('test_*')))}")
"""
