"""A process that kills refreshes of an index, or lets many refresh and read at once, and counts what went wrong.

Run as a program (what, directory, rounds, seed); prints a JSON object of counts. It is a process of its own
because it forks, which a test runner with threads must not.

Every child builds the way of a first build, with other processes that read, and commits often, so that a
kill meets every state an index can be left in. What follows is compared with an index built anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from recollect.index import extraction
from recollect.index import refresh as indexing
from recollect.index.access import index_path, open_index
from recollect.index.database import IndexDatabase
from recollect.index.refresh import refresh
from tests.index.projection import differences, faults, projection
from tests.index.world import SESSIONS, World, encoded, forked
from tests.talk import assistant, call, result, user

LOGS = 8
# Enough for several commits and for several frames of each log; more lines are more of the same.
LINES = 100 if os.environ.get("RECOLLECT_TORTURE") else 40
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "parseHttpHeader",
    "src/app.py",
    "量子缓存",
    "Größe",
    "ledger",
    "quasar",
]


def turn(number: int, log: int, rng: random.Random) -> list[dict[str, object]]:
    """A prompt, an answer over two lines, a call and its result."""
    text = " ".join(rng.choices(WORDS, k=rng.randrange(5, 120)))
    name = f"{log:04d}{number:04d}-0000-4000-8000-"
    uuids = [f"{name}{part:012d}" for part in range(4)]
    at = log * 100 + number
    return [
        user(uuids[0], None, at, text),
        assistant(uuids[1], uuids[0], at + 0.2, text, f"msg_{log}_{number}"),
        assistant(uuids[2], uuids[1], at + 0.4, [call("t", command=text)], f"msg_{log}_{number}"),
        user(uuids[3], uuids[2], at + 0.6, [result("t", text * rng.randrange(1, 6))]),
    ]


def make(world: World, rng: random.Random) -> None:
    """Logs of half a megabyte and more in all, some of them forks and agents of others."""
    for log in range(LOGS):
        path = (
            world.homes[log % 2]
            / "projects"
            / f"-srv-{log % 3}"
            / f"{log:08d}-0000-4000-8000-000000000000.jsonl"
        )
        lines = [line for number in range(LINES // 4) for line in turn(number, log, rng)]
        world.append(path, encoded(lines))
        if log % 4 == 0:
            world.append(
                path.with_name(f"{log:08d}-0000-4000-8000-00000000000f.jsonl"),
                forked(path.read_bytes(), "f", says_so=log % 8 == 0),
            )
        if log % 5 == 0:
            world.append(path.with_suffix("") / "subagents" / "agent-a1.jsonl", path.read_bytes())


def change(world: World, rng: random.Random, number: int) -> None:
    """What clients and people do to some logs between two refreshes."""
    for _ in range(rng.randrange(1, 5)):
        log = rng.choice(world.logs())
        deed = rng.randrange(6)
        if deed <= 2:
            world.append(
                log,
                encoded(
                    [line for n in range(rng.randrange(1, 9)) for line in turn(number * 10 + n, 900, rng)]
                ),
            )
        elif deed == 3:
            data = log.read_bytes()
            world.write_over(log, data[: rng.randrange(len(data) + 1)])
        elif deed == 4:
            world.move(log, log.parent.with_name(f"-moved-{number % 7}") / log.name)
        else:
            world.append(
                log.with_name(f"{number:08d}-fork.jsonl"),
                forked(log.read_bytes(), SESSIONS[0], says_so=False),
            )


def build(world: World, cache: Path) -> None:
    """In a child: a refresh with other processes that read, small frames and many commits."""
    indexing._WORTH_A_PROCESS = -1
    indexing._BULK_COMMIT = 1 << 15
    indexing._FIRST_BATCHES, indexing._BATCH = (1, 1), 1 << 14  # the newest logs first, in many steps
    extraction._FRAME_LINES = 20
    with open_index(world.homes, cache=cache) as opened:
        if opened.is_temporary:
            raise AssertionError(opened.notes)


def in_child(work: object, *arguments: object) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        work(*arguments)  # type: ignore[operator]
    except BaseException as problem:  # noqa: BLE001 - a child has nobody to raise to
        os.write(2, f"{type(problem).__name__}: {problem}\n".encode())
        os._exit(1)
    os._exit(0)


def members(session: int) -> list[int]:
    """Processes of a child and of its process groups that are still running."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, _, _, own = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(own) == session and state != "Z":
                found.append(int(entry.name))
    return found


def outlived(session: int) -> bool:
    """Whether anything of a killed child is still there after a minute."""
    for _ in range(3_000):
        if not members(session):
            return False
        time.sleep(0.02)
    for process in members(session):
        os.kill(process, signal.SIGKILL)
    return True


def kills(directory: Path, rounds: int, seed: int) -> Counter[str]:
    """Kill refreshes until so many were killed; after each, and after every one that came through, look."""
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    world, cache = World(directory), directory / "cache"
    make(world, rng)
    began = time.monotonic()
    os.waitpid(in_child(build, world, directory / "trial"), 0)
    whole = time.monotonic() - began
    while counts["kills"] < rounds:
        child = in_child(build, world, cache)
        time.sleep(rng.uniform(0, whole * rng.choice((0.3, 1.1))))
        os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL:
            counts["kills"] += 1
            counts["processes that outlived a kill"] += outlived(child)
            counts += look(world, cache)
            if rng.random() < 0.6:
                continue
        counts += come_through(world, cache)
        change(world, rng, counts["kills"])
        if rng.random() < 0.2:
            for left in cache.iterdir():
                left.unlink()
    counts += come_through(world, cache)
    return counts


def look(world: World, cache: Path) -> Counter[str]:
    """What a kill left behind holds all invariants."""
    counts: Counter[str] = Counter()
    path = index_path(world.homes, cache)
    if not path.exists() or not path.stat().st_size:
        counts["kills before there was an index"] += 1
        return counts
    index = IndexDatabase(path)
    counts["kills that left half an index"] += index.meta("complete") is None
    counts["indexes that are damaged"] += index.value("PRAGMA quick_check") != "ok"
    counts["broken invariants"] += len(faults(index))
    index.close()
    return counts


def come_through(world: World, cache: Path) -> Counter[str]:
    """A refresh that nobody kills; what it makes equals an index built anew."""
    counts: Counter[str] = Counter({"refreshes that came through": 1})
    counts["refreshes that failed"] += os.waitpid(in_child(build, world, cache), 0)[1] != 0
    with open_index(world.homes, cache=cache, is_refreshed=False) as opened:
        fresh = IndexDatabase(":memory:")
        refresh(fresh, world.homes)
        counts["rows unlike a fresh index"] += len(
            differences(projection(fresh), projection(opened.database))
        )
        counts["broken invariants"] += len(faults(opened.database))
        counts["things that had to be said"] += len(opened.notes)
        fresh.close()
    return counts


# --- many at once -----------------------------------------------------------------------------


def refresh_often(world: World, cache: Path, stop: Path) -> None:
    while not stop.exists():
        build(world, cache)


def read_without_pause(world: World, cache: Path, stop: Path) -> None:
    """Every snapshot is whole: sums and counted rows agree, every text has its message."""
    path = index_path(world.homes, cache)
    reads = 0
    while not stop.exists() or not reads:
        if not path.exists() or not path.stat().st_size:
            continue
        with contextlib.closing(IndexDatabase(path, read_only=True)) as index:
            if index.value("SELECT 1 FROM sqlite_master WHERE name = 'texts'") is None:
                continue
            for _ in range(20):
                with index.reading():
                    sums = index.rows(
                        "SELECT sum(messages), sum(output), sum(input), sum(cache_read) FROM rollup"
                    )
                    counted = index.rows(
                        "SELECT nullif(count(*), 0), sum(output), sum(input), sum(cache_read) FROM usage WHERE counted"
                    )
                    texts = index.value("SELECT count(*) FROM texts_docsize")
                    used = index.value("SELECT count(DISTINCT text) FROM messages")
                    found = index.value("SELECT count(*) FROM texts WHERE texts MATCH 'alpha'")
                    if sums != counted or texts != used or not isinstance(found, int):
                        raise AssertionError(f"half a state: {sums} {counted} {texts} {used}")
                reads += 1


def crowd(directory: Path, rounds: int, seed: int) -> Counter[str]:
    """So many refreshers and two readers, while logs change; then all is as in a fresh index."""
    rng = random.Random(seed)
    world, cache, stop = World(directory), directory / "cache", directory / "stop"
    make(world, rng)
    refreshers = [in_child(refresh_often, world, cache, stop) for _ in range(rounds)]
    readers = [in_child(read_without_pause, world, cache, stop) for _ in range(2)]
    for number in range(12):
        time.sleep(0.15)
        change(world, rng, number)
    stop.touch()
    counts: Counter[str] = Counter(refreshers=rounds, readers=2)
    counts["processes that failed"] = sum(os.waitpid(child, 0)[1] != 0 for child in (*refreshers, *readers))
    return counts + come_through(world, cache)


def main() -> None:
    what, directory, rounds, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    counts = {"kills": kills, "crowd": crowd}[what](directory, rounds, seed)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
