"""Open the index: refresh it, or set it aside if it is broken.

An index belongs to a set of homes, because which copy of a response counts is decided over all of
them. Another set of homes has another index, with another file name.

A problem with the index never prevents an answer. A broken file is set aside and rebuilt. If there
is no place to write, or no room, the same tables are filled in a temporary database that ends with the
answer. ``notes`` says what happened. Damage found in the middle of an answer is an error; the next call
has a new index.

An index is written and set aside only under its lock. After taking the lock, a process first checks
that the file is still the one it opened: another process may have replaced it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

import apsw

from recollect.errors import Busy, DamagedData, RecollectError, StorageError
from recollect.index.background import start_refresh
from recollect.index.database import (
    BROKEN,
    TEMPORARY,
    UNUSABLE,
    Failure,
    IndexDatabase,
    is_about_the_place,
    is_busy,
    is_full,
)
from recollect.index.gone_sessions import carry_over
from recollect.index.refresh import FirstNeed, RefreshResult, refresh, unread_logs
from recollect.index.schema import SESSION, index_file
from recollect.system import fsops
from recollect.system.locations import cache_dir, data_dir
from recollect.system.lock import FileLock
from recollect.system.pool import ProgressCallback

# Seconds to wait for another process that builds the first index.
_FIRST_BUILD_SECONDS = 900.0
# Seconds to wait before setting a broken index aside: the lock's holder may be doing that, or refreshing.
_REPAIR_SECONDS = 60.0
# A question may wait for the rest, so the background process gets a share of a busy machine.
_NICENESS = 5
_LOOK_SECONDS = 0.5


class OpenIndex:
    """The index of a set of homes. ``refused`` says why it is a temporary one, where that will not change by itself."""

    def __init__(self, homes: Sequence[Path], path: Path) -> None:
        self.homes = tuple(homes)
        self.path = path
        self.notes: list[str] = []
        self.refused = ""
        self.is_temporary = False
        self.refreshed: RefreshResult | None = None
        self.coverage = ""  # how many sessions a first build has read, while it goes on in the background
        self.carried_over = 0  # deleted sessions copied from an older index
        self.unread: tuple[Path, ...] = ()  # older indexes that may know more deleted sessions
        self._database: IndexDatabase | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def database(self) -> IndexDatabase:
        """Its tables."""
        assert self._database is not None, "not open"  # noqa: S101 - an error of the caller
        return self._database

    def close(self) -> None:
        """Close. May be called twice."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def open(self) -> None:
        """Open the file, creating it if needed. Raises if the file or its directory cannot be used."""
        self.close()
        fsops.make_directories(self.path.parent)
        # Created here first, so that no other user can read it, whatever the umask.
        fsops.close(fsops.open_append(self.path))
        self._identity = fsops.identity_at(str(self.path))
        self._database = IndexDatabase(self.path)

    def open_temporary(self) -> None:
        """Open empty tables that no other process sees and that end with this object."""
        self.close()
        self.is_temporary = True
        self._database = IndexDatabase(TEMPORARY)

    def write_if_free(self, write: Callable[[apsw.Connection], object]) -> None:
        """Add derived data in a transaction; not where another process is writing, or has replaced the file."""
        with contextlib.ExitStack() as held, contextlib.suppress(Busy, RecollectError, OSError, Failure):
            if not self.is_temporary:
                held.enter_context(held.enter_context(contextlib.closing(self.lock(0.0))))
            if self.is_temporary or not self.is_replaced:
                with self.database.transaction():
                    write(self.database.connection)

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
            return self._database is not None and self._database.meta("complete") is not None
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
    is_temporary: bool = False,
    progress: ProgressCallback | None = None,
    patience: float | None = None,
    need: FirstNeed | None = None,
) -> Iterator[OpenIndex]:
    """The index of some homes, refreshed unless ``is_refreshed`` is false; built where there is none.

    ``is_temporary``: no file is used, all logs are read for this answer. ``patience``: seconds to wait for another
    process that is refreshing. By default, a query waits for the first build but never for a later refresh.
    ``need``: how much of the first build it waits for; the rest is left to a background process, and ``notes`` says so.
    """
    opened = OpenIndex(homes, index_path(homes, cache))
    try:
        if is_temporary:
            opened.open_temporary()
        else:
            _open(opened)
        if not opened.is_temporary:
            _refresh(opened, progress, is_refreshed, patience, need)
        if opened.is_temporary:
            opened.refreshed = refresh(opened.database, opened.homes, progress, opened.archive)
        yield opened
    except BROKEN as problem:
        what, hint = ", and set aside", "run the command again: it is rebuilt from the logs"
        try:
            if not opened.is_temporary:
                _repair(opened, problem)
        except (OSError, StorageError, Busy):
            what, hint = "", "use --no-index to read the logs, or `recollect data index rebuild`"
        raise DamagedData(f"index {opened.path}: damaged ({problem}){what}", hint=hint) from problem
    except UNUSABLE as problem:
        cause = OSError(0, str(problem))
        raise StorageError(
            "read index", opened.path, cause, hint="use --no-index to read the logs"
        ) from problem
    finally:
        opened.close()


def update_index(
    homes: Sequence[Path],
    cache: Path | None = None,
    *,
    progress: ProgressCallback | None = None,
    patience: float | None = None,
) -> OpenIndex:
    """Bring the index up to date without asking it anything; what became of it, closed."""
    opened = OpenIndex(homes, index_path(homes, cache))
    with contextlib.closing(opened):
        _open(opened)
        if not opened.is_temporary:
            _refresh(opened, progress, is_wanted=True, patience=patience)
    return opened


@contextlib.contextmanager
def empty_index(homes: Sequence[Path], cache: Path | None = None) -> Iterator[OpenIndex]:
    """What there is to read while an index is built for the first time: nothing is known yet."""
    opened = OpenIndex(homes, index_path(homes, cache))
    opened.open_temporary()
    with contextlib.closing(opened):
        yield opened


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
    need: FirstNeed | None = None,
) -> None:
    """Refresh the index if requested, or if it was never finished."""
    try:
        if not opened.is_complete:
            seconds = _FIRST_BUILD_SECONDS if patience is None else patience
            with _locked_after_first_build(opened, seconds, progress, need) as is_ours:
                if is_ours:
                    _refresh_locked(opened, progress, need)
            if not opened.is_temporary and not opened.is_complete:
                _leave_to_background(opened)
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


def _leave_to_background(opened: OpenIndex) -> None:
    """Its newest logs have been read."""
    start_refresh(str(opened.path), [os.fspath(home) for home in opened.homes], niceness=_NICENESS)
    total = cast("int", opened.database.value("SELECT count(*) FROM sessions WHERE NOT gone"))
    opened.coverage = f"{total - len(unread_logs(opened.database, SESSION)):,} of {total:,} sessions"
    opened.notes.append(f"the index is being built, newest first: {opened.coverage} are in it")


def _refresh_locked(
    opened: OpenIndex, progress: ProgressCallback | None, need: FirstNeed | None = None
) -> None:
    try:
        if opened.is_replaced:
            opened.open()
        build(opened, progress, need)
    except Failure as problem:
        if is_busy(problem):
            _give_up(opened, f"the index is busy ({problem})", is_lasting=False)
        elif is_about_the_place(problem):
            _not_written(opened, problem)
        else:
            # The cause cannot be in the logs, so a new index will not have it.
            aside = opened.set_aside()
            opened.notes.append(_damaged(problem, aside))
            try:
                opened.open()
                build(opened, progress)
            except (Failure, OSError) as second:
                _not_written(opened, second)


def _damaged(problem: Exception, aside: Path) -> str:
    return f"the index was damaged ({problem}); it was set aside as {aside.name} and rebuilt; the logs are unchanged"


def build(opened: OpenIndex, progress: ProgressCallback | None, need: FirstNeed | None = None) -> None:
    """Update the index; a new one first copies what only its predecessors know. Only under the lock."""
    database = opened.database
    if database.value("SELECT 1 FROM files LIMIT 1") is None:
        carried = carry_over(database, opened.path, opened.homes)
        opened.carried_over, opened.unread = carried.sessions, carried.unread
        if carried.sessions:
            opened.notes.append(f"in the totals of the new index: {carried.sessions:,} deleted sessions")
        opened.notes += [
            f"{old.name} could not be read: deleted sessions it knew are missing from the totals"
            for old in carried.unread
        ]
    opened.refreshed = refresh(database, opened.homes, progress, opened.archive, need)


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
    """A temporary index takes its place for this answer."""
    opened.open_temporary()
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


@contextlib.contextmanager
def _locked_after_first_build(
    opened: OpenIndex, patience: float, progress: ProgressCallback | None, need: FirstNeed | None = None
) -> Iterator[bool]:
    """The lock of the index, once no one else is building it; ``Busy`` after ``patience`` seconds.

    False, and no lock, as soon as another process has read what is needed.
    """
    begun = time.monotonic()
    until = begun + patience
    with contextlib.ExitStack() as stack:
        while True:
            left = until - time.monotonic()
            lock = stack.enter_context(contextlib.closing(opened.lock(max(0.0, min(left, _LOOK_SECONDS)))))
            try:
                stack.enter_context(lock)
            except Busy:
                if need is not None and _is_met(opened.database, need, begun):
                    yield False
                    return
                if left <= _LOOK_SECONDS:
                    raise
                stack.close()
                if progress is not None:
                    _tell(opened.database, progress)
            else:
                yield True
                return


def _is_met(database: IndexDatabase, need: FirstNeed, begun: float) -> bool:
    """Whether the process that builds it has read what an answer waits for."""
    with contextlib.suppress(Failure):
        if database.value("SELECT 1 FROM files WHERE mtime >= 0 LIMIT 1") is not None:
            oldest = database.value("SELECT max(~mtime) FROM files WHERE mtime < 0 AND NOT gone")
            return need.is_met(cast("int", oldest or 0), begun, 0.0)
    return False


def _tell(database: IndexDatabase, progress: ProgressCallback) -> None:
    """How much the other process has read. It may set the file aside at any moment."""
    with contextlib.suppress(Failure):
        ((done, total),) = database.rows("SELECT sum(consumed), sum(size) FROM files")
        if isinstance(done, int) and isinstance(total, int):
            progress(done, total)
