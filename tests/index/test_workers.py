"""Logs read in other processes come out as if they were read here, whatever becomes of those processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from recollect.index import refresh
from recollect.index.extraction import ExtractionJob, frames
from recollect.index.frame import Frame
from recollect.index.refresh import frames_of
from recollect.system import workers
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
    with mock.patch.object(refresh, "_BUNDLE", 1):
        yield


@pytest.mark.parametrize("bundle", [1, 150_000, 1 << 30])
@pytest.mark.parametrize("processes", [0, 1, 2, 20])
def test_frames_are_the_same_wherever_they_are_made(
    processes: int, bundle: int, jobs: list[ExtractionJob]
) -> None:
    """Every job's frames in order, then its end; none twice."""
    with mock.patch.object(refresh, "_BUNDLE", bundle):
        assert here(jobs) == gathered(jobs, processes)


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
    original = workers._started

    def noted() -> subprocess.Popen[bytes]:
        started.append(original())
        return started[-1]

    found: dict[int, list[Frame | None]] = defaultdict(list)
    with mock.patch.object(workers, "_started", noted), mock.patch.object(refresh, "_BUNDLE", bundle):
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
