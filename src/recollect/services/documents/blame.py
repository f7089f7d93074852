"""Who wrote a file: its lines, and the sessions and commits that changed it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from msgspec import Struct

from recollect.model.brief_repr import brief_repr
from recollect.services.blame.blame import BlamedLine, FileWriting
from recollect.services.blame.log import FileTouches, MatchedCommit, TouchingSession


class WritingDocument(Struct, frozen=True, kw_only=True):
    """A change that wrote lines: the session, the agent that it sent, the prompt that asked for it."""

    session: str
    title: str
    cwd: str
    archived: bool
    agent: str | None
    tool: str
    at: dt.datetime | None
    entry_uuid: str | None
    prompt_uuid: str | None
    prompt: str | None
    path: str

    __repr__ = brief_repr


class BlamedLineDocument(Struct, frozen=True):
    """A line of the file. ``writing`` is a place in ``writings``, null for unknown; ``uncertain``: one of several."""

    line: int
    text: str
    writing: int | None
    uncertain: bool

    __repr__ = brief_repr


class BlameDocument(Struct, frozen=True, kw_only=True):
    """What ``blame --json`` prints; ``known`` of ``total`` lines have a session."""

    path: str
    lines: list[BlamedLineDocument]
    writings: list[WritingDocument]
    total: int
    known: int

    __repr__ = brief_repr


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
    """What ``log --json`` prints."""

    path: str
    sessions: list[TouchingSessionDocument]
    commits: list[FileCommitDocument]

    __repr__ = brief_repr


def blame_document(path: str, lines: Sequence[BlamedLine]) -> BlameDocument:
    numbers: dict[int, int] = {}
    writings: list[FileWriting] = []
    rows = []
    for line in lines:
        if line.writing is not None and id(line.writing) not in numbers:
            numbers[id(line.writing)] = len(writings)
            writings.append(line.writing)
        number = None if line.writing is None else numbers[id(line.writing)]
        rows.append(BlamedLineDocument(line.number, line.text, number, line.is_uncertain))
    return BlameDocument(
        path=path,
        lines=rows,
        writings=[writing_document(one) for one in writings],
        total=len(rows),
        known=sum(row.writing is not None for row in rows),
    )


def writing_document(writing: FileWriting) -> WritingDocument:
    session, prompt = writing.session, writing.prompt
    return WritingDocument(
        session=session.id,
        title=session.title,
        cwd=session.cwd,
        archived=session.is_archived,
        agent=writing.agent,
        tool=writing.tool,
        at=writing.at,
        entry_uuid=writing.entry,
        prompt_uuid=None if prompt is None else prompt.uuid,
        prompt=None if prompt is None else prompt.text,
        path=writing.path,
    )


def file_log_document(path: str, log: FileTouches) -> FileLogDocument:
    return FileLogDocument(
        path, [_session(one) for one in log.sessions], [_commit(one) for one in log.commits]
    )


def _session(one: TouchingSession) -> TouchingSessionDocument:
    prompts = dict.fromkeys(prompt.text for made in one.writings if (prompt := made.prompt) is not None)
    return TouchingSessionDocument(
        session=one.session.id,
        title=one.session.title,
        cwd=one.session.cwd,
        archived=one.session.is_archived,
        agents=sorted({made.agent for made in one.writings if made.agent is not None}),
        changes=len(one.writings),
        first_at=one.first_at,
        last_at=one.last_at,
        lines=one.lines,
        paths=sorted({made.path for made in one.writings}),
        prompts=list(prompts),
    )


def _commit(one: MatchedCommit) -> FileCommitDocument:
    return FileCommitDocument(
        commit=one.commit.id,
        at=one.commit.at,
        subject=one.commit.subject,
        added=one.added,
        exact=one.is_exact,
        sessions=[CommitSessionDocument(found.session, found.lines) for found in one.sessions],
    )
