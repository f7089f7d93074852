"""The sessions that touched a file, and the commits that hold what they wrote.

A commit belongs to a session if lines that it adds were written by that session: the same replay that answers
``blame``, asked about the text of the commit. Time only decides which changes came before it.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from msgspec import Struct, structs

from recollect.ask.blame.blame import FileTrails, FileWriting, present_text, trails
from recollect.ask.homes import Homes
from recollect.errors import NotFound, UsageError
from recollect.model.blame import FileReplay, carried, completed, lines_of, plain
from recollect.model.files.history import reported_text
from recollect.model.lines.damage import brief_repr
from recollect.store.git import FileCommit, file_commits, former_names

_MOST_COMMITS = 200
_OLD, _ADDED = 0, 1


class TouchingSessionDocument(Struct, frozen=True, kw_only=True):
    """A session that changed a file; ``lines`` of what it wrote are there now."""

    session: str
    title: str
    cwd: str
    archived: bool
    agents: list[str]
    changes: int
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    lines: int | None
    paths: list[str]
    prompts: list[str]

    __repr__ = brief_repr


class CommitSessionDocument(Struct, frozen=True):
    """How many of the lines that a commit adds a session wrote."""

    session: str
    lines: int


class FileCommitDocument(Struct, frozen=True, kw_only=True):
    """A commit of the file, matched by content; ``exact``: the file is as the last change left it."""

    commit: str
    at: dt.datetime
    subject: str
    added: int
    exact: bool
    sessions: list[CommitSessionDocument]

    __repr__ = brief_repr


class FileLogDocument(Struct, frozen=True):
    """What ``log --json`` prints: sessions and commits, newest first."""

    path: str
    sessions: list[TouchingSessionDocument]
    commits: list[FileCommitDocument]

    __repr__ = brief_repr


def file_log(home: Homes, path: Path) -> FileLogDocument:
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
        by_session.setdefault(one.session, []).append(one)
    sessions = [
        _session_of(
            made,
            None if text is None else sum(found.writings[one].session == name for one in now if one >= 0),
        )
        for name, made in by_session.items()
    ]
    sessions.sort(key=lambda one: one.last_at or dt.datetime.min.replace(tzinfo=dt.UTC), reverse=True)
    return FileLogDocument(str(path), sessions, matched)


def _session_of(made: list[FileWriting], lines: int | None) -> TouchingSessionDocument:
    times = [one.at for one in made if one.at is not None]
    prompts = dict.fromkeys(one.prompt for one in made if one.prompt is not None)
    return TouchingSessionDocument(
        session=made[0].session,
        title=made[0].title,
        cwd=made[0].cwd,
        archived=made[0].archived,
        agents=sorted({one.agent for one in made if one.agent is not None}),
        changes=len(made),
        first_at=min(times, default=None),
        last_at=max(times, default=None),
        lines=lines,
        paths=sorted({one.path for one in made}),
        prompts=list(prompts),
    )


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
) -> tuple[list[int], list[FileCommitDocument]]:
    """The owners of the lines now, and the commits matched on the way."""
    path = str(found.file.path)
    steps = completed([step for _, step in found.steps], path, text)
    times = {id(step): at for at, step in found.steps}
    waiting = sorted(commits, key=lambda one: one.at)
    replay, matched, latest = FileReplay(path), list[FileCommitDocument](), None
    for step in steps:
        latest = times.get(id(step), latest)
        while waiting and latest is not None and waiting[0].at + dt.timedelta(seconds=1) <= latest:
            matched.append(_matched(replay, found, waiting.pop(0)))
        replay.take(step)
    matched += [_matched(replay, found, commit) for commit in waiting]
    order = {one.id: number for number, one in enumerate(commits)}
    matched.sort(key=lambda one: order[one.commit])
    return ([] if text is None else replay.owners(text)), matched


def _matched(replay: FileReplay, found: FileTrails, commit: FileCommit) -> FileCommitDocument:
    text, before = (None if data is None else reported_text(data) for data in (commit.text, commit.before))
    if text is None:
        return FileCommitDocument(
            commit=commit.id, at=commit.at, subject=commit.subject, added=0, exact=False, sessions=[]
        )
    lines, old = lines_of(plain(text)), lines_of(plain(before or ""))
    added = [mark == _ADDED for mark in carried(old, [_OLD] * len(old), lines, _ADDED)]
    counts: dict[str, int] = {}
    for owner, is_new in zip(replay.owners(text), added, strict=True):
        if owner >= 0 and is_new:
            name = found.writings[owner].session
            counts[name] = counts.get(name, 0) + 1
    sessions = [
        CommitSessionDocument(name, lines) for name, lines in sorted(counts.items(), key=lambda one: -one[1])
    ]
    return FileCommitDocument(
        commit=commit.id,
        at=commit.at,
        subject=commit.subject,
        added=sum(added),
        exact=bool(counts) and replay.is_present(text),
        sessions=sessions,
    )
