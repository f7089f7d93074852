"""An index that is killed, interrupted, or written and read by many at once, ends right (goals G5, G13)."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recollect.index.access import open_index
from tests.crash.index_loop import make
from tests.index.world import World

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
KILLS = 300 if TORTURE else 2
SEEDS = range(5) if TORTURE else range(1)
ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs fork, SIGKILL and /proc"),
]


def looped(what: str, place: Path, rounds: int, seed: int) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.crash.index_loop", what, str(place), str(rounds), str(seed)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=7200, cwd=ROOT)
    assert ("", 0) == (ran.stderr, ran.returncode)
    counts: dict[str, int] = json.loads(ran.stdout)
    return counts


# What must never be counted, by either program.
NEVER = (
    "indexes that are damaged",
    "broken invariants",
    "rows unlike a fresh index",
    "refreshes that failed",
    "processes that failed",
    "processes that outlived a kill",
    "things that had to be said",
)


# One test and one run: a fixture would be run once per worker.
def test_kill_9_during_a_refresh_costs_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Every state a kill leaves is sound, the next refresh makes of it what a new index would be.

    No process that was reading for the killed one outlives it, and none of them says a word.
    """
    counts = looped("kills", tmp_path, KILLS, 20260101)
    print("\nkill -9 of a refresh:", ", ".join(f"{value:,} {name}" for name, value in counts.items()))
    for name, value in counts.items():
        record_property(name, value)

    assert (KILLS, dict.fromkeys(NEVER, 0)) == (
        counts["kills"],
        {name: counts.get(name, 0) for name in NEVER},
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("refreshers", [2, 4] if TORTURE else [3])
def test_many_refresh_and_read_at_once(refreshers: int, seed: int, tmp_path: Path) -> None:
    """No error, no reader that sees half of a change, and in the end all is as in a new index."""
    counts = looped("crowd", tmp_path, refreshers, seed)

    assert (refreshers, dict.fromkeys(NEVER, 0)) == (
        counts["refreshers"],
        {name: counts.get(name, 0) for name in NEVER},
    )


# The command as it is typed, made to read in other processes whatever the size. Before the frame of that number it says
# so and waits, so that the interrupt comes there on a machine of any speed.
REBUILD = """
import sys, time
from recollect.index.ingest import Ingest
from recollect.index import extraction, refresh
refresh._WORTH_A_PROCESS, refresh._BULK_COMMIT, extraction._FRAME_LINES = -1, 1 << 16, 20
from recollect.cli.main import main
frames, real = int(sys.argv[4]), Ingest.apply
def apply(*arguments):
    global frames
    frames -= 1
    if frames == -1:
        print("here", flush=True)
        time.sleep(600)
    return real(*arguments)
Ingest.apply = apply
sys.exit(main(["--home", sys.argv[1], "--home", sys.argv[2], "--data", sys.argv[3], "data", "index", "rebuild"]))
"""
INTERRUPTED = (130, "recollect: interrupted\n")


def test_ctrl_c_during_a_build_is_one_quiet_line(tmp_path: Path) -> None:
    """The processes that read say nothing of it, and the next question goes on."""
    world = World(tmp_path)
    make(world, random.Random(7))
    homes = [str(home) for home in world.homes]
    seen = {}
    for frames in (0, 1, 7):
        data = tmp_path / f"data-{frames}"
        started = subprocess.Popen(
            [sys.executable, "-c", REBUILD, *homes, str(data), str(frames)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            cwd=ROOT,
        )
        assert started.stdout is not None
        assert "here\n" == started.stdout.readline()
        os.killpg(started.pid, signal.SIGINT)
        _, said = started.communicate(timeout=600)
        seen[frames] = started.returncode, said
        with open_index(world.homes, cache=data / "cache") as opened:
            assert [] == opened.notes

    assert dict.fromkeys(seen, INTERRUPTED) == seen
