"""Homes whose exact usage is known: made by the generator beside the project, with its ground truth."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

SEEDS = (1, 2, 3)
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
    """What the generator makes of a seed; it takes most of a second and always makes the same, so once a process."""
    place = Path(tempfile.mkdtemp(prefix="recollect-made-")) / "home"
    atexit.register(shutil.rmtree, place.parent, ignore_errors=True)
    options = [f"--{name}={value}" for name, value in {**_OPTIONS, "seed": seed}.items()]
    tool = shared / "tools" / "corpus.py"
    subprocess.run([sys.executable, tool, place, *options], check=True, capture_output=True)
    return place
