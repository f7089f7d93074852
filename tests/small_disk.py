"""A small file system in memory, to fill it; needs the right to mount."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    place.mkdir(parents=True, exist_ok=True)
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if mount is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip(
            "cannot mount a small tmpfs here (needs root on Linux); limits and failing calls stand in"
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
