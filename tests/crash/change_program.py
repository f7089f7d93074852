"""Programs that make changes, to be run beside others or under strace. See ``main`` for their tasks."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import Busy
from recollect.store.changes.journal import ChangeJournal, ChangePlan, FileState
from tests.crash.change_loop import plan_of, told

MARK = "begin-of-the-change"
LINE = b'{"type":"user","uuid":"%08d","message":{"role":"user","content":"one of a million"}}\n'


def traced(home: Path, journal: Path, operation: str) -> None:
    """One change, after a mark that strace can see."""
    changes = ChangeJournal(journal)
    os.access(MARK, os.F_OK)
    if operation == "apply":
        print(told(lambda: changes.apply(plan_of(home))))
    else:
        print(told(lambda: changes.undo(changes.changes()[0].id)))


def count(path: Path, journal: Path, times: int) -> None:
    """Add one to the number in a file, again and again; whoever was too late looks once more."""
    changes = ChangeJournal(journal, lock_timeout=120)
    refused = 0
    while times:
        seen = FileState.at(path)
        plan = ChangePlan("count", "up", path.parent)
        plan.replace(path, b"%d" % (int(path.read_bytes()) + 1), expected=seen)
        try:
            changes.apply(plan)
            times -= 1
        except Busy:
            refused += 1
    print(refused)


def append(path: Path, lines: int) -> None:
    """A client: appends now and then, and tells what it has written; a descriptor serves for so many lines."""
    number, rng = 0, random.Random(1)
    while True:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for _ in range(lines):
            time.sleep(rng.choice([0, 0, 0, 0.001, 0.002, 0.1]))
            os.write(fd, b"client %d\n" % number)
            print(number, flush=True)
            number += 1
        os.close(fd)


def stream(path: Path, journal: Path) -> None:
    """Replace a file by its own lines, upper case, without ever holding all of them; say the memory it took."""
    plan = ChangePlan("redact", "all", path.parent)
    plan.replace(path, upper_lines(path))
    changes = ChangeJournal(journal)
    done = changes.apply(plan)
    changes.undo(changes.undo(done.id).id)
    print(peak_memory())


def peak_memory() -> int:
    """The most memory this process had, in kB. (getrusage would answer with its parent's, if that is larger.)"""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def upper_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from (line.upper() for line in file)


def main() -> None:
    task, path, journal, *rest = sys.argv[1:]
    if task == "traced":
        traced(Path(path), Path(journal), rest[0])
    elif task == "count":
        count(Path(path), Path(journal), int(rest[0]))
    elif task == "append":
        append(Path(path), int(rest[0]))
    else:
        stream(Path(path), Path(journal))


if __name__ == "__main__":
    main()
