"""A confined process while it runs, and until all of its processes have ended.

``run`` is for commands: it waits, keeps the output, and ends the command at its limits. ``start`` is
for servers: the caller uses its pipes. In both cases, when the end is reached, no process is alive and
protected names are unchanged or restored.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from recollect.errors import NotFound, NotPermitted, UsageError
from recollect.guard.sandbox import jail, protected
from recollect.guard.sandbox.jail import (
    Backend,
    Confinement,
    RunLimits,
    RunResult,
    clean_environment,
    hidden_from,
    secret_places,
)
from recollect.guard.sandbox.launch import (
    HELPER,
    LaunchedProcess,
    LaunchSpec,
    interpreter,
    launch,
    make_group,
    not_held,
    own_memory,
    require_backend,
)
from recollect.guard.sandbox.protected import OpenTree, open_tree
from recollect.guard.sandbox.proxy import PORT, AllowList, Proxy

if sys.platform == "linux":
    from recollect.guard.sandbox.confine import descendants

OnOutput = Callable[[str, bytes], None]
_BLINK = 0.02
_WATCH_SECONDS = 0.15
_LAST_WORDS_SECONDS = 2.0


class CapturedStream:
    """One stream, read to its end in a thread; the first bytes are kept, the rest is dropped."""

    def __init__(self, stream: IO[bytes], name: str, limit: int, on_output: OnOutput | None) -> None:
        self._stream, self._name, self._limit, self._on_output = stream, name, limit, on_output
        self._pieces: list[bytes] = []
        self._size = 0
        self.truncated = False
        self._thread = threading.Thread(target=self._read, name=f"recollect-{name}", daemon=True)
        self._thread.start()

    @property
    def data(self) -> bytes:
        """The bytes kept so far."""
        return b"".join(self._pieces)

    def finish(self) -> None:
        """Wait for the end of the stream; every writer has ended by now."""
        self._thread.join(_LAST_WORDS_SECONDS)

    def _read(self) -> None:
        with self._stream:
            while piece := self._next():
                room = self._limit - self._size
                if len(piece) > room:
                    self.truncated = True
                    piece = piece[:room]
                if piece:
                    self._pieces.append(piece)
                    self._size += len(piece)
                    if self._on_output is not None:
                        self._on_output(self._name, piece)

    def _next(self) -> bytes:
        try:
            return os.read(self._stream.fileno(), 65_536)
        except OSError:
            return b""


class RunningProcess:
    """A started process. ``stdin`` and ``stdout`` are its pipes; stderr is kept, up to the limit."""

    def __init__(
        self,
        launched: LaunchedProcess,
        order: LaunchSpec,
        guarded: protected.ProtectedNames,
        hosts: AllowList | None,
        opened: contextlib.ExitStack,
    ) -> None:
        self.process, self._root, listener = launched
        self._proxy = Proxy(listener, hosts) if listener is not None and hosts is not None else None
        self._order, self._guarded, self._opened = order, guarded, opened
        self._started = time.monotonic()
        self._ending = threading.Lock()
        # On a nearly full disk, half of what is left must stay free.
        keep = order.limits.keep_free_bytes
        self._floors = {tree: min(keep, _free(tree) / 2) for tree in order.mounts.write}
        self._ended = False
        self._said: CapturedStream | None = None
        self.put_back: tuple[str, ...] = ()
        self.pid = self.process.pid
        self.stdin, self.stdout = (
            cast("IO[bytes]", self.process.stdin),
            cast("IO[bytes]", self.process.stdout),
        )
        self.sandbox: Backend = order.backend

    @property
    def stderr(self) -> bytes:
        """Its stderr so far, up to the limit of a stream."""
        return self._said.data if self._said else b""

    @property
    def not_held(self) -> tuple[str, ...]:
        """What this back end cannot enforce here."""
        return not_held(self._order)

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def wait(self, seconds: float | None = None) -> int | None:
        """Wait for its end; None on timeout. Then call ``kill`` to end its remaining processes."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(self.process.pid)
                try:
                    _wait_on(descriptor, seconds)
                finally:
                    os.close(descriptor)
        return self.poll()

    def kill(self) -> None:
        """End it and all it started; returns when none is alive. May be called again."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            with contextlib.ExitStack() as last:  # every step runs, even when an earlier one fails
                if self.process.stdin is not None:
                    last.callback(_close_quietly, self.process.stdin)
                if self._said is not None:
                    last.callback(self._said.finish)
                if self._order.private is not None:
                    last.callback(shutil.rmtree, self._order.private, ignore_errors=True)
                last.callback(self._opened.close)
                last.callback(self._settle)
                if self._order.group is not None:
                    last.callback(self._order.group.remove)
                if self._proxy is not None:
                    last.callback(self._proxy.close)
                self._end_processes()

    def _settle(self) -> None:
        self.put_back = self._guarded.settle()

    def why_end(self) -> str | None:
        """The limit it exceeds: ``time``, ``memory`` or ``disk``; None within all limits."""
        limits = self._order.limits
        if limits.seconds is not None and time.monotonic() - self._started >= limits.seconds:
            return "time"
        held = self._order.group.bounds if self._order.group else frozenset()
        if "memory" not in held and own_memory(descendants(self.pid)) > limits.memory_bytes:
            return "memory"
        return "disk" if any(_free(tree) < floor for tree, floor in self._floors.items()) else None

    def _end_processes(self) -> None:
        if self._root is not None:
            # The first process of a namespace is reaped after all others, so its end is theirs.
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._root, signal.SIGKILL)
            _wait_on(self._root, None)
            os.close(self._root)
            self._root = None
            self.process.wait()
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)  # the supervisor kills all its descendants, then exits
        self.process.wait()

    def keep(self, stream: str, on_output: OnOutput | None = None) -> CapturedStream:
        """Read one of its streams from now on, up to the limit."""
        pipe = self.stdout if stream == "stdout" else cast("IO[bytes]", self.process.stderr)
        captured = CapturedStream(pipe, stream, self._order.limits.output_bytes, on_output)
        if stream == "stderr":
            self._said = captured
        return captured

    def __enter__(self) -> RunningProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    confinement: Confinement,
    limits: RunLimits | None = None,
    environment: Mapping[str, str] | None = None,
) -> RunningProcess:
    """Start a process that keeps running: its stdin and stdout are pipes, its stderr is kept and capped.

    The caller enforces time limits (see ``why_end``); all others are enforced here.
    """
    own = limits or RunLimits(seconds=None)
    running = _started(argv, cwd, own, confinement, environment, stdin=subprocess.PIPE)
    running.keep("stderr")
    return running


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    confinement: Confinement,
    limits: RunLimits | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    cancelled: threading.Event | None = None,
    on_output: OnOutput | None = None,
) -> RunResult:
    """Run a command to its end or its limits; no process of it is alive afterwards.

    ``on_output`` is called from another thread with ("stdout" or "stderr", bytes) as output arrives.
    """
    own = limits or RunLimits()
    source = subprocess.PIPE if stdin else subprocess.DEVNULL
    began = time.monotonic()
    running = _started(argv, cwd, own, confinement, environment, stdin=source)
    try:
        out, err = running.keep("stdout", on_output), running.keep("stderr", on_output)
        if stdin:
            threading.Thread(target=_feed, args=(running.process.stdin, stdin), daemon=True).start()
        ended_by = _wait(running, cancelled)
    finally:
        running.kill()
    out.finish()
    err.finish()
    return RunResult(
        stdout=out.data,
        stderr=err.data,
        exit_code=None if ended_by else running.poll(),
        interrupted=ended_by is not None,
        truncated=out.truncated or err.truncated,
        sandbox=running.sandbox,
        timed_out=ended_by == "time",
        ended_by=ended_by,
        seconds=time.monotonic() - began,
        put_back=running.put_back,
        not_held=running.not_held,
    )


def _wait_on(descriptor: int, seconds: float | None) -> None:
    """Block until the kernel reports the end of a process, without polling."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    waiting.poll(None if seconds is None else int(seconds * 1000))


def _wait(running: RunningProcess, cancelled: threading.Event | None) -> str | None:
    look_again = 0.0
    while running.wait(_BLINK) is None:
        if cancelled is not None and cancelled.is_set():
            return "cancelled"
        if time.monotonic() >= look_again:
            why = running.why_end()
            if why:
                return why
            look_again = time.monotonic() + _WATCH_SECONDS
    return None


def _close_quietly(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        pipe.close()


def _feed(pipe: IO[bytes] | None, data: bytes) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError), pipe:
            pipe.write(data)


def _started(
    argv: Sequence[str],
    cwd: Path,
    limits: RunLimits,
    confinement: Confinement,
    asked: Mapping[str, str] | None,
    *,
    stdin: int,
) -> RunningProcess:
    words, commands = tuple(argv), confinement.commands
    if not words or not words[0]:
        raise UsageError("no command to run", hint="write it after --")
    if any("\0" in word for word in words):
        raise UsageError("the command has a NUL character", hint="remove the NUL character")
    # By the exact word: another file of that name is another program.
    if commands is not None and words[0] not in commands:
        why = f"only {', '.join(commands) or 'nothing'} may be run"
        raise NotPermitted(words[0], why, hint="nothing was started; name it too")
    backend = confinement.backend
    require_backend(backend)
    hosts = AllowList(confinement.allow_hosts) if confinement.allow_hosts else None
    directory = _real_directory(cwd, "working directory")
    guarded = protected.ProtectedNames()
    private = group = None
    opened = contextlib.ExitStack()
    try:
        trees = _trees(confinement, backend, opened)
        if backend != "unconfined" and confinement.protect:
            guarded = protected.prepare(trees)
        if backend == "unconfined":
            private = Path(tempfile.mkdtemp(prefix="recollect-run-")).resolve()
            for name in ("home", "temporary"):
                (private / name).mkdir(mode=0o700)
        group = make_group(limits.memory_bytes, limits.processes)
        order = LaunchSpec(
            argv=words,
            cwd=directory,
            environment=clean_environment(
                asked,
                jail.PRIVATE if private is None else str(private),
                f"http://127.0.0.1:{PORT}" if hosts and private is None else None,
            ),
            backend=backend,
            limits=limits,
            mounts=_mounts(
                confinement, backend, trees, named=(*words, str(directory)), guarded=guarded, opened=opened
            ),
            network=hosts is not None and private is None,
            private=private,
            group=group,
        )
        return RunningProcess(launch(order, stdin=stdin), order, guarded, hosts, opened)
    except BaseException:
        guarded.settle()
        opened.close()
        if private is not None:
            shutil.rmtree(private, ignore_errors=True)
        if group is not None:
            group.remove()
        raise


def _trees(confinement: Confinement, backend: Backend, opened: contextlib.ExitStack) -> list[OpenTree]:
    """The writable trees, each once. Without a sandbox nothing is bound, so nothing is opened."""
    if backend == "unconfined":
        return [OpenTree(_real_directory(tree, "writable directory"), -1) for tree in confinement.write]
    trees: dict[Path, OpenTree] = {}
    for path in confinement.write:
        tree = open_tree(path)
        opened.callback(os.close, tree.descriptor)
        trees.setdefault(tree.path, tree)
    return list(trees.values())


def _mounts(
    confinement: Confinement,
    backend: Backend,
    trees: Sequence[OpenTree],
    *,
    named: tuple[str, ...],
    guarded: protected.ProtectedNames,
    opened: contextlib.ExitStack,
) -> jail.Mounts:
    hidden = secret_places(os.environ) if confinement.hidden is None else confinement.hidden
    write = {tree.path: tree.descriptor for tree in trees}
    shown = _shown(confinement.show)
    if backend == "bubblewrap":
        shown = jail.shown_of_tmp((*named, str(HELPER), interpreter()), write) | shown
    for descriptor in shown.values():
        opened.callback(os.close, descriptor)
    return jail.Mounts(
        write=write,
        hidden=hidden_from(hidden, confinement.show),
        held=guarded.held,
        pinned=guarded.pinned,
        shown=shown,
    )


def _shown(places: Sequence[Path]) -> dict[Path, int]:
    """Each place as it is now, opened; a missing one is an error, because it was asked for."""
    found: dict[Path, int] = {}
    for place in places:
        try:
            real = place.resolve(strict=True)
            found.setdefault(real, os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
        except (OSError, RuntimeError) as cause:
            raise NotFound(f"{place}: does not exist", hint="check the path given with --show") from cause
    return found


def _real_directory(path: Path, what: str) -> Path:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as cause:
        raise NotFound(f"{what} {path}: does not exist", hint="check the path") from cause
    if not real.is_dir():
        raise UsageError(f"{what} {path}: not a directory", hint="name a directory")
    return real


def _free(tree: Path) -> float:
    try:
        status = os.statvfs(tree)
    except OSError:
        return float("inf")
    return status.f_bavail * status.f_frsize
