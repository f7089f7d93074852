"""The system calls a confined program may not use, as a classic BPF filter.

Namespaces and Landlock leave gaps: existing sockets, UDP, tracing, rarely used kernel interfaces. The
filter refuses those with EPERM, so that programs fall back instead of crashing. It is built here,
outside, so the helper only installs bytes.

Machines other than x86-64 and arm64 get None, and the caller reports it.
"""

from __future__ import annotations

import errno
import platform
import struct

_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM
_UNKNOWN = 0x00050000 | errno.ENOSYS
_NUMBER, _ARCH = 0, 4
_NAMESPACES = 0x02000000 | 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_ID = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE: the mode is read only with one of them

# Numbers that both machines share (all calls since 5.1).
_NEW = {
    "pidfd_getfd": 438,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "fchmodat2": 452,
    "process_madvise": 440,
    "mount_setattr": 442,
    "process_mrelease": 448,
    "open_tree_attr": 467,
}
_X86_64 = {
    "socket": 41,
    "socketpair": 53,
    "clone": 56,
    "ioctl": 16,
    "prlimit64": 302,
    "open": 2,
    "creat": 85,
    "chmod": 90,
    "fchmod": 91,
    "mknod": 133,
    "openat": 257,
    "mknodat": 259,
    "fchmodat": 268,
    "ptrace": 101,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "mount": 165,
    "umount2": 166,
    "pivot_root": 155,
    "chroot": 161,
    "unshare": 272,
    "setns": 308,
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "bpf": 321,
    "perf_event_open": 298,
    "userfaultfd": 323,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "kexec_load": 246,
    "kexec_file_load": 320,
    "reboot": 169,
    "swapon": 167,
    "swapoff": 168,
    "acct": 163,
    "settimeofday": 164,
    "clock_settime": 227,
    "adjtimex": 159,
    "clock_adjtime": 305,
    "sethostname": 170,
    "setdomainname": 171,
    "syslog": 103,
    "open_by_handle_at": 304,
    "fanotify_init": 300,
    "move_pages": 279,
    "migrate_pages": 256,
    "iopl": 172,
    "ioperm": 173,
    "shmget": 29,
    "semget": 64,
    "msgget": 68,
    "mq_open": 240,
}
_ARM64 = {
    "socket": 198,
    "socketpair": 199,
    "clone": 220,
    "ioctl": 29,
    "prlimit64": 261,
    "mknodat": 33,
    "fchmod": 52,
    "fchmodat": 53,
    "openat": 56,
    "ptrace": 117,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "kcmp": 272,
    "mount": 40,
    "umount2": 39,
    "pivot_root": 41,
    "chroot": 51,
    "unshare": 97,
    "setns": 268,
    "add_key": 217,
    "request_key": 218,
    "keyctl": 219,
    "bpf": 280,
    "perf_event_open": 241,
    "userfaultfd": 282,
    "init_module": 105,
    "finit_module": 273,
    "delete_module": 106,
    "kexec_load": 104,
    "kexec_file_load": 294,
    "reboot": 142,
    "swapon": 224,
    "swapoff": 225,
    "acct": 89,
    "settimeofday": 170,
    "clock_settime": 112,
    "adjtimex": 171,
    "clock_adjtime": 266,
    "sethostname": 161,
    "setdomainname": 162,
    "syslog": 116,
    "open_by_handle_at": 265,
    "fanotify_init": 262,
    "move_pages": 239,
    "migrate_pages": 238,
    "shmget": 194,
    "semget": 190,
    "msgget": 186,
    "mq_open": 180,
}
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _ARM64)}
# Calls that give a file its mode, and which argument that is; of those that open, also which one has the flags.
_MODE = {"creat": 1, "chmod": 1, "fchmod": 1, "mknod": 1, "mknodat": 2, "fchmodat": 2, "fchmodat2": 2}
_FLAGS_AND_MODE = {"open": (1, 2), "openat": (2, 3)}
# Their arguments are in memory, out of the filter's reach; programs fall back to the older call.
_UNREADABLE = frozenset(["clone3", "openat2"])
_BY_ARGUMENT = frozenset(
    ["socket", "socketpair", "clone", "ioctl", "prlimit64", *_MODE, *_FLAGS_AND_MODE, *_UNREADABLE]
)
_SHARED_OBJECTS = frozenset(["shmget", "semget", "msgget", "mq_open"])


def program(*, own_network: bool, machine: str | None = None) -> bytes | None:
    """The filter's instructions, or None for an unknown machine.

    With ``own_network`` the program has its own namespaces, where internet sockets and shared objects
    are harmless. Without it they are refused as well.
    """
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    arch, numbers = known[0], known[1] | _NEW
    refused = [number for name, number in numbers.items() if name not in _BY_ARGUMENT | _SHARED_OBJECTS]
    if not own_network:
        refused += [numbers[name] for name in _SHARED_OBJECTS]
    code = [_load(_ARCH), _test(_JEQ, arch, 1, 0), _end(_REFUSE), _load(_NUMBER)]
    if arch == 0xC000003E:  # the x32 numbers are a second way to every call
        code += [_test(_JGE, 0x40000000, 0, 1), _end(_UNKNOWN)]
    for number in sorted(refused):
        code += [_test(_JEQ, number, 0, 1), _end(_REFUSE)]
    for name in sorted(_UNREADABLE):
        code += _when(numbers[name], [_end(_UNKNOWN)])
    code += _no_set_id(numbers)
    code += _when(numbers["clone"], [_load(_low(0)), _test(_JSET, _NAMESPACES, 0, 1), _end(_REFUSE)])
    code += _when(numbers["ioctl"], _none_of(1, (_TIOCSTI, _TIOCLINUX)))
    code += _when(numbers["prlimit64"], [_load(_low(0)), _test(_JEQ, 0, 1, 0), _end(_REFUSE)])
    code += _when(numbers["socket"], _families(own_network=own_network))
    code += _when(numbers["socketpair"], _pairs())
    code.append(_end(_ALLOW))
    return b"".join(code)


def _no_set_id(numbers: dict[str, int]) -> list[bytes]:
    """A set-user-id file that a run leaves behind would lend its owner's rights to every other user."""
    code: list[bytes] = []
    for name, argument in _MODE.items():
        if name in numbers:
            code += _when(numbers[name], [_load(_low(argument)), _test(_JSET, _SET_ID, 0, 1), _end(_REFUSE)])
    for name, (flags, mode) in _FLAGS_AND_MODE.items():
        if name in numbers:
            judged = [_load(_low(mode)), _test(_JSET, _SET_ID, 0, 1), _end(_REFUSE)]
            code += _when(
                numbers[name], [_load(_low(flags)), _test(_JSET, _CREATES, 0, len(judged)), *judged]
            )
    return code


def _families(*, own_network: bool) -> list[bytes]:
    """Routing netlink lists interfaces; Unix sockets could reach any daemon."""
    netlink = [_test(_JEQ, _AF_NETLINK, 0, 3), _load(_low(2)), _test(_JEQ, 0, 2, 0), _end(_REFUSE)]
    internet = [_test(_JEQ, family, 0, 1) for family in (_AF_INET, _AF_INET6)]
    code = [_load(_low(0))]
    if own_network:
        for test in internet:
            code += [test, _end(_ALLOW)]
    return [*code, *netlink, _end(_REFUSE)]


def _pairs() -> list[bytes]:
    """A datagram pair can be reconnected to any datagram socket of the machine; streams and packets
    cannot."""
    mask = struct.pack("=HBBI", _AND, 0, 0, 0xF)  # the type without its flags
    return [
        _load(_low(1)),
        mask,
        _test(_JEQ, _SOCK_STREAM, 2, 0),
        _test(_JEQ, _SOCK_SEQPACKET, 1, 0),
        _end(_REFUSE),
    ]


def _none_of(argument: int, values: tuple[int, ...]) -> list[bytes]:
    code = [_load(_low(argument))]
    for value in values:
        code += [_test(_JEQ, value, 0, 1), _end(_REFUSE)]
    return code


def _when(number: int, block: list[bytes]) -> list[bytes]:
    """``block`` for one call, which is allowed if the block does not return."""
    return [_test(_JEQ, number, 0, len(block) + 1), *block, _end(_ALLOW)]


def _low(argument: int) -> int:
    """The offset of the low half of an argument; both machines are little-endian."""
    return 16 + 8 * argument


def _load(offset: int) -> bytes:
    return struct.pack("=HBBI", _LD, 0, 0, offset)


def _test(operation: int, value: int, yes: int, no: int) -> bytes:
    return struct.pack("=HBBI", operation, yes, no, value)


def _end(verdict: int) -> bytes:
    return struct.pack("=HBBI", _RET, 0, 0, verdict)
