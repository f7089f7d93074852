"""A session that is only in the archive, to be read like any other.

Its log and its agents' logs are read where they lie, compressed; a page costs the frames
that hold it. What belongs to a living session is not here: nothing is forked, renamed or
removed in the archive. Restore it for that.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from recollect.errors import InvalidId
from recollect.model.ids import AgentId, SessionId
from recollect.services.session import Session
from recollect.storage.archive.archive import Archive
from recollect.storage.archive.manifest import ArchivedFile, Manifest
from recollect.storage.home import AgentFile, ClaudeHome, SessionFile
from recollect.storage.logs.conversation_cache import ConversationCache


class ArchivedSession(Session):
    """A session over its manifest."""

    def __init__(
        self, archive: Archive, manifest: Manifest, *, cache: ConversationCache | None = None
    ) -> None:
        self.manifest = manifest
        self._archive = archive
        log = manifest.log
        file = SessionFile(
            archive.log_path(manifest), log.stored.size, log.mtime_ns, 0, 0, id=SessionId(manifest.session)
        )
        super().__init__(ClaudeHome(Path(manifest.home)), file, cache=cache)

    @property
    def id(self) -> str:
        """Its id."""
        return self.manifest.session

    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
        return True

    def agents(self) -> list[AgentFile]:
        """The logs of its sub-agents."""
        return [agent for file in self.manifest.files if (agent := self._agent(file)) is not None]

    def summaries(self) -> list[str]:
        """Titles in other logs of the project are not looked for: the archive keeps sessions apart."""
        return []

    def _agent(self, file: ArchivedFile) -> AgentFile | None:
        name = PurePosixPath(file.path).name
        if not (name.startswith("agent-") and name.endswith(".jsonl")):
            return None
        try:
            agent_id: AgentId | None = AgentId(name.removeprefix("agent-").removesuffix(".jsonl"))
        except InvalidId:
            agent_id = None
        is_nested = "/subagents/" in file.path
        return AgentFile(
            self._archive.log_path(self.manifest, file),
            file.stored.size,
            file.mtime_ns,
            0,
            0,
            agent_id=agent_id,
            meta_path=None,
            layout="nested" if is_nested else "flat",
            session=SessionId(self.manifest.session),
        )
