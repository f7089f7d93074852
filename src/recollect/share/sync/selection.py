"""Which files of a home are sent: an allow list, found in one walk.

Only files of a session, by their location: the log, sub-agents and their notes, tool results, the title, file
backups, tasks and todos. Nothing else is ever read, so no credentials, settings, prompt history, pastes or
memory can be sent. Links are not followed: they could lead to any of those.

Names are used as the file system gives them and nothing is opened: a push without changes is only this walk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from recollect.errors import InvalidId
from recollect.model.lines.ids import SessionId
from recollect.share.sync.wire import key_of, names_of
from recollect.store.home_walk import AGENT, LOG, role_of
from recollect.store.session_files import (
    BACKUPS,
    DEEPEST,
    META,
    PROJECTS,
    RESULTS,
    SUBAGENTS,
    TASKS,
    TITLE,
    TODO_MARK,
    TODOS,
    is_session_path,
)

FLAT = "flat"


class OutgoingFile(NamedTuple):
    """One file to be sent.

    ``owner`` is the path of its session's log without the suffix; "" where only its lines name it.
    """

    path: str
    is_log: bool
    owner: str
    session: str
    key: str
    size: int
    mtime_ns: int
    inode: int


class PushScan:
    """One walk through a home. ``problems`` are files that cannot be sent, and why."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.problems: list[tuple[str, str]] = []

    def files(self) -> list[OutgoingFile]:
        """Everything to be sent, logs before side files within a session."""
        owners: dict[str, str] = {}
        found: list[OutgoingFile] = []
        for project in self._directories(self._root / PROJECTS):
            found += self._project(project.path, owners)
        found += self._by_session(owners)
        return found

    def _project(self, directory: str, owners: dict[str, str]) -> Iterator[OutgoingFile]:
        entries = list(self._entries(directory))
        for entry in entries:
            role, stem = role_of(entry.name), entry.name[: -len(LOG)]
            if role == "agent":
                yield from self._file(entry, "", "", FLAT, stem, is_log=True)
            elif role == "session" and is_session_name(stem):
                owner = entry.path[: -len(LOG)]
                owners[stem] = owner
                yield from self._file(entry, owner, stem, is_log=True)
        for entry in entries:
            if entry.name.startswith(AGENT) and entry.name.endswith(META):
                yield from self._file(entry, "", "", FLAT, entry.name)
            elif not entry.name.endswith((LOG, ".json")) and is_session_name(entry.name):
                yield from self._side(entry)

    def _side(self, directory: os.DirEntry[str]) -> Iterator[OutgoingFile]:
        session, owner = directory.name, directory.path
        if not _is_directory(directory):
            return
        for entry in self._entries(owner):
            if entry.name == SUBAGENTS and _is_directory(entry):
                yield from self._agents(entry.path, owner, session, (SUBAGENTS,))
            elif entry.name == RESULTS and _is_directory(entry):
                for result in self._entries(entry.path):
                    yield from self._file(result, owner, session, RESULTS, result.name)
            elif entry.name == TITLE:
                yield from self._file(entry, owner, session, TITLE)

    def _agents(
        self, directory: str, owner: str, session: str, above: tuple[str, ...]
    ) -> Iterator[OutgoingFile]:
        for entry in self._entries(directory):
            name = entry.name
            if role_of(name) == "agent":
                yield from self._file(entry, owner, session, *above, name[: -len(LOG)], is_log=True)
            elif name.startswith(AGENT) and name.endswith(META):
                yield from self._file(entry, owner, session, *above, name)
            elif len(above) < DEEPEST and _is_directory(entry):
                yield from self._agents(entry.path, owner, session, (*above, name))

    def _by_session(self, owners: dict[str, str]) -> Iterator[OutgoingFile]:
        """Files in directories named after sessions; only of existing sessions."""
        for room in (BACKUPS, TASKS):
            for directory in self._directories(self._root / room):
                owner = owners.get(directory.name)
                if owner is not None:
                    for entry in self._entries(directory.path):
                        yield from self._file(entry, owner, directory.name, room, entry.name)
        for entry in self._entries(os.fspath(self._root / TODOS)):
            session = entry.name.removesuffix(".json").partition(TODO_MARK)[0]
            if entry.name.endswith(".json") and session in owners:
                yield from self._file(entry, owners[session], session, TODOS, entry.name)

    def _file(
        self, entry: os.DirEntry[str], owner: str, session: str, *names: str, is_log: bool = False
    ) -> Iterator[OutgoingFile]:
        try:
            if not entry.is_file(follow_symlinks=False):
                return
            seen = entry.stat(follow_symlinks=False)
            key = key_of(*names) if names else ""
        except FileNotFoundError:
            return
        except OSError as cause:
            self.problems.append((entry.path, cause.strerror or "cannot be read"))
            return
        except InvalidId as problem:
            self.problems.append((entry.path, problem.reason))
            return
        if seen.st_size:
            yield OutgoingFile(
                entry.path, is_log, owner, session, key, seen.st_size, seen.st_mtime_ns, seen.st_ino
            )

    def _directories(self, path: Path) -> list[os.DirEntry[str]]:
        return [entry for entry in self._entries(os.fspath(path)) if _is_directory(entry)]

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return sorted(entries, key=attrgetter("name"))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            self.problems.append((directory, cause.strerror or "cannot be read"))
            return []


def place_of(key: str, root: Path, project: Path, session: str, *, is_log: bool) -> Path:
    """The path of a remote file in a home: the inverse of ``PushScan``; ``InvalidId`` unless it is one of this
    session.
    """
    names = names_of(key) if key else []
    parts = _home_parts(names, project.name, session, LOG if is_log else "")
    is_agent = names[:1] in ([FLAT], [SUBAGENTS])
    fits = is_agent or not names if is_log else not (is_agent and parts[-1].endswith(LOG))
    if not fits or not is_session_path(parts, project.name, session):
        raise InvalidId("key", key, "is not a file of this session")
    return project.joinpath(*parts[2:]) if parts[0] == PROJECTS else root.joinpath(*parts)


def _home_parts(names: list[str], project: str, session: str, ending: str) -> list[str]:
    """The names of a key as a path below a home."""
    if not names:
        return [PROJECTS, project, session + ending]
    first, *rest = [*names[:-1], names[-1] + ending]
    if first == FLAT:
        return [PROJECTS, project, *rest]
    if first == TODOS:
        return [first, *rest]
    return (
        [first, session, *rest] if first in (BACKUPS, TASKS) else [PROJECTS, project, session, first, *rest]
    )


def is_session_name(name: str) -> bool:
    """Whether the name is valid for a session: it becomes part of paths on all machines."""
    return SessionId.parse(name) is not None


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
