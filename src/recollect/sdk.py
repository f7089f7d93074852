"""A store of recollect as the ``SessionStore`` of the Claude Agent SDK (extra ``[sdk]``).

    options = ClaudeAgentOptions(session_store=recollect.sdk.SessionStore("logs/"))

    options = ClaudeAgentOptions(session_store=recollect.sdk.SessionStore.remote(url, token))

The first keeps transcripts in a directory, the second on a team server, so that a container without a
disk can continue a session. The SDK passes every transcript line to the store as well, and reads it
back to resume elsewhere. Each key is one log: the main transcript of a session is where a Claude home
would have it, its sub-agents below it, so the rest of recollect reads what the SDK stored. An append
returns after the sync; entries come back deep-equal and in order, or the append is refused.

Repeats are harmless: of entries with one ``uuid`` the first is stored, from any process; entries
without one are stored each time, as the SDK requires. Appends to one session are serialised, also
between processes.

Summaries are derived from the log and can always be recomputed. A small file records how far the last
one got; it is only used for the log it was made from. Only summaries import the SDK itself.

A deletion moves everything to the store's trash; to *erase* data, empty the trash. Keys are opaque: any
text becomes a safe file name, and different texts become different names, even on file systems that
ignore case. Only keys that are paths are spelt as clients spell them, with the case of the path.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from recollect.aio import KeyedExecutor, in_thread
from recollect.errors import MissingExtra, UsageError
from recollect.model.lines.damage import Damage
from recollect.store.sdk_store import (
    FoldCall,
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    Transcripts,
)
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

    Without ``root`` it is the store in recollect's data directory. One object may
    serve many sessions and several event loops; ``close`` closes its files.
    """

    def __init__(
        self,
        root: str | Path | None = None,
        *,
        lock_timeout: float = 10.0,
        _transcripts: Transcripts | None = None,
    ) -> None:
        directory = data_dir() / "store" if root is None else Path(root).expanduser()
        self._root = directory.absolute() if _transcripts is None else None
        self._transcripts = _transcripts or Transcripts(directory.absolute(), lock_timeout)
        self._turns = KeyedExecutor()

    @classmethod
    def remote(
        cls, url: str, token: str, *, patience: float = 60.0, allow_plain_http: bool = False
    ) -> SessionStore:
        """A store on a team server (`recollect team serve`); the token needs the scopes read and write (delete, to delete).

        Nothing is stored on this machine. Requests are repeated for ``patience`` seconds. Over plain http the
        token is only sent to this machine, unless ``allow_plain_http``.
        """
        from recollect.share.sync.http_remote import HttpRemote
        from recollect.share.sync.transcripts import RemoteTranscripts

        connection = HttpRemote(url, token, patience=patience, allow_plain=allow_plain_http)
        # The same methods over another kind of storage; neither package may import the other's class.
        return cls(None, _transcripts=cast("Transcripts", RemoteTranscripts(connection)))

    @property
    def root(self) -> Path:
        """The store's directory."""
        if self._root is None:
            raise UsageError("a store on a server has no directory", hint="ask the server for its sessions")
        return self._root

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries durably, in the order of the calls; entries whose uuid is stored already are skipped."""
        place = self._transcripts.place(key)
        if entries:
            await self._turns.run(place.log, lambda: self._transcripts.append(place, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every entry of a transcript; None for a key that was never written. See ``damage``."""
        place = self._transcripts.place(key)
        return await in_thread(lambda: self._transcripts.load(place))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project that have a transcript."""
        return await in_thread(lambda: self._transcripts.sessions(project_key))

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of every session of a project, up to date with its transcript."""
        # In the thread too: the first import of the SDK would block the loop for too long.
        return await in_thread(lambda: self._transcripts.summaries(project_key, _sdk_fold()))

    async def delete(self, key: SessionKey) -> None:
        """Move a transcript to the trash, for a session with those of its sub-agents. A missing one is no error."""
        place = self._transcripts.place(key)
        await self._turns.run(place.log, lambda: self._transcripts.delete(place))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session that have a transcript."""
        place = self._transcripts.place({"project_key": key["project_key"], "session_id": key["session_id"]})
        return await in_thread(lambda: list(self._transcripts.subkeys(place)))

    async def damage(self, key: SessionKey) -> list[Damage]:
        """Lines of a transcript that ``load`` could not return: torn by a crash, or changed by other programs."""
        place = self._transcripts.place(key)
        return await in_thread(lambda: self._transcripts.damage(place))

    async def close(self) -> None:
        """Close the files. The store can be used again afterwards."""
        await in_thread(self._transcripts.close)


def _sdk_fold() -> tuple[FoldCall, str]:
    """The SDK's own fold function, and its version."""
    try:
        sdk = importlib.import_module("claude_agent_sdk")
    except ImportError as cause:
        raise MissingExtra("list_session_summaries", "claude-agent-sdk", "sdk") from cause
    return cast("FoldCall", sdk.fold_session_summary), str(sdk.__version__)
