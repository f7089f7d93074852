"""Directories that a killed process left behind go away, and nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from recollect.execution import private_directory
from tests.descriptors import open_descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")

HOLDER = """
from recollect.execution import private_directory
print(private_directory.make().path, flush=True)
input()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of our own, for this process and those it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder() -> tuple[subprocess.Popen[str], Path]:
    """Another process with a private directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_what_a_killed_process_left_goes_away_and_what_a_living_one_holds_stays(place: Path) -> None:
    """The lock, not a number or a time, tells one from the other."""
    dead, left = holder()
    living, held = holder()
    (left / "home" / "file").write_text("left")
    end(dead)

    private_directory.sweep(place)

    found = (left.exists(), sorted(entry.name for entry in held.glob("*")))
    end(living)
    assert (False, ["home", "temporary"]) == found


def test_the_first_directory_of_a_process_sweeps(place: Path) -> None:
    """Nobody has to ask for it: starting something is enough."""
    dead, left = holder()
    end(dead)
    end(holder()[0])

    assert not left.exists()


def test_links_and_strangers_are_left_alone(place: Path) -> None:
    """A link by such a name is not followed, a file is none, and another user's directory is his."""
    (place / "kept").mkdir()
    (place / "kept" / "file").write_text("kept")
    (place / "recollect-run-link").symlink_to(place / "kept")
    (place / "recollect-run-file").write_text("no directory")
    expected = ["kept", "recollect-run-file", "recollect-run-link"]
    if os.geteuid() == 0:
        (place / "recollect-run-other").mkdir()
        os.chown(place / "recollect-run-other", 65534, 65534)
        expected.append("recollect-run-other")

    private_directory.sweep(place)

    assert (expected, "kept") == (
        sorted(entry.name for entry in place.iterdir()),
        (place / "kept" / "file").read_text(),
    )


def test_a_link_inside_a_leftover_is_removed_not_followed(place: Path) -> None:
    """What a confined program left as a trap leads nowhere."""
    (place / "kept").mkdir()
    (place / "kept" / "file").write_text("kept")
    dead, left = holder()
    (left / "temporary" / "trap").symlink_to(place / "kept")
    end(dead)

    private_directory.sweep(place)

    assert (["kept"], ["file"]) == tuple(
        sorted(entry.name for entry in each.iterdir()) for each in (place, place / "kept")
    )


def test_removing_gives_the_descriptor_back(place: Path) -> None:
    """Neither a directory nor a descriptor is left."""
    before = open_descriptors()
    private_directory.make().remove()

    assert ([], before) == (list(place.iterdir()), open_descriptors())
