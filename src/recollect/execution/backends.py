"""Which back ends work on this machine, and which one a run gets.

An installed program proves nothing: many systems forbid unprivileged namespaces. So each back end is
tried once with a real command. Where none works the run is refused (E06); running without a sandbox
must be requested by name.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import NoSandbox, RecollectError, UsageError
from recollect.execution import bubblewrap, landlock, seccomp
from recollect.execution.terms import Chosen, Confinement, RunLimits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from recollect.execution.launch import LaunchSpec

_tried: dict[tuple[int, str], str | None] = {}
_trying = threading.Lock()


@dataclass(frozen=True, slots=True)
class BackendAvailability:
    """Back end -> None when it works here, else why not."""

    why_not: Mapping[str, str | None]

    @property
    def works(self) -> tuple[str, ...]:
        """Those that work, the strongest first."""
        return tuple(name for name, reason in self.why_not.items() if reason is None)


def available() -> BackendAvailability:
    """Try every back end, once per process and user."""
    return BackendAvailability({name: _why_not(name) for name in ("bubblewrap", "landlock")})


def chosen(confinement: Confinement) -> Chosen:
    """The back end for a run, or an error that says what is missing."""
    requested = confinement.backend
    if requested == "unconfined":
        return "unconfined"
    if requested in ("auto", "bubblewrap") and _why_not("bubblewrap") is None:
        return "bubblewrap"
    if requested in ("auto", "landlock") and _why_not("landlock") is None:
        if confinement.allow_hosts:
            raise UsageError(
                "Landlock allows ports, not hosts: --allow-net needs bubblewrap here",
                hint="install bubblewrap, or run it without network",
            )
        return "landlock"
    names = ("bubblewrap", "landlock") if requested == "auto" else (requested,)
    reasons = "; ".join(f"{name}: {_why_not(name)}" for name in names)
    raise NoSandbox(reasons)


def not_held(order: LaunchSpec) -> tuple[str, ...]:
    """What the chosen back end cannot enforce on this machine and for this user."""
    if order.backend == "unconfined":
        return ("nothing is confined: the command can reach files, network and other processes",)
    missing = []
    if seccomp.program(own_network=True) is None:
        missing.append(
            "no system call filter for this machine: Unix sockets in the file system are reachable"
        )
    if order.backend == "landlock":
        missing.append(
            "protected names inside writable trees are restored after the run, not protected during it"
        )
        missing.append(
            "modes, owners, times and extended attributes of files outside can be changed where the user may change them"
        )
        missing.append(
            "existence, size and times of hidden files, and command lines of other processes, can be seen"
        )
        if landlock.abi() < 6:
            missing.append("signals to other processes of this user are possible (Landlock ABI below 6)")
    bounds = order.group.bounds if order.group else frozenset()
    if "processes" not in bounds and os.getuid() == 0:
        missing.append("the number of processes is not bounded for root without a pids cgroup")
    if "memory" not in bounds:
        missing.append("memory of all processes together is watched, not bounded: no cgroup can be created")
    return tuple(missing)


def _why_not(name: str) -> str | None:
    key = (os.getuid() if hasattr(os, "getuid") else -1, name)
    with _trying:
        if key not in _tried:
            _tried[key] = _trial(name)
        return _tried[key]


def _trial(name: str) -> str | None:
    if sys.platform != "linux":
        return "only on Linux"
    if name == "bubblewrap" and bubblewrap.program() is None:
        return "bwrap is not installed"
    if name == "bubblewrap" and not bubblewrap.binds_descriptors():
        return "this bwrap has no --bind-fd, so a link planted during the start could be followed: update it"
    if name == "landlock":
        if landlock.abi() < landlock.LEAST_ABI:
            return f"Landlock ABI {landlock.abi()}, at least {landlock.LEAST_ABI} is needed"
        if seccomp.program(own_network=False) is None:
            return "no system call filter for this machine, and Landlock alone does not stop UDP"
    return _trial_run(name)


def _trial_run(name: str) -> str | None:
    from recollect.execution.launch import HELPER, LaunchSpec, interpreter, launch

    backend: Chosen = "bubblewrap" if name == "bubblewrap" else "landlock"
    shown = bubblewrap.shown_of_tmp((str(HELPER), interpreter()), ())
    order = LaunchSpec(
        argv=("/bin/true",),
        cwd=Path("/"),
        environment={},
        backend=backend,
        limits=RunLimits(seconds=10),
        mounts=bubblewrap.Mounts({}, (), {}, {}, shown),
    )
    try:
        launched = launch(order, stdin=-3)
        code = launched.process.wait(10)
    except (RecollectError, OSError) as problem:
        return str(getattr(problem, "message", problem))
    except Exception as problem:  # noqa: BLE001 - a trial that fails in any way is a back end that does not work
        return f"the trial run failed: {problem}"
    if launched.root is not None:
        os.close(launched.root)
    for stream in (launched.process.stdout, launched.process.stderr):
        if stream is not None:
            stream.close()
    return None if code == 0 else f"the trial run ended with {code}"
