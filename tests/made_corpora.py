"""Homes whose exact usage is known: made by the generator beside the project, with its ground truth."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

SEEDS = (1, 2, 3)
# Names the directory of a run, which `conftest.py` makes.
RUN_PLACE = "RECOLLECT_TEST_RUN"
# Small, but with forks, both layouts of sub-agents, cache writes of an hour, cut last lines and a model
# that has no price, over the three seeds.
_OPTIONS = {"size-mb": 2, "projects": 4, "days": 40, "sessions": 16, "fork-rate": 0.3, "corrupt-rate": 0.2}


class Made(NamedTuple):
    """A home and the truth about it."""

    home: Path
    truth: dict[str, Any]


def make(shared: Path, place: Path, seed: int) -> Made:
    """The home of a seed, in a directory that does not exist yet."""
    shutil.copytree(_generated(shared, seed), place)
    return Made(place, json.loads((place / "GROUND_TRUTH.json").read_text()))


@functools.cache
def _generated(shared: Path, seed: int) -> Path:
    """What the generator makes of a seed; it takes most of a second and always makes the same, so once a run.

    The processes of a run share it, and each test has a copy.
    """
    place = Path(os.environ[RUN_PLACE], f"made-{seed}")
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            options = [f"--{name}={value}" for name, value in {**_OPTIONS, "seed": seed}.items()]
            new = place.with_suffix(".new")
            tool = shared / "tools" / "corpus.py"
            subprocess.run([sys.executable, tool, new, *options], check=True, capture_output=True)
            new.rename(place)
    return place
