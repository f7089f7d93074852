"""Deadlines that do not depend on how fast the machine is."""

from __future__ import annotations

from collections import Counter

import pytest

from recollect.system.pool import TaskEvent
from recollect.system.pool_processes import PoolProcesses

SOON = 60.0


def near_after(monkeypatch: pytest.MonkeyPatch, events: int) -> float:
    """A deadline that is near once so many events of a pool came: a loaded machine may start slowly."""
    came: Counter[int] = Counter()
    awaited = PoolProcesses._awaited

    def counted(processes: PoolProcesses) -> TaskEvent | None:
        event = awaited(processes)
        came[id(processes)] += 1
        return event

    monkeypatch.setattr(PoolProcesses, "_awaited", counted)
    monkeypatch.setattr(
        PoolProcesses, "_seconds_left", lambda processes: SOON if came[id(processes)] < events else 1.0
    )
    return SOON
