"""Open the index: refresh it, or set it aside if it is broken.

An index belongs to a set of homes, because which copy of a response counts is decided over all of
them. Another set of homes has another index, with another file name.

A problem with the index never prevents an answer. A broken file is set aside and rebuilt. If there
is no place to write, or no room, ``database`` is None and the caller reads the logs. ``notes`` says
what happened. Damage found in the middle of an answer is an error; the next call has a new index.

An index is written and set aside only under its lock. After taking the lock, a process first checks
that the file is still the one it opened: another process may have replaced it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from recollect.errors import Busy, DamagedData, StorageError
from recollect.index.database import (
    BROKEN,
    UNUSABLE,
    Failure,
    IndexDatabase,
    is_about_the_place,
    is_busy,
    is_full,
)
from recollect.index.location import index_file
from recollect.services.indexing.refresh import RefreshResult, refresh
from recollect.system import fsops
from recollect.system.locations import cache_dir, data_dir
from recollect.system.lock import FileLock
from recollect.system.progress import ProgressCallback

# Seconds to wait for another process that builds the first index.
_FIRST_BUILD_SECONDS = 900.0
# Seconds to wait before setting a broken index aside: the lock's holder may be doing that, or refreshing.
_REPAIR_SECONDS = 60.0


class OpenIndex:
    """The index of a set of homes, if there is one."""

    def __init__(self, homes: Sequence[Path], path: Path) -> None:
        self.homes = tuple(homes)
        self.path = path
        self.database: IndexDatabase | None = None
        self.notes: list[str] = []
        self.refused = ""  # why there can be no index in this place, so that waiting does not help
        self.is_being_built = False  # in the background, for the first time
        self.refreshed: RefreshResult | None = None
        self.carried_over = 0  # deleted sessions copied from an older index
        self.unread: tuple[Path, ...] = ()  # older indexes that may know more deleted sessions
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close. May be called twice."""
        if self.database is not None:
            self.database.close()
            self.database = None

    def open(self) -> None:
        """Open the file, creating it if needed. Raises if the file or its directory cannot be used."""
        self.close()
        fsops.make_directories(self.path.parent)
        # Created here first, so that no other user can read it, whatever the umask.
        fsops.close(fsops.open_append(self.path).fd)
        self._identity = fsops.identity_at(str(self.path))
        self.database = IndexDatabase(self.path)

    @property
    def archive(self) -> Path:
        """The archive of this index: with ``--data`` both are in one directory."""
        cache = self.path.parent
        return (data_dir() if cache == cache_dir() else cache.parent) / "archive"

    @property
    def is_replaced(self) -> bool:
        """Whether the path now leads to another file than the opened one."""
        return fsops.identity_at(str(self.path)) != self._identity

    @property
    def is_complete(self) -> bool:
        """Whether every log was read into it once. False if it cannot be queried."""
        try:
            return self.database is not None and self.database.meta("complete") is not None
        except Failure:
            return False

    def lock(self, timeout: float) -> FileLock:
        """The lock for writing this index or setting it aside."""
        return FileLock(self.path.with_suffix(".lock"), timeout=timeout, guards=self.path)

    def set_aside(self) -> Path:
        """Rename the index out of the way, replacing the previous one. Only under the lock."""
        self.close()
        aside = self.path.with_suffix(".aside")
        if not self.path.exists():
            return aside
        if self.path.is_dir() or aside.is_dir():
            # Not our file: leave directories alone.
            aside = _free_name(aside)
        _unlink(*_with_side_files(aside))
        # The WAL moves too: without it the file may be inconsistent. If we die in between, a WAL
        # without its file does no harm.
        for source, target in zip(_with_side_files(self.path)[:2], _with_side_files(aside)[:2], strict=True):
            with contextlib.suppress(FileNotFoundError):
                source.rename(target)
        _unlink(*_with_side_files(self.path)[1:])
        return aside

    def put_back(self, aside: Path) -> None:
        """Undo ``set_aside``. Only under the lock."""
        for source, target in zip(_with_side_files(aside), _with_side_files(self.path), strict=True):
            with contextlib.suppress(FileNotFoundError):
                source.replace(target)

    def remove_aside(self, aside: Path) -> None:
        _unlink(*_with_side_files(aside))

    def remove(self) -> None:
        """Delete the file. Only under the lock."""
        self.close()
        _unlink(*_with_side_files(self.path))


def index_path(homes: Sequence[Path], cache: Path | None = None) -> Path:
    return Path(index_file(homes, str(cache or cache_dir())))


def is_built(path: Path) -> bool:
    """Whether the first build of this index was ever finished. Never waits."""
    if not path.is_file():
        return False
    try:
        database = IndexDatabase(path, read_only=True)
    except (*BROKEN, *UNUSABLE):
        return False
    try:
        return database.meta("complete") is not None
    except Failure:
        return False
    finally:
        database.close()


@contextlib.contextmanager
def open_index(
    homes: Sequence[Path],
    *,
    cache: Path | None = None,
    is_refreshed: bool = True,
    progress: ProgressCallback | None = None,
    patience: float | None = None,
    is_first_awaited: bool = True,
    is_older_asked: bool = True,
) -> Iterator[OpenIndex]:
    """The index of some homes, refreshed unless ``is_refreshed`` is false.

    ``patience``: seconds to wait for another process that is refreshing. By default, a query waits
    for the first build but never for a later refresh. Without ``is_first_awaited``, a first build that would take
    long is left to a background process, and ``database`` is None; but with ``is_older_asked`` not where an older index
    is there: it may know the usage of deleted sessions, which no log has.
    """
    opened = OpenIndex(homes, index_path(homes, cache))
    try:
        _open(opened)
        if opened.database is not None:
            may_leave = None if is_first_awaited else partial(_leave_first_build, opened, is_older_asked)
            _refresh(opened, progress, is_refreshed, patience, may_leave)
        yield opened
    except BROKEN as problem:
        what, hint = ", and set aside", "run the command again: it is rebuilt from the logs"
        try:
            _repair(opened, problem)
        except (OSError, StorageError, Busy):
            what, hint = "", "use --no-index to read the logs, or `recollect index rebuild`"
        raise DamagedData(f"index {opened.path}: damaged ({problem}){what}", hint=hint) from problem
    except UNUSABLE as problem:
        cause = OSError(0, str(problem))
        raise StorageError(
            "read index", opened.path, cause, hint="use --no-index to read the logs"
        ) from problem
    finally:
        opened.close()


def _open(opened: OpenIndex) -> None:
    """Open it, or note why there is none. A broken index is set aside and rebuilt."""
    try:
        try:
            opened.open()
        except (Failure, IsADirectoryError) as problem:
            if isinstance(problem, Failure) and (is_busy(problem) or is_about_the_place(problem)):
                raise
            _repair(opened, problem, is_reopened=True)
    except (Failure, OSError, StorageError, Busy) as problem:
        _give_up(opened, f"no index: {opened.path}: {problem}")


def _repair(opened: OpenIndex, problem: Exception, *, is_reopened: bool = False) -> None:
    """Set a broken index aside, unless another process has replaced it.

    It is opened again under the same lock: a process that comes next must find the new file, or it would set that aside too.
    """
    opened.close()
    with contextlib.closing(opened.lock(_REPAIR_SECONDS)) as lock, lock:
        if not (opened.is_replaced and opened.path.exists() and not opened.path.is_dir()):
            opened.notes.append(_damaged(problem, opened.set_aside()))
        if is_reopened:
            opened.open()


def _refresh(
    opened: OpenIndex,
    progress: ProgressCallback | None,
    is_wanted: bool,
    patience: float | None,
    may_leave: Callable[[], bool] | None,
) -> None:
    """Refresh the index if requested, or if it was never finished."""
    try:
        if not opened.is_complete:
            if may_leave is None or not may_leave():
                _build_first(opened, progress, patience)
        elif is_wanted:
            with contextlib.closing(opened.lock(patience or 0.0)) as lock, lock:
                _refresh_locked(opened, progress)
    except Busy:
        opened.notes.append("another process is refreshing the index: the answer shows its last refresh")
        if not opened.is_complete:
            _give_up(opened, "the index is not complete yet", is_lasting=False)
    except StorageError as problem:
        _give_up(opened, f"the index could not be locked ({problem.message})")
    except OSError as problem:
        _give_up(opened, f"the index is damaged and could not be set aside ({problem})")


def _leave_first_build(opened: OpenIndex, is_older_asked: bool) -> bool:
    from recollect.services.indexing.first_build import left_to_background

    opened.is_being_built = left_to_background(opened, is_older_asked=is_older_asked)
    if opened.is_being_built:
        _give_up(opened, "the index is being built in the background", is_lasting=False)
    return opened.is_being_built


def _build_first(opened: OpenIndex, progress: ProgressCallback | None, patience: float | None) -> None:
    from recollect.services.indexing.first_build import locked_after_first_build

    seconds = _FIRST_BUILD_SECONDS if patience is None else patience
    with locked_after_first_build(opened, seconds, progress):
        _refresh_locked(opened, progress)


def _refresh_locked(opened: OpenIndex, progress: ProgressCallback | None) -> None:
    try:
        if opened.is_replaced:
            opened.open()
        build(opened, progress)
    except Failure as problem:
        if is_busy(problem):
            _give_up(opened, f"the index is busy ({problem})", is_lasting=False)
        elif is_about_the_place(problem):
            _not_written(opened, problem)
        else:
            # The cause cannot be in the logs, so a new index will not have it.
            aside = opened.set_aside()
            opened.notes.append(_damaged(problem, aside))
            _build_anew(opened, progress)


def _build_anew(opened: OpenIndex, progress: ProgressCallback | None) -> None:
    try:
        opened.open()
        build(opened, progress)
    except (Failure, OSError) as problem:
        _not_written(opened, problem)


def _damaged(problem: Exception, aside: Path) -> str:
    return f"the index was damaged ({problem}); it was set aside as {aside.name} and rebuilt; the logs are unchanged"


def build(opened: OpenIndex, progress: ProgressCallback | None) -> None:
    """Update the index; a new one first copies what only its predecessors know. Only under the lock."""
    database = opened.database
    assert database is not None  # noqa: S101 - for the type checker: the caller has opened it
    if database.value("SELECT 1 FROM files LIMIT 1") is None:
        from recollect.services.indexing.gone_sessions import carry_over

        carried = carry_over(database, opened.path, opened.homes)
        opened.carried_over, opened.unread = carried.sessions, carried.unread
        if carried.sessions:
            opened.notes.append(f"in the totals of the new index: {carried.sessions:,} deleted sessions")
        opened.notes += [
            f"{old.name} could not be read: deleted sessions it knew are missing from the totals"
            for old in carried.unread
        ]
    opened.refreshed = refresh(database, opened.homes, progress, opened.archive)


def _not_written(opened: OpenIndex, problem: Exception) -> None:
    """No space or no permission: a complete index stays as it was, an unfinished one is removed."""
    if is_about_the_place(problem) and opened.is_complete:
        what = "is unchanged"
    elif is_full(problem):
        opened.remove()
        what = "was removed"
    else:
        what = f"was set aside as {opened.set_aside().name}"
    _give_up(opened, f"the index could not be written ({problem}) and {what}; the logs are unchanged")
    opened.notes.append("free some space or check the disk, then try again")


def _give_up(opened: OpenIndex, reason: str, *, is_lasting: bool = True) -> None:
    opened.close()
    opened.refused = reason if is_lasting else ""
    opened.notes.append(f"{reason}; reading the logs instead")


def _with_side_files(path: Path) -> list[Path]:
    """The file, its WAL and its shared-memory file."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def _unlink(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
            path.unlink()


def _free_name(preferred: Path) -> Path:
    """The name, or the first unused one with a number."""
    number = 1
    name = preferred
    while name.exists() or name.is_symlink():
        number += 1
        name = preferred.with_suffix(f".aside-{number}")
    return name
