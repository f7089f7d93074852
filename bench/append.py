"""Durable append against the least the disk allows, measured in one run.

Rounds of a bare ``write`` + ``fdatasync`` loop and of ``Log.append`` take turns on the same disk, so that
whatever else the machine does falls on both. Budgets: one 1 KB entry within 1.5 times the bare loop; at
least 20,000 entries a second in batches of 100.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recollect.storage.log import Log

LINE = b'{"uuid":"%012d","pad":"' + b"x" * 986 + b'"}'
ROUNDS = 20
PER_ROUND = 100
BATCH = 100
RATIO_BUDGET = 1.5
RATE_BUDGET = 20_000


def line(number: int) -> tuple[bytes, str]:
    """A line of 1,024 bytes with its newline, and its id."""
    return LINE % number, f"{number:012d}"


def measure_single(directory: Path) -> dict[str, Any]:
    """Seconds per 1 KB entry, bare and through Log; the ratio of the medians."""
    bare_times: list[float] = []
    log_times: list[float] = []
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    bare = os.open(directory / "bare.jsonl", flags, 0o600)
    with Log(directory / "log.jsonl") as log:

        def bare_append(number: int) -> None:
            os.write(bare, LINE % number + b"\n")
            os.fdatasync(bare)

        def log_append(number: int) -> None:
            log.append(*line(number))

        _time(bare_append, -PER_ROUND, [])
        _time(log_append, -PER_ROUND, [])
        for start in range(0, ROUNDS * PER_ROUND, PER_ROUND):
            _time(bare_append, start, bare_times)
            _time(log_append, start, log_times)
    os.close(bare)
    ratio = statistics.median(log_times) / statistics.median(bare_times)
    return {
        "name": "durable append of 1 KB",
        "bare_p50_us": _microseconds(bare_times, 0.5),
        "bare_p99_us": _microseconds(bare_times, 0.99),
        "log_p50_us": _microseconds(log_times, 0.5),
        "log_p99_us": _microseconds(log_times, 0.99),
        "ratio_p50": round(ratio, 3),
        "budget": f"<= {RATIO_BUDGET}",
        "ok": ratio <= RATIO_BUDGET,
    }


def measure_batches(directory: Path) -> dict[str, Any]:
    """Entries a second when 100 of 1 KB share one write and one sync."""
    with Log(directory / "batches.jsonl") as log:
        log.append(*line(0))
        batches = [
            [line(number) for number in range(start, start + BATCH)]
            for start in range(1, ROUNDS * PER_ROUND * 5, BATCH)
        ]
        before = time.perf_counter()
        for batch in batches:
            log.append_many(batch)
        seconds = time.perf_counter() - before
    rate = len(batches) * BATCH / seconds
    return {
        "name": f"durable append in batches of {BATCH}",
        "entries_per_second": round(rate),
        "budget": f">= {RATE_BUDGET}",
        "ok": rate >= RATE_BUDGET,
    }


def run(directory: Path | None = None) -> list[dict[str, Any]]:
    """All measurements; by default in a directory of the working tree, since /tmp may be memory."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory or Path.cwd()) as place:
        return [measure_single(Path(place)), measure_batches(Path(place))]


def _time(append: Callable[[int], None], start: int, times: list[float]) -> None:
    for number in range(start, start + PER_ROUND):
        before = time.perf_counter()
        append(number)
        times.append(time.perf_counter() - before)


def _microseconds(times: list[float], share: float) -> float:
    return round(sorted(times)[int(share * (len(times) - 1))] * 1e6, 1)


def main() -> None:
    """Print a small table."""
    for row in run():
        print(f"{'ok ' if row['ok'] else 'OVER'} {row['name']} (budget {row['budget']})")
        for key, value in row.items():
            if key not in {"name", "ok", "budget"}:
                print(f"     {key:<20} {value:>12,}")


if __name__ == "__main__":
    main()
