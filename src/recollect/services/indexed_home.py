"""A Claude home whose logs are known from the index: no directory of logs is read, and no log.

For looks at a home as a whole. Everything that is not about logs (settings, todos, markers) is read as ever.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from recollect.errors import InvalidId
from recollect.index import catalogue
from recollect.index.database import IndexDatabase
from recollect.index.schema import SESSION
from recollect.model.ids import AgentId, SessionId
from recollect.storage.home import AgentFile, ClaudeHome, ProjectDir, SessionFile
from recollect.system.locations import HomeRoot


class IndexedSessionFile(SessionFile, frozen=True):
    """A session's log with the directory the index knows."""

    cwd: str | None

    def first_cwd(self) -> str | None:
        """The working directory of the first entry that names one."""
        return self.cwd


class IndexedHome(ClaudeHome):
    """A home as the index saw it last. Make it after a refresh."""

    def __init__(self, root: HomeRoot, database: IndexDatabase) -> None:
        super().__init__(root.path, root.config_file)
        self._sessions: dict[str, list[SessionFile]] = {}
        self._project_agents: dict[str, list[AgentFile]] = {}
        below = len(os.path.join(root.path, "projects", ""))  # noqa: PTH118 - as the walk spells it
        for row in catalogue.logs(database, os.fspath(root.path)):
            project, _, rest = row.path[below:].partition("/")
            if row.role == SESSION:
                self._sessions.setdefault(project, []).append(_session_file(row))
            else:
                self._project_agents.setdefault(project, []).append(_agent_file(row, is_flat="/" not in rest))

    def sessions(self, project: ProjectDir | None = None) -> Iterator[SessionFile]:
        """The logs of one project, or of all, by name."""
        for directory in self.projects() if project is None else (project,):
            yield from self._sessions.get(directory.path.name, ())

    def project_agents(self, project: ProjectDir) -> Iterator[AgentFile]:
        """Every sub-agent's log of a project."""
        yield from self._project_agents.get(project.path.name, ())


def _session_file(row: catalogue.CataloguedLog) -> SessionFile:
    try:
        name: SessionId | None = SessionId(row.session or "")
    except InvalidId:
        name = None
    return IndexedSessionFile(
        Path(row.path), row.size, row.mtime_ns, row.inode, row.device, id=name, cwd=row.cwd
    )


def _agent_file(row: catalogue.CataloguedLog, *, is_flat: bool) -> AgentFile:
    try:
        agent: AgentId | None = AgentId(row.agent or "")
    except InvalidId:
        agent = None
    try:
        session: SessionId | None = SessionId(row.session or "")
    except InvalidId:
        session = None
    return AgentFile(
        Path(row.path),
        row.size,
        row.mtime_ns,
        row.inode,
        row.device,
        agent_id=agent,
        meta_path=None,
        layout="flat" if is_flat else "nested",
        session=session,
    )
