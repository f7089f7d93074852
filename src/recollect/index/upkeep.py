"""Status, rebuild and vacuum of an index, for `recollect data index`.

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
from typing import cast

from msgspec import Struct, structs

from recollect.errors import DamagedData, NotFound, StorageError
from recollect.index.access import OpenIndex, build, index_path, is_built
from recollect.index.comparison import compare
from recollect.index.database import Failure, IndexDatabase, is_about_the_place
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT, VERSION, refreshed_at
from recollect.store.home_walk import scan_logs
from recollect.system.pool import ProgressCallback

# Table -> where its rows are counted; the full-text table has no rows of its own.
_TABLES = {
    "files": "files",
    "messages": "messages",
    "texts": "texts_docsize",
    "responses": "responses",
    "usage": "usage",
    "rollup": "rollup",
    "cost_states": "cost_states",
    "names": "names",
    "spans": "spans",
    "catalogue": "catalogue",
    "damage": "damage",
    "typed": "typed_docsize",
    "recall": "recall_docsize",
}


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
    segments: int = 0  # of the full-text table, which a search has to read
    changed_logs: int = 0
    missing_logs: int = 0
    stale: list[Path] = []
    share: float | None = None  # its size relative to the logs
    is_current: bool = False  # whether it knows the current state of every log


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
    known = IndexStatus(path=path, log_bytes=sum(log.size for log in logs), stale=_stale(path))
    if not path.exists():
        return known
    at, size = refreshed_at(str(path)), _size(path)
    known = structs.replace(
        known,
        exists=True,
        bytes=size,
        share=round(size / known.log_bytes, 4) if known.log_bytes else None,
        refreshed_at=None if at is None else dt.datetime.fromtimestamp(at, dt.UTC),
    )
    if not known.bytes and path.is_file():
        return known  # another process is creating it
    try:
        with contextlib.closing(IndexDatabase(path, read_only=True)) as index:
            with index.reading():
                known = _count_rows(index, known)
            changes = compare(index, homes, OpenIndex(homes, path).archive)
            broken = index.value("PRAGMA quick_check(1)")
    except (Failure, OSError) as problem:
        return structs.replace(known, problem=str(problem))
    return structs.replace(
        known,
        is_current=known.is_complete and broken == "ok" and not changes.changed and not changes.gone,
        problem=None if broken == "ok" else str(broken),
        changed_logs=len(changes.changed),
        missing_logs=len(changes.gone),
    )


def _count_rows(index: IndexDatabase, known: IndexStatus) -> IndexStatus:
    def count(rows: str) -> int:
        return cast("int", index.value(f"SELECT count(*) FROM {rows}"))  # noqa: S608 - constants

    here = "files WHERE NOT gone AND role ="
    with_usage = "EXISTS (SELECT 1 FROM usage WHERE file = files.id)"
    return structs.replace(
        known,
        is_complete=index.meta("complete") is not None,
        rows={name: count(table) for name, table in _TABLES.items()},
        sessions=count(f"{here} {SESSION}"),
        agents=count(f"{here} {AGENT}"),
        tool_outputs=count(f"{here} {TOOL_OUTPUT}"),
        gone_sessions=count(f"files WHERE gone AND role = {SESSION} AND {with_usage}"),
        segments=count("(SELECT DISTINCT segid FROM texts_idx)"),
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
        raise NotFound(f"no index at {opened.path}", hint="`recollect data index rebuild` builds one")
    with contextlib.closing(opened), contextlib.closing(opened.lock(_PATIENCE)) as lock, lock:
        before = _size(opened.path)
        try:
            opened.open()
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
                f"index {opened.path}: {problem}", hint="`recollect data index rebuild` builds a new one"
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
