"""A process that is interrupted (as by Ctrl-C) inside its appends, while its other threads append too.

Run as a program (log, number of interrupts, seed); prints a JSON object of counts. The signal can arrive between
any two instructions of the main thread: while it takes the lock, writes, syncs, cleans up, gives the lock back.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

from recollect.errors import AppendFailed, Outcome
from recollect.store.logs.log import Log
from recollect.system.lock import FileLock


class Interrupt(BaseException):
    """What Ctrl-C would raise."""


class Window:
    """Open while the main thread is inside an append: only then does the signal interrupt."""

    is_open = False

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.is_open:
            raise Interrupt


window = Window()


class Appender:
    """Appends lines of its own and keeps account of the answers."""

    def __init__(self, log: Log, name: str, seed: int) -> None:
        self.log = log
        self.name = name
        self.rng = random.Random(seed)
        self.count = 0
        self.acknowledged: list[bytes] = []
        self.refused: list[bytes] = []
        self.counts: Counter[str] = Counter()

    def next_line(self) -> bytes:
        self.count += 1
        return b"%s.%d." % (self.name.encode(), self.count) + b"x" * self.rng.choice([1, 100, 50_000])

    def append(self, line: bytes) -> None:
        try:
            self.log.append(line, line[:20].decode())
        except AppendFailed as error:
            self.counts[f"told {error.outcome.value}"] += 1
            if error.outcome is Outcome.NOT_STORED:
                self.refused.append(line)
        else:
            self.acknowledged.append(line)

    def append_until(self, over: threading.Event) -> None:
        while not over.is_set():
            self.append(self.next_line())


def append_interrupted(appender: Appender) -> bool:
    """One append with a signal on its way; whether the signal came in time."""
    line = appender.next_line()
    window.is_open = True
    try:
        signal.setitimer(signal.ITIMER_REAL, appender.rng.uniform(1e-6, 1e-3))
        appender.append(line)
    except Interrupt:
        return True
    finally:
        window.is_open = False
    return False


def main() -> None:
    path, wanted, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGALRM, window.interrupt)
    log = Log(path, lock_timeout=20)
    over = threading.Event()
    appenders = [Appender(log, f"thread{number}", seed + number) for number in range(3)]
    threads = [
        threading.Thread(target=appender.append_until, args=(over,), daemon=True)
        for appender in appenders[1:]
    ]
    for thread in threads:
        thread.start()
    counts: Counter[str] = Counter()
    while counts["interrupts"] < wanted:
        counts["interrupts"] += append_interrupted(appenders[0])
    over.set()
    for thread in threads:
        thread.join(30)
        counts["threads left waiting"] += thread.is_alive()
    log.append(b"still works")
    log.close()
    with FileLock(path.with_name(path.name + ".lock"), 0):
        counts["lock is free"] += 1
    stored = set(path.read_bytes().split(b"\n")[:-1])
    for appender in appenders:
        counts += appender.counts
        counts["acknowledged"] += len(appender.acknowledged)
        counts["acknowledged lost"] += len(set(appender.acknowledged) - stored)
        counts["refused but stored"] += len(set(appender.refused) & stored)
        stored -= {line for line in stored if is_whole(line, appender)}
    counts["fragments"] = len(stored - {b"still works"})
    print(json.dumps(counts))


def is_whole(line: bytes, appender: Appender) -> bool:
    name, _, rest = line.partition(b".")
    return name == appender.name.encode() and len(rest.partition(b".")[2]) in {1, 100, 50_000}


if __name__ == "__main__":
    main()
