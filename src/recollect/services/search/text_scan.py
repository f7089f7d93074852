"""Search the logs themselves: without an index, or if the index cannot narrow it down.

Much text is read in one process per core, newest logs first; little is read in this process. A
pattern always runs in a separate process, because it may take forever on one line: at the deadline
the processes are killed and the answer is marked as incomplete. The deadline is a
``time.monotonic`` time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from recollect.errors import Busy
from recollect.services.search.question import REGEX, SearchQuery
from recollect.services.search.quotes import MessagePlace, Quote
from recollect.services.search.text_scan_worker import SpottedLine, TextScanTask, quotes_job, search_job
from recollect.system.pool import DeadlinePassed, TaskFailure, TaskPiece, WorkerPool, bundles, cores

# Below this size, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 16 << 20
# Bytes per batch: enough to keep a process busy, few enough to spread the work evenly.
_BUNDLE = 4 << 20
LATE = "the time was up before every log was read: there may be more hits (--seconds gives more time)"
LOST = "a process that read logs ended early: there may be more hits"


class TextScan(NamedTuple):
    """Spotted lines with the number of their task, unordered; ``problem`` says why some may be missing."""

    lines: list[tuple[int, SpottedLine]]
    problem: str | None = None


def scan(
    tasks: Sequence[TextScanTask],
    question: SearchQuery,
    deadline: float,
    progress: Callable[[int, int], None] | None = None,
) -> TextScan:
    """Scan logs in the given order, as many as the time allows."""
    sizes = [task.size for task in tasks]
    is_pattern = question.how == REGEX
    is_shared = is_pattern or (cores() > 1 and sum(sizes) >= _WORTH_A_PROCESS)
    pool = WorkerPool(
        search_job,
        structs.astuple(question),
        processes=cores() if is_shared else 0,
        deadline=deadline,
        is_isolated=is_pattern,
    )
    requests = [
        [(number, tuple(tasks[number])) for number in bundle]
        for bundle in bundles(range(len(tasks)), sizes, _BUNDLE)
    ]
    done = 0

    def tell(number: int) -> None:
        nonlocal done
        done += sum(sizes[task] for task, _ in requests[number])
        if progress is not None:
            progress(done, sum(sizes))

    pieces, problem = _collected(pool, requests, tell)
    return TextScan([(number, SpottedLine(*piece)) for number, piece in pieces], problem)


def quoted_by_pattern(
    places: Sequence[MessagePlace], question: SearchQuery, width: int, deadline: float
) -> list[Quote | None]:
    """The quotes at some positions, in a process that can be ended; None if the match is gone, or the time was up."""
    found: list[Quote | None] = [None] * len(places)
    pool = WorkerPool(quotes_job, structs.astuple(question), processes=1, deadline=deadline, is_isolated=True)
    for number, piece in _collected(pool, [([structs.astuple(place) for place in places], width)])[0]:
        found[number] = Quote(*piece)
    return found


def _collected(
    pool: WorkerPool, requests: Sequence[object], tell: Callable[[int], None] | None = None
) -> tuple[list[tuple[int, Any]], str | None]:
    """All results that came in time, and why some may be missing."""
    pieces: list[tuple[int, Any]] = []
    problem = None
    try:
        for event in pool.events(requests):
            if isinstance(event, TaskPiece):
                pieces.append(event.value)
            elif isinstance(event, TaskFailure):
                problem = LOST
            elif tell is not None:
                tell(event.task)
    except DeadlinePassed:
        problem = LATE
    except Busy as cause:
        raise Busy(
            "no process could be started to look for a pattern",
            hint="try again when the machine is less busy, or use --substring",
        ) from cause
    return pieces, problem
