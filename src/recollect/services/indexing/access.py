"""Get hold of the index: opened, refreshed, or set aside with a word about it.

The index belongs to a set of homes, because which copy of a response counts is decided
over all of them: another set of homes has an index of its own, told by its file name.

Nothing that is wrong with the index keeps a question from being answered. A broken file
is set aside and built anew; where there is no place to write, or no room, ``database`` is
None and the caller reads the logs themselves. ``notes`` says what happened. Damage that is
met in the middle of an answer ends it with an error; asked again, the index is a new one.

An index is written and set aside only under its lock, and who gets the lock looks first
whether the file is still the one it opened: somebody else may have replaced it meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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
from recollect.services.indexing.refresh import Progress, RefreshResult, refresh
from recollect.system import fsops
from recollect.system.locations import cache_dir, data_dir
from recollect.system.lock import FileLock

# How long a question waits for another process that is building the first index.
_FIRST_BUILD_SECONDS = 900.0
# How long it waits to set a broken one aside: whoever has the lock is just doing that, or refreshing.
_REPAIR_SECONDS = 60.0


class OpenIndex:
    """An index for a set of homes, as far as there is one."""

    def __init__(self, homes: Sequence[Path], path: Path) -> None:
        self.homes = tuple(homes)
        self.path = path
        self.database: IndexDatabase | None = None
        self.notes: list[str] = []
        self.refreshed: RefreshResult | None = None
        self.carried_over = 0  # deleted sessions that were taken over from an older index
        self.unread: tuple[Path, ...] = ()  # older indexes that may have known of more
        self._identity: tuple[int, int] | None = None

    def close(self) -> None:
        """Close; may be called again."""
        if self.database is not None:
            self.database.close()
            self.database = None

    def open(self) -> None:
        """Open the file, making it where there is none. Raises what is wrong with it or its place."""
        self.close()
        fsops.make_directories(self.path.parent)
        # Made by us first, so that nobody else can read it whatever the umask says.
        fsops.close(fsops.open_append(self.path).fd)
        self._identity = fsops.identity_at(str(self.path))
        self.database = IndexDatabase(self.path)

    @property
    def archive(self) -> Path:
        """The archive that goes with it: with ``--data`` both lie in one directory."""
        cache = self.path.parent
        return (data_dir() if cache == cache_dir() else cache.parent) / "archive"

    @property
    def is_replaced(self) -> bool:
        """Whether the name has gone to another file since it was opened."""
        return fsops.identity_at(str(self.path)) != self._identity

    @property
    def is_complete(self) -> bool:
        """Whether every log was read into it once. One that cannot be asked is not."""
        try:
            return self.database is not None and self.database.meta("complete") is not None
        except Failure:
            return False

    def lock(self, timeout: float) -> FileLock:
        """The lock of whoever writes this index or sets it aside."""
        return FileLock(self.path.with_suffix(".lock"), timeout=timeout, guards=self.path)

    def set_aside(self) -> Path:
        """Out of the way, under a name that says so; the one before is replaced. Under the lock only."""
        self.close()
        aside = self.path.with_suffix(".aside")
        if not self.path.exists():
            return aside
        if self.path.is_dir() or aside.is_dir():
            # Not ours: a directory keeps what it holds.
            aside = _free_name(aside)
        _unlink(*_with_side_files(aside))
        # The log of the last commits goes along: without it the file may be neither old nor new. Should we
        # die in between, a log without its file is of no harm.
        for source, target in zip(_with_side_files(self.path)[:2], _with_side_files(aside)[:2], strict=True):
            with contextlib.suppress(FileNotFoundError):
                source.rename(target)
        _unlink(*_with_side_files(self.path)[1:])
        return aside

    def put_back(self, aside: Path) -> None:
        """What was set aside takes its place again. Under the lock only."""
        for source, target in zip(_with_side_files(aside), _with_side_files(self.path), strict=True):
            with contextlib.suppress(FileNotFoundError):
                source.replace(target)

    def remove_aside(self, aside: Path) -> None:
        """What was set aside is not needed any more."""
        _unlink(*_with_side_files(aside))

    def remove(self) -> None:
        """Take the file away. Under the lock only."""
        self.close()
        _unlink(*_with_side_files(self.path))


def index_path(homes: Sequence[Path], cache: Path | None = None) -> Path:
    """Where the index of a set of homes lies."""
    return Path(index_file(homes, str(cache or cache_dir())))


def is_built(path: Path) -> bool:
    """Whether a first build of this index was ever finished. Looks only, waits for nobody."""
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
    progress: Progress | None = None,
    patience: float | None = None,
) -> Iterator[OpenIndex]:
    """The index of some homes, brought up to date unless told otherwise.

    ``patience``: how long to wait for another process that is at it. Without it a question waits
    for the first index and never for a later refresh.
    """
    opened = OpenIndex(homes, index_path(homes, cache))
    try:
        _open(opened)
        if opened.database is not None:
            _refresh(opened, progress, is_refreshed, patience)
        yield opened
    except BROKEN as problem:
        what, hint = ", and set aside", "ask again: it is built anew from the logs"
        try:
            _repair(opened, problem)
        except (OSError, StorageError, Busy):
            what, hint = "", "use --no-index to read the logs themselves, or `recollect index rebuild`"
        raise DamagedData(f"index {opened.path}: damaged ({problem}){what}", hint=hint) from problem
    except UNUSABLE as problem:
        cause = OSError(0, str(problem))
        raise StorageError(
            "read index", opened.path, cause, hint="use --no-index to read the logs themselves"
        ) from problem
    finally:
        opened.close()


def _open(opened: OpenIndex) -> None:
    """Open it, or say why there is none. What is broken is set aside and made anew."""
    try:
        try:
            opened.open()
        except (Failure, IsADirectoryError) as problem:
            if isinstance(problem, Failure) and (is_busy(problem) or is_about_the_place(problem)):
                raise
            _repair(opened, problem)
            opened.open()
    except (Failure, OSError, StorageError, Busy) as problem:
        _give_up(opened, f"no index: {opened.path}: {problem}")


def _repair(opened: OpenIndex, problem: Exception) -> None:
    """Set a broken index aside, unless somebody else has replaced it by now."""
    opened.close()
    with contextlib.closing(opened.lock(_REPAIR_SECONDS)) as lock, lock:
        if opened.is_replaced and opened.path.exists() and not opened.path.is_dir():
            return
        opened.notes.append(_damaged(problem, opened.set_aside()))


def _refresh(opened: OpenIndex, progress: Progress | None, is_wanted: bool, patience: float | None) -> None:
    """Refresh what was opened, where that is wanted or where it was never finished."""
    try:
        is_first = not opened.is_complete
        if not is_first and not is_wanted:
            return
        if patience is None:
            patience = _FIRST_BUILD_SECONDS if is_first else 0.0
        with contextlib.closing(opened.lock(patience)) as lock, lock:
            _refresh_locked(opened, progress)
    except Busy:
        opened.notes.append("another process is refreshing the index: the answer is as of its last refresh")
        if not opened.is_complete:
            _give_up(opened, "the index is not finished yet")
    except StorageError as problem:
        _give_up(opened, f"the index could not be locked ({problem.message})")
    except OSError as problem:
        _give_up(opened, f"the index is damaged and could not be set aside ({problem})")


def _refresh_locked(opened: OpenIndex, progress: Progress | None) -> None:
    try:
        if opened.is_replaced:
            opened.open()
        build(opened, progress)
    except Failure as problem:
        if is_busy(problem):
            _give_up(opened, f"the index is busy ({problem})")
        elif is_about_the_place(problem):
            _not_written(opened, problem)
        else:
            # Whatever it is, it does not come from the logs, so a new index is free of it.
            aside = opened.set_aside()
            opened.notes.append(_damaged(problem, aside))
            _build_anew(opened, progress)


def _build_anew(opened: OpenIndex, progress: Progress | None) -> None:
    try:
        opened.open()
        build(opened, progress)
    except (Failure, OSError) as problem:
        _not_written(opened, problem)


def _damaged(problem: Exception, aside: Path) -> str:
    return f"the index was damaged ({problem}); it was set aside as {aside.name} and built anew; the logs are untouched"


def build(opened: OpenIndex, progress: Progress | None) -> None:
    """Bring what was opened up to date; a new one first takes over what only its predecessors know. Under the lock."""
    database = opened.database
    assert database is not None  # noqa: S101 - for the type checker: whoever calls has opened it
    if database.value("SELECT 1 FROM files LIMIT 1") is None:
        from recollect.services.indexing.gone_sessions import carry_over

        carried = carry_over(database, opened.path, opened.homes)
        opened.carried_over, opened.unread = carried.sessions, carried.unread
        if carried.sessions:
            opened.notes.append(f"in the totals of the new index: {carried.sessions:,} deleted sessions")
        opened.notes += [
            f"{old.name} could not be read: what it knew of deleted sessions is missing from the totals"
            for old in carried.unread
        ]
    opened.refreshed = refresh(database, opened.homes, progress, opened.archive)


def _not_written(opened: OpenIndex, problem: Exception) -> None:
    """No room, or no right to write: a whole index stays as it was, one that was just begun is taken away."""
    if is_about_the_place(problem) and opened.is_complete:
        what = "is left as it was"
    elif is_full(problem):
        opened.remove()
        what = "was taken away again"
    else:
        what = f"was set aside as {opened.set_aside().name}"
    _give_up(opened, f"the index could not be written ({problem}) and {what}; the logs are untouched")
    opened.notes.append("free some space or mend the disk, then ask again")


def _give_up(opened: OpenIndex, reason: str) -> None:
    opened.close()
    opened.notes.append(f"{reason}; reading the logs instead")


def _with_side_files(path: Path) -> list[Path]:
    """The file, the log of its last commits, the index of that log."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def _unlink(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
            path.unlink()


def _free_name(wanted: Path) -> Path:
    """The name, or the first with a number that nothing has."""
    number = 1
    name = wanted
    while name.exists() or name.is_symlink():
        number += 1
        name = wanted.with_suffix(f".aside-{number}")
    return name
