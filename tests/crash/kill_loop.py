"""A process that kills its children while they append, and then counts what is in the files.

Run as a program (directory, number of kills, seed); prints a JSON object of counts. It is a process of its
own because it forks, which a test runner with threads must not.

A child reports "begin n" before and "ack n" after each append, through a pipe that outlives it. The
parent kills it at a random moment, mostly some time after its first acknowledgement, so that the kill falls into
the steady loop and not into the opening of files. Half of the children first repeat what their predecessor
began and could not acknowledge.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from recollect.store.logs.log import Log

KILLS_PER_FILE = 40
SMALLEST, LARGEST = 10, 200_000
FIRST = 1000


def line_of(file: int, number: int) -> bytes:
    """The one line that has this number: a JSON object of 10 B to 200 kB, small ones as likely as large."""
    size = int(SMALLEST * (LARGEST / SMALLEST) ** random.Random(file * 1_000_003 + number).random())
    bare = b'{"i":%d}' % number
    with_id = b'{"i":%d,"uuid":"%d","pad":""}' % (number, number)
    return bare if size < len(with_id) else with_id[:-2] + b"x" * (size - len(with_id)) + b'"}'


def append_for_ever(path: Path, file: int, repeat: int | None, number: int, report: int) -> None:
    """The child: append, and say so before and after."""
    log = Log(path)
    numbers = [] if repeat is None else [repeat]
    while True:
        current = numbers.pop() if numbers else number
        line = line_of(file, current)
        os.write(report, b"b%d\n" % current)
        log.append(line, str(current))
        os.write(report, b"a%d\n" % current)
        number += current == number


def kill_one(path: Path, file: int, repeat: int | None, number: int, rng: random.Random) -> list[bytes]:
    """Start a child, kill it, return what it reported."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        append_for_ever(path, file, repeat, number, writing)
    os.close(writing)
    reported = b""
    if rng.random() < 0.85:
        while b"a" not in reported and (piece := os.read(reading, 65536)):
            reported += piece
    time.sleep(rng.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while piece := os.read(reading, 65536):
        reported += piece
    os.close(reading)
    return reported.split()


def torture(directory: Path, kills: int, seed: int) -> Counter[str]:
    """Kill that many children; a new file from time to time keeps the counting cheap.

    On a busy machine more kills than usual fall outside of a write: then more are made, up to ten times as many.
    """
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    for file, start in enumerate(range(0, 10 * kills, KILLS_PER_FILE)):
        if start >= kills and counts["of these after the write had begun"] >= 0.3 * kills:
            break
        path = directory / f"{file}.jsonl"
        begun: set[int] = set()
        acknowledged: list[int] = []
        repeat = None
        for _ in range(KILLS_PER_FILE):
            number = max(begun, default=FIRST - 1) + 1
            reported = kill_one(path, file, repeat, number, rng)
            begun.update(int(word[1:]) for word in reported if word.startswith(b"b"))
            acknowledged += [int(word[1:]) for word in reported if word.startswith(b"a")]
            unanswered = int(reported[-1][1:]) if reported and reported[-1].startswith(b"b") else None
            counts["kills"] += 1
            if unanswered is not None:
                counts["kills inside an append"] += 1
                counts["of these after the write had begun"] += ends_in(path, line_of(file, unanswered))
            repeat = unanswered if rng.random() < 0.5 else None
        counts += count(path, file, begun, acknowledged)
        path.unlink(missing_ok=True)
    return counts


def ends_in(path: Path, line: bytes) -> bool:
    """Whether the file ends in this line, or in the start of it."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - len(line) - 2))
        last = file.read()
    tail = last.rpartition(b"\n")[2]
    return last.endswith(line + b"\n") or (tail != b"" and line.startswith(tail))


def count(path: Path, file: int, begun: set[int], acknowledged: list[int]) -> Counter[str]:
    """Read a file by the rule "stop at the last newline" and compare it with what was reported."""
    counts: Counter[str] = Counter({"acknowledged": len(acknowledged), "begun": len(begun)})
    *lines, tail = path.read_bytes().split(b"\n") if path.exists() else [b""]
    expected = {line_of(file, number): number for number in begun}
    found: list[int] = []
    for line in lines:
        if line in expected:
            found.append(expected[line])
        elif is_object(line):
            counts["fragments returned as entries"] += 1
        elif any(whole.startswith(line) for whole in expected):
            counts["torn lines, healed"] += 1
        else:
            counts["bytes nobody wrote"] += 1
    if tail:
        counts["torn tails"] += 1
        counts["bytes nobody wrote"] += not any(whole.startswith(tail) for whole in expected)
    first_places = list(dict.fromkeys(number for number in found if number in set(acknowledged)))
    counts["acknowledged lost"] = len(set(acknowledged) - set(found))
    counts["out of order"] = first_places != list(dict.fromkeys(acknowledged))
    counts["stored twice"] = len(found) - len(set(found))
    counts["stored twice within reach"] = sum(
        times - 1 for number, times in Counter(found).items() if is_within_reach(line_of(file, number))
    )
    counts["written but not acknowledged"] = len(set(found) - set(acknowledged))
    return counts


def is_within_reach(line: bytes) -> bool:
    """Whether a repeat must find this line: it has its id inside and fits into the window of 64 KiB."""
    return b"uuid" in line and len(line) < 65_536


def is_object(line: bytes) -> bool:
    """Whether a reader would take this for an entry."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def main() -> None:
    directory, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(torture(directory, kills, seed)))


if __name__ == "__main__":
    main()
