"""The system calls that make bytes durable, each in one place.

Logs, locks and small files are written through here, so that every assumption about the operating
system is in one module and tests can fail each call.

Files are 0600 and directories 0700 under any umask, because a transcript holds secrets. A descriptor
never survives an ``exec``. A symbolic link or a pipe in place of a file is refused, not followed. A
failed sync is an error, never a warning.

Nothing here locks, retries a failed sync or knows what a line is. Every function raises plain
``OSError``: the caller knows whether an entry is at risk.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recollect.errors import StorageError

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700

# Flags that some systems lack are 0 there; O_NONBLOCK keeps a planted pipe from blocking an open.
_SAFE = (
    getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
_NETWORK_TYPES = (
    "9p acfs afpfs afs beegfs ceph ceph-fuse cifs coda davfs davfs2 gcsfuse glusterfs lustre ncpfs nfs nfs4 orangefs"
    " prl_fs pvfs2 rclone s3fs smb2 smb3 smbfs sshfs vboxsf"
)
# Where one call syncs everything. Others (network, FUSE) may pass the bytes on and ask no one to keep them.
_SYNCED_AS_A_WHOLE = frozenset(["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs"])
_NEXT_STEP = {
    errno.ENOSPC: "free space on that disk, then {again}",
    errno.EDQUOT: "raise the quota or remove files under it, then {again}",
    errno.EFBIG: "raise the file-size limit (ulimit -f) or start a new session",
    errno.EROFS: "the file system is read-only: mount it for writing, or use another directory",
    errno.EACCES: "check owner and mode of the file and its directory",
    errno.EPERM: "check owner, mode and attributes of the file and its directory",
    errno.EIO: "the disk reports an error: check the system log, then {again}",
    errno.ELOOP: "it is a symbolic link: name the file itself",
    errno.EMFILE: "close other files or raise the limit of open files (ulimit -n)",
    errno.ENFILE: "the whole system has too many open files: close some",
    errno.ENAMETOOLONG: "use a shorter directory name",
    errno.EISDIR: "it is a directory: use another name",
    errno.ENOTDIR: "there is a file where a directory should be: use another directory",
}


class NetworkFileSystem(RuntimeWarning):
    """A log is on a network file system, where appends of two machines can overlap (S1)."""


def next_step(cause: OSError | None, again: str = "append again") -> str:
    """What a person can do about this failure; ``again`` says how to repeat what failed."""
    step = _NEXT_STEP.get((cause and cause.errno) or 0, "{again} once the cause is gone")
    return step.format(again=again)


# --- opening -----------------------------------------------------------------


def open_append(path: Path) -> int:
    """Open for reading and appending; create the file when there is none."""
    return _open_or_create(path, os.O_RDWR | os.O_APPEND)


def open_lock_file(path: Path) -> int:
    """Open for reading and writing; create the file when there is none."""
    return _open_or_create(path, os.O_RDWR)


def open_nofollow(path: Path) -> int:
    """Open an existing regular file for reading."""
    return _open_regular(path, os.O_RDONLY)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor of an existing regular file, closed at the end."""
    fd = open_nofollow(path)
    try:
        yield fd
    finally:
        close_quietly(fd)


def create_new(path: Path) -> int:
    """Create a file for writing, mode 0600; ``FileExistsError`` where anything has that name."""
    return _create(path, os.O_WRONLY)


def _open_or_create(path: Path, flags: int) -> int:
    while True:
        with contextlib.suppress(FileNotFoundError):
            return _open_regular(path, flags)
        # O_EXCL shows that we created the file, so a mode set by someone else is never changed.
        with contextlib.suppress(FileExistsError):
            return _create(path, flags)


def _open_regular(path: Path, flags: int) -> int:
    fd = os.open(path, flags | _SAFE)
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
    except BaseException:
        close_quietly(fd)
        raise
    if not regular:
        close_quietly(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return fd


def _create(path: Path, flags: int) -> int:
    fd = os.open(path, flags | _SAFE | os.O_CREAT | os.O_EXCL, FILE_MODE)
    try:
        # A umask can only clear bits; set those that it cleared for the owner.
        if hasattr(os, "fchmod") and stat.S_IMODE(os.fstat(fd).st_mode) != FILE_MODE:
            os.fchmod(fd, FILE_MODE)
    except BaseException:
        close_quietly(fd)
        raise
    return fd


def usual_mode() -> int:
    """The mode of a file that is a person's own and not ours: as the umask allows, read without changing it."""
    umask = 0o022
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
        umask = int(status.partition("Umask:")[2].split()[0], 8)
    return 0o666 & ~umask


def make_directories(path: Path, *, synced: bool = True) -> list[Path]:
    """Create the missing parts of ``path``, outermost first, each name durable before the next (S5).

    ``synced=False`` is for what can be rebuilt.
    """
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    created = []
    for directory in reversed(missing):
        try:
            directory.mkdir(DIRECTORY_MODE)
        except FileExistsError:
            if not directory.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None
            continue
        if stat.S_IMODE(directory.stat().st_mode) & DIRECTORY_MODE != DIRECTORY_MODE:
            directory.chmod(DIRECTORY_MODE)
        if synced:
            sync_dir(directory.parent)
        created.append(directory)
    return created


def close(fd: int) -> None:
    os.close(fd)


def close_quietly(fd: int) -> None:
    """Close and ignore errors: everything that matters is synced already."""
    with contextlib.suppress(OSError):
        os.close(fd)


# --- looking -----------------------------------------------------------------


def identity_of(fd: int) -> tuple[int, int]:
    """Device and inode. They stay the same while a file is open; another file that takes its name has others (S6)."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def identity_at(path: str) -> tuple[int, int] | None:
    """Device and inode of the path, links not followed; None where there is nothing."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def size_of(fd: int) -> int:
    return os.fstat(fd).st_size


def go_to_end(fd: int) -> int:
    """Move to the end and return its offset."""
    return os.lseek(fd, 0, os.SEEK_END)


def position(fd: int) -> int:
    """The current offset: after an append, the end of what it wrote."""
    return os.lseek(fd, 0, os.SEEK_CUR)


def pread(fd: int, length: int, offset: int) -> bytes:
    """Read up to ``length`` bytes at ``offset``; fewer only at the end of the file."""
    data = _pread(fd, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]
    got = len(data)
    while got < length and (data := _pread(fd, length - got, offset + got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


if sys.platform == "win32":

    def _pread(fd: int, length: int, offset: int) -> bytes:
        """Windows has no positioned read; moving the offset is harmless, since writes there append or
        seek."""
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, length)

else:
    _pread = os.pread


# --- writing -----------------------------------------------------------------


def write_all(fd: int, data: bytes) -> None:
    """Write every byte; a short write is normal and continues where it stopped (S2)."""
    written = os.write(fd, data)
    if written == len(data):
        return
    rest = memoryview(data)[written:]
    while rest:
        written = os.write(fd, rest)
        if written == 0:
            raise OSError(errno.EIO, "the system accepted no more bytes")
        rest = rest[written:]


def overwrite_start(fd: int, data: bytes) -> None:
    """Write ``data`` at the start of the file, in one call, without a sync: for hints only."""
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, data)


def truncate(fd: int, size: int) -> None:
    """Cut the file. Only for bytes the caller has written itself and not acknowledged (P4)."""
    os.ftruncate(fd, size)


def sync_data(fd: int) -> None:
    """Return when the bytes, and the length needed to read them again, are on the disk."""
    if not _full_sync(fd):
        _sync_data(fd)


def sync_file(fd: int) -> None:
    """As ``sync_data``, with mode and times too."""
    if not _full_sync(fd):
        os.fsync(fd)


_sync_data = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


def _full_sync(fd: int) -> bool:
    """On macOS fsync stops at the drive's cache; F_FULLFSYNC does not. False where it does not exist."""
    if sys.platform != "darwin":
        return False
    import fcntl

    try:
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    except OSError as cause:
        if cause.errno not in {errno.EINVAL, errno.ENOTSUP, errno.ENOTTY}:
            raise
        return False
    return True


def sync_dir(path: Path) -> None:
    """Make names in a directory durable: after create, rename and unlink (S5)."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as cause:
        # Some file systems cannot sync a directory and say so; every other error is a failure.
        if cause.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        close_quietly(fd)


def sync_written(path: Path) -> None:
    """Make a file durable that was written and closed before; nothing where it is there no more."""
    with contextlib.suppress(FileNotFoundError):
        fd = _open_regular(path, os.O_RDWR)
        try:
            sync_data(fd)
        finally:
            close_quietly(fd)


def sync_file_system(path: Path) -> bool:
    """Make all that was written to the file system of a path durable, names too, in one call.

    False where the system has no such call, or one that does not tell whether it succeeded: then nothing is durable yet.
    """
    call = _syncfs()
    if call is None or _file_system_type(path.stat().st_dev) not in _SYNCED_AS_A_WHOLE:
        return False
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        number = call(fd)
    finally:
        close_quietly(fd)
    if number:
        raise OSError(number, os.strerror(number), str(path))
    return True


@functools.cache
def _syncfs() -> Callable[..., int] | None:
    """The call; None where it is missing, or hides errors of writing (Linux before 5.8)."""
    is_honest = sys.platform.startswith("linux") and _kernel() >= (5, 8)
    return _c_function("syncfs", ctypes.c_int) if is_honest else None


def _c_function(name: str, *types: Any) -> Callable[..., int] | None:
    """A call of the C library, returning an error number; None where it lacks it."""
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = types
    return lambda *values: ctypes.get_errno() if function(*values) else 0


def _kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])


def replace_file(path: Path, data: bytes) -> None:
    """Give ``path`` new content: a crash leaves the old or the new, never a mixture.

    For small files that are read as a whole. Never for a log: a writer with the old file open would
    continue to write to a deleted file (S6).
    """
    temporary = path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}.tmp")
    fd = _create(temporary, os.O_WRONLY)
    try:
        try:
            write_all(fd, data)
            sync_file(fd)
        finally:
            close(fd)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # Not before the rename: a crash could bring the old name back (S5).
    sync_dir(path.parent)


def move(source: Path, target: Path) -> None:
    """Rename a file or directory on the same file system, durably; nothing is overwritten.

    The caller holds the lock of what it moves, so that no other process of ours creates the target
    between the check and the rename.
    """
    make_directories(target.parent)
    if target.exists() or target.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)
    sync_dir(target.parent)
    sync_dir(source.parent)


# --- names -------------------------------------------------------------------
#
# None of these syncs a directory: several changes can share one ``sync_dir``, which the caller must make (S5).


def link(source: Path, target: Path) -> bool:
    """A second name for a file, never over an existing one; False where that is impossible (another file
    system)."""
    try:
        os.link(source, target, follow_symlinks=os.link not in os.supports_follow_symlinks)
    except OSError as cause:
        if cause.errno not in _CANNOT_LINK:
            raise
        return False
    return True


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system cannot.

    A file that was put at ``other`` at the last moment is not lost but at ``one``.
    """
    return _rename_with(_EXCHANGE, one, other)


def rename_new(source: Path, target: Path) -> None:
    """Rename; ``FileExistsError`` where ``target`` exists. Without system support, by a check first."""
    if _rename_with(_NO_REPLACE, source, target):
        return
    if target.exists() or target.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.rename(target)


def rename_over(source: Path, target: Path) -> None:
    """Rename over anything at ``target``; a link there is replaced, not followed."""
    source.replace(target)


def unlink(path: Path) -> None:
    path.unlink()


def remove_directory(path: Path) -> bool:
    """Remove a directory if it is empty; False where it is not empty or not a directory."""
    try:
        path.rmdir()
    except OSError as cause:
        if cause.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR}:
            raise
        return False
    return True


def entries(directory: Path) -> list[Path]:
    """What a directory holds, in order; nothing where there is none."""
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_directory(path: str) -> bool:
    """Whether there is one; False for what no directory can be called."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def give_mode(fd: int, mode: int) -> None:
    """Set the permissions of an open file, where the system supports them."""
    if hasattr(os, "fchmod"):
        os.fchmod(fd, mode)


def give_owner(fd: int, user: int, group: int) -> None:
    """Change the owner, where permitted: a copy made by root must stay the user's."""
    if not hasattr(os, "fchown"):
        return
    found = os.fstat(fd)
    if (found.st_uid, found.st_gid) != (user, group):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, user, group)


def give_time(path: Path, mtime_ns: int) -> None:
    """Set access and modification time."""
    os.utime(path, ns=(mtime_ns, mtime_ns))


_CANNOT_LINK = frozenset(
    [errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS]
)
_NO_REPLACE, _EXCHANGE = 1, 2  # renameat2(2)
_WORKING_DIRECTORY = -100  # AT_FDCWD


def _rename_with(flag: int, source: Path, target: Path) -> bool:
    """Linux's rename with flags; False where kernel, C library or file system lack it."""
    number_and_name = (ctypes.c_int, ctypes.c_char_p)
    call = _c_function("renameat2", *number_and_name, *number_and_name, ctypes.c_uint)
    if call is None or not sys.platform.startswith("linux"):
        return False
    number = call(_WORKING_DIRECTORY, os.fsencode(source), _WORKING_DIRECTORY, os.fsencode(target), flag)
    if number in {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP}:
        return False
    if number:
        raise OSError(number, os.strerror(number), str(source), None, str(target))
    return True


# --- file systems -------------------------------------------------------------


def network_file_system(place: Path | int) -> str | None:
    """The type of the network file system of a path or descriptor; None when local or unknown."""
    found = os.fstat(place) if isinstance(place, int) else place.stat()
    kind = _file_system_type(found.st_dev) or ""
    return kind if kind.removeprefix("fuse.") in _NETWORK_TYPES.split() else None


@functools.lru_cache(maxsize=256)
def _file_system_type(device: int) -> str | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return type_of_device(mounts, os.major(device), os.minor(device))


def type_of_device(mountinfo: str, major: int, minor: int) -> str | None:
    """Find a device in the text of /proc/self/mountinfo (proc(5): the type follows a lone dash)."""
    device = f"{major}:{minor}"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) > 2 and fields[2] == device and after:
            return after.split()[0]
    return None


@contextlib.contextmanager
def as_storage_error(operation: str, path: Path, hint: str = "") -> Iterator[None]:
    """Any ``OSError`` inside becomes a ``StorageError`` about ``path``."""
    try:
        yield
    except OSError as cause:
        raise StorageError(operation, path, cause, hint=hint or next_step(cause, "try again")) from cause
