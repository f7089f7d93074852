"""Commands and servers, run where they can do no harm.

    result = run(["make", "test"], cwd=project, confinement=Confinement(write=(project,)))

Files, network and other processes are closed off by bubblewrap or Landlock, whichever
works here; without either the run is refused. What a run may use is limited, what it
printed is kept also when it was cut short, and nothing it started outlives it.

Whether a command *may* run is not decided here: that is the permission engine's, and
``services`` asks it first.
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
