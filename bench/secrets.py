"""Looking for secrets: how fast logs are passed over, and how fast texts are redacted.

The same suite as the command line uses, over generated logs: everything of a home in one process and in as many as
there are cores. The peer's scan of the same logs, where it can run, stands beside it in docs; it names
thousands of candidates where there is nothing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.corpora import corpus
from bench.report import Row, table

MBPS = 20


def best(work: Callable[[], int], rounds: int = 3) -> tuple[float, float]:
    """Megabytes a second, by the clock and by the processor, of the fastest round."""
    found = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), time.process_time()
        size = work()
        found.append((size / 1e6 / (time.perf_counter() - wall), size / 1e6 / (time.process_time() - cpu)))
    return max(rate for rate, _ in found), max(rate for _, rate in found)


def scan_row(home: Path, processes: int) -> Row:
    """All of a home."""
    from recollect.ask.library import Home
    from recollect.ask.secrets.scan import scan

    with tempfile.TemporaryDirectory() as data:
        wall, _ = best(lambda: scan(Home(home), data=Path(data), processes=processes).bytes)
    what = f"scan of a home, {processes} process{'es' if processes > 1 else ''}"
    return Row(what, f"{wall:.0f} MB/s", f">= {MBPS} MB/s (K6)", wall >= MBPS)


def quick_look_row(logs: list[Path]) -> Row:
    """The part that decides: how fast blocks are passed over."""
    from recollect.model.secrets.prefilter import suspects

    blocks = [log.read_bytes() for log in logs]

    def work() -> int:
        for block in blocks:
            suspects(block)
        return sum(map(len, blocks))

    _, cpu = best(work)
    return Row("  the quick look alone, processor time", f"{cpu:.0f} MB/s", "", None)


def redaction_row(logs: list[Path]) -> Row:
    """Markdown and the like on its way out."""
    from recollect.model.secrets.redaction import redacted

    texts = [log.read_text(errors="replace") for log in logs[:20]]

    def work() -> int:
        return sum(
            len(redacted(text, lambda _: "00000000").data.encode("utf-8", "replace")) for text in texts
        )

    wall, _ = best(work)
    return Row("text redacted for export", f"{wall:.0f} MB/s", f">= {MBPS} MB/s", wall >= MBPS)


def run() -> list[Row]:
    """All figures; none where there are no logs to look through."""
    found = corpus("c100")
    logs = sorted(found.path.glob("projects/*/*.jsonl"))
    return [
        scan_row(found.path, 1),
        scan_row(found.path, os.cpu_count() or 2),
        quick_look_row(logs),
        redaction_row(logs),
    ]


if __name__ == "__main__":
    print(table("Secrets", run()))
