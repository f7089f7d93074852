"""A change of a home is the old or the new one, whatever stops it, and no byte of anybody is lost (P4; goals G11, G12)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from recollect.errors import Busy, StorageError
from recollect.store.changes.journal import ChangeJournal, ChangePlan, FileState
from recollect.system import fsops
from tests.crash.change_loop import Tree, lay_down, plan_of, tree_of
from tests.crash.change_program import LINE, MARK
from tests.small_disk import small_disk

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
ROOT = Path(__file__).resolve().parents[2]
# The interpreter itself: a version manager's shim would be traced instead of Python.
PYTHON = os.path.realpath(sys.executable)
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])}
STOPPABLE = (
    "openat write fsync fdatasync mkdir rmdir rename renameat2 link linkat unlink unlinkat fchmod utimensat"
)

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")]


# --- stopped and failed at every call ----------------------------------------------------------------------


GROUNDS = {"plain": 1, "no-links-no-exchange": 3, "no-exchange": 3, "no-links": 3}


@pytest.mark.parametrize("ground", GROUNDS if TORTURE else list(GROUNDS)[:2])
def test_every_call_may_stop_or_fail(quick_directory: Path, ground: str) -> None:
    """Seven steps, and their undo: after recovery every byte, mode and time is old or new, and all can go on.

    Each call is failed once (EIO, ENOSPC, EACCES) and from then on (EIO); each that changes anything is
    also stopped before, in and after it; the recovery that follows is itself stopped at each of its calls.
    """
    share = GROUNDS[ground] if TORTURE else 120
    command = [PYTHON, "-m", "tests.crash.change_loop", str(quick_directory), ground, str(share)]

    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=7200, cwd=ROOT, env=ENVIRONMENT
    )

    assert ("", 0) == (ran.stderr, ran.returncode)
    report = json.loads(ran.stdout)
    print(
        f"\n{ground}: " + ", ".join(f"{value} {name}" for name, value in report.items() if name != "broken")
    )
    assert ([], True) == (report["broken"], report["cases"] > 30)


class Traced:
    """Makes a change, or undoes one, under strace and in a fresh home."""

    def __init__(self, strace: list[str], directory: Path) -> None:
        self.strace, self.directory = strace, directory
        self.home, self.journal = directory / "home", directory / "data" / "undo"
        self.before: Tree = {}

    def run(self, operation: str, *options: str) -> list[str]:
        """The calls it made after the mark, and before it, in order, with the mark between them."""
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.journal.parent, ignore_errors=True)
        lay_down(self.home)
        if operation == "undo":
            ChangeJournal(self.journal).apply(plan_of(self.home))
        self.before = tree_of(self.home)
        trace = self.directory / "trace"
        program = [PYTHON, "-m", "tests.crash.change_program", "traced", str(self.home), str(self.journal)]
        subprocess.run(
            [*self.strace, "-o", str(trace), *options, *program, operation],
            capture_output=True,
            check=False,
            timeout=120,
            cwd=ROOT,
            env=ENVIRONMENT,
        )
        text = trace.read_text(errors="replace").replace(f'access("{MARK}"', "mark(")
        return re.findall(r"^\d+ +(\w+)\(", text, re.MULTILINE)


@pytest.mark.parametrize("operation", ["apply", "undo"])
def test_kill_9_from_outside_leaves_old_or_new(
    strace: list[str], quick_directory: Path, operation: str
) -> None:
    """strace kills a fresh process at one call after the other; recovery and undo work from whatever is left."""
    traced = Traced(strace, quick_directory)
    calls = traced.run(operation)
    expected = (traced.before, tree_of(traced.home))
    mark = calls.index("mark")
    places = [place for place in range(mark, len(calls)) if calls[place] in STOPPABLE.split()]
    broken, ends = [], Counter[str]()
    for place in places if TORTURE else places[::13]:
        nth = calls[: place + 1].count(calls[place])
        traced.run(operation, f"-einject={calls[place]}:signal=KILL:when={nth}")
        journal = ChangeJournal(traced.journal)
        ended = [one.state for one in journal.recover()]
        found = tree_of(traced.home)
        ends["new" if found == expected[1] else "old"] += 1
        ends["recovered"] += len(ended)
        done = [one for one in journal.changes() if one.state == "done"]
        if done:
            journal.undo(done[0].id)
        if found not in expected or (done and tree_of(traced.home) not in expected):
            broken.append(f"{calls[place]} {nth}")

    print(f"\nstrace, {operation}: {len(places)} places, {dict(ends)}, {len(broken)} broken")
    assert ([], True, True) == (broken, len(places) > 100, ends["recovered"] > 2)


# --- beside others -----------------------------------------------------------------------------------------


def start(*arguments: object, to: int | BinaryIO = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [PYTHON, "-m", "tests.crash.change_program", *map(str, arguments)]
    return subprocess.Popen(command, stdout=to, text=True, cwd=ROOT, env=ENVIRONMENT)


def test_processes_that_change_one_file_at_once_lose_no_change(quick_directory: Path) -> None:
    """Four processes each add one, so many times, to a number that they all replace: the sum is exact."""
    path, journal, times = quick_directory / "number", quick_directory / "undo", 100 if TORTURE else 15
    path.write_bytes(b"0")

    running = [start("count", path, journal, times) for _ in range(4)]
    refused = sum(int(process.communicate(timeout=1200)[0]) for process in running)

    changes = ChangeJournal(journal).changes()
    print(f"\n{4 * times} changes, {refused} refused because another was faster")
    assert (b"%d" % (4 * times), Counter(done=4 * times)) == (
        path.read_bytes(),
        Counter(one.state for one in changes if one.state != "rolled-back"),
    )


@pytest.mark.parametrize("lines", [1, 20])
def test_no_line_of_a_client_is_lost_while_its_log_is_replaced(quick_directory: Path, lines: int) -> None:
    """A client that takes no lock of ours goes on appending: each of its lines is in the log or in the journal.

    It opens the log anew for every line, as Claude Code does, or for every twentieth.
    """
    log, told = quick_directory / "home" / "log.jsonl", quick_directory / "told"
    log.parent.mkdir()
    log.write_bytes(b"first\n")
    journal, wanted, outcomes = (
        ChangeJournal(quick_directory / "undo"),
        1_000 if TORTURE else 30,
        Counter[str](),
    )
    with told.open("wb") as out, start("append", log, "-", lines, to=out) as client:
        try:
            while outcomes["done"] < wanted or told.stat().st_size < 10 * wanted:
                outcomes[replaced(journal, log)] += 1
        finally:
            client.kill()

    numbers = told.read_bytes().split(b"\n")[:-1]
    holdings = [log, *(path for path in journal.root.rglob("*") if path.parent.name in {"kept", "aside"})]
    found = {line for path in holdings for line in path.read_bytes().split(b"\n")}
    lost = [number for number in numbers if b"client " + number not in found]
    elsewhere = sum(b"client " + number not in log.read_bytes().split(b"\n") for number in numbers)
    print(
        f"\n{lines} at a time: {len(numbers)} lines beside {dict(outcomes)}, {elsewhere} of them in the journal"
    )
    assert ([], []) == (lost, journal.unfinished())


def replaced(journal: ChangeJournal, log: Path) -> str:
    """Repair a log: the same lines once more."""
    plan = ChangePlan("repair", "log", log.parent)
    seen = FileState.at(log)
    plan.replace(log, log.read_bytes(), expected=seen)
    try:
        journal.apply(plan)
    except Busy:
        return "refused"
    return "done"


# --- large, full -------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_million_lines_are_replaced_and_undone_in_little_memory(quick_directory: Path) -> None:
    """89 MB are rewritten, undone and done again by a process that never has more than 60 MB."""
    log = quick_directory / "home" / "log.jsonl"
    log.parent.mkdir()
    with log.open("wb") as file:
        for start_number in range(0, 1_000_000, 10_000):
            file.write(b"".join(LINE % number for number in range(start_number, start_number + 10_000)))

    peak = int(start("stream", log, quick_directory / "undo").communicate(timeout=1200)[0])

    with log.open("rb") as file:
        is_upper = all(line == (LINE % number).upper() for number, line in enumerate(file))
    print(f"\n{log.stat().st_size / 1e6:.0f} MB in {peak / 1024:.0f} MB of memory")
    assert (1_000_000 * len(LINE % 0), True, True) == (log.stat().st_size, is_upper, peak < 60 * 1024)


@pytest.mark.root
@pytest.mark.parametrize("full", ["home", "data"])
def test_a_full_disk_changes_nothing_and_works_again(tmp_path: Path, full: str) -> None:
    """The disk of the home, or that of the journal, has no room: all is as before; with room it succeeds."""
    with small_disk(tmp_path / "disk", "size=256k") as disk:
        fill_and_try_again(tmp_path, disk, full)


def fill_and_try_again(tmp_path: Path, small_disk: Path, full: str) -> None:
    home, data = (small_disk, tmp_path / "data") if full == "home" else (tmp_path / "home", small_disk)
    home.mkdir(exist_ok=True)
    (home / "a").write_bytes(b"a" * 100_000)
    (home / "b").write_bytes(b"b" * 100_000)
    before = tree_of(home)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (20_000 if full == "home" else 120_000))
    journal = ChangeJournal(data / "undo")

    with pytest.raises(StorageError, match="everything is as it was before; free space") as caught:
        journal.apply(both_replaced(home))
    after = {name: what for name, what in tree_of(home).items() if name != "ballast"}
    ballast.unlink()
    (home / "b").unlink() if full == "home" else None
    done = journal.apply(both_replaced(home))

    assert (28, before, "done") == (caught.value.cause and caught.value.cause.errno, after, done.state)


def both_replaced(home: Path) -> ChangePlan:
    plan = ChangePlan("slim", "all", home)
    for path in sorted(path for path in home.iterdir() if path.name in {"a", "b"}):
        plan.replace(path, path.read_bytes()[:90_000])
    return plan


# --- order -------------------------------------------------------------------------------------------------


def test_everything_is_synced_before_it_is_relied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order that survives a power cut: new bytes and the original are safe, then the record, then the rename."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "log").write_bytes(b"old")
    done: list[str] = []
    for name in ("write_all", "sync_file", "sync_dir", "link", "exchange", "unlink", "replace_file"):
        monkeypatch.setattr(fsops, name, noted(name, getattr(fsops, name), done))
    plan = ChangePlan("repair", "log", home)
    plan.replace(home / "log", b"new")

    ChangeJournal(tmp_path / "undo").apply(plan)

    mark = done.index("replace_file change.json")  # the record of what is going to happen comes first
    assert [
        "replace_file change.json",
        "write_all new",
        "sync_file",
        "sync_dir home",
        "link log",
        "sync_file",
        "sync_dir kept",
        "replace_file change.json",
        "exchange",
        "unlink",
        "sync_dir home",
        "replace_file change.json",
    ] == done[mark:]


def noted(name: str, real: Callable[..., object], done: list[str]) -> Callable[..., object]:
    """The function, with a note of each call. A record is written, synced and renamed as one (see fsops)."""

    def call(*arguments: Any, **options: Any) -> object:
        detail = ""
        if name == "write_all":
            detail = arguments[1].decode()
        elif name in {"sync_dir", "replace_file", "link"}:
            detail = Path(arguments[0]).name
        done.append(f"{name} {detail}".strip())
        length = len(done)
        answer = real(*arguments, **options)
        if name == "replace_file":
            del done[length:]
        return answer

    return call
