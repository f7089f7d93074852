"""Every limit of the server, and the counters that enforce them.

Counters are per process. With several servers a caller has the rate of each; memory and time are
bounded in every one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import sys
import time
from collections import OrderedDict
from functools import cache
from typing import Any, Self

from msgspec import Struct

_MIB = 1 << 20
_MOST_BUCKETS = 10_000
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # glibc constants from malloc.h


class ServerLimits(Struct, frozen=True):
    """The limits, as shown by ``GET /v1/whoami``."""

    body_bytes: int = 16 * _MIB  # of a request, before and after decompression
    line_bytes: int = 16 * _MIB
    lines: int = 50_000  # of one append
    line_depth: int = 512  # nesting: all parsers of readers accept this depth
    document_bytes: int = 64 * 1024  # of a JSON document
    buffered_bytes: int = 24 * _MIB  # of all bodies received or sent, together
    requests_per_second: int = 500  # of one token, with a burst of the same size
    failures_per_second: int = 20  # refused tokens from one address, and of one token from there; then 429
    followers: int = 1_000
    streams_per_token: int = 32  # logs that one token follows at a time
    connections: int = 2_000
    body_seconds: int = 120
    request_seconds: int = 60
    follow_seconds: int = 3_600
    slow_grace_seconds: int = 10
    slow_bytes_per_second: int = 16 * 1024
    slow_reading_bytes_per_second: int = 256 * 1024  # held for one reader

    def for_clients(self) -> dict[str, int]:
        """The limits that matter to a client."""
        names = (
            "body_bytes",
            "line_bytes",
            "lines",
            "line_depth",
            "document_bytes",
            "requests_per_second",
            "streams_per_token",
        )
        return {name: getattr(self, name) for name in names}


class RateLimiter:
    """A bucket of requests for every name, refilled over time."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._most = 2 * per_second
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str, cost: float = 1.0) -> float:
        """Take from the bucket; seconds to wait where it is empty, else 0."""
        now = time.monotonic()
        left, since = self._buckets.pop(name, (self._most, now))
        left = min(self._most, left + (now - since) * self._per_second)
        allowed = left >= cost
        self._buckets[name] = (left - cost if allowed else left, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else max((cost - left) / self._per_second, 0.001)


class ByteBudget:
    """Bytes that all requests together may hold; a request waits a moment when none are left."""

    def __init__(self, total: int, patience: float = 15.0) -> None:
        _give_large_blocks_back()
        self.total, self._patience = total, patience
        self._used = 0
        self._freed = asyncio.Event()
        # Objects of unknown size that may be large are fetched one at a time.
        self.fetching = asyncio.Semaphore(1)

    def share(self) -> BudgetShare:
        """A part of the budget, returned at the end of its ``with`` block."""
        return BudgetShare(self)

    def give_back(self, amount: int) -> None:
        self._used -= amount
        self._freed.set()
        self._freed = asyncio.Event()

    def take_now(self, amount: int) -> bool:
        """False where there is not enough left."""
        if self._used + amount > self.total:
            return False
        self._used += amount
        return True

    async def take(self, amount: int) -> bool:
        """False where nothing was available for too long."""
        if self._used + amount > self.total:
            try:
                async with asyncio.timeout(self._patience):
                    while self._used + amount > self.total:
                        await self._freed.wait()
            except TimeoutError:
                return False
        self._used += amount
        return True


@cache
def _give_large_blocks_back() -> None:
    """Return freed memory to the system.

    glibc keeps large freed blocks, in as many heaps as there are threads, so bounding what is held
    would not bound the process. Does nothing without glibc.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        tune = ctypes.CDLL(None).mallopt
        for option, value in ((_MMAP_THRESHOLD, _MIB), (_ARENA_MAX, 2)):
            tune(option, value)


class BudgetShare:
    """The part of the budget that one request holds."""

    # This much is free of charge: a thousand small requests need not wait for a large one.
    FREE = 16 * 1024
    # A larger body reserves its maximum at once: two that each hold half and wait would wait forever.
    _STEP = 1 << 20

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.taken = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shrink(0)

    async def hold(self, size: int, most: int) -> bool:
        """Reserve ``size`` bytes of a body that may grow to ``most``; False where there is no room."""
        if size <= max(self.FREE, self.taken):
            return True
        target = min(self._STEP, most) if size <= self._STEP else most
        # A reservation above the whole budget takes all of it.
        missing = min(max(target, size), self._budget.total) - self.taken
        if missing > 0 and not await self._budget.take(missing):
            return False
        self.taken += max(missing, 0)
        return True

    def hold_now(self, size: int) -> bool:
        """As ``hold``, without waiting."""
        missing = min(size, self._budget.total) - self.taken
        if size <= max(self.FREE, self.taken):
            return True
        if not self._budget.take_now(missing):
            return False
        self.taken += missing
        return True

    def shrink(self, size: int) -> None:
        """Reduce the reservation to ``size`` bytes."""
        if self.taken > size:
            self._budget.give_back(self.taken - size)
            self.taken = size


class TaskTimeouts:
    """Ends waits that take too long. One timer checks all of them: one each would cost more than a small
    body."""

    _LOOK_EVERY = 0.25

    def __init__(self) -> None:
        self._deadlines: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._is_looking = False

    def until(self, deadline: float) -> asyncio.Task[Any]:
        """Cancel this task at ``deadline`` (of the loop's clock), unless ``over`` is called before."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be waited for")
        self._deadlines[task] = deadline
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(self._LOOK_EVERY, self._look)
        return task

    def over(self, task: asyncio.Task[Any]) -> bool:
        """The wait has ended; True where the deadline ended it."""
        self._deadlines.pop(task, None)
        if task not in self._late:
            return False
        self._late.discard(task)
        task.uncancel()
        return True

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task in [task for task, deadline in self._deadlines.items() if deadline <= now]:
            del self._deadlines[task]
            self._late.add(task)
            task.cancel()
        self._is_looking = bool(self._deadlines)
        if self._is_looking:
            loop.call_later(self._LOOK_EVERY, self._look)
