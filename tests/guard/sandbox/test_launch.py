"""Putting a run together: who is in its group, what its user runs, that a step which fails is noticed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from recollect.guard import sandbox as execution
from recollect.guard.sandbox import launch
from recollect.guard.sandbox.launch import ControlGroup, tasks_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")


def test_a_process_born_while_its_parent_is_put_into_the_group_is_put_in_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A jail sets itself up while we look at it; none of its processes may stay outside the bounds."""
    looks = [[2], [2, 3], [2, 3]]
    monkeypatch.setattr(launch, "descendants", lambda _pid: looks.pop(0))
    taken: list[str] = []
    monkeypatch.setattr(Path, "write_text", lambda _file, pid, **_: taken.append(pid))

    ControlGroup([Path("/group")], frozenset()).take_all(1)

    assert ["1", "2", "3"] == taken


def test_threads_of_a_user_are_counted() -> None:
    """Three more threads of ours are three more tasks; others may come and go, so it is tried a few times."""
    for _ in range(20):
        before, stop = tasks_of(os.getuid()), threading.Event()
        threads = [threading.Thread(target=stop.wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        after = tasks_of(os.getuid())
        stop.set()
        for thread in threads:
            thread.join()
        if after - before == 3:
            return
    pytest.fail("three threads were never counted as three")


def helper(code: str) -> str:
    """What a piece of the helper complains of, in a process of its own as it runs."""
    program = f"import sys; sys.path.append({str(launch.HELPER.parent)!r}); import confine; {code}"
    argv = [sys.executable, "-I", "-S", "-c", program]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        ("confine._checked(confine._LIBC.prctl(-1, 0, 0, 0, 0), 'do')", "cannot do: Invalid argument"),
        ("confine._checked(confine._LIBC.syscall(446, -1, 0), 'do')", "cannot do: "),
        ("confine._allow_changes_below(['/nonexistent'])", "No such file"),
    ],
)
def test_a_step_the_kernel_refuses_is_an_error(step: str, cause: str) -> None:
    """The helper must never take a refusal for a success and go on with less confinement."""
    assert cause in helper(step)


def test_recollect_itself_may_lie_below_tmp(tmp_path: Path) -> None:
    """The jail has a /tmp of its own; the trial must not fail because the helper is not seen there."""
    if execution.unavailable():
        pytest.skip(f"bubblewrap: {execution.unavailable()}")
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        shutil.copytree(launch.HELPER.parents[2], Path(place) / "recollect")
        code = "from recollect.guard import sandbox as execution; print(execution.unavailable())"
        found = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": place},
        )

    assert "None\n" == found.stdout
