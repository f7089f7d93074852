"""Starts one confined process through the helper, in a control group where we may create one.

All processes are started from one thread that lives as long as this process: the kernel's "die with the
parent" refers to the parent *thread*, so a server started from a short-lived worker would end with it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from recollect.errors import NoSandbox, RecollectError
from recollect.guard.sandbox import jail
from recollect.guard.sandbox.jail import HELPER_ENVIRONMENT, Backend, RunLimits
from recollect.guard.sandbox.proxy import PORT

if sys.platform == "linux":
    from recollect.guard.sandbox.confine import descendants, landlock_version

_MOUNT = Path("/sys/fs/cgroup")
_numbers = itertools.count()


@dataclass
class ControlGroup:
    """The directories of one run's group: one for version 2, one per controller for version 1."""

    directories: list[Path]
    bounds: frozenset[str]

    def take_all(self, pid: int) -> None:
        """Add a process and its descendants, repeating for those started meanwhile.

        Children of members become members, so when a pass finds no new process, none can appear.
        """
        taken: set[int] = set()
        while fresh := [one for one in (pid, *descendants(pid)) if one not in taken]:
            for file in (directory / "cgroup.procs" for directory in self.directories):
                for one in fresh:
                    with contextlib.suppress(ProcessLookupError):
                        file.write_text(str(one), encoding="ascii")
            taken.update(fresh)

    def remove(self) -> None:
        """Remove the group, and kill any process left in it (possible after the supervisor was killed)."""
        for directory in self.directories:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    for pid in (directory / "cgroup.procs").read_text(encoding="ascii").split():
                        os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(FileNotFoundError):
                    try:
                        directory.rmdir()
                    except OSError:
                        time.sleep(0.01)
                        continue
                break


def make_group(memory_bytes: int, processes: int) -> ControlGroup | None:
    """A new group with these bounds, or None where this user may not create one."""
    name = f"recollect-{os.getpid()}-{next(_numbers)}"
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    places = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    if (_MOUNT / "cgroup.controllers").exists():
        directory = _MOUNT / places.get("", "/").lstrip("/") / name
        bounds = {"memory.max": memory_bytes, "memory.swap.max": 0, "pids.max": processes}
        if _make(directory, bounds):
            return ControlGroup([directory], frozenset(["memory", "processes"]))
        return None
    made = ControlGroup([], frozenset())
    for controller, file, value, bound in (
        ("memory", "memory.limit_in_bytes", memory_bytes, "memory"),
        ("pids", "pids.max", processes, "processes"),
    ):
        directory = _MOUNT / controller / places.get(controller, "/").lstrip("/") / name
        if _make(directory, {file: value}):
            made.directories.append(directory)
            made.bounds |= {bound}
    return made if made.directories else None


def _make(directory: Path, bounds: dict[str, int]) -> bool:
    # Killed processes leave empty groups behind.
    for left in directory.parent.glob("recollect-*-*"):
        owner = left.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                left.rmdir()
    try:
        directory.mkdir()
        for file, value in bounds.items():
            (directory / file).write_text(str(value), encoding="ascii")
    except OSError:
        with contextlib.suppress(OSError):
            directory.rmdir()
        return False
    return True


def own_memory(pids: list[int]) -> int:
    """Bytes of anonymous and shared memory of these processes; file pages are not counted."""
    kib = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/status").read_bytes()
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                kib += int(line.split()[1])
    return kib * 1024


def tasks_of(user: int) -> int:
    """How many threads a user runs, as RLIMIT_NPROC counts them."""
    count = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            status = Path(f"/proc/{entry.name}/task").stat()
        except OSError:
            continue
        if status.st_uid == user:
            count += max(status.st_nlink - 2, 1)  # this directory has two links plus one per thread
    return count


HELPER = Path(__file__).resolve().with_name("confine.py")
_ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One process to start, with all settings decided."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    backend: Backend
    limits: RunLimits
    mounts: jail.Mounts
    network: bool = False
    private: Path | None = None
    """The private directory on the host, where nothing is confined."""
    group: ControlGroup | None = None


LaunchedProcess = tuple["subprocess.Popen[bytes]", int | None, socket.socket | None]
"""A running process, the first process of its sandbox (when that ends, all others end), the proxy's socket."""


def launch(order: LaunchSpec, *, stdin: int | IO[bytes]) -> LaunchedProcess:
    """Start it and return when the command is about to run; raises when it could not be confined."""
    ours, theirs = socket.socketpair()
    info_read, info_write = os.pipe() if order.backend == "bubblewrap" else (-1, -1)
    process, rules = None, -1
    try:
        argv = [interpreter(), "-I", "-S", str(HELPER), str(theirs.fileno())]
        if order.backend == "bubblewrap":
            instructions = jail.filter_program()
            if instructions is not None:
                rules = os.memfd_create("recollect-filter")
                with os.fdopen(rules, "wb", closefd=False) as file:
                    file.write(instructions)
                os.lseek(rules, 0, os.SEEK_SET)
            size = min(order.limits.file_bytes, order.limits.memory_bytes)
            wrapper = jail.arguments(
                order.mounts, cwd=order.cwd, private_bytes=size, info=info_write, rules=rules
            )
            argv = [*wrapper, *argv]
        passed = (theirs.fileno(), info_write, rules, *order.mounts.descriptors)
        process = (
            _starter(os.getpid())
            .submit(
                subprocess.Popen,
                argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=HELPER_ENVIRONMENT,
                cwd="/",
                pass_fds=[fd for fd in passed if fd >= 0],
                start_new_session=True,
            )
            .result()
        )
        theirs.close()
        if info_write >= 0:
            os.close(info_write)
            info_write = -1
        return _instructed(order, process, ours, info_read)
    except BaseException:
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        raise
    finally:
        ours.close()
        theirs.close()
        for descriptor in (info_read, info_write, rules):
            if descriptor >= 0:
                os.close(descriptor)


def interpreter() -> str:
    """A Python for the helper, by its real path: a link in a writable tree could be changed."""
    for candidate in (getattr(sys, "_base_executable", ""), sys.executable, "/usr/bin/python3"):
        real = os.path.realpath(candidate) if candidate else ""
        if real and os.access(real, os.X_OK):
            return real
    return sys.executable


def _instructed(
    order: LaunchSpec, process: subprocess.Popen[bytes], ours: socket.socket, info: int
) -> LaunchedProcess:
    ours.settimeout(_ANSWER_SECONDS)
    root = _root(info, process) if order.backend == "bubblewrap" else None
    if order.group is not None:
        order.group.take_all(process.pid)
    document = json.dumps(_document(order)).encode()
    try:
        ours.sendall(len(document).to_bytes(8, "big") + document)
        listener = None
        if order.network:
            _, descriptors, _, _ = socket.recv_fds(ours, len(b"listening\n"), 1)
            listener = socket.socket(fileno=descriptors[0]) if descriptors else None
        answer = _line(ours)
    except OSError:
        listener, answer = None, b""
    if answer != b"ready":
        if listener is not None:
            listener.close()
        if root is not None:
            os.close(root)
        raise _failed(order, process, answer)
    return process, root, listener


def _root(info: int, process: subprocess.Popen[bytes]) -> int | None:
    """The first process of the sandbox, as reported by bubblewrap; when it is gone, all are."""
    text = b""
    while not text.rstrip().endswith(b"}"):
        piece = os.read(info, 4096)
        if not piece:
            return None
        text += piece
    found = re.search(rb'"child-pid":\s*(\d+)', text)
    if found is None:
        return None
    pid = int(found[1])
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


def _document(order: LaunchSpec) -> dict[str, object]:
    confined = order.backend == "bubblewrap"
    return {
        "argv": order.argv,
        "environment": dict(order.environment),
        "cwd": str(order.cwd),
        "parent": os.getpid(),
        "network_port": PORT if order.network else None,
        "supervise": not confined,
        "limits": _rlimits(order),
        "write": [*map(str, order.mounts.write), "/dev", "/tmp"] if confined else None,  # noqa: S108 - the jail's own
    }


def _rlimits(order: LaunchSpec) -> dict[str, int]:
    limits = order.limits
    others = (
        0 if order.backend == "bubblewrap" else tasks_of(os.getuid())
    )  # a sandbox user is counted separately
    numbers = {
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_NPROC": limits.processes + others,
        "RLIMIT_DATA": limits.memory_bytes,
        "RLIMIT_MEMLOCK": 64 * 1024,
    }
    if limits.seconds is not None:
        numbers["RLIMIT_CPU"] = int(limits.seconds + 1) * (os.cpu_count() or 1)
    return numbers


def _line(ours: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = ours.recv(1)
        if not piece:
            break
        data += piece
    return data.strip()


def _failed(order: LaunchSpec, process: subprocess.Popen[bytes], answer: bytes) -> NoSandbox:
    process.kill()
    said = answer or (process.stderr.read(4000) if process.stderr else b"")
    reason = said.decode("utf-8", "replace").strip() or "it ended without an error message"
    return NoSandbox(f"{order.backend}: {ascii(reason)[1:-1]}")


@cache
def _starter(_process: int) -> ThreadPoolExecutor:
    """One thread that lives as long as this process; a fork gets its own."""
    return ThreadPoolExecutor(1, "recollect-starter")


def unavailable() -> str | None:
    """Why no run can be confined here; None where bubblewrap works. Tried once per user."""
    return _trial(os.getuid() if hasattr(os, "getuid") else -1)


def require_backend(backend: Backend) -> None:
    """Raise, with what is missing, where the back end does not work."""
    reason = None if backend == "unconfined" else unavailable()
    if reason is not None:
        raise NoSandbox(f"{backend}: {reason}")


def not_held(order: LaunchSpec) -> tuple[str, ...]:
    """What the back end cannot enforce on this machine and for this user."""
    if order.backend == "unconfined":
        return ("nothing is confined: the command can reach files, network and other processes",)
    missing = []
    if jail.filter_program() is None:
        missing.append(
            "no system call filter for this machine: Unix sockets in the file system are reachable"
        )
    if landlock_version() < 1:
        missing.append("no Landlock in this kernel: named pipes outside can be written to")
    bounds = order.group.bounds if order.group else frozenset()
    if "processes" not in bounds and os.getuid() == 0:
        missing.append("the number of processes is not bounded for root without a pids cgroup")
    if "memory" not in bounds:
        missing.append("memory of all processes together is watched, not bounded: no cgroup can be created")
    return tuple(missing)


@cache
def _trial(_user: int) -> str | None:
    if sys.platform != "linux":
        return "only on Linux"
    if jail.program() is None:
        return "bwrap is not installed"
    if not jail.binds_descriptors():
        return "this bwrap has no --bind-fd, so a link planted during the start could be followed: update it"
    shown = jail.shown_of_tmp((str(HELPER), interpreter()), ())
    order = LaunchSpec(
        argv=("/bin/true",),
        cwd=Path("/"),
        environment={},
        backend="bubblewrap",
        limits=RunLimits(seconds=10),
        mounts=jail.Mounts({}, (), {}, {}, shown),
    )
    try:
        process, root, _ = launch(order, stdin=subprocess.DEVNULL)
        code = process.wait(10)
    except (RecollectError, OSError) as problem:
        return str(getattr(problem, "message", problem))
    except Exception as problem:  # noqa: BLE001 - a trial that fails in any way is a back end that does not work
        return f"the trial run failed: {problem}"
    if root is not None:
        os.close(root)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return None if code == 0 else f"the trial run ended with {code}"
