"""One of several processes that write to one file at the same time. Run as a program; see ``main``.

Waits for a line on standard input before it starts, so that all begin together.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from recollect.store.logs.log import Log
from recollect.system.lock import FileLock

SMALLEST, MIDDLE, LARGEST = 20, 20_000, 1_000_000


def size_of(writer: int, number: int) -> int:
    """20 B to 1 MB: small sizes as likely as middle ones, one in a hundred large; about 8 kB on average."""
    if number < 2:
        return (SMALLEST, LARGEST)[number]
    rng = random.Random(writer * 1_000_003 + number)
    if rng.random() < 0.01:
        return rng.randint(MIDDLE, LARGEST)
    return int(SMALLEST * (MIDDLE / SMALLEST) ** rng.random())


def line_of(writer: int, number: int) -> bytes:
    """The one line that this writer appends under this number; every byte of it depends on both."""
    start = b'{"e":"%d.%d.' % (writer, number)
    letter = b"abcdefghijklmnopqrstuvwxyz"[(writer * 7 + number) % 26 :][:1]
    return start + letter * (size_of(writer, number) - len(start) - 2) + b'"}'


def append_all(path: Path, writer: int, count: int) -> None:
    with Log(path, lock_timeout=120) as log:
        for number in range(count):
            log.append(line_of(writer, number), f"{writer}.{number}")


def increment(path: Path, count: int) -> None:
    """Read, add one, write back, under the lock: every lost exclusion is a lost count."""
    lock = FileLock(path.with_name("counter.lock"), 120)
    with path.open("r+b", buffering=0) as file:
        for _ in range(count):
            with lock:
                file.seek(0)
                value = int(file.read())
                file.seek(0)
                file.write(b"%08d" % (value + 1))  # as long as before: cutting a file short is slow on ext4


def main() -> None:
    task, path, writer, count = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    if task == "append":
        append_all(Path(path), int(writer), int(count))
    else:
        increment(Path(path), int(count))


if __name__ == "__main__":
    main()
