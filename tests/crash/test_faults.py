"""Every system call of an append fails once in every way, and what the caller is told stays true (P8; goal G4).

Two engines. A preloaded shim, compiled on the spot, fails calls inside forked children: thousands of cases
in seconds. strace fails them from outside in fresh processes: fewer cases, but it sees what the kernel sees, so
it also proves that the shim watches everything an append does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recollect.errors import Outcome
from recollect.storage.logs.log import Log
from tests.crash.traced_writer import ENTRIES

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHIM = HERE / "fault_shim.c"
# The interpreter itself: a version manager's shim would be traced instead of Python.
PYTHON = os.path.realpath(sys.executable)
ERRORS = ["EIO", "ENOSPC", "EINTR", "EDQUOT", "EFBIG", "EROFS", "EACCES"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim as a library, where this machine can build and load one."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler (or not Linux): the preloaded shim cannot run; the strace cases may")
    library = tmp_path_factory.mktemp("shim") / "fault_shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(SHIM), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return library


@pytest.fixture(scope="session")
def strace() -> list[str]:
    """The start of a strace command, where this machine lets us trace."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is not installed: calls are failed by the shim only")
    if subprocess.run([program, "-o", os.devnull, "true"], check=False, capture_output=True).returncode:
        pytest.skip("strace may not trace here: calls are failed by the shim only")
    return [program, "-f", "-qq", "-y"]


def test_every_call_may_fail_and_no_promise_is_broken(
    shim: Path, quick_directory: Path, record_property: Callable[[str, object], None]
) -> None:
    """Ten situations x every call x {seven errors once, errors from then on, short writes, kill before and after}.

    The daily run lets the errors take turns.

    After each: what was acknowledged is there, the answer is true, the next append of the same object works
    unless a sync failed, and so do an append and a repeat of a new process.
    """
    command = [PYTHON, "-m", "tests.crash.fault_loop", str(quick_directory), "full" if TORTURE else "brief"]
    environment = os.environ | {"LD_PRELOAD": str(shim), "PYTHONPATH": python_path()}

    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=3600, cwd=ROOT, env=environment
    )

    assert ("", 0) == (ran.stderr, ran.returncode)
    report = json.loads(ran.stdout)
    print(f"\nfaults: {report['cases']:,} cases over {report['calls']} calls, {len(report['broken'])} broken")
    record_property("cases", report["cases"])
    assert ([], True) == (report["broken"], report["cases"] > 1000)


def python_path() -> str:
    """Where a bare interpreter finds what this one has: it is not the one of the virtual environment."""
    return os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])


class Traced:
    """Runs the writer under strace in a fresh directory."""

    def __init__(self, strace: list[str], directory: Path) -> None:
        self.strace = strace
        self.directory = directory
        self.runs = 0

    def run(self, *options: str) -> tuple[Path, list[str] | None, list[str]]:
        """The log, what the writer was told (None: it died) and the calls that touched its files."""
        self.runs += 1
        home = self.directory / str(self.runs) / "project"
        path, trace = home / "log.jsonl", self.directory / f"{self.runs}.trace"
        watched = [f"-P{place}" for place in (home.parent, home, path, f"{path}.lock")]
        home.parent.mkdir()
        ran = subprocess.run(
            [
                *self.strace,
                "-o",
                str(trace),
                *watched,
                *options,
                PYTHON,
                "-m",
                "tests.crash.traced_writer",
                path,
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": python_path()},
        )
        calls = re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.MULTILINE)
        return path, json.loads(ran.stdout) if ran.stdout else None, calls


def problems(path: Path, answers: list[str] | None) -> Iterator[str]:
    """What is untrue among the answers, or does not work afterwards."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    if answers is None:
        yield "the writer died"
        return
    for (line, name), answer in zip(ENTRIES, answers, strict=True):
        if answer == "stored" and line not in lines:
            yield f"{name}: said stored, is not"
        elif answer in {Outcome.NOT_STORED.value, "unusable"} and line in lines:
            yield f"{name}: said {answer}, is stored"
    with Log(path) as log:
        for line, name in ENTRIES:
            log.append(line, name)
    after = path.read_bytes().split(b"\n")[:-1]
    yield from (f"{name}: lost by a repeat" for line, name in ENTRIES if line not in after)


def test_calls_failed_from_outside_tell_the_same_truth(strace: list[str], tmp_path: Path) -> None:
    """strace fails each call on the log, its lock and its directories in turn; the answers stay true."""
    traced = Traced(strace, tmp_path)
    _, answers, calls = traced.run()
    assert ["stored"] * 3 == answers

    broken = []
    cases = [(call, nth) for call, times in Counter(calls).items() for nth in range(1, times + 1)]
    for number, (call, nth) in enumerate(cases):
        # A process each: the daily run fails each kind of call at its first and last place, with the errors taking turns.
        # The shim fails all of them in the test above.
        if not TORTURE and nth not in (1, Counter(calls)[call]):
            continue
        for error in ERRORS if TORTURE else [ERRORS[number % len(ERRORS)]]:
            path, answers, _ = traced.run(f"-einject={call}:error={error}:when={nth}")
            broken += [f"{call} {nth} {error}: {problem}" for problem in problems(path, answers)]

    print(f"\nstrace: {traced.runs - 1} cases over {len(cases)} calls, {len(broken)} broken")
    assert ([], True) == (broken, len(cases) > 20)


def test_the_shim_watches_every_call_of_an_append(strace: list[str], tmp_path: Path) -> None:
    """What the kernel sees on the log's files is in the list of what the shim can fail."""
    _, _, calls = Traced(strace, tmp_path).run()

    watched = set(
        re.findall(
            r"(?:WATCH\(\w+, (\w+)|^int (close)\(|^ssize_t (write)\(|WATCH_OPEN\((\w+)\))",
            SHIM.read_text(),
            re.MULTILINE,
        )
    )
    names = {name for found in watched for name in found if name}
    kernel_names = {"openat": "open", "pread64": "pread64", "newfstatat": "fstat", "mkdir": "mkdir"}

    assert set() == {call for call in calls if kernel_names.get(call, call) not in names}
