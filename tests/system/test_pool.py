"""The pool of worker processes: every task is answered or reported, whatever becomes of the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from recollect.errors import Busy
from recollect.system import workers
from recollect.system.pool import (
    DeadlinePassed,
    TaskEvent,
    WorkerPool,
    bundles,
    largest_first,
)
from tests.system.pool_jobs import counting, doing

ROOT = Path(__file__).parents[2]
SOON = 60.0
END = "end"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find the jobs of the tests."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started."""
    found: list[subprocess.Popen[bytes]] = []
    original = workers._started

    def noted() -> subprocess.Popen[bytes]:
        found.append(original())
        return found[-1]

    monkeypatch.setattr(workers, "_started", noted)
    return found


def by_task(events: list[TaskEvent]) -> dict[int, list[object]]:
    """What came of each task, in order."""
    found: dict[int, list[object]] = {}
    for event in events:
        found.setdefault(event.task, []).append((event.problem or END) if event.is_end else event.value)
    return found


# --- the same wherever it is done --------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [0, 1, 3, 50])
def test_pieces_are_the_same_wherever_they_are_made(processes: int) -> None:
    """Each task's pieces in order, then its end, once; also with one piece of room for all of them."""
    tasks = [0, 3, 1, 200, 2, 7]
    pool = WorkerPool(counting, 10, processes=processes, waiting=1)

    assert {number: [*range(10, 10 + task), END] for number, task in enumerate(tasks)} == by_task(
        list(pool.events(tasks))
    )


def test_where_no_process_can_be_started_the_caller_does_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A job that must not be done here is refused instead."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))

    assert [(0, 5)] == list(WorkerPool(counting, 5, processes=2).answers([1]))
    with pytest.raises(Busy):
        list(WorkerPool(counting, 5, processes=2, is_isolated=True).events([1]))


def test_no_more_is_held_than_may_wait(tmp_path: Path) -> None:
    """A worker far ahead of the caller is held up: two pieces wait, and one each in thread, pipe and worker."""
    begun = tmp_path / "begun"
    pool = WorkerPool(doing, processes=1, waiting=2)
    events = pool.events([("large", 4_000_000, str(begun))] * 60)
    next(events)
    time.sleep(0.5)

    assert len(begun.read_text()) <= 1 + 2 + 3
    assert 59 == sum(not event.is_end for event in events)


def test_large_tasks_and_large_pieces_do_not_block_each_other(tmp_path: Path) -> None:
    """Both pipes are full at once: the worker still takes tasks while it waits to answer."""
    tasks = [("large", 3_000_000, str(tmp_path / "begun"), "y" * 3_000_000)] * 6

    assert 6 == len(list(WorkerPool(doing, processes=1, waiting=1).answers(tasks)))


# --- processes that fail -----------------------------------------------------------------------------------


def test_a_task_whose_process_dies_is_reported() -> None:
    """With the pieces that came before; all others are done by the other process."""
    tasks = [("die", 0), *[("whole", 0, number) for number in range(6)]]
    found = by_task(list(WorkerPool(doing, processes=2).events(tasks)))

    assert ["half", "its process ended early"] == found.pop(0)
    assert {number: [("whole", number - 1), END] for number in range(1, 7)} == found


def test_tasks_that_no_process_is_left_for_are_reported() -> None:
    """Nothing hangs, and every task has one end."""
    events = list(WorkerPool(doing, processes=1).events([("die", 0)] * 5))
    ends = [event for event in events if event.problem is not None]

    assert Counter(range(5)) == Counter(event.task for event in ends)
    assert {"its process ended early", "no process was left to run it"} == {event.problem for event in ends}


def test_an_error_of_the_job_is_reported_and_the_process_goes_on(
    started: list[subprocess.Popen[bytes]],
) -> None:
    """Here it is raised as it is."""
    tasks = [("raise",), ("whole", 0, 1)]
    events = list(WorkerPool(doing, processes=1).events(tasks))

    assert {0: ["LookupError: not this one"], 1: [("whole", 1), END]} == by_task(events)
    assert 1 == len(started)
    with pytest.raises(LookupError):
        list(WorkerPool(doing, processes=1).answers(tasks))


@pytest.mark.parametrize("processes", [1, 2])
def test_every_answer_comes_once(processes: int) -> None:
    """Half an answer of a process that died is thrown away, and the task done here."""
    tasks = [("die", os.getpid(), number) for number in range(4)]
    answers = list(WorkerPool(doing, processes=processes).answers(tasks))

    assert [(number, ("whole", number)) for number in range(4)] == sorted(
        (number, answer) for number, answer in answers if answer != "half"
    )


@pytest.mark.parametrize(
    "program",
    ["raise SystemExit(3)", "print('nonsense')", "import sys; sys.stdin.read(9)"],
)
def test_a_program_that_speaks_nonsense_is_not_believed(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did nothing of what it was given."""
    monkeypatch.setattr(workers, "_PROGRAM", ("-c", program))

    assert [(0, 1), (1, 1), (2, 1)] == sorted(WorkerPool(counting, 1, processes=2).answers([1, 1, 1]))


def test_what_a_job_prints_is_no_answer() -> None:
    """Its stdout is not the pipe."""
    events = list(WorkerPool(doing, processes=1).events([("print", 0, 7)]))

    assert {0: [("whole", 7), END]} == by_task(events)


def test_what_is_too_deep_to_be_sent_is_done_here() -> None:
    """Lines of a log can be so."""
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    assert [(0, ("whole", deep))] == list(WorkerPool(doing, processes=1).answers([("whole", 0, deep)]))


# --- ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["sleep", "hold"])
def test_a_deadline_ends_what_would_not_end(
    what: str, tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """Also where the worker holds its interpreter."""
    pool = WorkerPool(doing, processes=1, deadline=time.monotonic() + 1.0)
    with pytest.raises(DeadlinePassed):
        list(pool.events([(what, str(tmp_path / "pid"))]))

    assert [-signal.SIGKILL] == [worker.returncode for worker in started]


def test_a_deadline_holds_for_the_caller_as_well() -> None:
    """It is looked at after every piece."""
    with pytest.raises(DeadlinePassed):
        list(WorkerPool(counting, 0, processes=0, deadline=time.monotonic() - 1).events([5]))


def test_no_worker_is_left_when_the_caller_wants_no_more(started: list[subprocess.Popen[bytes]]) -> None:
    """In the middle of many pieces that wait."""
    events = WorkerPool(counting, 0, processes=2, waiting=1).events([100_000] * 4)
    next(events)
    events.close()  # type: ignore[attr-defined]

    assert [-signal.SIGKILL] * 2 == [worker.returncode for worker in started]


CALLER = """
import sys
from recollect.system.pool import WorkerPool
from tests.system.pool_jobs import doing
print(list(WorkerPool(doing, processes=1).events([(sys.argv[1], sys.argv[2])])))
"""


def caller(what: str, place: Path) -> tuple[subprocess.Popen[str], int]:
    """A program with a worker that is at its task, and the worker's process id."""
    command = [sys.executable, "-c", CALLER, what, str(place)]
    program = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    until = time.monotonic() + SOON
    while not (place.exists() and place.read_text()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return program, int(place.read_text())


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie that was not waited for."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends(process: int) -> bool:
    until = time.monotonic() + SOON
    while is_running(process) and time.monotonic() < until:
        time.sleep(0.05)
    return not is_running(process)


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")


@linux
def test_a_worker_does_not_outlive_a_killed_caller(tmp_path: Path) -> None:
    """It ends in the middle of its task."""
    program, worker = caller("sleep", tmp_path / "pid")
    program.kill()
    program.communicate()

    assert ends(worker)


@linux
def test_ctrl_c_is_for_the_caller(tmp_path: Path) -> None:
    """The whole foreground group gets it: the worker is not in it, is ended, and says nothing."""
    program, worker = caller("sleep", tmp_path / "pid")
    assert program.pid != os.getpgid(worker)
    os.killpg(program.pid, signal.SIGINT)
    _, said = program.communicate(timeout=SOON)

    assert ends(worker)
    assert (1, True) == (said.count("Traceback"), said.rstrip().endswith("KeyboardInterrupt"))


# --- bundles ------------------------------------------------------------------------------------


def test_small_ones_are_put_together() -> None:
    """Up to the size, in the order given; a large one is alone."""
    sizes = [1, 9, 2, 2, 3]

    assert [[0, 1], [2, 3, 4]] == list(bundles(range(5), sizes, 6))
    assert [[1], [4, 2], [3, 0]] == [
        sorted(one, reverse=True) for one in bundles(largest_first(sizes), sizes, 5)
    ]
