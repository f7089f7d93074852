"""Carry out a migration: plan, change through the journal, read both, compare; take it back where they differ.

The steps themselves are in ``change/migrations.py``. Here it is asked whether a client has the session open, our lock
is held, and what was said, called, answered and counted before is compared with what is there afterwards. One
step of one session is one change; ``change/undo.py`` rolls it back, with every byte, mode and time of before.

A plan takes a session through several steps. Where one of them fails, those before it are rolled back too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from recollect.ask.homes import Homes
from recollect.ask.sessions.home_guard import refuse_mirrored, refuse_open, without_mirrors
from recollect.ask.sessions.session import Session
from recollect.change.migration import Migration
from recollect.change.migrations import MigrationPlan, MigrationStep
from recollect.errors import DamagedData, NotFound, RecollectError
from recollect.model.convert.turns import Loss
from recollect.store.changes.journal import Change, ChangeJournal, Step
from recollect.store.session_files import hold_logs
from recollect.system.paths import CLAUDE


class MigrationRefusal(Struct, frozen=True):
    """A session that a step cannot be done for, and why."""

    session: str
    reason: str
    hint: str


class PlannedSession(Struct):
    """A session and the steps of a plan that apply to it. A step without a migration is planned later.

    That is one that needs the steps before it: it is planned when they are done, and there may be nothing to do
    then. ``done`` are the changes, in order, once they are made; ``steps`` are then those that were made.
    """

    session: Session
    steps: list[tuple[MigrationStep, Migration | None]]
    done: list[Change] = []


class PlanOutcome(Struct):
    """What a plan would do, or did, to some sessions. ``untouched`` had nothing to migrate."""

    planned: list[PlannedSession]
    refused: list[MigrationRefusal]
    untouched: int = 0


def chosen(home: Homes, target: str | None) -> list[Session]:
    """One session, or those of a project, or all. The name of a session comes before that of a project."""
    if target is None:
        return _ours(home, home.sessions())
    try:
        session = home.own_session(target)
        refuse_mirrored(session)
        return [session]
    except NotFound as problem:
        found = _ours(home, home.sessions(target))
        if not found:
            raise problem from None
        return found


def _ours(home: Homes, sessions: Iterable[Session]) -> list[Session]:
    homes = without_mirrors(home.homes)
    return [one for one in sessions if any(one.home is each for each in homes) and one.agent == CLAUDE]


def planned_steps(plan: MigrationPlan, sessions: Iterable[Session], cwd: str | None = None) -> PlanOutcome:
    """Plan every step for some sessions; nothing is written."""
    outcome = PlanOutcome([], [])
    for session in sessions:
        found = PlannedSession(session, [])
        try:
            _plan_steps(found, plan, cwd)
            if found.steps:
                refuse_open(session.home, session.id)
        except RecollectError as problem:
            outcome.refused.append(MigrationRefusal(session.id, problem.message, problem.hint))
            continue
        if found.steps:
            outcome.planned.append(found)
        else:
            outcome.untouched += 1
    return outcome


def _plan_steps(found: PlannedSession, plan: MigrationPlan, cwd: str | None) -> None:
    for step in plan.steps:
        try:
            one = step.planned(found.session.home, found.session.file, cwd)
        except RecollectError:
            if not found.steps:
                raise
            found.steps.append((step, None))
            continue
        if one is not None:
            found.steps.append((step, one))


def carry_out(plan: MigrationPlan, planned: PlannedSession, data: Path, cwd: str | None = None) -> None:
    """Take a session through the plan, each step planned again; all or none of the steps stay done."""
    session = planned.session
    done: list[Change] = []
    steps: list[tuple[MigrationStep, Migration | None]] = []
    try:
        for step in plan.steps:
            made = _migrated(step, session, data, cwd)
            if made is not None:
                change, migration = made
                done.append(change)
                steps.append((step, migration))
                # A step that writes other files than the log, as that of todos, leaves the session where it is.
                moved = (one for one in session.home.sessions() if one.path == migration.result)
                session = next((Session(session.home, one) for one in moved), session)
    except BaseException:
        journal = ChangeJournal(data / "undo")
        for change in reversed(done):
            journal.undo(change.id)
        raise
    planned.done, planned.steps = done, steps


def _migrated(
    step: MigrationStep, session: Session, data: Path, cwd: str | None
) -> tuple[Change, Migration] | None:
    with hold_logs([session.path], data):
        refuse_open(session.home, session.id)
        migration = step.planned(session.home, session.file, cwd)
        if migration is None:
            return None
        return _verified(migration, ChangeJournal(data / "undo")), migration


def _verified(migration: Migration, journal: ChangeJournal) -> Change:
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


class PlannedStepDocument(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a plan; without the rest where an earlier step must be carried out to know it."""

    step: str
    log: Path | None = None
    result: Path | None = None
    steps: Sequence[Step] = ()
    losses: Sequence[Loss] = ()
    notes: Sequence[str] = ()


class PlannedSessionDocument(Struct, frozen=True):
    """A session that goes through the steps of a plan, and the changes that were made."""

    session: str
    steps: list[PlannedStepDocument]
    changes: list[str]


class MigrationDocument(Struct, frozen=True, kw_only=True):
    """What ``migrate --json`` prints; ``undo`` holds commands."""

    target: str
    steps: list[str]
    sessions: list[PlannedSessionDocument]
    refused: list[MigrationRefusal]
    untouched: int
    applied: bool
    undo: list[str]


def migration_document(
    plan: MigrationPlan, outcome: PlanOutcome, *, applied: bool, undo: list[str]
) -> MigrationDocument:
    """The plan, or what was done."""
    return MigrationDocument(
        target=plan.target,
        steps=[step.name for step in plan.steps],
        sessions=[
            PlannedSessionDocument(
                one.session.id,
                [_planned_step(step, made) for step, made in one.steps],
                [change.id for change in one.done],
            )
            for one in outcome.planned
        ],
        refused=outcome.refused,
        untouched=outcome.untouched,
        applied=applied,
        undo=undo,
    )


def _planned_step(step: MigrationStep, made: Migration | None) -> PlannedStepDocument:
    if made is None:
        return PlannedStepDocument(step=step.name)
    return PlannedStepDocument(
        step=step.name,
        log=made.log,
        result=made.result,
        steps=made.plan.steps,
        losses=made.losses,
        notes=made.notes,
    )
