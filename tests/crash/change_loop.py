"""Stops or fails every system call of a change, one by one, and checks that the home is the old or the new one.

Run as a program (directory, ground, n: every n-th case); prints a JSON object: how many cases ran, and one text
for each promise that was broken. Each case is a forked child that is killed or refused at one call; its
parent then recovers, compares every byte, mode and time, and goes on: the change must be
possible (again), and its undo too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import stat
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from recollect.errors import RecollectError
from recollect.store.changes.journal import Change, ChangeJournal, ChangePlan
from recollect.system import fsops

CHANGING = ["open", "write", "fsync", "link", "rename", "replace", "unlink", "mkdir", "rmdir"]
CHANGING += ["chmod", "fchmod", "fchown", "utime"]
LOOKING = ["stat", "lstat", "fstat", "listdir", "scandir", "lseek"]
DIE, DONE, CUT, FAIL, FAIL_ALWAYS = "killed before", "killed after", "killed in", "failed", "failed for ever"
OLD_TIME, NEW_TIME = 1_600_000_000_123_456_789, 1_700_000_000_987_654_321


class Stopped(BaseException):
    """The process has ended, as far as anything inside it can tell."""


class Calls:
    """Stands before every call to the system; counts them, and ends the process (or fails the call) at one."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.end = end
        self.names: list[str] = []
        self.is_armed = self.is_stopped = False
        self.nth, self.how, self.error = 0, DIE, 0

    def arm(self, nth: int, how: str, error: int = 0) -> None:
        self.names = []
        self.nth, self.how, self.error = nth, how, error
        self.is_armed = True

    def disarm(self) -> None:
        self.is_armed = self.is_stopped = False

    def stop(self) -> None:
        """An end that can be tested in one process: nothing reaches the system any more."""
        self.is_stopped = True
        raise Stopped

    def watch(self, replace: Callable[[Any, str, Any], None]) -> None:
        """Put a wrapper in the place of each function; ``replace`` is setattr, or takes note of what was there."""
        for name in CHANGING + LOOKING:
            wrapper = self.wrapped(name, getattr(os, name))
            if getattr(os, name) in os.supports_follow_symlinks:
                os.supports_follow_symlinks.add(wrapper)
            replace(os, name, wrapper)
        replace(fsops, "_pread", self.wrapped("pread", fsops._pread))
        replace(fsops, "_sync_data", self.wrapped("fdatasync", fsops._sync_data))
        replace(fsops, "_rename_with", self.wrapped("renameat2", fsops._rename_with))

    def wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if not self.is_armed:
                return real(*arguments, **options)
            if self.is_stopped:
                raise Stopped
            self.names.append(name)
            here = len(self.names) == self.nth
            if here and self.how == CUT and name == "write":
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            if here and self.how in {DIE, CUT}:
                self.end()
            if (here and self.how == FAIL) or (len(self.names) >= self.nth > 0 and self.how == FAIL_ALWAYS):
                raise OSError(self.error, os.strerror(self.error))
            answer = real(*arguments, **options)
            if len(self.names) >= self.nth > 0 and self.how == DONE:
                self.end()  # after the first call from there on that does something: a refused one raises before this
            return answer

        return call


def end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextlib.contextmanager
def never_returning() -> Iterator[None]:
    """For a forked child: it ends here. An error that got out would let it go on as a second test runner."""
    code = 1
    try:
        yield
        code = 0
    except BaseException:  # noqa: BLE001 - shown, and then this process ends
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


calls = Calls(end_process)

# --- the change --------------------------------------------------------------------------------------------

OLD = {
    "projects/a/log.jsonl": b'{"n":1}\n{"n":2}\n{"n":',
    "projects/a/other.jsonl": b'{"other":1}\n',
    "projects/a/spare.jsonl": b'{"spare":1}\n',
    "projects/moved/inner.jsonl": b'{"cwd":"/old"}\n',
    "projects/moved/deep/er.txt": b"deep",
}


def lay_down(home: Path) -> None:
    """The files before the change, with modes and times that nobody would choose by accident."""
    for number, (name, data) in enumerate(OLD.items()):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o640 if number % 2 else 0o604)
        os.utime(path, ns=(OLD_TIME, OLD_TIME + number))


def plan_of(home: Path) -> ChangePlan:
    """Each kind of step; a file is changed in a directory that then moves, another one after it has moved."""
    a, moved, there = home / "projects/a", home / "projects/moved", home / "projects/new/place"
    plan = ChangePlan("repair", "3f2a", home)
    plan.replace(a / "log.jsonl", iter([b'{"n":1}\n', b'{"n":2}\n']), mtime_ns=NEW_TIME)
    plan.create(home / "plans/new/made.md", b"made", mtime_ns=NEW_TIME + 1)
    plan.remove(a / "other.jsonl")
    plan.replace(moved / "inner.jsonl", b'{"cwd":"/new"}\n', mtime_ns=NEW_TIME + 2)
    plan.move(moved, there)
    plan.replace(there / "deep/er.txt", b"deeper", mtime_ns=NEW_TIME + 3)
    plan.move(a / "spare.jsonl", home / "projects/b/spare.jsonl")
    return plan


Tree = dict[str, tuple[int, int, bytes] | int]


def tree_of(home: Path) -> Tree:
    """Every name: of files mode, time and bytes, of directories the mode. Hidden names too."""
    tree: Tree = {}
    for path in sorted(home.rglob("*")):
        found, name = path.lstat(), path.relative_to(home).as_posix()
        mode = stat.S_IMODE(found.st_mode)
        tree[name] = mode if path.is_dir() else (mode, found.st_mtime_ns, path.read_bytes())
    return tree


# --- one case ----------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """What happens to which call of which operation; perhaps the recovery is stopped too, at another call."""

    operation: str
    nth: int
    how: str
    error: int = 0
    second: int = 0

    def told(self, name: str) -> str:
        again = f", recovery stopped at call {self.second}" if self.second else ""
        return f"{self.operation}: call {self.nth} ({name}) {self.how} {errno.errorcode.get(self.error, '')}{again}"


class Bench:
    """A home and a journal, laid out anew for each case."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.data = directory / "data"
        self.fresh()
        self.old = tree_of(self.home)
        done = self.journal().apply(plan_of(self.home))
        self.new = tree_of(self.home)
        self.journal().undo(done.id)
        assert self.old == tree_of(self.home) != self.new

    def journal(self) -> ChangeJournal:
        return ChangeJournal(self.data / "undo", lock_timeout=0.2)

    def fresh(self) -> None:
        for place in (self.home, self.data):
            shutil.rmtree(place, ignore_errors=True)
        self.home.mkdir()
        lay_down(self.home)

    def operate(self, operation: str) -> Change:
        journal = self.journal()
        if operation == "apply":
            return journal.apply(plan_of(self.home))
        done = next(one for one in journal.changes() if one.state == "done")
        return journal.undo(done.id)

    def in_child(self, work: Callable[[], object], case: Case) -> tuple[str | None, list[str]]:
        """What the work answered (None: it died) and the calls it made."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            calls.arm(case.nth, case.how, case.error)
            answer = told(work)
            calls.disarm()
            os.write(writing, json.dumps([answer, calls.names]).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            data = file.read()
        os.waitpid(child, 0)
        return tuple(json.loads(data)) if data else (None, [])

    def run(self, case: Case) -> tuple[str | None, list[str]]:
        self.fresh()
        if case.operation == "undo":
            self.operate("apply")
        answer, names = self.in_child(lambda: self.operate(case.operation), case)
        if case.second:
            self.in_child(lambda: self.journal().recover(), Case("recover", case.second, DIE))
        return answer, names


def told(work: Callable[[], object]) -> str:
    """What a caller learns; anything but our own errors is a broken promise."""
    try:
        work()
    except RecollectError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def check(bench: Bench, case: Case) -> Iterator[str]:
    """Run one case; yield what is wrong."""
    before, after = (bench.old, bench.new) if case.operation == "apply" else (bench.new, bench.old)
    answer, _ = bench.run(case)
    if answer is None:
        if case.how in {FAIL, FAIL_ALWAYS}:
            yield "the process died"
    elif not case.second:
        yield from check_answer(answer, tree_of(bench.home), before, after)
    bench.journal().recover()
    found = tree_of(bench.home)
    if found not in (before, after):
        yield f"neither old nor new after recovery: {difference(found, before)}"
        return
    yield from check_journal(bench, case, is_new=found == after)
    yield from check_going_on(bench, before, after, is_new=found == after, operation=case.operation)


def check_answer(answer: str, found: Tree, before: Tree, after: Tree) -> Iterator[str]:
    """What the caller was told must be true at that moment."""
    if answer == "done" and found != after:
        yield f"said done, is not: {difference(found, after)}"
    elif answer != "done" and "unfinished" not in answer and found != before:
        yield f"said {answer}, but {difference(found, before)}"


def check_journal(bench: Bench, case: Case, *, is_new: bool) -> Iterator[str]:
    """The journal says what is true, and no private file is open to others."""
    changes = bench.journal().changes()
    states = [one.state for one in changes]
    done = {"apply": ["done"], "undo": ["done", "undone"]}[case.operation]
    not_done = {"apply": [], "undo": ["done"]}[case.operation]
    if [state for state in states if state != "rolled-back"] != (done if is_new else not_done):
        yield f"the journal says {states}"
    if any(one.set_aside for one in changes):
        yield "something was set aside, and nobody else was there"
    for path in bench.data.rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_dir() and mode != 0o700:
            yield f"{path.name} has mode {mode:o}"
        if path.name.endswith(".tmp"):
            yield f"{path.name} was left behind"


def check_going_on(bench: Bench, before: Tree, after: Tree, *, is_new: bool, operation: str) -> Iterator[str]:
    """The operation can be made (again), and be undone."""
    if not is_new:
        bench.operate(operation)
    if tree_of(bench.home) != after:
        yield f"could not be done afterwards: {difference(tree_of(bench.home), after)}"
    bench.operate("undo")
    if tree_of(bench.home) != before:
        yield f"could not be undone afterwards: {difference(tree_of(bench.home), before)}"


def difference(found: Tree, expected: Tree) -> str:
    names = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
    return ", ".join(f"{name}: {found.get(name)} not {expected.get(name)}" for name in names[:3])


# --- all cases ---------------------------------------------------------------------------------------------


def cases(bench: Bench) -> Iterator[tuple[Case, str]]:
    """Every call of an apply and of an undo: failed once and from then on; if it changes anything, also stopped."""
    for operation in ("apply", "undo"):
        answer, names = bench.run(Case(operation, 0, DIE))
        assert answer == "done"
        for nth, name in enumerate(names, start=1):
            manners = [
                (FAIL, errno.EIO),
                (FAIL, errno.ENOSPC),
                (FAIL, errno.EACCES),
                (FAIL_ALWAYS, errno.EIO),
            ]
            if name not in LOOKING:
                manners += [(DIE, 0), (DONE, 0)]
            if name == "write":
                manners.append((CUT, 0))
            yield from ((Case(operation, nth, how, error), name) for how, error in manners)


def interrupted_recoveries(bench: Bench, share: int) -> Iterator[tuple[Case, str]]:
    """A crash after each change of a name, and then a crash of the recovery, at every call that changes anything.

    One in ``share`` of them. The calls of a recovery are known once it was run: for a small share only some crashes
    are tried at all.
    """
    of_crashes, of_calls = (8, share // 8) if share > 8 else (1, share)
    for operation in ("apply", "undo"):
        _, names = bench.run(Case(operation, 0, DIE))
        places = [nth for nth, name in enumerate(names, 1) if name in {"renameat2", "unlink", "replace"}]
        for turn, nth in enumerate(places[::of_crashes]):
            bench.run(Case(operation, nth, DONE))
            _, recovery = bench.in_child(lambda: bench.journal().recover(), Case("recover", 0, DIE))
            calls = [second for second, name in enumerate(recovery, start=1) if name not in LOOKING]
            for second in calls[turn % of_calls :: of_calls]:
                yield Case(operation, nth, DONE, second=second), names[nth - 1]


def change_ground(ground: str) -> None:
    """Take away what some systems lack: hard links between home and data, renames with conditions."""

    def link(source: Path, target: Path, **_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(source), None, str(target))

    if "links" in ground:
        setattr(os, "link", link)  # noqa: B010  (mypy knows the one signature only)
    if "exchange" in ground:
        setattr(fsops, "_rename_with", lambda *_: False)  # noqa: B010


def main() -> None:
    directory, ground, share = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    change_ground(ground)
    calls.watch(setattr)
    bench = Bench(directory)
    counts: Counter[str] = Counter()
    broken = []
    for case, name in [*list(cases(bench))[::share], *interrupted_recoveries(bench, share)]:
        counts["cases"] += 1
        counts["of these in a recovery"] += bool(case.second)
        broken += [f"{case.told(name)}: {problem}" for problem in check(bench, case)]
    print(json.dumps({**counts, "broken": broken}))


if __name__ == "__main__":
    main()
