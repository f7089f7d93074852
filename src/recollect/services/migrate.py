"""Carry out a migration: plan, change through the journal, read both, compare; take it back where they differ.

The steps themselves are in ``storage/migrations``. Here it is asked whether a client has the session open, our lock
is held, and what was said, called, answered and counted before is compared with what is there afterwards. One
session is one change; ``services/undo.py`` rolls it back, with every byte, mode and time of before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from recollect.errors import DamagedData, NotFound, RecollectError
from recollect.services.home_guard import refuse_open
from recollect.services.homes import Home
from recollect.services.session import Session
from recollect.storage.changes.journal import AppliedChange, ChangeJournal
from recollect.storage.home_locks import lock_path
from recollect.storage.migrations.migration import Migration
from recollect.storage.migrations.registry import MigrationStep
from recollect.system.lock import FileLock


class MigrationRefusal(Struct, frozen=True):
    """A session that a step cannot be done for, and why."""

    session: str
    reason: str
    hint: str


class MigrationOutcome(Struct):
    """What a step would do, or did, to some sessions. ``untouched`` had nothing to migrate."""

    planned: list[Migration]
    refused: list[MigrationRefusal]
    untouched: int = 0
    done: list[AppliedChange] = []


def chosen(home: Home, target: str | None) -> list[Session]:
    """One session, or those of a project, or all. The name of a session comes before that of a project."""
    if target is None:
        return _ours(home, home.sessions())
    try:
        return [home.own_session(target)]
    except NotFound as problem:
        found = _ours(home, home.sessions(target))
        if not found:
            raise problem from None
        return found


def _ours(home: Home, sessions: Iterable[Session]) -> list[Session]:
    return [one for one in sessions if any(one.home is each for each in home.homes)]


def planned(step: MigrationStep, sessions: Iterable[Session], cwd: str | None = None) -> MigrationOutcome:
    """Plan a step for some sessions; nothing is written."""
    outcome = MigrationOutcome([], [])
    for session in sessions:
        try:
            plan = step.planned(session.home, session.file, cwd)
            if plan is not None:
                refuse_open(session.home, session.id)
        except RecollectError as problem:
            outcome.refused.append(MigrationRefusal(session.id, problem.message, problem.hint))
            continue
        if plan is None:
            outcome.untouched += 1
        else:
            outcome.planned.append(plan)
    return outcome


def carried_out(
    step: MigrationStep, session: Session, data: Path, cwd: str | None = None
) -> AppliedChange | None:
    """Migrate one session under its lock, planned again; None where there was nothing to do."""
    with FileLock(lock_path(session.path, data), guards=session.path):
        refuse_open(session.home, session.id)
        migration = step.planned(session.home, session.file, cwd)
        return None if migration is None else _verified(migration, ChangeJournal(data / "undo"))


def _verified(migration: Migration, journal: ChangeJournal) -> AppliedChange:
    """Make the change, read what is there now, and take it back unless it means the same."""
    applied = journal.apply(migration.plan)
    try:
        is_same = migration.after() == migration.before
    except BaseException:
        journal.undo(applied.id)
        raise
    if not is_same:
        journal.undo(applied.id)
        raise DamagedData(
            f"session {migration.session}: it would not say the same after the migration",
            hint="it was rolled back, every byte as before; please report this session's layout",
        )
    return applied
