"""Logs read in other processes come out as if they were read here, whatever becomes of those processes."""

from __future__ import annotations

import marshal
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from recollect.index.frame import Frame
from recollect.services.indexing import workers
from recollect.services.indexing.extraction import frames
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.services.indexing.workers import extraction_job, frames_of
from recollect.system import pool_processes
from tests.talk import assistant, encoded, user


@pytest.fixture
def jobs(tmp_path: Path) -> list[ExtractionJob]:
    """Five logs, a tool's output, a log that starts in its middle, and one that is not there."""
    found = []
    for number in range(5):
        log = tmp_path / f"{number}.jsonl"
        lines = [
            user("u", None, 0, "prompt"),
            *(assistant(f"{number}-{n}", "u", n, f"say {n}") for n in range(300)),
        ]
        log.write_bytes(encoded(lines))
        found.append(ExtractionJob(str(log), is_session=bool(number)))
    (tmp_path / "out.txt").write_text("output")
    start = (tmp_path / "0.jsonl").read_bytes().index(b"\n") + 1
    return [
        *found,
        ExtractionJob(str(tmp_path / "out.txt"), is_tool_output=True),
        ExtractionJob(str(tmp_path / "0.jsonl"), start),
        ExtractionJob(str(tmp_path / "missing.jsonl")),
    ]


def here(jobs: list[ExtractionJob]) -> dict[int, list[Frame | None]]:
    return {number: [*frames(job), None] for number, job in enumerate(jobs)}


def bytes_of(jobs: list[ExtractionJob]) -> list[int]:
    return [Path(job.path).stat().st_size if Path(job.path).exists() else 0 for job in jobs]


def gathered(jobs: list[ExtractionJob], processes: int | None) -> dict[int, list[Frame | None]]:
    found: dict[int, list[Frame | None]] = defaultdict(list)
    for number, frame in frames_of(jobs, bytes_of(jobs), processes=processes):
        found[number].append(frame)
    return dict(found)


@pytest.fixture(autouse=True)
def each_log_alone() -> Iterator[None]:
    """Else all logs of these tests would be one bundle, and one process would do them."""
    with mock.patch.object(workers, "_BUNDLE", 1):
        yield


@pytest.mark.parametrize("bundle", [1, 150_000, 1 << 30])
@pytest.mark.parametrize("processes", [0, 1, 2, 20])
def test_frames_are_the_same_wherever_they_are_made(
    processes: int, bundle: int, jobs: list[ExtractionJob]
) -> None:
    """Every job's frames in order, then its end; none twice."""
    with mock.patch.object(workers, "_BUNDLE", bundle):
        assert here(jobs) == gathered(jobs, processes)


def test_frames_of_small_logs_are_sent_together(jobs: list[ExtractionJob]) -> None:
    """Up to a megabyte of log; a larger frame is sent at once."""
    bundle = [(number, tuple(job)) for number, job in enumerate(jobs)]
    with mock.patch.object(workers, "_PIECE", 150_000):
        pieces = list(extraction_job(None)(bundle))
    most = max(sum(frame[1] - frame[0] for _, frame in piece if frame) for piece in pieces)

    assert len(jobs) > len(pieces) > 1
    assert most < 150_000 + max(bytes_of(jobs))


def test_no_jobs_need_no_process() -> None:
    """Nothing is started for nothing."""
    with mock.patch.object(subprocess, "Popen", side_effect=AssertionError):
        assert [] == list(frames_of([], []))


def test_where_no_process_can_be_started_logs_are_read_here(jobs: list[ExtractionJob]) -> None:
    """Too many processes, or no program to start."""
    with mock.patch.object(subprocess, "Popen", side_effect=OSError(11, "no more processes")):
        assert here(jobs) == gathered(jobs, 2)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("bundle", [1, 150_000])
@pytest.mark.parametrize("count", [1, 2])
def test_jobs_of_a_process_that_dies_are_finished_here(
    count: int, bundle: int, jobs: list[ExtractionJob]
) -> None:
    """All of them, also those nobody was given yet; what was made before may come again."""
    started: list[subprocess.Popen[bytes]] = []
    original = pool_processes._started

    def noted() -> subprocess.Popen[bytes]:
        started.append(original())
        return started[-1]

    found: dict[int, list[Frame | None]] = defaultdict(list)
    with mock.patch.object(pool_processes, "_started", noted), mock.patch.object(workers, "_BUNDLE", bundle):
        for number, frame in frames_of(jobs, bytes_of(jobs), processes=count):
            if not found:
                for worker in started:
                    worker.send_signal(signal.SIGKILL)
            found[number].append(frame)

    expected = here(jobs)
    assert set(expected) == set(found)
    for number, made in expected.items():
        distinct = [frame for place, frame in enumerate(found[number]) if frame not in found[number][:place]]
        assert sorted(map(repr, made)) == sorted(map(repr, distinct))


def test_a_program_that_speaks_nonsense_is_not_believed(jobs: list[ExtractionJob]) -> None:
    """Whatever it says instead of frames, the logs are read here."""
    nonsense = [sys.executable, "-c", "print('no frames here, and more than eight bytes of them')"]
    original = subprocess.Popen

    def other(command: list[str], **named: int) -> subprocess.Popen[bytes]:
        return original(nonsense, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    with mock.patch.object(subprocess, "Popen", other):
        assert here(jobs) == gathered(jobs, 2)


def test_processes_end_when_nobody_wants_more_frames(jobs: list[ExtractionJob]) -> None:
    """A refresh that fails in the middle leaves none of them behind."""
    started: list[subprocess.Popen[bytes]] = []
    original = pool_processes._started

    def noted() -> subprocess.Popen[bytes]:
        started.append(original())
        return started[-1]

    with mock.patch.object(pool_processes, "_started", noted):
        news = frames_of(jobs, bytes_of(jobs), processes=2)
        next(news)
        news.close()  # type: ignore[attr-defined]

    assert [True, True] == [worker.poll() is not None for worker in started]


def test_a_frame_with_all_it_can_have_can_be_sent(tmp_path: Path) -> None:
    """A value that cannot be sent ends the job there, and the whole log is read a second time here."""
    log = tmp_path / "s.jsonl"
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "out"}
    lines = [user("u", None, 0, "prompt"), assistant("a", "u", 1, [call]), user("r", "a", 2, [result])]
    log.write_bytes(encoded(lines))
    (plain,) = extraction_job(None)([(0, tuple(ExtractionJob(str(log), is_session=True)))])
    (frame,) = frames(ExtractionJob(str(log), is_session=True))

    assert frame.calls
    assert plain == marshal.loads(marshal.dumps(plain))
