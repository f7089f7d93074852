"""Status, rebuild and vacuum of an index, for `recollect index`.

Status changes nothing and never waits. A rebuild keeps the old index until the new one is complete,
and copies what only the old one knew: the cost of deleted sessions. Vacuum merges the segments of
the full-text table and frees unused pages.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from recollect.errors import DamagedData, NotFound, StorageError
from recollect.index.database import Failure, IndexDatabase, is_about_the_place
from recollect.index.figures import figures
from recollect.index.schema import VERSION
from recollect.services.indexing.access import OpenIndex, build, index_path, is_built
from recollect.services.indexing.refresh import compare
from recollect.storage.home_walk import scan_logs
from recollect.system.progress import ProgressCallback

# Seconds a command waits for another process that uses the index.
_PATIENCE = 900.0
_OURS = re.compile(r"index-v([0-9]{1,9})-([0-9a-f]{8})\.(sqlite|aside)(-wal|-shm)?")


class IndexStatus(Struct, frozen=True, kw_only=True):
    """The state of an index. Counts are 0 if there is none, or it cannot be read."""

    path: Path
    version: int = VERSION
    exists: bool = False
    is_complete: bool = False
    problem: str | None = None
    bytes: int = 0
    log_bytes: int = 0
    refreshed_at: dt.datetime | None = None
    rows: dict[str, int] = {}
    sessions: int = 0
    agents: int = 0
    tool_outputs: int = 0
    gone_sessions: int = 0
    segments: int = 0
    changed_logs: int = 0
    missing_logs: int = 0
    stale: list[Path] = []

    @property
    def share(self) -> float | None:
        """Its size relative to the logs."""
        return self.bytes / self.log_bytes if self.log_bytes else None

    @property
    def is_current(self) -> bool:
        """Whether it knows the current state of every log."""
        return self.is_complete and not self.problem and not self.changed_logs and not self.missing_logs


class RebuildResult(Struct, frozen=True):
    """The result of a rebuild. ``gone_sessions``: deleted sessions that stay in the totals.

    ``unread``: older indexes that could not be read and may know more deleted sessions.
    """

    path: Path
    logs: int
    bytes: int
    gone_sessions: int
    unread: list[Path]
    problems: list[tuple[str, str]]


class VacuumResult(Struct, frozen=True):
    """The result of a vacuum. ``removed``: files that were no longer needed."""

    path: Path
    bytes_before: int
    bytes_after: int
    removed: list[Path]


def status(homes: Sequence[Path], cache: Path | None = None) -> IndexStatus:
    """The state of the index of some homes, without changing it."""
    path = index_path(homes, cache)
    logs = [log for home in homes for log in scan_logs(home)]
    known = {"path": path, "log_bytes": sum(log.size for log in logs), "stale": _stale(path)}
    if not path.exists():
        return IndexStatus(**known)  # type: ignore[arg-type]
    known |= {"exists": True, "bytes": _size(path), "refreshed_at": _refreshed_at(path)}
    if not known["bytes"] and path.is_file():
        return IndexStatus(**known)  # type: ignore[arg-type]  # another process is creating it
    try:
        with contextlib.closing(IndexDatabase(path, read_only=True)) as index:
            numbers = figures(index)
            compared = compare(index, homes, OpenIndex(homes, path).archive)
            broken = index.value("PRAGMA quick_check(1)")
    except (Failure, OSError) as problem:
        return IndexStatus(**known, problem=str(problem))  # type: ignore[arg-type]
    return IndexStatus(
        **known,  # type: ignore[arg-type]
        is_complete=numbers.is_complete,
        problem=None if broken == "ok" else str(broken),
        rows=numbers.rows,
        sessions=numbers.sessions,
        agents=numbers.agents,
        tool_outputs=numbers.tool_outputs,
        gone_sessions=numbers.gone_sessions,
        segments=numbers.segments,
        changed_logs=len(compared.changed),
        missing_logs=len(compared.missing),
    )


def rebuild(
    homes: Sequence[Path], cache: Path | None = None, progress: ProgressCallback | None = None
) -> RebuildResult:
    """Build a new index from the logs. If that fails, the old one is put back."""
    opened = OpenIndex(homes, index_path(homes, cache))
    with contextlib.closing(opened), contextlib.closing(opened.lock(_PATIENCE)) as lock, lock:
        had_one = opened.path.exists()
        aside = opened.set_aside()
        try:
            opened.open()
            build(opened, progress)
        except (Failure, OSError) as problem:
            opened.remove()
            what = "nothing was changed"
            if had_one:
                opened.put_back(aside)
                what = "the old index was put back"
            hint = f"{what}; free some space or check the disk, then try again"
            raise StorageError("rebuild index", opened.path, _as_os_error(problem), hint=hint) from problem
        done = opened.refreshed
        opened.close()  # writes its last pages
        if had_one and aside not in opened.unread:
            opened.remove_aside(aside)
        return RebuildResult(
            opened.path,
            0 if done is None else done.logs,
            _size(opened.path),
            opened.carried_over,
            list(opened.unread),
            [] if done is None else done.problems,
        )


def vacuum(homes: Sequence[Path], cache: Path | None = None) -> VacuumResult:
    """Merge the full-text table, free unused pages, and remove files of older versions."""
    opened = OpenIndex(homes, index_path(homes, cache))
    if not opened.path.exists():
        raise NotFound(f"no index at {opened.path}", hint="`recollect index rebuild` builds one")
    with contextlib.closing(opened), contextlib.closing(opened.lock(_PATIENCE)) as lock, lock:
        before = _size(opened.path)
        try:
            opened.open()
            assert opened.database is not None  # noqa: S101 - for the type checker: just opened
            run = opened.database.connection.execute
            run("INSERT INTO texts(texts) VALUES('optimize')")
            run("INSERT INTO recall(recall) VALUES('optimize')")
            run("VACUUM")
            opened.database.settle()
        except Failure as problem:
            if is_about_the_place(problem):
                hint = "nothing was changed; free some space or check the disk, then try again"
                raise StorageError("vacuum index", opened.path, _as_os_error(problem), hint=hint) from problem
            raise DamagedData(
                f"index {opened.path}: {problem}", hint="`recollect index rebuild` builds a new one"
            ) from problem
        opened.close()
        removed = _stale(opened.path)
        for path in removed:
            path.unlink(missing_ok=True)
        return VacuumResult(opened.path, before, _size(opened.path), removed)


def _as_os_error(problem: Exception) -> OSError:
    return problem if isinstance(problem, OSError) else OSError(0, str(problem))


def _size(path: Path) -> int:
    found = 0
    for suffix in ("", "-wal"):
        with contextlib.suppress(OSError):
            found += path.with_name(path.name + suffix).stat().st_size
    return found


def _refreshed_at(path: Path) -> dt.datetime | None:
    """The time of the lock file: every refresh writes a line into it."""
    try:
        return dt.datetime.fromtimestamp(path.with_suffix(".lock").stat().st_mtime, dt.UTC)
    except OSError:
        return None


def _stale(path: Path) -> list[Path]:
    """Indexes that were set aside, and those of older versions that have a successor; never a directory."""
    found = []
    with contextlib.suppress(OSError):
        for name in sorted(path.parent.iterdir()):
            other = _OURS.fullmatch(name.name)
            if other is None or not name.is_file() or name == path:
                continue
            version, homes, kind, _ = other.groups()
            successor = path.with_name(f"index-v{VERSION}-{homes}.sqlite")
            # An older index may be the only one that knows the cost of deleted sessions.
            if (int(version) < VERSION or (kind == "aside" and int(version) == VERSION)) and is_built(
                successor
            ):
                found.append(name)
    return found
