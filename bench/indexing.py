"""The index beside agentsview's: first build, size, memory, and keeping it up to date.

Ours holds every text; agentsview leaves out the results of Read and Glob. Each build starts
from an empty directory. The kernel says the largest memory of any one process; the sum
over processes is looked at ten times a second and counts shared pages in each of them.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path

from bench.measured import Taken, seconds, typical
from bench.measured import run as run_measured
from bench.report import Row, part
from bench.workplace import Workplace

# At 1 GB.
CPU_BUDGET = 18.0
WALL_BUDGET = 11.0
SHARE_BUDGET = 0.20
MEMORY_BUDGET = 150e6

# Runs in one process: the times of some refreshes that find nothing new.
_REFRESH = """
import sys, time
from pathlib import Path
from recollect.index.access import open_index
with open_index([Path(sys.argv[1])], cache=Path(sys.argv[2])) as opened:
    from recollect.index.refresh import refresh
    for _ in range(20):
        start = time.perf_counter()
        refresh(opened.database, opened.homes)
        print(time.perf_counter() - start)
"""


def run(place: Workplace) -> list[Row]:
    """All figures; leaves both indexes for the suites that follow."""
    ours, theirs = _builds(place)
    return [*_build_rows(place, ours, theirs), *_refresh_rows(place)]


def _builds(place: Workplace) -> tuple[Taken, Taken | None]:
    ours: list[Taken] = []
    theirs: list[Taken] = []
    for number in range(place.rounds):
        shutil.rmtree(place.data, ignore_errors=True)
        ours.append(place.recollect("data", "index", "rebuild", is_family_watched=True))
        if place.agentsview is not None and number < place.slow_rounds:
            place.agentsview.remove()
            theirs.append(place.agentsview.sync())
    return typical(ours), typical(theirs) if theirs else None


def _build_rows(place: Workplace, ours: Taken, theirs: Taken | None) -> list[Row]:
    logs = log_bytes(place.home)
    size = sum(path.stat().st_size for path in place.data.rglob("*") if path.is_file())
    their_size = place.agentsview.size() if place.agentsview is not None else 0
    memory = f"<= {MEMORY_BUDGET / 1e6:.0f} MB"
    wall = f"<= {WALL_BUDGET:.0f} s"
    return [
        _cpu_row(place, logs, ours, theirs),
        Row(
            "  wall time",
            seconds(ours.wall),
            wall if place.is_full else f"({wall}, at 1 GB)",
            ours.wall <= WALL_BUDGET if place.is_full else None,
            beside=f"agentsview: {seconds(theirs.wall)}" if theirs else "",
        ),
        Row(
            "  on disk",
            f"{size / 1e6:.0f} MB = {size / logs:.1%} of the logs",
            f"<= {SHARE_BUDGET:.0%}",
            size <= SHARE_BUDGET * logs,
            beside=f"agentsview: {their_size / 1e6:.0f} MB = {their_size / logs:.1%}" if theirs else "",
        ),
        Row(
            "  memory of the largest process",
            f"{ours.memory / 1e6:.0f} MB",
            memory,
            ours.memory <= MEMORY_BUDGET,
            beside=f"agentsview: {theirs.memory / 1e6:.0f} MB" if theirs else "",
        ),
        Row(
            "  memory of all its processes together",
            f"{ours.family / 1e6:.0f} MB",
            "",
            None,
            beside=f"agentsview: {theirs.family / 1e6:.0f} MB" if theirs else "",
        ),
    ]


def _cpu_row(place: Workplace, logs: int, ours: Taken, theirs: Taken | None) -> Row:
    wanted = f"<= {CPU_BUDGET:.0f} s"
    share = f" = {part(ours.cpu / theirs.cpu)} of agentsview" if theirs else ""
    return Row(
        f"first index of {logs / 1e6:,.0f} MB of logs, CPU",
        seconds(ours.cpu) + share,
        wanted if place.is_full else f"({wanted}, at 1 GB)",
        ours.cpu <= CPU_BUDGET if place.is_full else None,
        ours,
        f"agentsview: {theirs}" if theirs else "",
    )


def _refresh_rows(place: Workplace) -> list[Row]:
    unchanged, their_unchanged = _refreshed(place)
    place.add_line()
    after_a_line = place.recollect("cost", "--json")
    their_line = place.agentsview.sync() if place.agentsview is not None else None
    warm = run_measured([sys.executable, "-c", _REFRESH, place.home, place.data / "cache"], place.environment)
    median = statistics.median(map(float, warm.output.split()))
    return [
        Row("refresh that finds nothing new, in a warm process", seconds(median), "", None),
        Row(
            "  as a fresh process, with a report",
            seconds(unchanged.wall),
            "",
            None,
            unchanged,
            _sync(their_unchanged),
        ),
        Row(
            "  the same after one line was added",
            seconds(after_a_line.wall),
            "",
            None,
            after_a_line,
            _sync(their_line),
        ),
    ]


def _refreshed(place: Workplace) -> tuple[Taken, Taken | None]:
    ours = typical([place.recollect("cost", "--json") for _ in range(place.rounds)])
    if place.agentsview is None:
        return ours, None
    return ours, typical([place.agentsview.sync() for _ in range(place.rounds)])


def _sync(taken: Taken | None) -> str:
    return f"agentsview sync: {taken}" if taken is not None else ""


def log_bytes(home: Path) -> int:
    """The size of all logs of a home."""
    return sum(log.stat().st_size for log in home.glob("projects/**/*.jsonl"))
