"""What several crash tests share."""

from __future__ import annotations

import os
import shutil
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
