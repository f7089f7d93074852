"""A control group for one run, where we may create one: a hard bound on memory and processes.

RLIMIT_NPROC does not bind root, and no rlimit bounds several processes together. Where no group can be
created (most unprivileged users), the caller runs without one and reports it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_numbers = itertools.count()


@dataclass
class ControlGroup:
    """The directories of one run's group: one for version 2, one per controller for version 1."""

    directories: list[Path]
    bounds: frozenset[str]

    def take(self, pids: list[int]) -> None:
        """Add processes; their later children are included."""
        for directory in self.directories:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (directory / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def remove(self) -> None:
        """Remove the group, and kill any process left in it (possible after the supervisor was killed)."""
        for directory in self.directories:
            for _ in range(50):
                _end_members(directory)
                with contextlib.suppress(FileNotFoundError):
                    try:
                        directory.rmdir()
                    except OSError:
                        time.sleep(0.01)
                        continue
                break


def _end_members(directory: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (directory / "cgroup.procs").read_text(encoding="ascii").split():
            os.kill(int(pid), signal.SIGKILL)


def make(memory_bytes: int, processes: int) -> ControlGroup | None:
    """A new group with these bounds, or None where this user may not create one."""
    name = f"recollect-{os.getpid()}-{next(_numbers)}"
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    places = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    if (_MOUNT / "cgroup.controllers").exists():
        return _version_2(_MOUNT / places.get("", "/").lstrip("/") / name, memory_bytes, processes)
    return _version_1(places, name, memory_bytes, processes)


def _sweep(parent: Path) -> None:
    """Remove the empty groups that killed processes left behind."""
    for left in parent.glob("recollect-*-*"):
        owner = left.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                left.rmdir()


def _version_2(directory: Path, memory_bytes: int, processes: int) -> ControlGroup | None:
    bounds = {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes}
    _sweep(directory.parent)
    try:
        directory.mkdir()
        for file, value in bounds.items():
            (directory / file).write_text(str(value), encoding="ascii")
    except OSError:
        with contextlib.suppress(OSError):
            directory.rmdir()
        return None
    return ControlGroup([directory], frozenset(["memory", "processes"]))


def _version_1(places: dict[str, str], name: str, memory_bytes: int, processes: int) -> ControlGroup | None:
    made: list[Path] = []
    bounds: set[str] = set()
    controllers = (("memory", "memory.limit_in_bytes", memory_bytes), ("pids", "pids.max", processes))
    for controller, file, value in controllers:
        directory = _MOUNT / controller / places.get(controller, "/").lstrip("/") / name
        _sweep(directory.parent)
        try:
            directory.mkdir()
        except OSError:
            continue
        made.append(directory)
        with contextlib.suppress(OSError):
            (directory / file).write_text(str(value), encoding="ascii")
            bounds.add("processes" if controller == "pids" else controller)
    return ControlGroup(made, frozenset(bounds)) if made else None
