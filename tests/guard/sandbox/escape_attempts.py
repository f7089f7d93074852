"""Attempts to get out of the sandbox, as a program that runs inside it.

Started with a JSON file of facts (where the forbidden things are) it tries every
attempt in a child process of its own and prints what came of it. An attempt returns
evidence that it got out, or None, or raises; an exception is what a held attempt
looks like. Attempts on protected names leave their mark on disk, and the program
outside looks for it after the run.

``CONTROLS`` names those that do succeed without a sandbox, for any user: a list
that shows the attempts have teeth.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

Facts = dict[str, Any]
Attempt = Callable[[Facts], object]
ATTEMPTS: dict[str, Attempt] = {}
PROTECTED: dict[str, Attempt] = {}
CONTROLS: set[str] = set()
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def attempt(*, control: bool = False) -> Callable[[Attempt], Attempt]:
    def keep(function: Attempt) -> Attempt:
        ATTEMPTS[function.__name__] = function
        if control:
            CONTROLS.add(function.__name__)
        return function

    return keep


def on_protected(function: Attempt) -> Attempt:
    PROTECTED[function.__name__] = function
    return function


def call(number: int, *arguments: object) -> int:
    result: int = LIBC.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def number(x86: int, arm: int) -> int:
    return x86 if X86 else arm


# --- files outside -------------------------------------------------------------------------


def text(path: str) -> str:
    with open(path) as file:
        return file.read()


def put(path: str, mode: str, data: str = "x") -> int:
    with open(path, mode) as file:
        return file.write(data)


def linked(target: str, name: str) -> str:
    os.symlink(target, name)
    return name


def libc(name: str, *arguments: object) -> str:
    if getattr(LIBC, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)
    return "done"


def done(function: Callable[..., object], *arguments: object) -> str:
    function(*arguments)
    return "done"


def connected(door: socket.socket, address: Any) -> str:
    with door:
        door.settimeout(2)
        door.connect(address)
    return "connected"


def from_a_pair(kind: int, f: Facts) -> int:
    left, _right = socket.socketpair(socket.AF_UNIX, kind)
    return left.sendto(b"x", f["unix_datagram"])


def first_opened(paths: Iterable[str], flags: int) -> str | None:
    for path in paths:
        try:
            os.close(os.open(path, flags))
        except OSError:
            continue
        return path
    return None


def put_below(directory: str, name: str) -> int:
    os.makedirs(directory, exist_ok=True)
    return put(f"{directory}/{name}", "w", "{}")


def opened(path: str, flags: int, above: int | None = None) -> str:
    os.close(os.open(path, flags, dir_fd=above))
    return "opened"


@attempt(control=True)
def leave_a_set_user_id_file(f: Facts) -> object:
    name = f["tree"] + "/lent"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o755))
    os.chmod(name, 0o4755)
    return oct(os.stat(name).st_mode)


@attempt(control=True)
def create_a_set_user_id_file(f: Facts) -> object:
    os.umask(0)
    name = f["tree"] + "/lent2"
    os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o6755))
    return oct(os.stat(name).st_mode) if os.stat(name).st_mode & 0o6000 else None


@attempt()
def open_by_handle(f: Facts) -> object:
    handle = ctypes.create_string_buffer(struct.pack("=II", 128, 0) + bytes(128))
    mount_id = ctypes.c_int()
    call(number(303, 264), -100, f["secret"].encode(), handle, ctypes.byref(mount_id), 0)
    top = os.open("/", os.O_RDONLY)
    return os.read(call(number(304, 265), top, handle, os.O_RDONLY), 100)


# --- secrets -------------------------------------------------------------------------------


@attempt(control=True)
def read_secret_through_parents_root(f: Facts) -> object:
    for pid in others(f):
        try:
            with open(f"/proc/{pid}/root" + f["secret"]) as file:
                return file.read()
        except OSError:
            continue
    return None


@attempt()
def inherited_descriptors(f: Facts) -> object:
    found = []
    for descriptor in range(3, 256):
        try:
            target = os.readlink(f"/proc/self/fd/{descriptor}")
            os.fstat(descriptor)
        except OSError:
            continue
        if "canary" in target or "socket" in target or f["outside"] in target:
            found.append(target)
    return found or leaked_variables(f)


def leaked_variables(f: Facts) -> object:
    return [name for name in os.environ if "CANARY" in name or name.startswith("LD_")]


def leaked_or_parent(f: Facts) -> object:
    for pid in others(f):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if b"CANARY" in file.read():
                    return pid
        except OSError:
            continue
    return None


# --- other processes -----------------------------------------------------------------------


def others(f: Facts) -> list[int]:
    """The driver outside, and whatever else can be seen and is not of this run."""
    return [f["driver"], os.getppid(), 1]


def is_driver(f: Facts) -> bool:
    with open(f"/proc/{f['driver']}/cmdline", "rb") as file:
        return b"escape_driver" in file.read()


@attempt()
def read_memory_of_the_reaper(f: Facts) -> object:
    """The process that started us: bubblewrap's first, or the supervisor."""
    local = ctypes.create_string_buffer(8)
    local_vector = (ctypes.c_void_p * 2)(ctypes.addressof(local), 8)
    with open(f"/proc/{f['starter']}/maps") as file:
        address = int(file.readline().split("-")[0], 16)
    remote_vector = (ctypes.c_void_p * 2)(address, 8)
    return call(number(310, 270), f["starter"], local_vector, 1, remote_vector, 1, 0)


# --- network -------------------------------------------------------------------------------


@attempt(control=True)
def udp(f: Facts) -> object:
    """In a network of its own the packet leaves and arrives nowhere; the driver counts arrivals."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", f["udp"]))
        s.send(b"x")
        time.sleep(0.02)
        s.send(b"x")
    return "sent"


@attempt(control=True)
def dns(f: Facts) -> object:
    query = b"\0\1\1\0\0\1\0\0\0\0\0\0\7example\3org\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.sendto(query, ("127.0.0.1", f["udp"]))
        s.sendto(query, ("192.0.2.53", 53))
    return "sent"


# --- the system itself ---------------------------------------------------------------------


@attempt()
def new_user_namespace_by_clone(f: Facts) -> object:
    pid = call(number(56, 220), 0x10000000 | 17, None, None, None, None)
    if pid == 0:
        os._exit(0)
    return pid


@attempt()
def performance_events(f: Facts) -> object:
    attributes = ctypes.create_string_buffer(struct.pack("=IIQ", 1, 128, 0) + bytes(112))
    return call(number(298, 241), attributes, f["driver"], -1, -1, 0)


@attempt()
def type_into_the_terminal(f: Facts) -> object:
    """TIOCSTI, on the terminal of the caller if there is one, else on any."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        terminal = os.openpty()[1]
    fcntl.ioctl(terminal, 0x5412, b"x")
    return "typed"


@attempt()
def higher_limits(f: Facts) -> object:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    return "raised"


@attempt()
def capabilities_left(f: Facts) -> object:
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    return int(fields["CapEff"], 16) or int(fields["CapPrm"], 16) or int(fields["NoNewPrivs"]) != 1


# --- names that others execute -------------------------------------------------------------


@on_protected
def replace_git_config(f: Facts) -> object:
    with open(f["tree"] + "/.git/c", "w") as file:
        file.write("[core]\n fsmonitor = evil\n")
    os.replace(f["tree"] + "/.git/c", f["tree"] + "/.git/config")
    return None


@on_protected
def move_git_away(f: Facts) -> object:
    os.rename(f["tree"] + "/.git", f["tree"] + "/git-away")
    os.makedirs(f["tree"] + "/.git/hooks")
    return PROTECTED["add_a_hook"](f)


@on_protected
def exchange_git(f: Facts) -> object:
    os.makedirs(f["tree"] + "/evil-git/hooks")
    tree = f["tree"].encode()
    return call(number(316, 276), -100, tree + b"/evil-git", -100, tree + b"/.git", 2)


@on_protected
def link_hooks(f: Facts) -> object:
    os.rename(f["tree"] + "/.git/hooks", f["tree"] + "/.git/hooks-away")
    os.symlink(f["tree"] + "/evil-hooks", f["tree"] + "/.git/hooks")
    return None


@on_protected
def create_start_files(f: Facts) -> object:
    for name in (".bashrc", ".profile", ".zshenv"):
        with open(f"{f['tree']}/{name}", "w") as file:
            file.write("evil")
    return None


@on_protected
def turn_a_protected_link(f: Facts) -> object:
    os.unlink(f["tree"] + "/.ripgreprc")
    os.symlink(f["tree"] + "/evil-rc", f["tree"] + "/.ripgreprc")
    return None


# --- what one expression tries ---------------------------------------------------------------


HARMLESS_ROWS: dict[str, Attempt] = {
    "write_to_a_named_pipe": lambda f: os.write(
        os.open(f["outside"] + "/pipe", os.O_WRONLY | os.O_NONBLOCK), b"out"
    ),
    "write_through_own_link": lambda f: put(linked(f["outside"] + "/file", f["tree"] + "/own-link"), "a"),
    "create_through_linked_parent": lambda f: opened(
        linked(f["outside"], f["tree"] + "/linked-parent") + "/new2", os.O_CREAT | os.O_WRONLY
    ),
    "create_through_dangling_link": lambda f: opened(
        linked(f["outside"] + "/new3", f["tree"] + "/dangling"), os.O_CREAT | os.O_WRONLY
    ),
    "write_through_directory_descriptor": lambda f: opened(
        os.path.relpath(f["outside"] + "/file", f["tree"]),
        os.O_WRONLY | os.O_APPEND,
        os.open(f["tree"], os.O_RDONLY),
    ),
    "reopen_for_writing": lambda f: opened(
        f"/proc/self/fd/{os.open(f['outside'] + '/file', os.O_RDONLY)}", os.O_WRONLY
    ),
    "shared_writable_mapping": lambda f: mmap.mmap(os.open(f["outside"] + "/file", os.O_RDWR), 1).size(),
    "read_secret_through_own_link": lambda f: text(linked(f["secret"], f["tree"] + "/own-secret-link")),
    "link_secret_in": lambda f: (
        done(os.link, f["secret"], f["tree"] + "/second-secret") and text(f["tree"] + "/second-secret")
    ),
    "memory_of_the_driver": lambda f: is_driver(f) and opened(f"/proc/{f['driver']}/mem", os.O_RDONLY),
    "trace_the_driver": lambda f: libc("ptrace", 0x4206, f["driver"], None, None),
    "take_a_descriptor_of_the_driver": lambda f: (
        is_driver(f) and call(438, os.pidfd_open(f["driver"]), 0, 0) >= 0
    ),
    "signal_the_driver": lambda f: done(os.kill, f["driver"], 0),
    "join_namespaces_of_the_driver": lambda f: (
        is_driver(f) and opened(f"/proc/{f['driver']}/ns/mnt", os.O_RDONLY)
    ),
    "unix_stream": lambda f: connected(socket.socket(socket.AF_UNIX), f["unix_stream"]),
    "unix_datagram": lambda f: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(
        b"x", f["unix_datagram"]
    ),
    "unix_datagram_from_a_pair": lambda f: from_a_pair(socket.SOCK_DGRAM, f),
    "unix_raw_pair": lambda f: from_a_pair(socket.SOCK_RAW, f),
    "abstract_socket": lambda f: connected(socket.socket(socket.AF_UNIX), "\0" + f["abstract"]),
    "tcp": lambda f: connected(socket.socket(), ("127.0.0.1", f["tcp"])),
    "tcp_fast_open": lambda f: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", f["tcp"])),
    "tcp_mapped": lambda f: connected(socket.socket(socket.AF_INET6), ("::ffff:127.0.0.1", f["tcp"])),
    "write_through_given_link": lambda f: put(f["tree"] + "/given-link", "a", "x"),
    "read_secret": lambda f: text(f["secret"]),
    "list_secret_directory": lambda f: os.listdir(f["secret_directory"]),
    "read_secret_in_directory": lambda f: text(f["secret_directory"] + "/key"),
    "read_secret_through_link": lambda f: text(f["tree"] + "/secret-link"),
    "descriptors_of_the_driver": lambda f: is_driver(f) and os.readlink(f"/proc/{f['driver']}/fd/0"),
    "limits_of_the_driver": lambda f: is_driver(f) and resource.prlimit(f["driver"], resource.RLIMIT_NOFILE),
    "audit_netlink": lambda f: socket.socket(16, socket.SOCK_RAW, 15).fileno(),
}
OTHER_ROWS: dict[str, Attempt] = {
    "change_mode_outside": lambda f: done(os.chmod, f["outside"] + "/mode", 0o777),
    "change_times_outside": lambda f: done(os.utime, f["outside"] + "/times", (1, 1)),
    "read_the_raw_disk": lambda f: first_opened(
        (*glob.glob("/dev/[vs]d[a-z]*"), *glob.glob("/dev/nvme*"), *glob.glob("/dev/dm-*")), os.O_RDONLY
    ),
    "make_a_disk_device": lambda f: (
        done(os.mknod, f["tree"] + "/disk", 0o600 | 0o060000, os.stat("/").st_dev)
        and opened(f["tree"] + "/disk", os.O_RDONLY)
    ),
    "read_memory_devices": lambda f: first_opened(
        ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore"), os.O_RDONLY
    ),
    "setns_into_the_driver": lambda f: (
        call(number(308, 268), os.open(f"/proc/{f['driver']}/ns/net", os.O_RDONLY), 0) == 0
    ),
    # Opening is not enough where the kernel asks only at writing: write what stands there.
    "change_kernel_settings": lambda f: put(
        "/proc/sys/kernel/hung_task_warnings", "w", text("/proc/sys/kernel/hung_task_warnings")
    ),
    "multipath_tcp": lambda f: connected(
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262), ("127.0.0.1", f["tcp"])
    ),
    "mount_over": lambda f: libc("mount", b"none", f["tree"].encode(), b"tmpfs", 0, None),
    "remount_writable": lambda f: libc("mount", None, b"/", None, 32 | 4096, None),
    "unmount": lambda f: libc("umount2", f["tree"].encode(), 2),
    "new_user_namespace": lambda f: libc("unshare", 0x10000000),
    "change_root": lambda f: done(os.chroot, f["tree"]),
    "sysfs": lambda f: first_opened(
        ("/sys/power/state", "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run"), os.O_WRONLY
    ),
    "leave_the_control_group": lambda f: first_opened(
        [*glob.glob("/sys/fs/cgroup/*/cgroup.procs"), "/sys/fs/cgroup/cgroup.procs"], os.O_WRONLY
    ),
    "core_files": lambda f: done(resource.setrlimit, resource.RLIMIT_CORE, (1 << 30, 1 << 30)),
    "another_user": lambda f: done(os.setuid, 12345),
    "change_the_clock": lambda f: done(time.clock_settime, time.CLOCK_REALTIME, time.time()),
    # x32 numbers: the same calls once more, past a filter that knows one table only.
    "the_other_call_table": lambda f: X86 and call(0x40000000 | 41, 1, 1, 0),
    "tamper_with_the_helper": lambda f: opened(f["helper"], os.O_WRONLY | os.O_APPEND),
    # Its library: the program itself is busy for everybody.
    "tamper_with_the_interpreter": lambda f: opened(os.__file__, os.O_WRONLY | os.O_APPEND),
    "variables_of_the_host": lambda f: (
        os.environ.get("RECOLLECT_TEST_HOME_OF_HOST")
        or os.path.expanduser("~") == f["home"]
        or leaked_or_parent(f)
    ),
    "shared_memory_segment": lambda f: call(number(29, 194), f["shm_key"], 0, 0) >= 0 and "found",
    "message_queue": lambda f: call(number(68, 186), f["shm_key"], 0o1600) is None,
    "keys_of_the_session": lambda f: call(number(250, 219), 0, -3, 0),
    "raw_socket": lambda f: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).fileno(),
    "packet_socket": lambda f: socket.socket(17, socket.SOCK_RAW, 0).fileno(),
    "vsock": lambda f: socket.socket(40, socket.SOCK_STREAM).fileno(),
    "kernel_crypto_socket": lambda f: socket.socket(38, socket.SOCK_SEQPACKET).fileno(),
    "io_uring": lambda f: call(425, 4, ctypes.create_string_buffer(256)),
    "new_mount_interface": lambda f: call(428, -100, b"/", 1),
    "kernel_settings": lambda f: opened("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "magic_request": lambda f: opened("/proc/sysrq-trigger", os.O_WRONLY),
    "load_a_program_into_the_kernel": lambda f: call(
        number(321, 280), 0, ctypes.create_string_buffer(128), 128
    ),
}
PROTECTED_ROWS: dict[str, Attempt] = {
    "create_client_settings": lambda f: put_below(f["tree"] + "/.claude", "settings.json"),
    "create_editor_tasks": lambda f: put_below(f["tree"] + "/.vscode", "tasks.json"),
    "remove_the_placeholder": lambda f: (
        done(os.rmdir, f["tree"] + "/.mcp.json") and PROTECTED["create_mcp_servers"](f)
    ),
    "rename_over_the_placeholder": lambda f: (
        done(os.mkdir, f["tree"] + "/evil-dir")
        and done(os.rename, f["tree"] + "/evil-dir", f["tree"] + "/.vscode")
    ),
    "add_a_hook": lambda f: put(f["tree"] + "/.git/hooks/pre-commit", "w", "evil"),
    "change_git_config": lambda f: put(f["tree"] + "/.git/config", "a", "[core]\n fsmonitor = evil\n"),
    "redirect_git": lambda f: put(f["tree"] + "/.git/commondir", "w", "../evil-git"),
    "create_mcp_servers": lambda f: put(f["tree"] + "/.mcp.json", "w", "{}"),
    "become_a_bare_repository": lambda f: put(f["bare"] + "/HEAD", "w", "ref: refs/heads/main\n"),
}
for _name, _row in HARMLESS_ROWS.items():
    CONTROLS.add(_name)
    ATTEMPTS[_name] = _row
ATTEMPTS |= OTHER_ROWS
PROTECTED |= PROTECTED_ROWS


# --- every change of a file outside, by every way to spell its path ---------------------------


def _by_link(f: Facts) -> str:
    link = f"{f['tree']}/way-{os.getpid()}"
    os.symlink(f["outside"], link)
    return link


def _by_directory(f: Facts) -> str:
    os.chdir(f["outside"])
    return "."


SPELLINGS: dict[str, Callable[[Facts], str]] = {
    "plain": lambda f: str(f["outside"]),
    "doubled": lambda f: "//" + f["outside"].replace("/", "/./"),
    "dotted": lambda f: f["tree"] + "/../" + os.path.basename(f["outside"]),
    "root": lambda f: "/proc/self/root" + f["outside"],
    "thread": lambda f: "/proc/thread-self/root" + f["outside"],
    "cwd": lambda f: "/proc/self/cwd/" + os.path.relpath(f["outside"], os.getcwd()),
    "descriptor": lambda f: f"/proc/self/fd/{os.open(f['outside'], os.O_RDONLY)}",
    "device": lambda f: f"/dev/fd/{os.open(f['outside'], os.O_RDONLY)}",
    "link": _by_link,
    "directory": _by_directory,
}


def _written(path: str, flags: int) -> int:
    descriptor = os.open(path, os.O_WRONLY | flags)
    try:
        return os.write(descriptor, b"x")
    finally:
        os.close(descriptor)


def _linked(path: str, f: Facts) -> int:
    second = f"{f['tree']}/second-{os.getpid()}"
    os.link(path, second)
    return _written(second, os.O_APPEND)


def _swapped(path: str, f: Facts) -> None:
    own = f"{f['tree']}/own-{os.getpid()}"
    _written(own, os.O_CREAT)
    os.replace(own, path)


# Each takes the path of a file that is there, and of one that is not.
CHANGES: dict[str, Callable[[str, str, Facts], object]] = {
    "overwrite": lambda there, new, f: _written(there, os.O_TRUNC),
    "append": lambda there, new, f: _written(there, os.O_APPEND),
    "create": lambda there, new, f: _written(new, os.O_CREAT | os.O_EXCL),
    "truncate": lambda there, new, f: os.truncate(there, 0),
    "unlink": lambda there, new, f: os.unlink(there),
    "rename": lambda there, new, f: os.rename(there, new),
    "take": lambda there, new, f: os.rename(there, f"{f['tree']}/taken-{os.getpid()}"),
    "replace": lambda there, new, f: _swapped(there, f),
    "hard_link": lambda there, new, f: _linked(there, f),
    "symlink": lambda there, new, f: os.symlink("x", new),
    "mkdir": lambda there, new, f: os.mkdir(new),
    "mkfifo": lambda there, new, f: os.mkfifo(new),
}


def _make(change: str, spelling: str) -> None:
    def one(f: Facts) -> object:
        name = f"{SPELLINGS[spelling](f)}/{change}-{spelling}"
        return CHANGES[change](name, name + "-new", f) or "done"

    one.__name__ = f"{change}_by_{spelling}"
    attempt(control=True)(one)


for _change in CHANGES:
    for _spelling in SPELLINGS:
        _make(_change, _spelling)
VICTIMS = [f"{change}-{spelling}" for change in CHANGES for spelling in SPELLINGS]


def tried(function: Attempt, facts: Facts) -> str:
    """What came of one attempt, from a child: it may end itself, hang or lose its rights."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.alarm(10)
        try:
            evidence = function(facts)
            said = f"ESCAPED: {evidence!r}" if evidence else "held: nothing came of it"
        except OSError as problem:
            said = f"held: {errno.errorcode.get(problem.errno or 0, problem)}"
        except Exception as problem:  # noqa: BLE001 - whatever stopped it, it was stopped
            said = f"held: {type(problem).__name__}: {problem}"
        os.write(writing, said.encode()[:3000])
        os._exit(0)
    os.close(writing)
    said_bytes = os.read(reading, 4000)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return said_bytes.decode() or f"held: ended with {status}"


def main() -> None:
    with open(sys.argv[1]) as file:
        facts = json.load(file)
    facts["starter"] = os.getppid()
    # Without a sandbox only those run that do no harm to the machine they run on.
    harmless = {name: function for name, function in ATTEMPTS.items() if name in CONTROLS}
    every = harmless if facts["is_control"] else ATTEMPTS | PROTECTED
    results = {name: tried(function, facts) for name, function in every.items()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
