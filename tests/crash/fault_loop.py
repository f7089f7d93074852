"""Fails every call of an append, one by one, and checks that what the caller was told is true.

Run as a program (directory, "brief" or "full") with the shim preloaded; prints a JSON object: how many
cases ran, and one text for each promise that was broken. Each case is a forked child, so thousands of them
take seconds.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from recollect.errors import Outcome
from recollect.store.logs.log import Log
from recollect.system import fsops
from tests.crash.answers import entry, told

ONCE, ALWAYS, SHORT, CUT, DIE, DONE = range(6)
MANNERS = ("once", "from then on", "short", "cut", "killed before", "killed after")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EINTR, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
LASTING = [error for error in ERRORS if error != errno.EINTR]
KILL = 0


OLD = [entry("old1"), entry("old2", 300)]
WARM = entry("warm")
VICTIM = entry("victim", 100)
AFTER = entry("after")
AGAIN = entry("again")


class Case(NamedTuple):
    """What happens to which call, counted from one; perhaps something to a second one as well."""

    nth: int
    how: int
    error: int
    second: int = 0
    second_error: int = 0

    def is_deadly(self) -> bool:
        return self.how in {DIE, DONE} or (self.second > 0 and self.second_error == KILL)

    def told(self, calls: list[str]) -> str:
        call = f"{calls[self.nth - 1]} (call {self.nth})" if self.nth else "no call"
        then = f", then call {self.second} {errno.errorcode.get(self.second_error, 'killed')}"
        return (
            f"{call} {MANNERS[self.how]} {errno.errorcode.get(self.error, '')}{then if self.second else ''}"
        )


NO_FAULT = Case(0, ONCE, 0)


class Scenario(NamedTuple):
    """What stands in the file before (None: not even its directory), what is done first, what is failed."""

    before: bytes | None
    warm: Callable[[Log], object]
    act: Callable[[Log], object]
    victims: list[tuple[bytes, str]]


def stored(*entries: tuple[bytes, str]) -> bytes:
    return b"".join(line + b"\n" for line, _ in entries)


def nothing(log: Log) -> None:
    """No warming up."""


def warm(log: Log) -> None:
    log.append(*WARM)


def act(log: Log) -> None:
    log.append(*VICTIM)


def act_and_close(log: Log) -> None:
    log.append(*VICTIM)
    log.close()


def replaced(log: Log) -> None:
    """A repair put another file in the log's place."""
    log.append(*WARM)
    fsops.replace_file(log.path, log.path.read_bytes())


LARGE = entry("victim", 300_000)
BATCH = [entry(f"victim{number}", number * 50) for number in range(5)]
SCENARIOS = {
    "new file in new directories": Scenario(None, nothing, act, [VICTIM]),
    "existing file": Scenario(stored(*OLD), nothing, act, [VICTIM]),
    "torn tail": Scenario(stored(*OLD) + b'{"uuid":"to', nothing, act, [VICTIM]),
    "open log": Scenario(stored(*OLD), warm, act, [VICTIM]),
    "batch of five": Scenario(stored(*OLD), warm, lambda log: log.append_many(BATCH), BATCH),
    "large line": Scenario(stored(*OLD), warm, lambda log: log.append(*LARGE), [LARGE]),
    "replaced file": Scenario(stored(*OLD), replaced, act, [VICTIM]),
    "repeat": Scenario(stored(*OLD, VICTIM), nothing, act, [VICTIM]),
    "closed": Scenario(stored(*OLD), warm, act_and_close, [VICTIM]),
}

shim = ctypes.CDLL(None)
shim.fault_calls.restype = ctypes.c_char_p


def in_child(work: Callable[[], object]) -> object:
    """Run in a forked child; what it returns, or None when it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, json.dumps(work()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return json.loads(data) if data else None


def open_log(path: Path) -> Log:
    return Log(path, lock_timeout=0.2)


def faulted(path: Path, scenario: Scenario, case: Case) -> list[object]:
    """In the child: the answers to the failed append and to the next one, the file between them, the calls."""
    log = open_log(path)
    scenario.warm(log)
    prepared = path.read_bytes() if path.exists() else b""
    fsops._file_system_type.cache_clear()
    shim.fault_arm(case.nth, case.how, case.error)
    shim.fault_second(case.second, case.second_error)
    answer = told(lambda: scenario.act(log))
    shim.fault_disarm()
    calls = shim.fault_calls().decode().split()
    unchanged = prepared == (path.read_bytes() if path.exists() else b"")
    again = told(lambda: log.append(*AGAIN))
    return [answer, unchanged, again, log.failed, calls]


def prepare(path: Path, scenario: Scenario) -> None:
    """Lay the file of a scenario down, without anything of an earlier case."""
    shutil.rmtree(path.parents[1], ignore_errors=True)
    if scenario.before is not None:
        path.parent.mkdir(parents=True)
        path.write_bytes(scenario.before)


def check(path: Path, scenario: Scenario, case: Case) -> Iterator[str]:
    """Run one case; yield what is wrong."""
    prepare(path, scenario)
    report = in_child(lambda: faulted(path, scenario, case))
    lines = whole_lines(path)
    if report is None:
        if not case.is_deadly():
            yield "the process died"
    else:
        assert isinstance(report, list)
        yield from check_answer(scenario, lines, *report[:4])
        if len(report[4]) < max(case.nth, case.second):
            yield "the call was never made"
        elif must_succeed(case, report[4]) and report[0] != "stored":
            yield f"said {report[0]} where going on was possible"
    yield from (f"lost {name}" for line, name in expected_before(scenario) if line not in lines)
    yield from check_successor(path, scenario)


def must_succeed(case: Case, calls: list[str]) -> bool:
    """No fault, a short write and an interrupted call are no reason to give up."""
    if case.nth == 0 or case.how == SHORT:
        return True
    retried = calls[case.nth - 1] in {"open", "flock", "write", "fdatasync", "fsync"}
    return retried and (case.how, case.error, case.second) == (ONCE, errno.EINTR, 0)


def check_answer(
    scenario: Scenario, lines: list[bytes], answer: str, unchanged: bool, again: str, failed: bool
) -> Iterator[str]:
    """The three answers must be true, and a log must go on unless a sync failed (P8, S4)."""
    present = [line in lines for line, _ in scenario.victims]
    if answer == "stored" and not all(present):
        yield "said stored, is not"
    elif answer == Outcome.NOT_STORED.value and not unchanged:
        yield "said not stored, and the file has changed"
    elif answer not in {"stored", Outcome.NOT_STORED.value, Outcome.UNKNOWN.value}:
        yield f"said {answer}"
    if not failed and scenario.act is not act_and_close and again != "stored":
        yield f"the next append said {again}"
    if failed and again != "unusable":
        yield f"a sync failed, and the next append said {again}"
    if again == "stored" and AGAIN[0] not in lines:
        yield "the next append was acknowledged and is lost"


def check_successor(path: Path, scenario: Scenario) -> Iterator[str]:
    """Another process appends and repeats: both must work, and nothing acknowledged may be missing (P9).

    It is this one: it has none of these logs open, and a fork would take as long as the case itself.
    """
    with open_log(path) as log, open_log(path) as second:
        answers = [
            told(lambda: log.append(*AFTER)),
            told(lambda: second.append_many(scenario.victims)),
        ]
    if answers != ["stored", "stored"]:
        yield f"another process was told {answers}"
    lines = whole_lines(path)
    yield from (
        f"another process lost {name}"
        for line, name in [*expected_before(scenario), AFTER, *scenario.victims]
        if line not in lines
    )


def expected_before(scenario: Scenario) -> list[tuple[bytes, str]]:
    before = [] if scenario.before is None else list(OLD)
    return before if scenario.warm is nothing else [*before, WARM]


def whole_lines(path: Path) -> list[bytes]:
    """What a reader returns: everything before the last newline."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def single_faults(calls: list[str], full: bool) -> Iterator[Case]:
    """Every call x every error, once and from then on; writes cut short; kills around every call.

    In brief: an interruption of every call, and the other errors taking turns. What is killed after a call is in
    the state of what is killed before the next one.
    """
    for nth, call in enumerate(calls, start=1):
        turn = LASTING[nth % len(LASTING)]
        yield from (Case(nth, ONCE, error) for error in (ERRORS if full else [errno.EINTR, turn]))
        # A call that is interrupted for ever would be repeated for ever, and rightly so.
        yield from (Case(nth, ALWAYS, error) for error in (LASTING if full else [errno.EIO]))
        yield from (Case(nth, how, 0) for how in ((DIE, DONE) if full or nth == 1 else (DONE,)))
        if call == "write":
            yield Case(nth, SHORT, 0)
            yield from (Case(nth, CUT, error) for error in LASTING)


def double_faults(path: Path, scenario: Scenario, calls: list[str], full: bool) -> Iterator[Case]:
    """A write or sync fails, and then a call of the clean-up that follows: truncate, the sync after it, ..."""
    for nth, call in enumerate(calls, start=1):
        if call not in {"write", "fdatasync", "fsync"}:
            continue
        first = Case(nth, CUT if call == "write" else ONCE, errno.EIO)
        for second in range(nth + 1, len(calls_of(path, scenario, first)) + 1):
            for error in [*ERRORS, KILL] if full else [(errno.EIO, KILL)[second % 2]]:
                yield first._replace(second=second, second_error=error)


def calls_of(path: Path, scenario: Scenario, case: Case) -> list[str]:
    """The calls an append makes when this happens to it."""
    prepare(path, scenario)
    report = in_child(lambda: faulted(path, scenario, case))
    assert isinstance(report, list)
    calls: list[str] = report[4]
    return calls


def sweep(path: Path, name: str, full: bool, counts: Counter[str]) -> Iterator[str]:
    """All cases of one scenario; yield the promises broken."""
    scenario = SCENARIOS[name]
    calls = calls_of(path, scenario, NO_FAULT)
    counts["calls"] += len(calls)
    for case in itertools.chain(
        [NO_FAULT], single_faults(calls, full), double_faults(path, scenario, calls, full)
    ):
        counts["cases"] += 1
        for problem in check(path, scenario, case):
            yield f"{name}: {case.told(calls)}: {problem}"


def main() -> None:
    path = Path(sys.argv[1]) / "store" / "project" / "log.jsonl"
    counts: Counter[str] = Counter()
    broken = [problem for name in SCENARIOS for problem in sweep(path, name, sys.argv[2] == "full", counts)]
    print(json.dumps({**counts, "broken": broken}))


if __name__ == "__main__":
    main()
