"""Starts one confined process through the helper.

All processes are started from one thread that lives as long as this process: the kernel's "die with the
parent" refers to the parent *thread*, so a server started from a short-lived worker would end with it.
"""

from __future__ import annotations

import contextlib
import importlib
import marshal
import os
import queue
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from recollect.errors import NoSandbox
from recollect.execution import bubblewrap, environment, landlock, seccomp
from recollect.execution.cgroup import ControlGroup
from recollect.execution.private_directory import PrivateDirectory
from recollect.execution.process_tree import descendants, tasks_of
from recollect.execution.proxy import PORT
from recollect.execution.terms import Chosen, RunLimits

HELPER = Path(__file__).resolve().with_name("confine.py")
# Imported, not run as a script, so that its compiled form is cached.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); import confine; confine.main(int(sys.argv[2]))"
_ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One process to start, with all settings decided."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    backend: Chosen
    limits: RunLimits
    mounts: bubblewrap.Mounts
    network: bool = False
    private: PrivateDirectory | None = None
    """The private directory on the host, for back ends without a /tmp of their own."""
    group: ControlGroup | None = None


@dataclass(slots=True)
class LaunchedProcess:
    """A running process: wait for ``process``; when ``root`` ends, all others end."""

    process: subprocess.Popen[bytes]
    root: int | None
    listener: socket.socket | None


def launch(order: LaunchSpec, *, stdin: int | IO[bytes]) -> LaunchedProcess:
    """Start it and return when the command is about to run; raises when it could not be confined."""
    ours, theirs = socket.socketpair()
    info_read, info_write = os.pipe() if order.backend == "bubblewrap" else (-1, -1)
    process = None
    try:
        argv = _argv(order, theirs.fileno(), info_write)
        process = _from_long_lived_thread(
            lambda: subprocess.Popen(
                argv,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment.helper(),
                cwd="/",
                pass_fds=[fd for fd in (theirs.fileno(), info_write, *order.mounts.descriptors) if fd >= 0],
                start_new_session=True,
            )
        )
        theirs.close()
        if info_write >= 0:
            os.close(info_write)
            info_write = -1
        return _instructed(order, process, ours, info_read)
    except BaseException:
        if process is not None:
            _abandon(process)
        raise
    finally:
        ours.close()
        theirs.close()
        for descriptor in (info_read, info_write):
            if descriptor >= 0:
                os.close(descriptor)


def _argv(order: LaunchSpec, control: int, info: int) -> list[str]:
    importlib.import_module("recollect.execution.confine")  # compiles it, where its directory is writable
    helper = [
        interpreter(),
        "-I",
        "-S",
        "-X",
        "frozen_modules=on",
        "-c",
        _PROGRAM,
        str(HELPER.parent),
        str(control),
    ]
    if order.backend != "bubblewrap":
        return helper
    size = min(order.limits.file_bytes, order.limits.memory_bytes)
    return [*bubblewrap.arguments(order.mounts, cwd=order.cwd, private_bytes=size, info=info), *helper]


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
        _take_all(order.group, process.pid)
    document = marshal.dumps(_document(order), 4)
    try:
        ours.sendall(len(document).to_bytes(8, "big") + document)
        listener = _received_listener(ours) if order.network else None
        answer = _line(ours)
    except OSError:
        listener, answer = None, b""
    if answer != b"ready":
        if listener is not None:
            listener.close()
        if root is not None:
            os.close(root)
        raise _failed(order, process, answer)
    return LaunchedProcess(process, root, listener)


def _take_all(group: ControlGroup, pid: int) -> None:
    """Add a process and its descendants to the group, repeating for those started meanwhile.

    Children of members become members, so when a pass finds no new process, none can appear.
    """
    taken: set[int] = set()
    while fresh := [one for one in (pid, *descendants(pid)) if one not in taken]:
        group.take(fresh)
        taken.update(fresh)


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
    own_network = order.backend == "bubblewrap"
    instructions = seccomp.program(own_network=own_network) if order.backend != "unconfined" else None
    return {
        "argv": list(order.argv),
        "environment": dict(order.environment),
        "cwd": str(order.cwd),
        "parent": os.getpid(),
        "network_port": PORT if order.network else None,
        "supervise": order.backend != "bubblewrap",
        "confined": order.backend != "unconfined",
        "limits": _rlimits(order),
        "landlock": _landlock(order),
        "seccomp": instructions,
    }


def _landlock(order: LaunchSpec) -> dict[str, object] | None:
    version = landlock.abi()
    if order.backend == "unconfined" or version < 1:
        return None
    write = dict(order.mounts.write)
    own = [order.private.path] if order.private else []
    return landlock.rules(
        write,
        order.mounts.hidden,
        own,
        list(order.mounts.shown),
        version=version,
        second_layer=order.backend == "bubblewrap",
    )


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


def _received_listener(ours: socket.socket) -> socket.socket | None:
    _, descriptors, _, _ = socket.recv_fds(ours, len(b"listening\n"), 1)
    return socket.socket(fileno=descriptors[0]) if descriptors else None


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


def _abandon(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


_Job = tuple[Callable[[], "subprocess.Popen[bytes]"], "Future[subprocess.Popen[bytes]]"]
_jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
_starter: tuple[int, threading.Thread] | None = None
_starter_lock = threading.Lock()


def _from_long_lived_thread(make: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    global _starter, _jobs  # noqa: PLW0603 - one thread per process, created again after a fork
    with _starter_lock:
        if _starter is None or _starter[0] != os.getpid():
            _jobs = queue.SimpleQueue()
            thread = threading.Thread(
                target=_start_what_is_asked, args=(_jobs,), name="recollect-starter", daemon=True
            )
            _starter = (os.getpid(), thread)
            thread.start()
        future: Future[subprocess.Popen[bytes]] = Future()
        _jobs.put((make, future))
    return future.result()


def _start_what_is_asked(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        make, future = jobs.get()
        try:
            future.set_result(make())
        except BaseException as problem:  # noqa: BLE001 - raised again in the caller
            future.set_exception(problem)
        del make, future  # release this one while waiting for the next
