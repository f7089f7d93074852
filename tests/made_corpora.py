"""Homes whose exact usage is known: what ``bench/recollect_corpus`` writes of three seeds."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from bench.recollect_corpus import TRUTH, Options, write_corpus
from bench.recollect_corpus.agents import counted, written

SEEDS = (1, 2, 3)
# Names the directory of a run, which `conftest.py` makes.
RUN_PLACE = "RECOLLECT_TEST_RUN"
# Small, but with forks, both layouts of sub-agents, cache writes of an hour, damage and a model that has no price, over
# the three seeds.
_OPTIONS = Options(2, projects=4, days=40, sessions=16, forks=0.3, damage=0.2)


class Made(NamedTuple):
    """A home and the truth about it."""

    home: Path
    truth: dict[str, Any]


def make(place: Path, seed: int) -> Made:
    """The home of a seed, in a directory that does not exist yet."""
    shutil.copytree(_generated(seed), place)
    return Made(place, json.loads((place / TRUTH).read_text(encoding="utf-8")))


class MadeAgents(NamedTuple):
    """The same conversations as homes of several agents, and what is true of each."""

    homes: dict[str, Path]
    truth: dict[str, int]


def make_agents(place: Path) -> MadeAgents:
    """Homes of all agents below a directory: eight sessions, about 0.4 MB in each."""
    logs = place / "logs"
    write_corpus(logs, Options(0.4, projects=4, days=40, sessions=8, forks=0, damage=0))
    return MadeAgents(written(logs, sys.maxsize, place / "homes"), counted(logs))


def make_log_homes(place: Path) -> Path:
    """Homes of our own making laid out as RECOLLECT_TRANSCRIPTS is: sound ones, damaged ones, and a log as it grew."""
    for seed in SEEDS:
        write_corpus(place / f"samples/claude-home/{seed}/.claude", _OPTIONS._replace(seed=seed, damage=0))
    damaged = make(place / "corpus" / "damaged", 1).home
    for number, log in enumerate(sorted(damaged.glob("projects/*/*.jsonl"))[:4]):
        growth, data = place / "corpus" / "damaged" / "growth" / str(number), log.read_bytes()
        growth.mkdir(parents=True)
        for stage in (1, 2, 3, 4):
            (growth / f"{stage}.jsonl").write_bytes(data[: len(data) * stage // 4])
    return place


@functools.cache
def _generated(seed: int) -> Path:
    """What the generator makes of a seed, once a run: its processes share it, and each test has a copy."""
    place = Path(os.environ[RUN_PLACE], f"made-{seed}")
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            new = place.with_suffix(".new")
            write_corpus(new, _OPTIONS._replace(seed=seed))
            new.rename(place)
    return place
