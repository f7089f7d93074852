"""Deadlines that do not depend on how fast the machine is."""

from __future__ import annotations

import queue
from collections import Counter

import pytest

from recollect.system.pool import TaskEvent, WorkerPool

SOON = 60.0


def near_after(monkeypatch: pytest.MonkeyPatch, events: int) -> float:
    """A deadline that is near once so many events of a pool came: a loaded machine may start slowly."""
    came: Counter[int] = Counter()
    awaited = WorkerPool._awaited

    def counted(pool: WorkerPool, news: queue.Queue[TaskEvent | None]) -> TaskEvent | None:
        event = awaited(pool, news)
        came[id(pool)] += 1
        return event

    monkeypatch.setattr(WorkerPool, "_awaited", counted)
    monkeypatch.setattr(WorkerPool, "_seconds_left", lambda pool: SOON if came[id(pool)] < events else 1.0)
    return SOON
