"""Look for a text in the logs themselves: without an index, or where no index could narrow it down.

Much is read in as many processes as there are cores, newest logs first; little is read
right here. A pattern is always given to a process, because it may take for ever on one line:
when the time is up the processes are killed, what was spotted so far is the answer, and the
answer says that it is not complete. Nobody waits longer than until the deadline, which is a
time of ``time.monotonic``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from recollect.errors import Busy
from recollect.services.search.question import REGEX, MessageFinder, SearchQuery, finder_of
from recollect.services.search.quotes import MessagePlace, Quote, QuoteReader
from recollect.services.search.text_scan_worker import (
    LOOK,
    QUOTE,
    SpottedLine,
    TextScanTask,
    hint_of,
    spotted,
)

if TYPE_CHECKING:
    import queue
    import subprocess
    import threading

# Below this, starting a process takes longer than reading here.
_WORTH_A_PROCESS = 16 << 20
# What a process is given at once: enough to keep it busy, little enough to share the work out evenly.
_BUNDLE = 4 << 20
LATE = (
    "the time was up before every log was read: there may be more, and newer ones (--seconds gives more time)"
)
LOST = "a process that read logs ended early: there may be more"

_Request = tuple[object, ...]
_Piece = tuple[int, tuple[object, ...] | None]


class TextScan(NamedTuple):
    """Spotted lines with the number of their task, in no order; ``problem`` says why some may be missing."""

    lines: list[tuple[int, SpottedLine]]
    problem: str | None = None


def scan(tasks: Sequence[TextScanTask], question: SearchQuery, deadline: float) -> TextScan:
    """Look through logs, as many as the time allows, in the order given."""
    finder = finder_of(question)
    is_small = sum(task.size for task in tasks) < _WORTH_A_PROCESS
    if not tasks or (is_small and question.how != REGEX):
        return _here(tasks, question, finder, deadline)
    requests = [(LOOK, [(number, tuple(task)) for number, task in bundle]) for bundle in _bundles(tasks)]
    processes = _TextScanProcesses.started(question, requests)
    if processes is None:
        return _here(tasks, question, finder, deadline)
    pieces, problem = processes.answer(deadline)
    return TextScan([(number, SpottedLine(*piece)) for number, piece in pieces if piece], problem)  # type: ignore[arg-type]


def quoted(
    places: Sequence[MessagePlace], question: SearchQuery, width: int, deadline: float, quotes: QuoteReader
) -> list[Quote | None]:
    """What stands at some places; None where the match is gone, or a pattern took too long to find it again."""
    if question.how != REGEX or not places:
        finder = finder_of(question)
        return [quotes.quote(place, finder, question.kinds, width) for place in places]
    found: list[Quote | None] = [None] * len(places)
    processes = _TextScanProcesses.started(question, [(QUOTE, [tuple(place) for place in places], width)])
    for number, piece in () if processes is None else processes.answer(deadline)[0]:
        found[number] = None if piece is None else Quote(*piece)  # type: ignore[arg-type]
    return found


def _here(
    tasks: Sequence[TextScanTask], question: SearchQuery, finder: MessageFinder, deadline: float
) -> TextScan:
    hint = hint_of(question)
    lines = []
    for number, task in enumerate(tasks):
        for found in spotted(task, question, finder, hint):
            if found is not None:
                lines.append((number, found))
            if time.monotonic() > deadline:
                return TextScan(lines, LATE)
    return TextScan(lines)


def _bundles(tasks: Sequence[TextScanTask]) -> Iterator[list[tuple[int, TextScanTask]]]:
    bundle: list[tuple[int, TextScanTask]] = []
    size = 0
    for numbered in enumerate(tasks):
        bundle.append(numbered)
        size += numbered[1].size
        if size >= _BUNDLE:
            yield bundle
            bundle, size = [], 0
    if bundle:
        yield bundle


class _TextScanProcesses:
    """Some processes at work on one question, each with a thread of ours that talks to it."""

    def __init__(
        self, workers: list[subprocess.Popen[bytes]], question: SearchQuery, requests: Sequence[_Request]
    ) -> None:
        import queue
        import threading

        self._workers = workers
        self._question = question
        self._requests = iter(requests)
        self._turn = threading.Lock()
        self._news: queue.SimpleQueue[_Piece | None] = queue.SimpleQueue()  # None: one process is done
        self._is_lost = False
        self._threads: list[threading.Thread] = [
            threading.Thread(target=self._talk, args=(worker,), daemon=True) for worker in workers
        ]

    @classmethod
    def started(cls, question: SearchQuery, requests: Sequence[_Request]) -> _TextScanProcesses | None:
        """As many as are of use. None where none can be started, unless only a process will do."""
        import contextlib
        import os
        import subprocess
        import sys

        count = min(os.cpu_count() or 1, len(requests)) if sys.executable else 0
        command = [sys.executable, "-P", "-m", "recollect.services.search.text_scan_worker"]
        workers: list[subprocess.Popen[bytes]] = []
        # One that was started is used even where the next one cannot be.
        with contextlib.suppress(OSError):
            while len(workers) < count:
                workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        if not workers and question.how == REGEX:
            raise Busy(
                "no process could be started to look for a pattern",
                hint="try again when the machine is less busy, or use --substring",
            )
        return cls(workers, question, requests) if workers else None

    def answer(self, deadline: float) -> tuple[list[_Piece], str | None]:
        """What they send until the deadline, and what is wrong with it. No process is left behind."""
        import queue

        pieces: list[_Piece] = []
        try:
            for thread in self._threads:
                thread.start()
            working = len(self._workers)
            while working:
                news = self._news.get(timeout=max(deadline - time.monotonic(), 0.0))
                if news is None:
                    working -= 1
                else:
                    pieces.append(news)
        except queue.Empty:
            return pieces, LATE
        finally:
            self._end()
        return pieces, LOST if self._is_lost else None

    def _talk(self, worker: subprocess.Popen[bytes]) -> None:
        from recollect.system.pipes import receive, send

        to, back = cast("BinaryIO", worker.stdin), cast("BinaryIO", worker.stdout)
        try:
            send(to, tuple(self._question))
            while request := self._next_request():
                send(to, request)
                while message := receive(back):
                    self._news.put(cast("_Piece", message))
                if message is None:
                    self._is_lost = True
                    return
        except (OSError, ValueError, EOFError):
            self._is_lost = True
        finally:
            self._news.put(None)

    def _next_request(self) -> _Request | None:
        with self._turn:
            return next(self._requests, None)

    def _end(self) -> None:
        import contextlib

        for worker in self._workers:
            worker.kill()
            worker.wait()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for worker in self._workers:
            for stream in (worker.stdin, worker.stdout):
                # What was not sent yet is of no use to a process that is gone.
                with contextlib.suppress(OSError):
                    cast("BinaryIO", stream).close()
