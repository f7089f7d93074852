"""The sessions that touched a file, and the commits that hold what they wrote.

A commit belongs to a session if lines that it adds were written by that session: the same replay that answers
``blame``, asked about the text of the commit. Time only decides which changes came before it.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from msgspec import Struct, structs

from recollect.errors import NotFound, UsageError
from recollect.model.blame.line_owners import carried, lines_of
from recollect.model.blame.replay import FileReplay, completed, plain
from recollect.model.files.history import reported_text
from recollect.services.blame.blame import FileTrails, FileWriting, present_text, trails
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.storage.git_commits import FileCommit, file_commits, former_names

_MOST_COMMITS = 200
_OLD, _ADDED = 0, 1


class TouchingSession(Struct, frozen=True):
    """A session that changed the file. ``lines`` of them are in it now; None where the file is gone."""

    session: Session
    writings: list[FileWriting]
    lines: int | None

    @property
    def first_at(self) -> dt.datetime | None:
        return min((one.at for one in self.writings if one.at is not None), default=None)

    @property
    def last_at(self) -> dt.datetime | None:
        return max((one.at for one in self.writings if one.at is not None), default=None)


class CommitSession(Struct, frozen=True):
    """How many of the lines that a commit adds a session wrote."""

    session: str
    lines: int


class MatchedCommit(Struct, frozen=True):
    """A commit of the file. ``added`` lines are new in it; ``is_exact``: the file is as the last change left it."""

    commit: FileCommit
    added: int
    is_exact: bool
    sessions: list[CommitSession]


class FileTouches(Struct, frozen=True):
    """Newest first."""

    sessions: list[TouchingSession]
    commits: list[MatchedCommit]


def file_log(home: Home, path: Path) -> FileTouches:
    """The sessions that changed a file, which may be gone, and its commits."""
    try:
        text = present_text(path)
    except (NotFound, UsageError):
        text = None
    found = trails(home, path, text)
    commits = _commits(found.file.path)
    if not found.writings and not commits and text is None and not path.exists():
        raise NotFound(
            f"{path}: no such file, and no session changed one here",
            hint="check the path; it may be relative",
        )
    now, matched = _replayed(found, commits, text)
    by_session: dict[str, list[FileWriting]] = {}
    for one in found.writings:
        by_session.setdefault(one.session.id, []).append(one)
    sessions = [
        TouchingSession(
            made[0].session,
            made,
            None if text is None else sum(found.writings[one].session.id == name for one in now if one >= 0),
        )
        for name, made in by_session.items()
    ]
    sessions.sort(key=lambda one: one.last_at or dt.datetime.min.replace(tzinfo=dt.UTC), reverse=True)
    return FileTouches(sessions, matched)


def _commits(path: Path) -> list[FileCommit]:
    """Those of the file, newest first, also under the names it had before: a commit that renamed it is of both."""
    found: dict[str, FileCommit] = {}
    for name in (path, *former_names(path)):
        for one in file_commits(name, _MOST_COMMITS):
            other = found.get(one.id)
            found[one.id] = one if other is None else _joined(other, one)
    return sorted(found.values(), key=lambda one: one.at, reverse=True)[:_MOST_COMMITS]


def _joined(one: FileCommit, other: FileCommit) -> FileCommit:
    text = other.text if one.text is None else one.text
    return structs.replace(one, text=text, before=other.before if one.before is None else one.before)


def _replayed(
    found: FileTrails, commits: list[FileCommit], text: str | None
) -> tuple[list[int], list[MatchedCommit]]:
    """The owners of the lines now, and the commits matched on the way."""
    path = str(found.file.path)
    steps = completed([step for _, step in found.steps], path, text)
    times = {id(step): at for at, step in found.steps}
    waiting = sorted(commits, key=lambda one: one.at)
    replay, matched, latest = FileReplay(path), list[MatchedCommit](), None
    for step in steps:
        latest = times.get(id(step), latest)
        while waiting and latest is not None and waiting[0].at + dt.timedelta(seconds=1) <= latest:
            matched.append(_matched(replay, found, waiting.pop(0)))
        replay.take(step)
    matched += [_matched(replay, found, commit) for commit in waiting]
    order = {one.id: number for number, one in enumerate(commits)}
    matched.sort(key=lambda one: order[one.commit.id])
    return ([] if text is None else replay.owners(text)), matched


def _matched(replay: FileReplay, found: FileTrails, commit: FileCommit) -> MatchedCommit:
    text, before = (None if data is None else reported_text(data) for data in (commit.text, commit.before))
    if text is None:
        return MatchedCommit(commit, 0, False, [])
    lines, old = lines_of(plain(text)), lines_of(plain(before or ""))
    added = [mark == _ADDED for mark in carried(old, [_OLD] * len(old), lines, _ADDED)]
    counts: dict[str, int] = {}
    for owner, is_new in zip(replay.owners(text), added, strict=True):
        if owner >= 0 and is_new:
            name = found.writings[owner].session.id
            counts[name] = counts.get(name, 0) + 1
    sessions = [CommitSession(name, lines) for name, lines in sorted(counts.items(), key=lambda one: -one[1])]
    return MatchedCommit(commit, sum(added), bool(counts) and replay.is_present(text), sessions)
