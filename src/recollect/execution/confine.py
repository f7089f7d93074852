"""The helper program that gives up rights and then becomes the command.

It is started with ``python -I -S``: standard library only, no environment variables, no site packages.
It reads one document from an inherited socket and then closes descriptors, passes out a listening
socket, sets limits, drops capabilities, applies Landlock and seccomp, and calls exec. If a step fails
it exits before the command starts: the command never runs with less confinement than requested.

It is a helper process because ``preexec_fn`` is not safe in a program with threads.
"""

import _ctypes  # not its package: importing that takes a third of this program's time
import marshal
import os
import resource
import sys

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    import signal
    from _ctypes import _SimpleCData
    from typing import Any, NoReturn

    _Simple = _SimpleCData[Any]
else:
    import _signal as signal  # importing the module takes as long as the rest of this program
    from _ctypes import _SimpleCData as _Simple

SETUP_FAILED, CANNOT_START, NOT_FOUND = 125, 126, 127
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_SET_PDEATHSIG, _CAPBSET_DROP, _SET_SECCOMP = 1, 24, 22
_SET_SECUREBITS, _SET_SUBREAPER, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 28, 36, 38, 47
_NO_ROOT_LOCKED = 0x1 | 0x2
_FILE_RIGHTS = (1 << 0) | (1 << 1) | (1 << 2) | (1 << 14) | (1 << 15)
_KIND, _DIRECTORY = 0o170000, 0o040000
_CAPABILITY_VERSION = 0x20080522


class _Int(_Simple):
    _type_ = "i"


class _Short(_Simple):
    _type_ = "H"


class _Size(_Simple):
    _type_ = "L"


class _Bytes(_Simple):
    _type_ = "z"


class _Function(_ctypes.CFuncPtr):
    """A C library function: an int is passed as a C int, bytes as the address of the first byte."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Int  # as a long, the -1 of a function that returns int would become 4,294,967,295


class _FilterProgram(_ctypes.Structure):
    _fields_ = (("length", _Short), ("instructions", _Bytes))


_LIBC = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]  # None is this program with all it has loaded
_prctl = _Function(_ctypes.dlsym(_LIBC, "prctl"))
_capset = _Function(_ctypes.dlsym(_LIBC, "capset"))
_syscall = _Function(_ctypes.dlsym(_LIBC, "syscall"))


def main(control: int) -> "NoReturn":
    """Read the document, apply it, and exec the command."""
    try:
        spec = _read_document(control)
        trees = [one for one, _ in (spec["landlock"] or {"beneath": ()})["beneath"] if isinstance(one, int)]
        _close_all_but(control, *trees)
        os.set_inheritable(control, False)
        if spec["network_port"] is not None:
            _hand_out_listener(control, spec["network_port"])
        if spec["supervise"]:
            _supervise(control, spec)
        _give_up_rights(spec)
    except Exception as problem:  # noqa: BLE001 - on any failure the command must not start
        _tell(control, f"{type(problem).__name__}: {problem}".encode())
        os._exit(SETUP_FAILED)
    _become(control, spec)


def _read_document(control: int) -> dict[str, "Any"]:
    length = int.from_bytes(_read_exactly(control, 8), "big")
    # marshal, not JSON: it needs no import, and only our own parent holds the other end.
    document: dict[str, Any] = marshal.loads(_read_exactly(control, length))  # noqa: S302
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


def _close_all_but(*kept: int) -> None:
    for descriptor in [int(entry.name) for entry in os.scandir("/proc/self/fd")]:
        if descriptor > 2 and descriptor not in kept:
            _quietly(
                os.close, descriptor
            )  # one of them belongs to the directory listing and is closed already


def _quietly(function: "Any", *arguments: int) -> None:
    try:  # noqa: SIM105 - contextlib is another module that need not be imported
        function(*arguments)
    except OSError:
        pass


def _hand_out_listener(control: int, port: int) -> None:
    """A socket keeps the network namespace it was created in: the proxy outside accepts connections from
    inside."""
    import socket

    with socket.socket() as listener, socket.socket(fileno=os.dup(control)) as answer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        socket.send_fds(answer, [b"listening\n"], [listener.fileno()])


def _supervise(control: int, spec: dict[str, "Any"]) -> None:
    """Fork: the child continues; the parent waits and kills every process it leaves behind.

    As the reaper of all descendants the parent also gets orphans that left the session. When the kernel
    reports no children, none are left.
    """
    both = (signal.SIGTERM, signal.SIGCHLD)
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # if it is ignored, as some parents leave it, it would never arrive
    before = signal.pthread_sigmask(signal.SIG_BLOCK, both)  # from here on no signal is lost or handled late
    _checked(_prctl(_SET_SUBREAPER, 1, 0, 0, 0), "become the reaper")
    _checked(_prctl(_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0), "follow the parent")
    if os.getppid() != spec["parent"]:
        os._exit(SETUP_FAILED)
    child = os.fork()
    if child == 0:
        _checked(_prctl(_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "follow the supervisor")
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
    import time

    while True:
        family = _descendants(os.getpid())
        for number in (
            signal.SIGSTOP,
            signal.SIGKILL,
        ):  # stopped first, so that a fork bomb cannot start more
            for pid in family:
                _quietly(os.kill, pid, number)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def _descendants(pid: int) -> list[int]:
    """Every process below ``pid``, from the process table (children lists are optional in a kernel)."""
    parents: dict[int, list[int]] = {}
    for name in [entry.name for entry in os.scandir("/proc")]:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - no pathlib in here: it must start fast
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(name))
    found, waiting = [], [pid]
    while waiting:
        below = parents.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _give_up_rights(spec: dict[str, "Any"]) -> None:
    for name, value in spec["limits"].items():
        _limit(getattr(resource, name), value)
    os.umask(0o022)
    os.chdir(spec["cwd"])
    if not spec["confined"]:
        return
    _drop_capabilities()
    _checked(_prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "forbid new privileges")
    if spec["landlock"]:
        _restrict(spec["landlock"])
    if spec["seccomp"]:
        _filter(spec["seccomp"])


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _drop_capabilities() -> None:
    """Drop all of them, including those that a root program would regain at exec."""
    for capability in range(64):
        if _prctl(_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # the first number unknown to the kernel, or there was none to drop
    _prctl(_CAP_AMBIENT, 4, 0, 0, 0)
    _prctl(_SET_SECUREBITS, _NO_ROOT_LOCKED, 0, 0, 0)
    header = _number(_CAPABILITY_VERSION, 4) + _number(0, 4)
    _checked(_capset(header, bytes(6 * 4)), "drop capabilities")


def _restrict(rules: dict[str, "Any"]) -> None:
    handled = b"".join(_number(rules[name], 8) for name in ("files", "network", "scoped"))
    made = _syscall(_CREATE_RULESET, handled, _Size(rules["size"]), 0)
    ruleset = _checked(made, "make a Landlock ruleset")
    for path, rights in rules["beneath"]:
        _allow_beneath(ruleset, path, rights)
    _checked(_syscall(_RESTRICT_SELF, ruleset, 0), "enter the Landlock domain")
    os.close(ruleset)


def _allow_beneath(ruleset: int, place: str | int, rights: int) -> None:
    """Allow below a path, or below a directory that our parent opened for us."""
    if isinstance(place, str):
        try:
            opened = os.open(place, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return  # missing or not visible to us: nothing is allowed there
    else:
        opened = place
    try:
        if os.fstat(opened).st_mode & _KIND != _DIRECTORY:
            rights &= _FILE_RIGHTS
        if rights:
            rule = _number(rights, 8) + _number(opened, 4)
            _checked(_syscall(_ADD_RULE, ruleset, 1, rule, 0), f"allow {place}")
    finally:
        os.close(opened)


def _filter(instructions: bytes) -> None:
    program = _FilterProgram(len(instructions) // 8, instructions)
    _checked(_prctl(_SET_SECCOMP, 2, _ctypes.byref(program), 0, 0), "install the system call filter")


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, sys.byteorder)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = _ctypes.get_errno()
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
