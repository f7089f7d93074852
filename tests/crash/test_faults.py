"""Every system call of an append fails once in every way, and what the caller is told stays true (P8; goal G4).

A preloaded shim, compiled on the spot, fails calls inside forked children: thousands of cases in seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHIM = HERE / "fault_shim.c"
# The interpreter itself: a version manager's shim would be traced instead of Python.
PYTHON = os.path.realpath(sys.executable)


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


def test_every_call_may_fail_and_no_promise_is_broken(
    shim: Path, quick_directory: Path, record_property: Callable[[str, object], None]
) -> None:
    """Ten situations x every call x {seven errors once, errors from then on, short writes, kill before and after}.

    The daily run lets the errors take turns.

    After each: what was acknowledged is there, the answer is true, the next append of the same object works
    unless a sync failed, and so do an append and a repeat of a new process.
    """
    command = [PYTHON, "-m", "tests.crash.fault_loop", str(quick_directory), "full" if TORTURE else "brief"]
    environment = os.environ | {
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)]),
    }

    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=3600, cwd=ROOT, env=environment
    )

    assert ("", 0) == (ran.stderr, ran.returncode)
    report = json.loads(ran.stdout)
    print(f"\nfaults: {report['cases']:,} cases over {report['calls']} calls, {len(report['broken'])} broken")
    record_property("cases", report["cases"])
    assert ([], True) == (report["broken"], report["cases"] > 1000)
