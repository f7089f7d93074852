"""What several crash tests share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def quick_directory(tmp_path: Path) -> Iterator[Path]:
    """In memory where possible: these cases are about order and answers, not about the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    place = memory / f"recollect-test-{os.getpid()}-{tmp_path.name}"
    place.mkdir()
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def strace() -> list[str]:
    """The start of a strace command, where this machine lets us trace."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is not installed: calls fail and processes end from inside only")
    if subprocess.run([program, "-o", os.devnull, "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace here: calls fail and processes end from inside only")
    return [program, "-f", "-qq"]
