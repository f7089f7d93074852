"""A session that is only in the archive, readable like any other.

Its log and its agents' logs are read in place, compressed; a page costs only its frames. Forking, renaming
and removing are not possible in the archive. Restore the session for that.
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
    """A session read through its manifest."""

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
        return self.manifest.session

    @property
    def place(self) -> Path:
        return self.home.root / self.manifest.log.path

    @property
    def is_archived(self) -> bool:
        """Whether only the archive has it."""
        return True

    def agents(self) -> list[AgentFile]:
        return [agent for file in self.manifest.files if (agent := self._agent(file)) is not None]

    def summaries(self) -> list[str]:
        """Titles in other logs of the project are ignored: the archive stores each session separately."""
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
