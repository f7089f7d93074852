"""What sessions changed in files, from before the first change to after the last. What was only read is no change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from recollect.ask.blame.sessions import sessions_naming
from recollect.ask.homes import Homes
from recollect.ask.list import touches
from recollect.ask.sessions.projects import ProjectFilter
from recollect.ask.sessions.session import Session
from recollect.errors import UsageError
from recollect.model.files.history import FileVersion, VersionSource, diff
from recollect.model.files.reports import LineTally
from recollect.store.file_backups import touched_files

_OWN = (VersionSource.WRITE, VersionSource.EDIT)
_EARLIEST = dt.datetime.min.replace(tzinfo=dt.UTC)


class FileNetChange(Struct, frozen=True, kw_only=True):
    """One file. ``diff`` is None where a content is not known; the lines are then those of the single changes."""

    path: str
    kind: Literal["created", "changed", "deleted", "unchanged"]
    added: int
    removed: int
    changes: int
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    sessions: list[str]
    diff: str | None


class NetChanges(Struct, frozen=True):
    """What some sessions changed, the file that was changed last first."""

    sessions: int
    added: int
    removed: int
    files: list[FileNetChange]


class _Ends(NamedTuple):
    """What one session did to one file: the state before it, and its own changes in their order."""

    session: str
    before: FileVersion | None
    own: list[FileVersion]

    @property
    def at(self) -> dt.datetime:
        return self.own[0].at or _EARLIEST


def net_changes(
    sessions: Iterable[Session],
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    path: str | None = None,
) -> NetChanges:
    """Every file that the sessions and their sub-agents changed in that time."""
    count = 0
    files: dict[str, list[_Ends]] = {}
    for session in sessions:
        count += 1
        for name, versions in touched_files(session.home, session.file).items():
            if path is None or is_path(name, path):
                own = [at for at, version in enumerate(versions) if _is_own(version, since, until)]
                if own:
                    before = versions[own[0] - 1] if own[0] else None
                    ends = _Ends(session.id, before, [versions[at] for at in own])
                    files.setdefault(name, []).append(ends)
    result = [_net(name, sorted(ends, key=lambda one: one.at)) for name, ends in files.items()]
    result.sort(key=lambda change: change.last_at or _EARLIEST, reverse=True)
    return NetChanges(count, sum(one.added for one in result), sum(one.removed for one in result), result)


def sessions_changing(
    home: Homes,
    *,
    path: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    project: str | None = None,
) -> Iterator[Session]:
    """The sessions that may have changed such a file in that time."""
    wanted = None if project is None else ProjectFilter(project)
    name = Path(path).name if path and not Path(path).is_dir() else None
    for session in home.sessions() if name is None else sessions_naming(home, name):
        if since is not None and session.path.stat().st_mtime < since.timestamp():
            continue
        if wanted is not None and not wanted.fits(session.cwd):
            continue
        glance = session.glance
        last = glance.last_at or dt.datetime.fromtimestamp(session.path.stat().st_mtime, dt.UTC)
        if touches(glance.first_at, last, since, until):
            yield session


def is_path(path: str, wanted: str) -> bool:
    """Whether a path is the wanted one, lies below it, or ends in it."""
    name, ending = path.replace("\\", "/"), wanted.replace("\\", "/").removeprefix("./").rstrip("/")
    is_below = name.startswith(f"{ending}/") or (not ending.startswith("/") and f"/{ending}/" in name)
    return is_below or is_file_of(path, wanted)


def is_file_of(path: str, wanted: str) -> bool:
    """Whether a path is the wanted one or ends in it."""
    name, ending = path.replace("\\", "/"), wanted.replace("\\", "/").removeprefix("./").rstrip("/")
    return name == ending or name.endswith(f"/{ending.lstrip('/')}")


def _is_own(version: FileVersion, since: dt.datetime | None, until: dt.datetime | None) -> bool:
    if version.source not in _OWN:
        return False
    if version.at is None:
        return since is None and until is None
    return (since is None or version.at >= since) and (until is None or version.at < until)


def _net(path: str, ends: list[_Ends]) -> FileNetChange:
    own = [version for one in ends for version in one.own]
    before, after = ends[0].before, max(own, key=lambda version: version.at or _EARLIEST)
    text: str | None
    try:
        text = diff(before, after) if after.is_known and (before is None or before.is_known) else None
    except UsageError:
        text = None
    single = sum((version.tally for version in own if version.tally is not None), LineTally())
    tally = single if text is None else _tally(text)
    return FileNetChange(
        path=path,
        kind=_kind(before, after, text, is_edited=own[0].source is VersionSource.EDIT),
        added=tally.added,
        removed=tally.removed,
        changes=len(own),
        first_at=own[0].at,
        last_at=after.at,
        sessions=list(dict.fromkeys(one.session for one in ends)),
        diff=text,
    )


def _kind(
    before: FileVersion | None, after: FileVersion, text: str | None, *, is_edited: bool
) -> Literal["created", "changed", "deleted", "unchanged"]:
    # What is edited was there, though nobody had seen it.
    was_there = is_edited if before is None else before.existed
    if not after.existed:
        return "deleted" if was_there else "unchanged"
    if not was_there:
        return "created"
    return "unchanged" if text == "" else "changed"


def _tally(text: str) -> LineTally:
    """The lines of a unified diff, without its two lines of names."""
    lines = text.split("\n")[2:]
    return LineTally(sum(line[:1] == "+" for line in lines), sum(line[:1] == "-" for line in lines))
