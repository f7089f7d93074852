"""Deadlines that do not depend on how fast the machine is."""

from __future__ import annotations

from collections import Counter

import pytest

from recollect.system.pool import TaskEvent
from recollect.system.workers import Workers

SOON = 60.0


def near_after(monkeypatch: pytest.MonkeyPatch, events: int) -> float:
    """A deadline that is near once so many events of a pool came: a loaded machine may start slowly."""
    came: Counter[int] = Counter()
    awaited = Workers._awaited

    def counted(workers: Workers) -> TaskEvent | None:
        event = awaited(workers)
        came[id(workers)] += 1
        return event

    monkeypatch.setattr(Workers, "_awaited", counted)
    monkeypatch.setattr(Workers, "_seconds_left", lambda workers: SOON if came[id(workers)] < events else 1.0)
    return SOON
