"""The archive: how small, how fast, in how much memory, and how soon a page of it is read.

Each figure of adding comes from a fresh process that archives a whole home, with everything that goes with
it: hashes, read back and compared, synced. Sizes are of all files of the archive, manifests included.

Real logs come in series that were copied while they grew; each copy is given to the archive as the next
state of one session, as an hourly `archive add` would. Without those series the ratio stands beside it.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.corpora import corpus, largest_log
from bench.report import Row, table
from tests.needs import TRANSCRIPTS

GENERATED_RATIO, REAL_RATIO, MBPS, PAGE_MS, MEMORY_MB = 5.5, 6.5, 40, 10, 150
ROUNDS = 5

# Runs in the fresh process; prints one JSON object.
ADDING = """
import datetime as dt, json, sys, time
from pathlib import Path
from recollect.ask import archive as archive_service
from recollect.ask.library import Home

archive = archive_service.archive_at(Path(sys.argv[2]))
sessions = [one for one in Home(sys.argv[1]).sessions() if one.session_id is not None]
start = time.process_time()
added, failed = archive_service.add_all(archive, sessions, dt.datetime.now(dt.UTC))
cpu = time.process_time() - start
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1000
raw = sum(one.manifest.raw_bytes for one in added)
print(json.dumps({"raw": raw, "cpu": cpu, "peak_mb": peak, "failed": len(failed)}))
"""

# A page, in a process that has loaded our modules and read nothing yet.
PAGE = """
import itertools, json, sys, time
from pathlib import Path
import recollect.store.archive.objects
from recollect.model.lines.codec import decode
from recollect.model.lines.ids import SessionId
from recollect.store.logs.summary import ConversationLoader
from recollect.store.logs.reader import OpenLog

path, offset = Path(sys.argv[1]), int(sys.argv[2])
start = time.perf_counter()
if offset < 0:
    count = len(ConversationLoader(lambda _session: path).load_messages(SessionId("bench"), offset, 50))
else:
    with OpenLog(path) as log:
        count = len([decode(line) for line in itertools.islice(log.lines(offset), 50)])
print(json.dumps({"count": count, "wall": time.perf_counter() - start}))
"""


def added(home: Path, data: Path) -> dict[str, float]:
    """Archive all of a home in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", ADDING, str(home), str(data)], check=True, capture_output=True, text=True
    )
    figures = dict(json.loads(done.stdout))
    if figures["failed"]:
        raise AssertionError(f"{figures['failed']:.0f} sessions could not be archived")
    return figures


def stored_bytes(data: Path) -> int:
    """All files of an archive, manifests included."""
    return sum(path.stat().st_size for path in (data / "archive").rglob("*") if path.is_file())


def generated_rows(home: Path, place: Path) -> list[Row]:
    """A home of generated logs: how small, how fast, how much memory."""
    runs, data = [], place / "data"
    for _ in range(ROUNDS):
        shutil.rmtree(data, ignore_errors=True)
        runs.append(added(home, data))
    raw = runs[0]["raw"]
    ratio, speed = raw / stored_bytes(data), raw / 1e6 / min(run["cpu"] for run in runs)
    peak = max(run["peak_mb"] for run in runs)
    what = f"archive of {raw / 1e6:.0f} MB of generated logs"
    budget = f">= {GENERATED_RATIO} x smaller"
    return [
        Row(what, f"{ratio:.2f} x", budget, ratio >= GENERATED_RATIO),
        Row(f"  best of {ROUNDS} rounds", f"{speed:.1f} MB/cpu-s", f">= {MBPS} MB/cpu-s", speed >= MBPS),
        Row("  resident memory of that process", f"{peak:.0f} MB", f"<= {MEMORY_MB} MB", peak <= MEMORY_MB),
    ]


def real_rows(place: Path) -> list[Row]:
    """Logs that real clients wrote, with the states of those that were copied while they grew."""
    source = TRANSCRIPTS / "corpus"
    if not source.is_dir():
        return [Row("archive of real logs: left out, RECOLLECT_TRANSCRIPTS is not set", "", "", None)]
    sessions = raw_of(source, place / "sessions", with_growth=False)
    every = raw_of(source, place / "every", with_growth=True)
    alone = sessions / stored_bytes(place / "sessions")
    ratio = every / stored_bytes(place / "every")
    return [
        Row(
            f"archive of {every / 1e6:.0f} MB of real logs, growing sessions in all their states",
            f"{ratio:.2f} x",
            f">= {REAL_RATIO} x smaller",
            ratio >= REAL_RATIO,
        ),
        Row(f"  the last states alone, {sessions / 1e6:.0f} MB", f"{alone:.2f} x", "", None),
    ]


def raw_of(source: Path, data: Path, *, with_growth: bool) -> int:
    """Archive the sessions of a directory of homes; how many bytes were given to the archive."""
    from recollect.ask import archive as archive_service
    from recollect.ask.library import Home

    archive, now, raw = archive_service.archive_at(data), dt.datetime.now(dt.UTC), 0
    homes = sorted(path for path in source.iterdir() if (path / "projects").is_dir())
    for number, home in enumerate(homes):
        copy = data / "homes" / str(number)
        shutil.copytree(home / "projects", copy / "projects")
        for state in sorted((home / "growth").glob("*/*.jsonl")) if with_growth else ():
            log = copy / "projects" / "growth" / f"{state.parent.name}.jsonl"
            log.parent.mkdir(exist_ok=True)
            for known in (copy / "projects").glob(f"*/{log.name}"):
                log = known
            log.write_bytes(state.read_bytes())
            raw += log.stat().st_size
            archive_service.add_all(archive, [Home(copy).session(str(log))], now)
        for known in home.glob("projects/*/*.jsonl"):
            # The last state of a series is the session itself.
            shutil.copyfile(known, copy / known.relative_to(home))
        done, _ = archive_service.add_all(
            archive, [one for one in Home(copy).sessions() if one.session_id], now
        )
        raw += sum(one.manifest.raw_bytes for one in done)
    return raw


def page_rows(place: Path) -> list[Row]:
    """50 messages from the end of an archived session, in a process that has read nothing yet."""
    from recollect.ask import archive as archive_service
    from recollect.ask.library import Home

    log = largest_log(place)
    archive = archive_service.archive_at(place / "paged")
    home = Home(log.parents[2])
    done, _ = archive_service.add_all(archive, [home.session(log.stem)], dt.datetime.now(dt.UTC))
    object_file = archive.log_path(done[0].manifest)
    size = log.stat().st_size / 1e6
    raw = log.read_bytes()
    # As a search hit names it: by the byte at which a line starts.
    middle = raw.index(b"\n", len(raw) // 2) + 1
    rows = []
    for page, offset in (("from the end", -50), ("from the middle", middle)):
        runs = sorted((_page(object_file, offset) for _ in range(9)), key=lambda run: run["wall"])
        assert {50} == {run["count"] for run in runs}
        wall = runs[4]["wall"] * 1000
        what = f"50 messages {page} of an archived session of {size:.0f} MB"
        rows.append(Row(what, f"{wall:.1f} ms", f"<= {PAGE_MS} ms", wall <= PAGE_MS))
    return rows


def _page(log: Path, offset: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", PAGE, str(log), str(offset)], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout))


def run(directory: Path | None = None) -> list[Row]:
    """All figures; works in a directory of the working tree, since /tmp may be memory."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=directory or Path.cwd()) as name:
        place = Path(name)
        return [*generated_rows(corpus("c100").path, place), *real_rows(place), *page_rows(place)]


if __name__ == "__main__":
    print(table("Archive", run()))
