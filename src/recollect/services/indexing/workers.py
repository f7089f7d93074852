"""Read many logs in other processes and pass their frames to one writer, in the order they arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recollect.index.frame import CallRow, Frame, UsageRow
from recollect.services.indexing.extraction import frames
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.system.pool import Run, TaskFailure, TaskPiece, WorkerPool, cores

# Frames that wait for the writer; each holds about a megabyte of text.
_WAITING = 6
# Many logs are small, and the writer is rarely free to send the next one.
_AHEAD = 16


def extraction_job(_: None) -> Run:
    """A job of ``system.pool``: the frames of a log."""
    return _plain_frames


def _plain_frames(job: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for frame in frames(ExtractionJob(*job)):
        usage = [tuple(row) for row in frame.usage]
        calls: Any = frame.calls and [tuple(row) for row in frame.calls]
        yield tuple(frame._replace(usage=usage, calls=calls))  # type: ignore[arg-type]  # made rows again below


def frames_of(
    jobs: Sequence[ExtractionJob], *, processes: int | None = None
) -> Iterator[tuple[int, Frame | None]]:
    """Frames with the number of their job; None marks the end of a job."""
    # One core is left for the writer, which is the slower half.
    count = cores() - 1 if processes is None else processes
    pool = WorkerPool(extraction_job, processes=count, ahead=_AHEAD, waiting=_WAITING)
    for event in pool.events([tuple(job) for job in jobs]):
        if isinstance(event, TaskPiece):
            yield event.task, _frame(event.value)
            continue
        if isinstance(event, TaskFailure):
            # From the start: frames that were already applied are refused.
            yield from ((event.task, frame) for frame in frames(jobs[event.task]))
        yield event.task, None


def _frame(plain: Any) -> Frame:
    frame = Frame(*plain)
    usage = [UsageRow(*row) for row in frame.usage]
    calls = frame.calls and [CallRow(*row) for row in frame.calls]
    return frame._replace(usage=usage, calls=calls)
