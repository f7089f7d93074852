"""The index of a page: refreshed in a background thread, read by all requests.

No answer waits for a build. During the first build, requests get an index without a database and
read the logs. Refreshing an existing index is quick; an answer waits for that, but no longer.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.errors import RecollectError
from recollect.services.documents.page import IndexState
from recollect.services.indexing.access import OpenIndex, index_path, is_built, open_index

_REST_SECONDS = 1.5
_LONGEST_REST = 30.0
_WAIT_SECONDS = 0.25


class IndexKeeper:
    """Refreshes one index as long as requests come."""

    def __init__(self, homes: Sequence[Path], cache: Path) -> None:
        self.homes, self._cache = tuple(homes), cache
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._rests_until = 0.0
        self._is_held = False
        self.refreshed_at: dt.datetime | None = None
        self.done = self.total = 0
        self.notes: list[str] = []
        self.refused = ""  # why there can be no index in this place
        self.unread: list[tuple[str, str]] = []  # what the last refresh could not read, each with the reason
        self._kept: tuple[contextlib.AbstractContextManager[OpenIndex], OpenIndex] | None = None

    @property
    def is_refreshing(self) -> bool:
        """Whether an answer of now may lack what was written last."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def state(self) -> IndexState:
        if self._built():
            return "ready"
        return "building" if self.is_refreshing else "none"

    def _built(self) -> bool:
        """Checked each time: another process, or damage, may have removed the file."""
        return is_built(index_path(self.homes, self._cache))

    def refresh(self) -> None:
        """Start a refresh, unless one runs or has just ended."""
        with self._lock:
            if not self.homes or self.is_refreshing or self._is_held or time.monotonic() < self._rests_until:
                return
            thread = threading.Thread(target=self._refresh, name="recollect-index", daemon=True)
            thread.start()
            self._thread = thread  # only now: a waiting request must find it started

    def hurry(self) -> None:
        """Let the next refresh start at once: a log that is being read has grown."""
        self._rests_until = 0.0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No refresh starts inside, if an index exists: the first list gets the processor to itself."""
        self._is_held = self._built()
        try:
            yield
        finally:
            self._is_held = False

    def wait(self, seconds: float) -> None:
        """Wait for a running refresh."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    @contextlib.contextmanager
    def opened(self, wait: float = _WAIT_SECONDS) -> Iterator[OpenIndex]:
        """The index, after waiting for a refresh at most ``wait`` seconds; without a database if there is none yet."""
        self.refresh()
        if self._built():
            self.wait(wait)
            with open_index(self.homes, cache=self._cache, is_refreshed=False) as opened:
                if opened.database is not None:
                    opened.database.map_file()  # screens visit much more of it than a command does
                yield opened
            return
        yield OpenIndex(self.homes, index_path(self.homes, self._cache))

    @contextlib.contextmanager
    def kept_open(self, wait: float) -> Iterator[OpenIndex]:
        """As ``opened``, for a caller that asks from one thread only: the index stays open until the next answer.

        Opening and closing it takes longer than many an answer. Pages are read into a cache of a fixed size: what is mapped
        stays counted as memory of a process that keeps it.
        """
        self.refresh()
        kept = self._kept
        if kept is None or kept[1].is_replaced:
            self.close()
            if not self._built():
                yield OpenIndex(self.homes, index_path(self.homes, self._cache))
                return
            context = open_index(self.homes, cache=self._cache, is_refreshed=False)
            kept = self._kept = context, context.__enter__()
            if kept[1].database is not None:
                kept[1].database.use_cache_only()
        self.wait(wait)
        try:
            yield kept[1]
        except BaseException:
            self._kept = None
            if not kept[0].__exit__(*sys.exc_info()):
                raise

    def close(self) -> None:
        """Close what is kept open. May be called twice."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept[0].__exit__(None, None, None)

    def _refresh(self) -> None:
        begun = time.monotonic()
        try:
            with open_index(self.homes, cache=self._cache, progress=self._progress) as opened:
                self.notes, self.refused = list(opened.notes), opened.refused
                self.unread = [] if opened.refreshed is None else opened.refreshed.problems
                self.refreshed_at = dt.datetime.now(dt.UTC)
        except (RecollectError, OSError) as problem:
            self.notes = [str(problem)]
        finally:
            now = time.monotonic()
            # A slow refresh runs less often, so that most time is left for answers.
            self._rests_until = now + max(_REST_SECONDS, min(5 * (now - begun), _LONGEST_REST))

    def _progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total
