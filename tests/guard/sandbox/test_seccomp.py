"""The filter's instructions, carried out by hand: what is refused and what is not."""

from __future__ import annotations

import errno
import struct

import pytest

from recollect.guard.sandbox import jail

X86_64, ARM64 = 0xC000003E, 0xC00000B7
ALLOWED, REFUSED, UNKNOWN = "allowed", "refused", "unknown"


def verdict(program: bytes, arch: int, number: int, *arguments: int) -> str:
    """A small machine for classic BPF: loads, jumps, and, return."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *(*arguments, *[0] * (6 - len(arguments))))
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    value = at = 0
    while True:
        operation, yes, no, k = code[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("<I", data, k)[0]
        elif operation == 0x54:
            value &= k
        elif operation == 0x06:
            return {0x7FFF0000: ALLOWED, 0x50000 | errno.EPERM: REFUSED}.get(k, UNKNOWN)
        else:
            holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[operation]
            at += yes if holds else no


@pytest.mark.parametrize(
    ("number", "arguments", "expected"),
    [
        (0, (), ALLOWED),  # read
        (59, (), ALLOWED),  # execve
        (41, (1, 1, 0), REFUSED),  # socket: Unix
        (41, (2, 1, 0), ALLOWED),  # internet, stream
        (41, (10, 2, 0), ALLOWED),  # internet 6, datagram
        (41, (16, 3, 0), ALLOWED),  # routing netlink
        (41, (16, 3, 9), REFUSED),  # audit netlink
        (41, (17, 3, 0), REFUSED),  # packet
        (41, (40, 1, 0), REFUSED),  # vsock
        (53, (1, 1 | 0o2000000, 0), ALLOWED),  # socketpair: stream, close on exec
        (53, (1, 5, 0), ALLOWED),  # packets in order
        (53, (1, 2, 0), REFUSED),  # datagram
        (53, (1, 3 | 0o4000, 0), REFUSED),  # raw, which is datagram to a Unix socket
        (56, (0x1200011,), ALLOWED),  # clone: fork
        (56, (0x10000011,), REFUSED),  # clone: new user namespace
        (435, (), UNKNOWN),  # clone3: libc falls back to clone
        (437, (), UNKNOWN),  # openat2: its mode is in memory
        (90, (0, 0o755), ALLOWED),  # chmod
        (90, (0, 0o4755), REFUSED),  # set user id
        (91, (0, 0o2755), REFUSED),  # fchmod, set group id
        (268, (0, 0, 0o4000), REFUSED),  # fchmodat
        (452, (0, 0, 0o4000, 0), REFUSED),  # fchmodat2
        (257, (0, 0, 0o101, 0o644), ALLOWED),  # openat, create
        (257, (0, 0, 0o101, 0o4755), REFUSED),
        (257, (0, 0, 0o20000002, 0o4755), REFUSED),  # without a name
        (257, (0, 0, 0, 0o4755), ALLOWED),  # nothing is created, the rest is what was in the register
        (2, (0, 0o100, 0o4755), REFUSED),
        (85, (0, 0o4755), REFUSED),  # creat
        (133, (0, 0o104755), REFUSED),  # mknod
        (259, (0, 0, 0o104755), REFUSED),
        (16, (0, 0x5413), ALLOWED),  # ioctl: window size
        (16, (0, 0x5412), REFUSED),  # ioctl: TIOCSTI
        (302, (0, 7), ALLOWED),  # prlimit64: our own
        (302, (4711, 7), REFUSED),  # somebody else's
        (101, (), REFUSED),  # ptrace
        (425, (), REFUSED),  # io_uring, a second way to all calls
        (29, (), ALLOWED),  # shmget
        (0x40000000 | 41, (1, 1, 0), UNKNOWN),  # the x32 table
    ],
)
def test_what_the_filter_says(number: int, arguments: tuple[int, ...], expected: str) -> None:
    program = jail.filter_program("x86_64")
    assert program is not None

    assert expected == verdict(program, X86_64, number, *arguments)


def test_another_call_table_is_refused() -> None:
    """32-bit programs have numbers of their own: none of theirs is believed."""
    program = jail.filter_program("x86_64")
    assert program is not None

    assert REFUSED == verdict(program, 0x40000003, 0)


def test_the_other_machine_has_its_own_numbers() -> None:
    """socket is 198 on arm64, where 41 is pivot_root."""
    program = jail.filter_program("aarch64")
    assert program is not None

    assert (REFUSED, ALLOWED, REFUSED, REFUSED) == (
        verdict(program, ARM64, 198, 1, 1, 0),
        verdict(program, ARM64, 198, 2, 1, 0),
        verdict(program, ARM64, 41),
        verdict(program, ARM64, 53, 0, 0, 0o4755),
    )


def test_an_unknown_machine_gets_none() -> None:
    """And whoever asked must say so."""
    assert jail.filter_program("riscv64") is None
