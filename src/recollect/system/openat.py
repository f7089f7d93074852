"""Files below one directory, reached without following links.

A path from a transcript is not trusted: it may hold ``..``, and a directory may be replaced by a link
between check and use (C07). So the path is walked with descriptors, one component at a time, none of
them through a link. Nothing outside the chosen directory is read or written, even when names are
swapped meanwhile.

The directory itself may be reached through links. Systems without descriptor-relative calls (Windows)
can read here, with each component checked by name; writing is refused there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import NotFound, StorageError, UsageError
from recollect.system import fsops

CAN_WALK = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY") and hasattr(os, "O_NOFOLLOW")
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# A directory on the way need not be readable.
_PASSED = _DIRECTORY | _NO_LINK | getattr(os, "O_PATH", 0)
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | _NO_LINK
_CANNOT_LINK = frozenset([errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS])
_HINT = "nothing was written; name a plain path below the directory"


def components(name: str) -> tuple[str, ...]:
    """The parts of a relative path that stays below its start; ``UsageError`` for any other."""
    parts = name.replace("\\", "/").split("/") if os.name == "nt" else name.split("/")
    fault = _fault(name, parts)
    if fault:
        raise UsageError(f"path {ascii(name)[:80]}: {fault}", hint=_HINT)
    return tuple(parts)


def _fault(name: str, parts: list[str]) -> str | None:
    if "\0" in name:
        return "has a NUL character"
    if name.startswith("/") or (os.name == "nt" and ":" in name):
        return "is not relative"
    if any(part in ("", ".", "..") for part in parts):
        return "has an empty part, '.' or '..'"
    return None


@contextlib.contextmanager
def opened(directory: Path, parts: tuple[str, ...] = (), *, create: bool = False) -> Iterator[int]:
    """A descriptor of the directory ``parts`` below ``directory``; with ``create``, created if missing.

    New directories get the mode of the user's umask.
    """
    fd = _open(directory, directory, None)
    try:
        for depth, part in enumerate(parts, 1):
            inner = _step(fd, part, directory.joinpath(*parts[:depth]), create=create)
            fsops.close_quietly(fd)
            fd = inner
        yield fd
    finally:
        fsops.close_quietly(fd)


def read_file(directory: Path, parts: tuple[str, ...]) -> bytes:
    """The bytes of one regular file; ``NotFound`` where there is none."""
    if CAN_WALK:
        with os.fdopen(open_beneath(directory, "/".join(parts)), "rb") as file:
            return file.read()
    require_no_link(directory, parts)
    path = directory.joinpath(*parts)
    try:
        with os.fdopen(fsops.open_nofollow(path), "rb") as file:
            return file.read()
    except FileNotFoundError as cause:
        raise NotFound(f"no file at {path}", hint="it may have been cleaned up") from cause
    except OSError as cause:
        raise _refused(path, cause) from cause


def require_no_link(directory: Path, parts: tuple[str, ...]) -> Path:
    """The path ``parts`` below ``directory``; raises if a link is on it. Missing parts are fine.

    A check by name, for places that only their owner can write to.
    """
    for depth in range(1, len(parts) + 1):
        path = directory.joinpath(*parts[:depth])
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            break
        except OSError as cause:
            raise _refused(path, cause) from cause
        if stat.S_ISLNK(mode):
            raise _refused(path, refused_link(path))
    return directory.joinpath(*parts)


def status(above: int, name: str) -> os.stat_result | None:
    """The status of ``name``, links not followed; None where it is missing."""
    try:
        return os.stat(name, dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return None


def create_file(above: int, name: str, data: bytes, mode: int | None = None) -> None:
    """A new file, synced; it must not exist. Without ``mode`` the umask decides."""
    fd = os.open(name, _NEW_FILE, 0o666, dir_fd=above)
    try:
        if mode is not None:
            os.fchmod(fd, mode)
        fsops.write_all(fd, data)
        fsops.sync_file(fd)
    finally:
        fsops.close(fd)


def give_second_name(above: int, name: str, second: str) -> bool:
    """A hard link; ``FileExistsError`` where ``second`` exists, False where hard links are not supported."""
    try:
        os.link(name, second, src_dir_fd=above, dst_dir_fd=above, follow_symlinks=False)
    except OSError as cause:
        if cause.errno not in _CANNOT_LINK:
            raise
        return False
    return True


def replace(above: int, name: str, target: str) -> None:
    """Rename over anything at ``target``; a link there is replaced, not followed."""
    os.replace(name, target, src_dir_fd=above, dst_dir_fd=above)


def remove(above: int, name: str) -> None:
    os.unlink(name, dir_fd=above)


def sync(above: int) -> None:
    """Make names in an open directory durable (S5), where the file system can."""
    try:
        fsops.sync_file(above)
    except OSError as cause:
        if cause.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise


def refused_link(path: Path) -> OSError:
    """The error for a link, or anything but a file, where a file should be written."""
    return OSError(errno.ELOOP, "it is a link or a special file, which is not followed", str(path))


def _open(name: Path | str, path: Path, above: int | None, flags: int = 0) -> int:
    try:
        return os.open(name, _DIRECTORY | flags, dir_fd=above)
    except FileNotFoundError:
        raise
    except OSError as cause:
        raise _refused(path, cause) from cause


def _step(above: int, part: str, path: Path, *, create: bool) -> int:
    try:
        return _open(part, path, above, _NO_LINK)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=above)
        sync(above)  # the name must be durable before anything inside it (S5)
    return _open(part, path, above, _NO_LINK)


def _refused(path: Path, cause: OSError) -> StorageError:
    if cause.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV):
        cause = OSError(errno.ELOOP, "there is a link or a file on the path, and links are not followed")
    return StorageError("open", path, cause, hint="check the path and its permissions")


def open_beneath(root: Path, relative: str) -> int:
    """A descriptor of a regular file below ``root``, for reading; ``root`` itself may be reached through links."""
    parts = components(relative)
    path = root.joinpath(*parts)
    try:
        top = os.open(root, _DIRECTORY)
        try:
            opened = descend(top, parts, _READ)
        finally:
            os.close(top)
        _require_file(opened)
    except FileNotFoundError as cause:
        raise NotFound(f"no file at {path}", hint="it may have been cleaned up") from cause
    except OSError as cause:
        raise _refused(path, cause) from cause
    return opened


def _require_file(opened: int) -> None:
    """Close what is no regular file, or cannot be told to be one, and raise ``OSError``."""
    is_file = False
    try:
        is_file = stat.S_ISREG(os.fstat(opened).st_mode)
    finally:
        if not is_file:
            os.close(opened)
    if not is_file:
        raise OSError(errno.EINVAL, "not a regular file")


def descend(top: int, parts: tuple[str, ...], flags: int) -> int:
    """Open ``parts`` below an open directory without links; raises ``OSError`` as ``os.open`` does."""
    above = os.dup(top)
    try:
        for part in parts[:-1]:
            inner = os.open(part, _PASSED, dir_fd=above)
            os.close(above)
            above = inner
        return os.open(parts[-1], flags | _NO_LINK, dir_fd=above)
    finally:
        os.close(above)
