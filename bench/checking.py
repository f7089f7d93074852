"""Check and scan of a home as fresh processes: for the first time, and again where nothing changed.

Each first time starts without kept results; the index is there. The scan engine is compiled again too, as on
a machine that never scanned.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from bench.indexing import log_bytes
from bench.measured import Taken, seconds, typical
from bench.report import Row
from bench.workplace import Workplace

# At 1 GB.
CHECK_SECONDS, AGAIN_SECONDS = 10.0, 0.5
SCAN_MBPS = 200
# Findings are not a failure.
_FINE = (0, 1)


def run(place: Workplace) -> list[Row]:
    """All figures."""
    place.ensure_index()
    rows: list[Row] = []
    size = log_bytes(place.home)
    for command in ("doctor", "secrets"):
        firsts, agains = [], []
        for _ in range(place.slow_rounds + 1):
            data = _fresh(place)
            firsts.append(place.recollect(command, "--json", data=data, expected=_FINE))
            agains.append(place.recollect(command, "--json", data=data, expected=_FINE))
        first, again = typical(firsts), typical(agains)
        rows += (
            _check_rows(place, first, again) if command == "doctor" else _scan_rows(place, size, first, again)
        )
    return rows


def _fresh(place: Workplace) -> Path:
    """A copy of the index in which nothing is kept yet."""
    data = place.scratch / "checking"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(place.data / "cache", data / "cache")
    return data


def _check_rows(place: Workplace, first: Taken, again: Taken) -> list[Row]:
    return [
        _limited("check, for the first time", first, CHECK_SECONDS, place.is_full),
        _limited("check, nothing changed", again, AGAIN_SECONDS, place.is_full),
    ]


def _limited(what: str, taken: Taken, budget: float, is_full: bool) -> Row:
    wanted = f"<= {budget:g} s"
    met = taken.wall <= budget if is_full else None
    return Row(what, seconds(taken.wall), wanted if is_full else f"({wanted}, at 1 GB)", met, taken)


def _scan_rows(place: Workplace, size: int, first: Taken, again: Taken) -> list[Row]:
    rate = size / 1e6 / first.cpu
    wanted = f">= {SCAN_MBPS} MB/s of CPU"
    return [
        Row(
            "scan, for the first time",
            f"{rate:.0f} MB/s of CPU",
            wanted if place.is_full else f"({wanted}, at 1 GB)",
            rate >= SCAN_MBPS if place.is_full else None,
            first,
        ),
        Row("scan, nothing changed", seconds(again.wall), "", None, again),
    ]
