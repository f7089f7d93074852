"""The paths of our own store: two layouts, one set of rules.

    claude   projects/<project key>/<uuid>.jsonl     as in a Claude home; agents below <uuid>/subagents/
    flat     projects/<hash of path>/<date>.jsonl    one log per project and day

Beside every log is its lock, ``<log>.lock``, which is never removed (S8). Removed files go to
``trash/<batch>/`` under the same relative path, so restoring is one rename.

A log that grew too large goes on in ``<name>.2.jsonl``, ``<name>.3.jsonl`` beside it, its parts: together they
are one log, and no part is a session of its own.

Names are id types and are checked once more for the layout, so no path built here leaves the store. Files
that other programs put into the store are not trusted: ``require_inside`` refuses a path that contains a
link, and listings skip links. Call it before opening a file.

This module builds paths and lists; it creates, opens and moves nothing.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import msgspec

from recollect.errors import InvalidId, UsageError
from recollect.model.lines.ids import AgentId, ProjectKey, SessionId
from recollect.model.project_key import flat_project_hash, project_key
from recollect.system import openat
from recollect.system.peek import ReadProblems, is_directory, list_directory, regular_file

_LOG, _LOCK = ".jsonl", ".lock"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_BATCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)


class StoreLayout(enum.StrEnum):
    """How a store names its projects and its logs."""

    CLAUDE = "claude"
    FLAT = "flat"

    def key(self, project: str) -> ProjectKey:
        """The directory name for an absolute, resolved working directory."""
        return project_key(project) if self is StoreLayout.CLAUDE else flat_project_hash(project)

    def require_session(self, session: SessionId) -> SessionId:
        """The id, if it is valid for a log of this layout; ``InvalidId`` if not."""
        session = SessionId(session)
        if self.fits(session):
            return session
        wanted = "a UUID" if self is StoreLayout.CLAUDE else "a day such as 2026-01-31"
        raise InvalidId("session id", session, f"the {self.value} layout needs {wanted}")

    def fits(self, session: SessionId) -> bool:
        """Whether the id is valid for a log of this layout."""
        return session.is_uuid if self is StoreLayout.CLAUDE else _is_day(session)


class StoredLog(msgspec.Struct, frozen=True):
    """A session's log in our store, as listed."""

    key: ProjectKey
    session: SessionId
    path: Path
    size: int
    mtime_ns: int


class StorePaths:
    """Every path of one store, and its listings."""

    def __init__(self, root: Path, layout: StoreLayout = StoreLayout.CLAUDE) -> None:
        self.root = root
        self.layout = StoreLayout(layout)
        self._problems = ReadProblems()

    @property
    def projects_dir(self) -> Path:
        """One directory per project."""
        return self.root / "projects"

    @property
    def trash_dir(self) -> Path:
        """Removed files, one directory per batch."""
        return self.root / "trash"

    def project_dir(self, key: ProjectKey) -> Path:
        """The directory of one project."""
        return self.projects_dir / ProjectKey(key)

    def log(self, key: ProjectKey, session: SessionId) -> Path:
        """The log of one session."""
        return self.project_dir(key) / f"{self.layout.require_session(session)}{_LOG}"

    def session_dir(self, key: ProjectKey, session: SessionId) -> Path:
        """The side files of one session."""
        return self.project_dir(key) / self.layout.require_session(session)

    def agent_log(self, key: ProjectKey, session: SessionId, agent: AgentId) -> Path:
        """The log of one sub-agent."""
        return self.session_dir(key, session) / "subagents" / f"agent-{AgentId(agent)}{_LOG}"

    def part(self, log: Path, number: int) -> Path:
        """One of the files of a log, counted from 1."""
        return log if number == 1 else log.with_name(f"{log.stem}.{number}{_LOG}")

    def parts(self, log: Path) -> list[Path]:
        """The files of a log that exist, oldest first."""
        found = [log] if log.exists() else []
        while found and (path := self.part(log, len(found) + 1)).exists():
            found.append(self.require_inside(path))
        return found

    def lock(self, log: Path) -> Path:
        """The lock of a log: beside it, never removed (S8)."""
        return log.with_name(log.name + _LOCK)

    def trashed(self, path: Path, batch: str) -> Path:
        """Where ``path`` of this store goes when it is removed with ``batch``."""
        if not _BATCH.fullmatch(batch):
            raise InvalidId("trash batch", batch, "is not a plain name of at most 64 characters")
        return self.trash_dir / batch / self._relative(path)

    def projects(self) -> Iterator[ProjectKey]:
        """The projects that have a directory. Links are skipped."""
        for entry in list_directory(self.projects_dir, self._problems):
            try:
                key = ProjectKey(entry.name)
            except InvalidId:
                continue
            if is_directory(entry, self._problems, follow=False):
                yield key

    def logs(self, key: ProjectKey | None = None) -> Iterator[StoredLog]:
        """The logs of one project, or of all, by name. Links and names of another layout are skipped."""
        for project in self.projects() if key is None else (key,):
            for entry in list_directory(self.project_dir(project), self._problems):
                session = self._session_of(entry.name)
                found = regular_file(entry, self._problems, follow=False) if session else None
                if session and found:
                    yield StoredLog(project, session, Path(entry.path), found.st_size, found.st_mtime_ns)

    def agents(self, key: ProjectKey, session: SessionId) -> Iterator[AgentId]:
        """The sub-agents of one session that have a log."""
        for entry in list_directory(self.session_dir(key, session) / "subagents", self._problems):
            named = re.fullmatch(r"agent-(.+)\.jsonl", entry.name)
            try:
                agent = AgentId(named[1]) if named else None
            except InvalidId:
                continue
            if agent and regular_file(entry, self._problems, follow=False):
                yield agent

    def require_inside(self, path: Path) -> Path:
        """``path``, if it is in the store and contains no link.

        A part that does not exist yet is allowed. The root itself may be a link: its owner chooses where a
        store is.
        """
        openat.require_no_link(self.root, self._relative(path).parts)
        return path

    def _relative(self, path: Path) -> Path:
        """The path from the root to ``path``, without a step up."""
        try:
            relative = path.relative_to(self.root)
        except ValueError:
            relative = Path("..")
        if relative.parts and ".." not in relative.parts:
            return relative
        raise UsageError(f"{path}: is not inside the store {self.root}", hint="name a path below it")

    def _session_of(self, name: str) -> SessionId | None:
        try:
            session = SessionId(name.removesuffix(_LOG))
        except InvalidId:
            return None
        return session if name.endswith(_LOG) and self.layout.fits(session) else None


def _is_day(text: str) -> bool:
    if not _DAY.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
