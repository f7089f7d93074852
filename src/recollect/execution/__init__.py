"""Runs commands and servers in a sandbox.

    result = run(["make", "test"], cwd=project, confinement=Confinement(write=(project,)))

Bubblewrap or Landlock, whichever works here, restricts files, network and other processes; without
either the run is refused. Resources are limited, output is kept even when the run was cut short, and no
process it started outlives it.

This package does not decide whether a command *may* run: ``services`` asks the permission engine first.
"""

from __future__ import annotations

from recollect.errors import NoSandbox
from recollect.execution.backends import BackendAvailability, available
from recollect.execution.running import RunningProcess, run, start
from recollect.execution.terms import Backend, Confinement, RunLimits, RunResult

__all__ = [
    "Backend",
    "BackendAvailability",
    "Confinement",
    "NoSandbox",
    "RunLimits",
    "RunResult",
    "RunningProcess",
    "available",
    "run",
    "start",
]
