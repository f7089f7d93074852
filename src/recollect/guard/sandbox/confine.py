"""The helper program that sets the last limits and then becomes the command.

It is started with ``python -I -S``, inside the sandbox where there is one: standard library only, no
environment variables, no site packages. It reads one document from an inherited socket and then closes
descriptors, passes out a listening socket, sets limits, closes named pipes outside with Landlock, and calls
exec. If a step fails it exits before the command starts: the command never runs with less confinement than
requested.

It is a helper process because ``preexec_fn`` is not safe in a program with threads.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SETUP_FAILED, CANNOT_START, NOT_FOUND = 125, 126, 127
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SET_PDEATHSIG, _SET_SUBREAPER, _SET_NO_NEW_PRIVS = 1, 36, 38
_CHANGES = (1 << 1) | sum(1 << bit for bit in range(4, 13))  # write a file; make and remove names
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # since versions 2 and 3
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(control: int) -> "NoReturn":
    """Read the document, apply it, and exec the command."""
    try:
        spec = _read_document(control)
        _close_all_but(control)
        os.set_inheritable(control, False)
        if spec["network_port"] is not None:
            _hand_out_listener(control, spec["network_port"])
        if spec["supervise"]:
            _supervise(control, spec["parent"])
        for name, value in spec["limits"].items():
            _limit(getattr(resource, name), value)
        os.umask(0o022)
        os.chdir(spec["cwd"])
        if spec["write"] is not None:
            _allow_changes_below(spec["write"])
    except Exception as problem:  # noqa: BLE001 - on any failure the command must not start
        _tell(control, f"{type(problem).__name__}: {problem}".encode())
        os._exit(SETUP_FAILED)
    _become(control, spec)


def _read_document(control: int) -> dict[str, "Any"]:
    length = int.from_bytes(_read_exactly(control, 8), "big")
    document: dict[str, Any] = json.loads(_read_exactly(control, length))
    return document


def _read_exactly(control: int, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = os.read(control, length - len(data))
        if not piece:
            raise EOFError("the parent process has exited")
        data += piece
    return data


def _tell(control: int, text: bytes) -> None:
    with os.fdopen(control, "wb", closefd=False) as answer:
        answer.write(text[:4000].replace(b"\n", b" ") + b"\n")


def _close_all_but(control: int) -> None:
    for descriptor in [int(entry.name) for entry in os.scandir("/proc/self/fd")]:
        if descriptor > 2 and descriptor != control:
            with contextlib.suppress(OSError):  # the one of the directory listing is closed already
                os.close(descriptor)


def _hand_out_listener(control: int, port: int) -> None:
    """A socket keeps the network namespace it was created in: the proxy outside accepts connections from
    inside."""
    with socket.socket() as listener, socket.socket(fileno=os.dup(control)) as answer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        socket.send_fds(answer, [b"listening\n"], [listener.fileno()])


def _supervise(control: int, parent: int) -> None:
    """Fork: the child continues; the parent waits and kills every process it leaves behind.

    As the reaper of all descendants the parent also gets orphans that left the session. When the kernel
    reports no children, none are left.
    """
    both = (signal.SIGTERM, signal.SIGCHLD)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some parents leave it, it would never arrive
    before = signal.pthread_sigmask(signal.SIG_BLOCK, both)  # from here on no signal is lost or handled late
    _checked(_LIBC.prctl(_SET_SUBREAPER, 1, 0, 0, 0), "become the reaper")
    _checked(_LIBC.prctl(_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0), "follow the parent")
    if os.getppid() != parent:
        os._exit(SETUP_FAILED)
    child = os.fork()
    if child == 0:
        _checked(_LIBC.prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "follow the supervisor")
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    os.close(control)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    code = None
    while code is None:
        code = 128 + int(signal.SIGTERM) if signal.sigwait(both) == signal.SIGTERM else _code_of(child)
    _end_all_children()
    os._exit(code)


def _code_of(child: int) -> int | None:
    """The exit code of the command, if it is among those that ended."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code


def _end_all_children() -> None:
    while True:
        family = descendants(os.getpid())
        for number in (
            signal.SIGSTOP,
            signal.SIGKILL,
        ):  # stopped first, so that a fork bomb cannot start more
            for pid in family:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def descendants(pid: int) -> list[int]:
    """Every process below ``pid``, from the process table (children lists are optional in a kernel)."""
    parents: dict[int, list[int]] = {}
    for name in [entry.name for entry in os.scandir("/proc") if entry.name.isdigit()]:
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(name))
    family, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        family += below
        waiting += below
    return family


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _allow_changes_below(places: list[str]) -> None:
    """A read-only mount does not stop writing to a named pipe that another program reads; Landlock does."""
    version = landlock_version()
    if version < 1:
        return  # no Landlock in this kernel, and the result says so
    rights = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    _checked(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges")
    handled = rights.to_bytes(8, sys.byteorder)
    ruleset = _checked(
        _LIBC.syscall(_CREATE_RULESET, handled, ctypes.c_size_t(8), 0), "make a Landlock ruleset"
    )
    for place in places:
        opened = os.open(place, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        rule = handled + opened.to_bytes(4, sys.byteorder)
        _checked(_LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0), f"allow {place}")
        os.close(opened)
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0), "enter the Landlock domain")
    os.close(ruleset)


def landlock_version() -> int:
    """The version of Landlock in this kernel; below 1 where there is none."""
    version: int = _LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    return version


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")
    return result


def _become(control: int, spec: dict[str, "Any"]) -> "NoReturn":
    _tell(control, b"ready")
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    argv = spec["argv"]
    try:
        os.execvpe(argv[0], argv, spec["environment"])  # noqa: S606 - this is what the helper is for
    except FileNotFoundError:
        code, reason = NOT_FOUND, "no such program"
    except OSError as problem:
        code, reason = CANNOT_START, problem.strerror or "refused"
    except ValueError as problem:
        code, reason = CANNOT_START, str(problem)
    sys.stderr.write(f"recollect: {argv[0]!a}: {reason}\n")
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
