"""Read many logs in other processes and pass their frames to one writer, in the order they arrive.

Small logs are sent in bundles: a message for each would cost more than the log, and few would wait for the writer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recollect.index.frame import CallRow, Frame, UsageRow
from recollect.services.indexing.extraction import NumberedFrame, numbered_frames
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.system.pool import Run, TaskFailure, TaskPiece, WorkerPool, bundles, cores

# Bytes of logs in a bundle, and in what is sent at once.
_BUNDLE, _PIECE = 4 << 20, 1 << 20
# What waits for the writer while it commits, about a megabyte of text each; and bundles a worker has to do next.
_WAITING, _AHEAD = 12, 4


def extraction_job(_: None) -> Run:
    """A job of ``system.pool``: the frames of some logs."""
    return _plain_frames


def _plain_frames(bundle: list[tuple[int, tuple[Any, ...]]]) -> Iterator[list[tuple[int, Any]]]:
    """Frames as plain values, those of small logs together."""
    held: list[tuple[int, Any]] = []
    size = 0
    for number, job in bundle:
        for _, frame in numbered_frames(number, ExtractionJob(*job)):
            held.append((number, frame and _plain(frame)))
            size += 0 if frame is None else frame.end - frame.start
            if size >= _PIECE:
                yield held
                held, size = [], 0
    yield held


def _plain(frame: Frame) -> tuple[Any, ...]:
    usage = [tuple(row) for row in frame.usage]
    calls: Any = frame.calls and [tuple(row) for row in frame.calls]
    return tuple(frame._replace(usage=usage, calls=calls))  # type: ignore[arg-type]  # made rows again below


def frames_of(
    jobs: Sequence[ExtractionJob], sizes: Sequence[int], *, processes: int | None = None
) -> Iterator[NumberedFrame]:
    """The frames of all jobs, given the bytes of log that each has to read."""
    # One core is left for the writer, which is the slower half.
    count = cores() - 1 if processes is None else processes
    tasks = [
        [(number, tuple(jobs[number])) for number in bundle]
        for bundle in bundles(range(len(jobs)), sizes, _BUNDLE)
    ]
    pool = WorkerPool(extraction_job, processes=count, ahead=_AHEAD, waiting=_WAITING)
    for event in pool.events(tasks):
        if isinstance(event, TaskPiece):
            yield from ((number, plain and _frame(plain)) for number, plain in event.value)
        elif isinstance(event, TaskFailure):
            # From the start: frames that were already applied are refused.
            for number, _ in tasks[event.task]:
                yield from numbered_frames(number, jobs[number])


def _frame(plain: Any) -> Frame:
    frame = Frame(*plain)
    usage = [UsageRow(*row) for row in frame.usage]
    calls = frame.calls and [CallRow(*row) for row in frame.calls]
    return frame._replace(usage=usage, calls=calls)
