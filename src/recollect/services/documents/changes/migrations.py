"""Migrations: steps, plans, results and roll-backs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.model.convert.loss import Loss
from recollect.services.migrate import MigrationRefusal
from recollect.storage.changes.journal import Step
from recollect.storage.migrations.migration import Migration


class MigrationStepDocument(Struct, frozen=True, rename={"from_": "from"}):
    """A step that ``migrate`` knows."""

    number: int
    name: str
    from_: str
    to: str
    about: str


class MigrationStepsDocument(Struct, frozen=True):
    """What ``migrate --list --json`` prints."""

    steps: list[MigrationStepDocument]


class MigratedSessionDocument(Struct, frozen=True, kw_only=True):
    """A step, planned for one session; ``change`` is its id once it was carried out."""

    session: str
    log: Path
    result: Path
    steps: Sequence[Step]
    losses: Sequence[Loss]
    notes: Sequence[str]
    change: str | None


class MigrationDocument(Struct, frozen=True, kw_only=True):
    """What ``migrate --json`` prints for one step; ``rollback`` holds commands."""

    step: str
    number: int
    sessions: list[MigratedSessionDocument]
    refused: list[MigrationRefusal]
    untouched: int
    applied: bool
    rollback: list[str]


class PlannedStepDocument(Struct, frozen=True, kw_only=True):
    """A step of a plan; without the rest where an earlier step must be carried out to know it."""

    step: str
    session: str | UnsetType = UNSET
    log: Path | UnsetType = UNSET
    result: Path | UnsetType = UNSET
    steps: Sequence[Step] | UnsetType = UNSET
    losses: Sequence[Loss] | UnsetType = UNSET
    notes: Sequence[str] | UnsetType = UNSET
    change: str | UnsetType | None = UNSET


class PlannedSessionDocument(Struct, frozen=True):
    """A session that goes through several steps, and the changes that were made."""

    session: str
    steps: list[PlannedStepDocument]
    changes: list[str]


class MigrationPlanDocument(Struct, frozen=True, kw_only=True):
    """What ``migrate --json`` prints for several steps; ``rollback`` holds commands."""

    target: str
    steps: list[str]
    sessions: list[PlannedSessionDocument]
    refused: list[MigrationRefusal]
    untouched: int
    applied: bool
    rollback: list[str]


class RollbackDocument(Struct, frozen=True, kw_only=True):
    """A migration that is taken back."""

    change: str
    session: str
    paths: list[Path]
    applied: bool
    undo: str | None


def migrated_session(one: Migration, change: str | None) -> MigratedSessionDocument:
    return MigratedSessionDocument(
        session=one.session,
        log=one.log,
        result=one.result,
        steps=one.plan.steps,
        losses=one.losses,
        notes=one.notes,
        change=change,
    )
