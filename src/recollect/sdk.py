"""Our store as the ``SessionStore`` of the Claude Agent SDK (extra ``[sdk]``).

    options = ClaudeAgentOptions(session_store=recollect.sdk.SessionStore("logs/"))

    options = ClaudeAgentOptions(session_store=recollect.sdk.SessionStore.remote(url, token))

The first keeps transcripts in a directory, the second on a team server, so that a pod without a disk of its own
can go on with a session. The SDK hands over every transcript line a second time and asks for it back to
resume elsewhere. Here each key is one log: the main transcript of a session lies
where a Claude home would have it, its sub-agents below it, so everything else of
recollect reads what the SDK stored. An append returns after the sync; entries
come back deep-equal and in order, or the append is refused.

Repeats are harmless: of entries with one ``uuid`` the first is kept, whichever
process wrote it; entries without one are stored each time, as the SDK asks.
Appends to one session come one at a time, also from several processes.

Summaries are derived from the log and can always be made again. A small file
remembers how far the last one got; it is never believed for a log it was not
made from. They need the SDK itself, which is imported for them and for nothing else.

A deletion moves to the store's trash, with every byte (law 3): who has to
*erase* empties the trash. Keys are opaque: any text is a safe name on disk, and
different texts are different names, also where upper and lower case are one.
Only keys that are paths are spelt as clients spell them: there case is the path's.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from recollect.aio import KeyedExecutor, in_thread
from recollect.errors import MissingExtra, UsageError
from recollect.model.damage import Damage
from recollect.storage.logs.log import SyncPolicy
from recollect.storage.sdk.keys import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)
from recollect.storage.sdk.store import Transcripts
from recollect.storage.sdk.summaries import FoldCall
from recollect.system.locations import data_dir

__all__ = [
    "SessionKey",
    "SessionListSubkeysKey",
    "SessionStore",
    "SessionStoreEntry",
    "SessionStoreListEntry",
    "SessionSummaryEntry",
]


class SessionStore:
    """Implements all six methods of the SDK's protocol over one store directory.

    Without ``root`` it is the store in our own data directory. One object may
    serve many sessions and several event loops; ``close`` lets go of its files.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        sync: SyncPolicy = SyncPolicy.ALWAYS,
        lock_timeout: float = 10.0,
        _transcripts: Transcripts | None = None,
    ) -> None:
        directory = data_dir() / "store" if root is None else Path(root).expanduser()
        self._root = directory.absolute() if _transcripts is None else None
        self._transcripts = _transcripts or Transcripts(directory.absolute(), sync, lock_timeout)
        self._turns = KeyedExecutor()

    @classmethod
    def remote(
        cls, url: str, token: str, *, patience: float = 60.0, allow_plain_http: bool = False
    ) -> SessionStore:
        """A store on a team server (`recollect serve`), with a token of the scopes read and write (delete, to delete).

        Nothing is kept on this machine. Requests are repeated for ``patience`` seconds. Over plain http the token
        goes to this machine only, unless ``allow_plain_http``.
        """
        from recollect.services.sync.transcripts import RemoteTranscripts
        from recollect.sync.http_remote import HttpRemote

        connection = HttpRemote(url, token, patience=patience, allow_plain=allow_plain_http)
        # The same methods over another kind of place; neither room can name the other's class.
        return cls(None, _transcripts=cast("Transcripts", RemoteTranscripts(connection)))

    @property
    def root(self) -> Path:
        """The store's directory."""
        if self._root is None:
            raise UsageError("a store on a server has no directory", hint="ask the server for its sessions")
        return self._root

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries, durably and in the order of the calls; those whose uuid is stored are left out."""
        place = self._transcripts.place(key)
        if entries:
            await self._turns.run(place.log, lambda: self._transcripts.append(place, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every entry of a transcript; None for a key that was never written. See ``damage``."""
        place = self._transcripts.place(key)
        return await in_thread(lambda: self._transcripts.load(place))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project that have a transcript of their own."""
        return await in_thread(lambda: self._transcripts.sessions(project_key))

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of every session of a project, up to date with its transcript."""
        # Found in the thread too: the first import of the SDK takes longer than a loop should stand still.
        return await in_thread(lambda: self._transcripts.summaries(project_key, _sdk_fold()))

    async def delete(self, key: SessionKey) -> None:
        """Move a transcript to the trash, a session's with those of its sub-agents. Nothing there is no error."""
        place = self._transcripts.place(key)
        await self._turns.run(place.log, lambda: self._transcripts.delete(place))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session that have a transcript."""
        place = self._transcripts.place({"project_key": key["project_key"], "session_id": key["session_id"]})
        return await in_thread(lambda: list(self._transcripts.subkeys(place)))

    async def damage(self, key: SessionKey) -> list[Damage]:
        """Lines of a transcript that ``load`` could not give back: torn by a crash, or changed by others."""
        place = self._transcripts.place(key)
        return await in_thread(lambda: self._transcripts.damage(place))

    async def close(self) -> None:
        """Let go of the files. The store can be used again afterwards."""
        await in_thread(self._transcripts.close)


def _sdk_fold() -> tuple[FoldCall, str]:
    """The SDK's own fold, and which version of it."""
    try:
        sdk = importlib.import_module("claude_agent_sdk")
    except ImportError as cause:
        raise MissingExtra("list_session_summaries", "claude-agent-sdk", "sdk") from cause
    return cast("FoldCall", sdk.fold_session_summary), str(sdk.__version__)
