"""The files of another agent's session as its client wrote them, out of the mirror; and what it would send on resume."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from recollect.errors import DamagedData, UsageError
from recollect.model.conversation.chain import entries_of
from recollect.model.damage import Line
from recollect.model.json.text import loose_value
from recollect.services.session import Session
from recollect.storage.foreign.mirror import dialect_of
from recollect.storage.foreign.mirroring.sources import ZST, originals, sources_of
from recollect.storage.foreign.mirroring.state import alias_log
from recollect.storage.foreign.resumed import MirroredThread, Sources
from recollect.storage.logs.reader import read_lines
from recollect.system.paths import CLAUDE


def original_files(session: Session) -> dict[str, bytes]:
    """Every file of a session and its sub-agents, by its path below the agent's home, byte for byte.

    A record of a database is a file of its own, named after its table and id. A file that the client compressed is as it was before.
    """
    _require_mirror(session)
    found = {
        name: b"".join(records)
        for log in _logs(session)
        for name, records in originals(_lines(log)).items()
        if records
    }
    for name in found:
        parts = name.split("/")
        # A log may come from elsewhere: a name must not lead out of the directory it is written to.
        if not all(parts) or ".." in parts or "\0" in name or "\\" in name or ":" in name:
            raise DamagedData(
                f"session {session.id}: {name!a} is no path of a file", hint="the log was tampered with"
            )
    return found


# What clients keep beside a session's records, and the mirror does not.
_LEFT_OUT = {
    "opencode": "storage/session_diff/, tool-output/, snapshots and the records of projects",
    "gemini": "plans, trackers and tasks of the session, checkpoints and pasted images",
}


def left_out(session: Session) -> str:
    """What of a session in its client's home is not among the originals; "" where all of it is."""
    return _LEFT_OUT.get(session.agent, "")


def unpacked_files(session: Session) -> set[str]:
    """Those of them that the client had compressed when they were mirrored, by their names now."""
    return {
        name.removesuffix(ZST) for log in _logs(session) for name in sources_of(log) if name.endswith(ZST)
    }


def resumed(session: Session) -> list[dict[str, Any]]:
    """What the agent's own client sends on resume, before the new prompt."""

    def base_of(name: str) -> Sources:
        log = alias_log(session.home.root, name) or _copied_log(session, name)
        return {} if log is None else originals(_lines(log))

    thread = MirroredThread(
        id=session.id,
        entries=lambda: entries_of(session.conversation().nodes, session.load),
        sources=lambda: originals(_lines(session.path)),
        base_of=base_of,
    )
    return dialect_of(session.agent).resumed(thread)


def _copied_log(session: Session, name: str) -> Path | None:
    """The log of another session in a directory that is no mirror, where nothing says which log holds a rollout."""
    return next((log.path for log in session.home.sessions() if str(log.id) == name), None)


def _logs(session: Session) -> list[Path]:
    return [session.path, *(agent.path for agent in session.agents())]


def _require_mirror(session: Session) -> None:
    if session.agent == CLAUDE:
        raise UsageError(
            f"session {session.id}: it is Claude's own log",
            hint="use --format jsonl: its lines are the original",
        )


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for line in read_lines(log):
        value = loose_value(line.data) if isinstance(line, Line) else None
        if isinstance(value, dict):
            yield value
