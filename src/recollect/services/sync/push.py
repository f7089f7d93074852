"""Send new parts of every session to a remote.

One directory walk finds what changed since the last time; if nothing did, no connection is made. Of a log
only the lines after the last sent position are read. The remote decides: it accepts lines at the position we
name, or answers with its own. Then the local log is searched for that position. If it is in our log, we
continue from there; if ours is in the remote's log, another machine continued, and there is nothing to send.
Otherwise two machines diverged: ours becomes a session of its own there, with every line, under an id that is
the same at every attempt. Nothing is overwritten.

After any failure the next push continues where this one ended. An unfinished last line waits for its newline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.services.secrets.engine import engine_ready
from recollect.services.sync.selection import OutgoingFile, PushScan
from recollect.storage.config.sync_settings import SyncProjects
from recollect.storage.sync_state import StateFile, SyncState
from recollect.sync.remote import Remote
from recollect.system.progress import ProgressCallback

if TYPE_CHECKING:
    from recollect.services.sync.lines import OutgoingSecrets
    from recollect.services.sync.send import Sender
    from recollect.sync.sealing import Sealer


class PushOptions(Struct, frozen=True):
    """How to send.

    ``machine_id`` distinguishes this machine's branches; ``secrets`` is created when needed.
    """

    machine_id: str
    machine: str = ""
    projects: SyncProjects = SyncProjects()
    secrets: Callable[[], OutgoingSecrets] | None = None
    sealer: Sealer | None = None


class BranchedSession(Struct, frozen=True):
    """A session that diverged elsewhere; ours is ``branch`` there."""

    session: str
    branch: str


class PushResult(Struct):
    """The result of a push.

    ``ahead`` are sessions another machine continued; ``denied`` were excluded by the lists.
    """

    sessions: int = 0
    lines: int = 0
    bytes: int = 0
    files: int = 0
    replaced: int = 0
    denied: int = 0
    branches: list[BranchedSession] = []
    ahead: list[str] = []
    gone: list[str] = []
    problems: list[tuple[str, str]] = []
    notes: list[str] = []


class Push:
    """One push of some homes to one remote."""

    def __init__(
        self, homes: Sequence[Path], kept: StateFile, options: PushOptions, connect: Callable[[], Remote]
    ) -> None:
        self._homes, self._kept, self._options, self._connect = homes, kept, options, connect
        self.done = PushResult()

    def run(self, only: Iterable[str] | None = None, progress: ProgressCallback | None = None) -> PushResult:
        """Send what is new, of some sessions or of all."""
        with self._kept.locked():
            state = self._kept.load()
            changed = self._changed(state)
            if changed:
                if self._options.secrets is not None:
                    engine_ready(sum(one.size for one in changed))
                self._sender(state).run(changed, None if only is None else set(only), progress)
        return self.done

    def waiting(self) -> list[tuple[str, int]]:
        """Sessions with something to send, and how many bytes; nothing is sent."""
        state = self._kept.load()
        changed = self._changed(state)
        return self._sender(state).waiting(changed) if changed else []

    def _changed(self, state: SyncState) -> list[OutgoingFile]:
        """Files that changed since they were sent."""
        logs, files = state.logs, state.files
        changed: list[OutgoingFile] = []
        for home in self._homes:
            scan = PushScan(home)
            for one in scan.files():
                known = logs.get(one.path) if one.is_log else files.get(one.path)
                if (
                    known is None
                    or known.size != one.size
                    or known.mtime_ns != one.mtime_ns
                    or known.inode != one.inode
                ):
                    changed.append(one)
            self.done.problems += scan.problems
        return changed

    def _sender(self, state: SyncState) -> Sender:
        from recollect.services.sync.send import Sender

        return Sender(self._homes, self._kept, state, self._options, connect=self._connect, done=self.done)
