"""Opens a file below a directory in one step, without following links.

A confined program may plant a link and wait for this unconfined process to write through it (C07). So
the kernel resolves paths in such trees beneath one directory, without links (``openat2``); where it has
no such call, they are opened component by component.

The result is a descriptor. Anything but a regular file (a FIFO that hangs, a device, a socket) is
refused (C09). ``system/openat.py`` builds whole-file reads and durable writes on the same rule.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from pathlib import Path

from recollect.errors import NotFound, StorageError, UsageError
from recollect.system.openat import components

_OPENAT2 = 437
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_FALL_BACK = frozenset(
    [errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP]
)  # EPERM: some containers do not know the call


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(root: Path, relative: str, flags: int = os.O_RDONLY, mode: int = 0o666) -> int:
    """A descriptor of a regular file (or, with ``O_DIRECTORY``, a directory) below ``root``.

    ``root`` itself may be reached through links. ``O_TRUNC`` is refused: a file must be checked before
    it is emptied.
    """
    if flags & os.O_TRUNC:
        raise UsageError(f"open {relative!a}: truncate through the descriptor", hint="leave O_TRUNC out")
    parts = components(relative)
    path = root.joinpath(*parts)
    try:
        top = os.open(root, os.O_RDONLY | _DIRECTORY | getattr(os, "O_CLOEXEC", 0))
        try:
            opened = descend(top, parts, flags | _ALWAYS, mode)
        finally:
            os.close(top)
        return _looked_at(opened, directory=bool(flags & _DIRECTORY))
    except FileNotFoundError as cause:
        raise NotFound(f"no file at {path}", hint="check the path") from cause
    except OSError as cause:
        raise _refused(path, cause) from cause


def descend(top: int, parts: tuple[str, ...], flags: int, mode: int = 0) -> int:
    """Open ``parts`` below an open directory without links; raises ``OSError`` as ``os.open`` does."""
    opened = _by_kernel(top, "/".join(parts), flags, mode) if sys.platform == "linux" else None
    return _by_steps(top, parts, flags, mode) if opened is None else opened


def _by_kernel(top: int, relative: str, flags: int, mode: int) -> int | None:
    how = _OpenHow(flags, mode if flags & os.O_CREAT else 0, _BENEATH | _NO_LINKS | _NO_MAGIC_LINKS)
    libc = ctypes.CDLL(None, use_errno=True)
    name = os.fsencode(relative)
    opened: int = libc.syscall(_OPENAT2, top, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how)))
    if opened >= 0:
        return opened
    number = ctypes.get_errno()
    if number in _FALL_BACK:
        return None
    raise OSError(number, os.strerror(number), relative)


def _by_steps(top: int, parts: tuple[str, ...], flags: int, mode: int) -> int:
    above = os.dup(top)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | _DIRECTORY | _ALWAYS, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(parts[-1], flags | getattr(os, "O_NOFOLLOW", 0), mode, dir_fd=above)
    finally:
        os.close(above)


def _looked_at(opened: int, *, directory: bool) -> int:
    mode = os.fstat(opened).st_mode
    if stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode):
        return opened
    os.close(opened)
    raise OSError(errno.EINVAL, "not a regular file")


def _refused(path: Path, cause: OSError) -> StorageError:
    if cause.errno in (errno.ELOOP, errno.EXDEV):
        cause = OSError(errno.ELOOP, "there is a link on the path, and links are not followed")
    return StorageError("open", path, cause, hint="check the path; only plain files are opened")
