"""Durable append against the least the disk allows, measured in one run.

Rounds of a bare ``write`` + ``fdatasync`` loop and of ``Log.append`` take turns on the same disk, so that
whatever else the machine does falls on both. Budgets: one 1 KB entry within 1.5 times the bare loop; at
least 20,000 entries a second in batches of 100.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import Row, table
from recollect.store.logs.log import Log

LINE = b'{"uuid":"%012d","pad":"' + b"x" * 986 + b'"}'
ROUNDS = 20
PER_ROUND = 100
BATCH = 100
THREADS = 8
RATIO_BUDGET = 1.3
RATE_BUDGET = 100_000


def line(number: int) -> tuple[bytes, str]:
    """A line of 1,024 bytes with its newline, and its id."""
    return LINE % number, f"{number:012d}"


def measure_single(directory: Path) -> list[Row]:
    """One entry at a time, bare and through Log, and the ratio of the medians."""
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
    return [
        Row("bare write + fdatasync of 1 KB, p50 / p99", _p50_p99(bare_times), "", None),
        Row("Log.append of 1 KB, p50 / p99", _p50_p99(log_times), "", None),
        Row("Log.append against bare, p50", f"{ratio:.2f} x", f"<= {RATIO_BUDGET} x", ratio <= RATIO_BUDGET),
    ]


def measure_batches(directory: Path) -> Row:
    """Entries a second when 100 of 1 KB share one write and one sync."""
    batches = [
        [line(number) for number in range(start, start + BATCH)]
        for start in range(0, ROUNDS * PER_ROUND * 5, BATCH)
    ]
    with Log(directory / "batches.jsonl") as log:
        before = time.perf_counter()
        for batch in batches:
            log.append_many(batch)
        rate = len(batches) * BATCH / (time.perf_counter() - before)
    return Row(
        f"durable batches of {BATCH}", f"{rate:,.0f} entries/s", f">= {RATE_BUDGET:,}/s", rate >= RATE_BUDGET
    )


def measure_threads(directory: Path) -> Row:
    """Entries a second when eight threads append one at a time to one Log and share its syncs."""
    with Log(directory / "threads.jsonl") as log:

        def append_some(thread: int) -> None:
            for number in range(PER_ROUND * 2):
                log.append(*line(thread * 1_000_000 + number))

        threads = [threading.Thread(target=append_some, args=(number,)) for number in range(THREADS)]
        before = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = THREADS * PER_ROUND * 2 / (time.perf_counter() - before)
    return Row(f"{THREADS} threads, one entry each time", f"{rate:,.0f} entries/s", "", None)


def run(directory: Path | None = None) -> list[Row]:
    """All measurements; by default below the working directory, since a temporary one may be memory."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory or Path.cwd()) as place:
        return [
            *measure_single(Path(place)),
            measure_batches(Path(place)),
            measure_threads(Path(place)),
        ]


def _time(append: Callable[[int], None], start: int, times: list[float]) -> None:
    for number in range(start, start + PER_ROUND):
        before = time.perf_counter()
        append(number)
        times.append(time.perf_counter() - before)


def _p50_p99(times: list[float]) -> str:
    ordered = sorted(times)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"{p50 * 1e6:.0f} / {p99 * 1e6:.0f} µs"


def main() -> None:
    """Print a small table."""
    print(table("Durable append", run()))


if __name__ == "__main__":
    main()
