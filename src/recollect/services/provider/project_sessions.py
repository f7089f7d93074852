"""The sessions of one project in a store: their locations and list information.

Projects are named by their directory. Two of them may share a directory of the store (``/a/b`` and ``/a-b``
have one key); a session belongs to the one it was written in. Nothing is written here.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TypedDict

from msgspec import structs

from recollect.errors import NotFound
from recollect.model.ids import AgentId, ProjectKey, SessionId
from recollect.services.session import Session
from recollect.storage.home import ClaudeHome, SessionFile
from recollect.storage.logs.summary import glance
from recollect.storage.store import LogContext, Store, StoredSession


class SessionInfo(TypedDict):
    """List information about a session, as ``get_sessions`` returns it."""

    sessionId: str
    projectPath: str
    title: str | None
    createdAt: dt.datetime | None
    updatedAt: dt.datetime | None
    size: int
    agents: list[str]


class ProjectSessions:
    """Finds sessions and their logs. Stateless, so threads may share it."""

    def __init__(self, store: Store, home: ClaudeHome) -> None:
        self._store, self._home = store, home

    def place(self, project: str, session_id: str, agent_id: str | None = None) -> LogContext:
        """The location of a log, whether it exists or not; the session's own id names the main agent."""
        cwd = resolved(project)
        key, session = self._store.paths.layout.key(cwd), SessionId(session_id)
        place = LogContext(self._store.paths.log(key, session), key, session, cwd)
        if agent_id is None or agent_id == session_id:
            return place
        agent = AgentId(agent_id)
        return structs.replace(place, path=self._store.paths.agent_log(key, session, agent), agent=agent)

    def session(self, project: str, session_id: str) -> Session:
        """An existing session."""
        place = self.place(project, session_id)
        path = self._store.paths.require_inside(place.path)
        try:
            seen = path.stat()
        except FileNotFoundError:
            raise NotFound(
                f"session {session_id}: not in project {project}", hint="get_sessions lists the sessions"
            ) from None
        file = SessionFile(path, seen.st_size, seen.st_mtime_ns, seen.st_ino, seen.st_dev, id=place.session)
        return Session(self._home, file)

    def stored(self, project: str) -> list[StoredSession]:
        """The sessions of a project. Others may share its directory: ``/a/b`` and ``/a-b`` have one key."""
        cwd = resolved(project)
        key = self._store.paths.layout.key(cwd)

        def is_of_another(session: StoredSession) -> bool:
            own = glance(session.path).cwd
            return own is not None and own != cwd and self._store.paths.layout.key(own) == key

        return [session for session in self._store.sessions(cwd) if not is_of_another(session)]

    def infos(self, project: str) -> list[SessionInfo]:
        """List information about a project's sessions, newest first."""
        return [self._info(session) for session in self.stored(project)]

    def agent_logs(self, key: ProjectKey, session: SessionId) -> list[Path]:
        paths = self._store.paths
        return [paths.agent_log(key, session, agent) for agent in paths.agents(key, session)]

    def _info(self, session: StoredSession) -> SessionInfo:
        seen = glance(session.path)
        return SessionInfo(
            sessionId=str(session.id),
            projectPath=seen.cwd or "",
            title=seen.title,
            createdAt=seen.first_at,
            updatedAt=seen.last_at,
            size=session.size,
            agents=[str(agent) for agent in self._store.paths.agents(session.key, session.id)],
        )


def resolved(project: str) -> str:
    """A project's directory, as its sessions name it."""
    return str(Path(project).expanduser().resolve())
