"""What other agents' own files have of a session: the originals, records nobody knows, the lost beginning of a fork.

A fork of Codex has no copy of the history that it goes on from. A mirror copies it into the fork's log in the first pass
that has both; the archive's copy of the other session is as good. Until then the log begins in the middle, and the client
refuses the fork.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from recollect.agents.blocks import MirroredThread, Sources
from recollect.agents.codex_records import rollout_of
from recollect.agents.homes import lost_beginnings
from recollect.agents.mirror import dialect_of
from recollect.agents.mirror_files import ZST, alias_log, facts_of_mirror, lines_of_log, originals, sources_of
from recollect.ask.sessions.session import Session
from recollect.errors import DamagedData, UsageError
from recollect.model.conversation.chain import entries_of
from recollect.model.lines.codec import decode
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import Entry
from recollect.model.views.fact_line import goes_on_from
from recollect.store.logs.reader import read_lines
from recollect.system.locations import is_known_id
from recollect.system.paths import AGENTS, CLAUDE

_CODEX = "codex"


class LostBeginning(Struct, frozen=True):
    """The session that has the beginning of a conversation; ``is_here``: recollect has it."""

    session: str
    is_here: bool


def lost_beginning(session: Session) -> LostBeginning | None:
    """Where the beginning of a conversation is, if not in its own log: a fork of a fork lacks what that one lacks.

    A mirror has a note of it, which knows also what is here in part. Of a log elsewhere, and of those that it goes on from, the records tell.
    """
    if session.agent != _CODEX:
        return None
    noted = lost_beginnings(session.home.root).get(str(session.path))
    bases = (base for log in _history(session) for base in _bases(log, only_first=True))
    base = noted or next(bases, None)
    return None if base is None else LostBeginning(base, _log_of(session, base) is not None)


def refused_fork(session: Session) -> str | None:
    """Why Codex would refuse to go on with a session, and what to do: the file of one that it goes on from is gone."""
    facts = facts_of_mirror(session.home.root)
    if session.agent != _CODEX or facts is None:
        return None
    here = {rollout_of(unit.source) for unit in dialect_of(_CODEX).units(Path(facts.source))}
    bases = (base for log in _history(session) for base in _bases(log))
    gone = next((base for base in bases if base not in here), None)
    if gone is None:
        return None
    log = _log_of(session, gone)
    name = (
        gone if log is None or log.suffix == ZST else log.stem
    )  # in the archive a log has no name of its own
    back = (
        "put it back from a backup"
        if log is None or not is_known_id(_CODEX, name)
        else f"write it with: recollect export {name} --format original --no-redact --output DIR,"
        f" and put it below {facts.source}"
    )
    return (
        f"it goes on from session {gone}, whose file is gone: Codex refuses to resume it (missing source rollout)."
        f" To resume it, {back}; or hand it over: recollect export {session.id} --to claude"
    )


def _history(session: Session) -> Iterator[Path]:
    """The log, and those that it goes on from, as far as they are here; a circle ends where it began."""
    waiting, seen = [session.path], set[Path]()
    while waiting:
        log = waiting.pop()
        if log in seen or not log.is_file():
            continue
        seen.add(log)
        yield log
        waiting += [above for base in _bases(log) if (above := _log_of(session, base)) is not None]


def _bases(log: Path, *, only_first: bool = False) -> Iterator[str]:
    """The sessions that a log says it goes on from; with ``only_first`` one before which the log has no entry."""
    for line in read_lines(log):
        if not isinstance(line, Line) or not (only_first or b"history_base" in line.data):
            continue
        entry = decode(line)
        if not isinstance(entry, Entry):
            continue
        if only_first and entry.uuid:
            return
        base = goes_on_from(entry)
        if base is not None:
            yield base


def _log_of(session: Session, name: str) -> Path | None:
    log = alias_log(session.home.root, name)
    return log if log is not None and log.is_file() else None


def unknown_records(session: Session) -> int:
    """How many a session has; `doctor` names them."""
    if session.agent not in AGENTS:
        return 0
    mark = f'{{"type":"{session.agent}:'.encode()
    with session.path.open("rb") as log:
        return sum(line.startswith(mark) for line in log)


def original_files(session: Session) -> dict[str, bytes]:
    """Every file of a session and its sub-agents, by its path below the agent's home, byte for byte.

    A record of a database is a file of its own, named after its table and id. A file that the client compressed is as it was before.
    """
    _require_mirror(session)
    found = {
        name: b"".join(records)
        for log in _logs(session)
        for name, records in originals(lines_of_log(log)).items()
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


def left_out(session: Session) -> str:
    """What of a session in its client's home is not among the originals; "" where all of it is."""
    return AGENTS[session.agent].left_out if session.agent in AGENTS else ""


def unpacked_files(session: Session) -> set[str]:
    """Those of them that the client had compressed when they were mirrored, by their names now."""
    return {
        name.removesuffix(ZST) for log in _logs(session) for name in sources_of(log) if name.endswith(ZST)
    }


def resumed(session: Session) -> list[dict[str, Any]]:
    """What the agent's own client sends on resume, before the new prompt."""

    def base_of(name: str) -> Sources:
        log = alias_log(session.home.root, name) or _copied_log(session, name)
        return {} if log is None else originals(lines_of_log(log))

    thread = MirroredThread(
        id=session.id,
        entries=lambda: entries_of(session.conversation().nodes, session.load),
        sources=lambda: originals(lines_of_log(session.path)),
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
