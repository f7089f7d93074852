"""Runs commands and servers in a sandbox.

    result = run(["make", "test"], cwd=project, confinement=Confinement(write=(project,)))

Bubblewrap restricts files, network and other processes; where it does not work the run is refused.
Resources are limited, output is kept even when the run was cut short, and no
process it started outlives it.

This package does not decide whether a command *may* run: the caller asks the permission engine first.
"""

from __future__ import annotations

from recollect.errors import NoSandbox
from recollect.guard.sandbox.jail import Backend, Confinement, RunLimits, RunResult
from recollect.guard.sandbox.launch import unavailable
from recollect.guard.sandbox.running import RunningProcess, run, start

__all__ = [
    "Backend",
    "Confinement",
    "NoSandbox",
    "RunLimits",
    "RunResult",
    "RunningProcess",
    "run",
    "start",
    "unavailable",
]
