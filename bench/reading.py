"""Reading large logs: a page from the end of 50 MB, and 5 GB streamed in constant memory.

Each figure comes from a fresh process, so that its memory is its own. Memory is the
high-water mark of resident pages, which no sampling can miss. The log of the second
part is written to disk line by line from realistic lines, no holes, and removed again;
``RECOLLECT_BENCH_GB`` sets its size (default 5, less where the disk is nearly full).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.corpora import largest_log
from bench.report import Row, table

PAGE_MS, PAGE_MB, STREAM_MB, LINES_MBPS = 10, 60, 150, 1000
GIGA = 10**9

# Runs in the fresh process; prints one JSON object. VmHWM, because ru_maxrss also counts the parent at fork.
PROBE = """
import json, resource, sys, time
from pathlib import Path
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import SessionId
from recollect.store.logs.summary import ConversationLoader
from recollect.store.logs.reader import LogReader, read_lines

def peak_mb():
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1000
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000

job, path = sys.argv[1], Path(sys.argv[2])
loader = ConversationLoader(lambda _session: path)
start, cpu = time.perf_counter(), time.process_time()
if job == "page":
    count = len(loader.load_messages(SessionId("bench"), -50, 50))
elif job == "lines":
    count = sum(1 for _ in read_lines(path))
else:
    count = sum(1 for _ in LogReader(path))
times = time.perf_counter() - start, time.process_time() - cpu
print(json.dumps({"count": count, "wall": times[0], "cpu": times[1], "peak_mb": peak_mb()}))
"""


def probe(job: str, log: Path) -> dict[str, float]:
    """What one job took in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, job, str(log)], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout))


def page_rows(log: Path) -> list[Row]:
    """50 messages from the end, in a process that has read nothing yet; the median of nine."""
    runs = sorted((probe("page", log) for _ in range(9)), key=lambda run: run["wall"])
    assert {50} == {run["count"] for run in runs}
    wall, peak = runs[4]["wall"] * 1000, max(run["peak_mb"] for run in runs)
    what = f"50 messages from the end of {log.stat().st_size / 1e6:.0f} MB"
    return [
        Row(what, f"{wall:.1f} ms", f"<= {PAGE_MS} ms", wall <= PAGE_MS),
        Row("  resident memory of that process", f"{peak:.0f} MB", f"<= {PAGE_MB} MB", peak <= PAGE_MB),
    ]


def stream_rows(log: Path) -> list[Row]:
    """The whole log, as lines and as entries."""
    size = log.stat().st_size
    rows = []
    for job, budget in (("lines", LINES_MBPS), ("entries", None)):
        run = probe(job, log)
        speed, peak = size / 1e6 / run["cpu"], run["peak_mb"]
        what = f"streaming {size / GIGA:.1f} GB as {run['count'] / 1e6:.1f} million {job}"
        rows.append(
            Row(
                what,
                f"{speed:.0f} MB/cpu-s",
                f">= {budget} MB/cpu-s" if budget else "",
                speed >= budget if budget else None,
            )
        )
        rows.append(
            Row(
                "  resident memory of that process", f"{peak:.0f} MB", f"<= {STREAM_MB} MB", peak <= STREAM_MB
            )
        )
    return rows


def write_long_log(log: Path, model: Path, size: int) -> None:
    """``size`` bytes of lines taken from ``model``."""
    lines = model.read_bytes()
    with log.open("wb") as out:
        for _ in range(size // len(lines) + 1):
            out.write(lines)


def run(directory: Path | None = None) -> list[Row]:
    """All figures; works in a directory of the working tree, since /tmp may be memory."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory or Path.cwd()) as name:
        place = Path(name)
        session = largest_log(place)
        rows = page_rows(session)
        wanted = int(float(os.environ.get("RECOLLECT_BENCH_GB", "5")) * GIGA)
        size = min(wanted, shutil.disk_usage(place).free - 2 * GIGA)
        if size < GIGA // 10:
            return [*rows, Row("streaming a long log: the disk is too full", "", "", None)]
        write_long_log(place / "long.jsonl", session, size)
        return rows + stream_rows(place / "long.jsonl")


def main() -> None:
    """Print the figures."""
    print(table("Reading large logs", run()))


if __name__ == "__main__":
    main()
