"""Look through many files in as many processes as there are cores, the largest files first.

Where a process cannot be started, or dies, its files are looked through right here: slower, never less.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import IO, cast

import msgspec

from recollect.services.secrets.file_scan import PlaceScan, scan_place
from recollect.services.secrets.places import SecretPlace
from recollect.services.secrets.worker import packed, receive, send

# -P: nothing that lies in the working directory may be taken for a module of ours.
_COMMAND = ("-P", "-m", "recollect.services.secrets.worker")
_Answer = tuple[int, bytes] | None  # None: one process is done


class SecretProcesses:
    """Some processes at work, each with a thread of ours that talks to it."""

    def __init__(self, places: Sequence[SecretPlace], key: bytes, count: int | None = None) -> None:
        self._places, self._key = places, key
        self._count = min(count or os.cpu_count() or 1, len(places)) if sys.executable else 0
        self._waiting = iter(sorted(range(len(places)), key=lambda number: -places[number].size))
        self._turn = threading.Lock()
        self._news: queue.SimpleQueue[_Answer] = queue.SimpleQueue()

    def results(self) -> Iterator[tuple[SecretPlace, PlaceScan]]:
        """What each place holds, in the order the answers come; no process is left behind."""
        left = set(range(len(self._places)))
        workers: list[subprocess.Popen[bytes]] = []
        try:
            with contextlib.suppress(OSError):
                while len(workers) < self._count:
                    command = [sys.executable, *_COMMAND]
                    workers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for worker in workers:
                threading.Thread(target=self._talk, args=(worker,), daemon=True).start()
            for number, answer in self._answers(len(workers)):
                left.discard(number)
                yield self._places[number], msgspec.msgpack.decode(answer, type=PlaceScan)
            for number in sorted(left):
                yield self._places[number], scan_place(self._places[number], self._key)
        finally:
            _end(workers)

    def _answers(self, working: int) -> Iterator[tuple[int, bytes]]:
        while working:
            answer = self._news.get()
            if answer is None:
                working -= 1
            else:
                yield answer

    def _talk(self, worker: subprocess.Popen[bytes]) -> None:
        to, back = cast("IO[bytes]", worker.stdin), cast("IO[bytes]", worker.stdout)
        try:
            send(to, self._key)
            while (number := self._next()) is not None:
                send(to, packed(self._places[number]))
                answer = receive(back)
                if answer is None:
                    return
                self._news.put((number, answer))
        except (OSError, ValueError):
            return  # it died, or was ended: what it had is done here
        finally:
            self._news.put(None)

    def _next(self) -> int | None:
        with self._turn:
            return next(self._waiting, None)


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        worker.kill()
        worker.wait()
        for stream in (worker.stdin, worker.stdout):
            with contextlib.suppress(OSError, ValueError):
                cast("IO[bytes]", stream).close()
