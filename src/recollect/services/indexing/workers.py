"""Read many logs in other processes and hand their frames to one writer, in the order they come.

Where a process cannot be started (no interpreter to call, no more processes allowed) the
logs are read right here: slower, never wrong.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from recollect.index.frame import Frame, MessageRow, UsageRow
from recollect.services.indexing.extraction import frames
from recollect.services.indexing.session_listing import ExtractionJob
from recollect.system.pipes import receive, send

# Frames that wait for the writer; each holds about a megabyte of text.
_WAITING = 6
# Jobs a worker has at hand. The next one is given when the writer reaches the end of one, so few would leave
# the worker idle while frames wait.
_AHEAD = 16
# A frame in one or two reads: every read of a listener waits for the writer to let go of the interpreter.
_PIPE = 1 << 20


def frames_of(
    jobs: Sequence[ExtractionJob], *, processes: int | None = None
) -> Iterator[tuple[int, Frame | None]]:
    """Frames with the number of their job; None marks the end of a job."""
    count = min(processes if processes is not None else _processes(), len(jobs))
    started = _started(count)
    if not started:
        for number, job in enumerate(jobs):
            for frame in frames(job):
                yield number, frame
            yield number, None
        return
    yield from _gathered(jobs, started)


def _processes() -> int:
    """One core is for the writer, which is the slower half."""
    return max((os.cpu_count() or 2) - 1, 1)


def _started(count: int) -> list[subprocess.Popen[bytes]]:
    """Those that could be started; the rest of the work is shared among them."""
    started: list[subprocess.Popen[bytes]] = []
    while len(started) < count:
        try:
            started.append(_worker())
        except OSError:
            break
    return started


def _worker() -> subprocess.Popen[bytes]:
    # -P: nothing that lies in the working directory may be taken for a module of ours.
    command = [sys.executable, "-P", "-m", "recollect.services.indexing.extract_worker"]
    with without_interrupts():
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pipesize=_PIPE)


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """What is started in here does not hear Ctrl-C: that is for us, who then end the workers in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _gathered(
    jobs: Sequence[ExtractionJob], workers: list[subprocess.Popen[bytes]]
) -> Iterator[tuple[int, Frame | None]]:
    news: queue.Queue[tuple[int, object] | int] = queue.Queue(_WAITING)
    stop = threading.Event()
    open_jobs: list[list[int]] = [[] for _ in workers]
    waiting = iter(range(len(jobs)))
    threads = [
        threading.Thread(target=_listen, args=(number, worker, news, stop), daemon=True)
        for number, worker in enumerate(workers)
    ]
    try:
        for place, worker in enumerate(workers):
            for _ in range(_AHEAD):
                _hand_out(worker, jobs, waiting, open_jobs[place])
        for thread in threads:
            thread.start()
        listening = len(workers)
        while listening:
            message = news.get()
            if isinstance(message, int):
                listening -= 1
                yield from _finish_here(jobs, open_jobs[message])
                continue
            number, plain = message
            yield number, None if plain is None else _frame(plain)
            if plain is None:
                place = next(at for at, mine in enumerate(open_jobs) if number in mine)
                open_jobs[place].remove(number)
                _hand_out(workers[place], jobs, waiting, open_jobs[place])
        # Only where every worker ended early is anything left that none of them was given.
        yield from _finish_here(jobs, list(waiting))
    finally:
        stop.set()
        _end(workers)


def _hand_out(
    worker: subprocess.Popen[bytes], jobs: Sequence[ExtractionJob], waiting: Iterator[int], mine: list[int]
) -> None:
    number = next(waiting, None)
    assert worker.stdin is not None  # noqa: S101 - for the type checker: whoever calls has asked
    # A worker that died is noticed by its listener, which finishes its jobs here.
    with contextlib.suppress(OSError, ValueError):
        if number is None:
            worker.stdin.close()
        else:
            mine.append(number)
            send(worker.stdin, (number, tuple(jobs[number])))


def _listen(
    place: int,
    worker: subprocess.Popen[bytes],
    news: queue.Queue[tuple[int, object] | int],
    stop: threading.Event,
) -> None:
    assert worker.stdout is not None  # noqa: S101 - for the type checker: whoever calls has asked
    try:
        # Something in its start-up may have printed to our pipe: then nothing it says can be understood.
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError, OverflowError, MemoryError):
            while not stop.is_set() and isinstance(message := receive(worker.stdout), tuple):
                _put(news, message, stop)
    finally:
        # Whatever happened here, whoever waits for news must hear the end of them.
        _put(news, place, stop)


def _put(
    news: queue.Queue[tuple[int, object] | int], item: tuple[int, object] | int, stop: threading.Event
) -> None:
    while not stop.is_set():
        with contextlib.suppress(queue.Full):
            news.put(item, timeout=0.2)
            return


def _finish_here(jobs: Sequence[ExtractionJob], left: list[int]) -> Iterator[tuple[int, Frame | None]]:
    """A worker that ended early left its jobs to us. Frames that were applied before are refused then."""
    for number in left:
        for frame in frames(jobs[number]):
            yield number, frame
        yield number, None
    left.clear()


def _frame(plain: Any) -> Frame:
    start, end, messages, usage, *rest = plain
    return Frame(start, end, [MessageRow(*row) for row in messages], [UsageRow(*row) for row in usage], *rest)


def _end(workers: list[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait()
        # Not before it has ended: a listener may be in the middle of reading.
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
