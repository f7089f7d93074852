"""Forks of Codex without a copy of their history: what is missing where the session they go on from is gone.

A mirror copies that history into the fork's log, in the first pass that has both; the archive's copy of the other session is as good.
Until then the log begins in the middle. The client itself never has a copy: it refuses the fork as long as the other session's file is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from recollect.model.checks.mirrored import goes_on_from
from recollect.model.codec import decode
from recollect.model.damage import Line
from recollect.model.entry import Entry
from recollect.services.foreign.homes import lost_beginnings
from recollect.services.session import Session
from recollect.storage.foreign.codex_shapes import rollout_of
from recollect.storage.foreign.mirror import dialect_of
from recollect.storage.foreign.mirroring.sources import ZST
from recollect.storage.foreign.mirroring.state import alias_log, facts_of_mirror
from recollect.storage.logs.reader import read_lines

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


def lost_in_log(log: Path) -> str | None:
    """The session that has the beginning of a log, as the log itself tells it."""
    return next(_bases(log, only_first=True), None) if log.is_file() else None


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
        if log is None
        else f"write it with: recollect export {name} --format original --no-redact --output DIR,"
        f" and put it below {facts.source}"
    )
    return (
        f"it goes on from session {gone}, whose file is gone: Codex refuses to resume it (missing source rollout)."
        f" To resume it, {back}; or hand it over: recollect convert {session.id} --to claude"
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
