"""What a run may reach, and bubblewrap's arguments for it: mounts, namespaces, the filter of system calls.

The values are immutable: nothing a command does can change them during the run (E07). Variables pass by an allow list:
our tokens, agent sockets, loader and interpreter variables never reach a command. Hidden places are listed in
``secret_places.toml``; what recollect and the clients keep is hidden too.

The whole disk is read-only, writable trees are bound over it, hidden places covered, and names that others execute
bound read-only again. There is no network, no other process, no device, and a small private /tmp. The deeper path wins,
and of two for one path the stricter: a secret inside a writable tree is hidden, a project inside a hidden home is not.

Namespaces leave gaps: Unix sockets, tracing, rarely used kernel interfaces. The filter refuses those with EPERM, so that
programs fall back instead of crashing; the numbers are in ``system_calls.toml``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import shutil
import stat
import struct
import subprocess
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from recollect.system import paths

Backend = Literal["bubblewrap", "unconfined"]

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class RunLimits:
    """What a run may use. ``seconds=None`` is for servers that live as long as their host."""

    seconds: float | None = 120
    memory_bytes: int = 2 * GIB
    """All processes together, by cgroup where possible, else by watching and killing. Each process alone
    by RLIMIT_DATA, which does not count address space that is only reserved (V8 and Go reserve far more
    than they use)."""
    output_bytes: int = MIB
    """Kept of each stream; the rest is read and dropped, and the result says ``truncated``."""
    file_bytes: int = GIB
    """The largest file it may write, and the size of its private /tmp."""
    processes: int = 512
    """Includes threads, as the kernel counts them."""
    open_files: int = 1024
    keep_free_bytes: int = 512 * MIB
    """The run is ended when the disk of a writable directory has less free space than this."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What a run may reach. Reads are open except ``hidden``; writes and hosts are closed except as
    listed."""

    write: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] | None = None
    """Files and directories it cannot read; None means the places where keys are stored."""
    show: tuple[Path, ...] = ()
    """Files and directories it may read although they are hidden, or inside a hidden directory."""
    allow_hosts: tuple[str, ...] = ()
    """``example.org``, ``*.example.org``, ``example.org:8443``; ports 80 and 443 unless one is named."""
    commands: tuple[str, ...] | None = None
    """The programs it may be, each by the exact word that starts it; None for any."""
    backend: Backend = "bubblewrap"
    protect: bool = True
    """Keep the names others execute (``.git/hooks``, ``.mcp.json``) unchanged inside writable trees."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The output and end of a run. Output before an interruption is kept."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    """128 + n after signal n, as in shells; None when we ended it."""
    interrupted: bool
    truncated: bool
    sandbox: Backend
    timed_out: bool = False
    ended_by: str | None = None
    """Why we ended it: ``time``, ``cancelled``, ``memory``, ``disk``; None when it ended by itself."""
    seconds: float = 0.0
    put_back: tuple[str, ...] = ()
    """Protected names that it changed, now restored."""
    not_held: tuple[str, ...] = field(default=())
    """What this back end cannot enforce on this machine and for this user."""


PASSED_ON = frozenset(
    ["PATH", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "COLUMNS", "LINES", "NO_COLOR", "COLORTERM"]
)
_FALLBACK_PATH = "/usr/local/bin:/usr/bin:/bin"
HELPER_ENVIRONMENT = {"PATH": _FALLBACK_PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
"""None that influences a loader or an interpreter."""


def clean_environment(requested: Mapping[str, str] | None, private: str, proxy: str | None) -> dict[str, str]:
    """The command's variables: allowed ones of ours, a private HOME and TMPDIR, then the requested ones."""
    variables = {
        name: value for name, value in os.environ.items() if name in PASSED_ON or name.startswith("LC_")
    }
    variables.setdefault("PATH", _FALLBACK_PATH)
    variables |= {"HOME": f"{private}/home", "TMPDIR": f"{private}/temporary"}
    if proxy:
        variables |= dict.fromkeys(
            ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), proxy
        )
    return variables | dict(requested or {})


_DATA = tomllib.loads(Path(__file__).with_name("secret_places.toml").read_text("utf-8"))
PLACES: dict[str, list[str]] = _DATA["places"]
COPIES: list[str] = _DATA["copies"]
SYSTEM: list[str] = _DATA["system"]
NAMED_BY: list[str] = _DATA["named_by"]
_XDG = {".config": "XDG_CONFIG_HOME", ".local/share": "XDG_DATA_HOME", ".cache": "XDG_CACHE_HOME"}


def secret_places(environ: Mapping[str, str]) -> list[Path]:
    """Every place, existing or not: of this user, of the machine, and where variables say."""
    home = Path(environ.get("HOME") or "/nonexistent")
    names = [name for group in PLACES.values() for name in group]
    places = [home / name for name in names]
    for default, variable in _XDG.items():
        moved = environ.get(variable, "")
        if moved.startswith("/"):
            places += [
                Path(moved, name.removeprefix(f"{default}/"))
                for name in names
                if name.startswith(f"{default}/")
            ]
    places += [path for pattern in COPIES for path in home.glob(pattern)]
    for name in NAMED_BY:
        values = environ.get(name, "").split(os.pathsep)
        places += [
            Path(value.removeprefix("FILE:"))
            for value in values
            if value.removeprefix("FILE:").startswith("/")
        ]
    if environ.get("HOME"):
        places += map(Path, (*paths.named_homes(environ), *paths.usual_homes(environ)))
        places += [Path(paths.data_dir(environ)), Path(paths.cache_dir(environ))]
        places.append(Path(paths.config_file(environ)).parent)
    return [*places, *map(Path, SYSTEM)]


def hidden_from(places: Iterable[Path], shown: Iterable[Path]) -> list[Path]:
    """The existing places with links resolved, without those that are shown, or inside one that is shown."""
    open_ones = _resolved(shown)
    return [
        place
        for place in _resolved(places)
        if place not in open_ones and not any(one in place.parents for one in open_ones)
    ]


def _resolved(given: Iterable[Path]) -> dict[Path, None]:
    """Hiding a link alone would hide nothing."""
    places: dict[Path, None] = {}
    for place in given:
        try:
            places[place.resolve(strict=True)] = None
        except (OSError, RuntimeError):
            continue
    return places


PRIVATE = "/tmp/.recollect"  # noqa: S108 - inside the jail /tmp is its own
_NAMESPACES = (
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-net",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


@dataclass(frozen=True, slots=True)
class Mounts:
    """What is mounted over the read-only disk: path inside -> descriptor of what is bound there.

    Descriptors, because a path could lead elsewhere by the time bubblewrap looks at it.
    """

    write: Mapping[Path, int]
    hidden: Sequence[Path]
    held: Mapping[Path, int]
    """Bound read-only inside writable trees."""
    pinned: Mapping[Path, int]
    """Parent directories of held names: mount points, so that they cannot be renamed."""
    shown: Mapping[Path, int]
    """Needed inside though below a directory that is private to the sandbox."""

    @property
    def descriptors(self) -> list[int]:
        return [one for bound in (self.write, self.held, self.pinned, self.shown) for one in bound.values()]


@cache
def program() -> str | None:
    return shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")


@cache
def binds_descriptors() -> bool:
    """Whether it takes descriptors to bind (0.10, and older versions with the security fix of 2024)."""
    said = subprocess.run([program() or "bwrap", "--help"], capture_output=True, check=False)
    return b"--ro-bind-fd" in said.stdout + said.stderr


def arguments(mounts: Mounts, *, cwd: Path, private_bytes: int, info: int, rules: int) -> list[str]:
    argv = [program() or "bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL", *_NAMESPACES]
    argv += ["--hostname", "recollect", "--info-fd", str(info)]
    argv += ["--seccomp", str(rules)] if rules >= 0 else []
    argv += ["--ro-bind", "/", "/", "--dev", "/dev", "--size", str(private_bytes), "--tmpfs", "/dev/shm"]  # noqa: S108
    # Read-only: root without capabilities still owns /proc/sys, and bwrap covers only what it finds writable.
    argv += ["--remount-ro", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    argv += ["--size", str(private_bytes), "--tmpfs", "/tmp"]  # noqa: S108
    for place in (PRIVATE, f"{PRIVATE}/home", f"{PRIVATE}/temporary"):
        argv += ["--dir", place]
    for words in _over(mounts):
        argv += words
    return [*argv, "--chdir", str(cwd), "--"]


def _over(mounts: Mounts) -> list[list[str]]:
    steps: list[tuple[int, int, list[str]]] = []
    sealed: list[str] = []

    def add(order: int, path: Path, *words: str) -> None:
        steps.append((len(path.parts), order, list(words)))

    for order, option, bound in (
        (0, "--ro-bind-fd", mounts.shown),
        (1, "--bind-fd", mounts.write),
        (1, "--bind-fd", mounts.pinned),
        (2, "--ro-bind-fd", mounts.held),
    ):
        for path, descriptor in bound.items():
            add(order, path, option, str(descriptor), str(path))
    for path in mounts.hidden:
        if path.is_dir():
            add(3, path, "--perms", "0111", "--tmpfs", str(path))
            sealed += ["--remount-ro", str(path)]  # last: a project below it still needs its mount point
        else:
            add(3, path, "--ro-bind", "/dev/null", str(path))
    return [*(words for _, _, words in sorted(steps, key=lambda step: step[:2])), sealed]


def shown_of_tmp(named: Iterable[str], trees: Iterable[Path]) -> dict[Path, int]:
    """The top-level entries of /tmp that the command names, opened; a link among them is left out.

    The sandbox has a private /tmp and needs them bound.
    """
    tops: dict[Path, int] = {}
    for text in dict.fromkeys(named):
        parts = Path(text).parts
        top = Path(*parts[:3])
        if parts[:2] != ("/", "tmp") or len(parts) < 3 or top in trees or top in tops:
            continue
        with contextlib.suppress(OSError):
            opened = os.open(top, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            if stat.S_ISLNK(os.fstat(opened).st_mode):
                os.close(opened)
            else:
                tops[top] = opened
    return tops


_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER, _ARCH = 0, 4
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE_NAMESPACES = 0x02000000 | 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_ID = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: the mode is read only with one of them
# Calls that give a file its mode, and which argument that is; of those that open, also which one has the flags.
_MODE = {"creat": 1, "chmod": 1, "fchmod": 1, "mknod": 1, "mknodat": 2, "fchmodat": 2, "fchmodat2": 2}
_FLAGS_AND_MODE = {"open": (1, 2), "openat": (2, 3)}


def _instruction(operation: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, yes, no, value)


_ALLOW = _instruction(_RET, 0x7FFF0000)
_REFUSE = _instruction(_RET, 0x00050000 | errno.EPERM)
_UNKNOWN = _instruction(_RET, 0x00050000 | errno.ENOSYS)


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter's instructions, or None for a machine whose numbers we do not know."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        return None
    calls = tomllib.loads(Path(__file__).with_name("system_calls.toml").read_text("utf-8"))
    refused = {**calls["both"]["refused"], **calls[machine]["refused"]}
    judged = {**calls["both"]["judged"], **calls[machine]["judged"]}
    code = [_instruction(_LD, _ARCH), _instruction(_JEQ, _ARCHITECTURES[machine], 1), _REFUSE]
    code.append(_instruction(_LD, _NUMBER))
    if machine == "x86_64":  # the x32 numbers are a second way to every call
        code += [_instruction(_JGE, 0x40000000, 0, 1), _UNKNOWN]
    for number in sorted(refused.values()):
        code += [_instruction(_JEQ, number, 0, 1), _REFUSE]
    for name, block in _judgements().items():
        if name in judged:
            code += [_instruction(_JEQ, judged[name], 0, len(block) + 1), *block, _ALLOW]
    return b"".join([*code, _ALLOW])


def _judgements() -> dict[str, list[bytes]]:
    """Call -> what refuses it by its arguments; a block that does not return allows."""
    # Their arguments are in memory, out of the filter's reach; programs fall back to the older call.
    blocks = {"clone3": [_UNKNOWN], "openat2": [_UNKNOWN]}
    # A set-user-id file that a run leaves behind would lend its owner's rights to every other user.
    for name, argument in _MODE.items():
        blocks[name] = [_load(argument), _instruction(_JSET, _SET_ID, 0, 1), _REFUSE]
    for name, (flags, mode) in _FLAGS_AND_MODE.items():
        block = [_load(mode), _instruction(_JSET, _SET_ID, 0, 1), _REFUSE]
        blocks[name] = [_load(flags), _instruction(_JSET, _CREATES, 0, len(block)), *block]
    blocks["clone"] = [_load(0), _instruction(_JSET, _CLONE_NAMESPACES, 0, 1), _REFUSE]
    blocks["ioctl"] = [_load(1)]
    for request in (_TIOCSTI, _TIOCLINUX):
        blocks["ioctl"] += [_instruction(_JEQ, request, 0, 1), _REFUSE]
    blocks["prlimit64"] = [_load(0), _instruction(_JEQ, 0, 1), _REFUSE]
    # Unix sockets could reach any daemon. Of netlink only routing, which lists interfaces.
    blocks["socket"] = [_load(0)]
    for family in (_AF_INET, _AF_INET6):
        blocks["socket"] += [_instruction(_JEQ, family, 0, 1), _ALLOW]
    blocks["socket"] += [_instruction(_JEQ, _AF_NETLINK, 0, 3), _load(2), _instruction(_JEQ, 0, 2), _REFUSE]
    blocks["socket"].append(_REFUSE)
    # A datagram pair can be reconnected to any datagram socket of the machine; streams and packets cannot.
    blocks["socketpair"] = [_load(1), _instruction(_AND, 0xF)]
    blocks["socketpair"] += [
        _instruction(_JEQ, _SOCK_STREAM, 2),
        _instruction(_JEQ, _SOCK_SEQPACKET, 1),
        _REFUSE,
    ]
    return blocks


def _load(argument: int) -> bytes:
    """Load the low half of an argument; both machines are little-endian."""
    return _instruction(_LD, 16 + 8 * argument)
