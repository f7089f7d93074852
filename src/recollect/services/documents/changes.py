"""Changes to sessions, planned or made: title, tag, fork, removal, restoring, archive, clean-up, undo."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from recollect.model.convert.loss import Loss
from recollect.services.archive.archive import ArchiveFailure
from recollect.services.archive.cleanup import CleanupCandidate
from recollect.services.archive.import_sessions import ImportCandidate, SkippedSource
from recollect.services.archive.protection import Protection
from recollect.services.fix.fix import FixOutcome, FixStep
from recollect.services.fork import ForkPlan
from recollect.services.migrate import MigrationRefusal
from recollect.services.move.move import MoveConflict, SessionMove
from recollect.services.rewind import RewoundFile
from recollect.services.trash import RemovalPlan
from recollect.services.undo import UndoableChange
from recollect.storage.changes.journal import ChangeState, Step
from recollect.storage.migrations.migration import Migration
from recollect.storage.trash import TrashBatch


class RequestDocument(Struct, frozen=True):
    """What a button of the page posts."""

    path: str
    body: dict[str, Any]


class ChangeDocument(Struct, frozen=True, kw_only=True):
    """A plan, or with ``applied`` what was done. ``undo`` is a command to type; the page also gets a request."""

    applied: bool
    undo: str | None
    undo_request: RequestDocument | UnsetType | None = UNSET


class LabelDocument(ChangeDocument, frozen=True, kw_only=True):
    """A new title or tag."""

    session: str
    path: str
    what: str
    before: str
    after: str


class ForkDocument(ChangeDocument, frozen=True, kw_only=True):
    """A copy that continues as a separate session. A plan has no id yet: every run makes a new one."""

    session: str
    at: str
    title: str
    entries: int
    bytes: int
    backups: int
    new: str | None
    path: str | None


class RewindDocument(ChangeDocument, frozen=True, kw_only=True):
    """The file changes of a turn, undone. ``prompt`` is the prompt whose turn, with all later ones, is undone."""

    session: str
    prompt: str
    files: list[RewoundFile]


class FileRestorationDocument(ChangeDocument, frozen=True, kw_only=True):
    """A version of a file, written into a directory.

    ``in_the_way``: another file has the name, and is replaced only if that is allowed. ``is_there``: the same bytes are.
    """

    session: str
    path: str
    version: int
    to: str
    bytes: int
    in_the_way: bool
    is_there: bool


class TodoMoveDocument(ChangeDocument, frozen=True, kw_only=True):
    """A todo or task that goes a step further."""

    session: str
    kind: str
    agent: str | None
    number: str
    text: str
    before: str
    after: str
    path: str


class RemovalDocument(ChangeDocument, frozen=True, kw_only=True):
    """A session that moves to the trash."""

    session: str
    title: str
    items: list[str]
    bytes: int
    open_in: int | None
    batch: str | None


class TrashRestorationDocument(ChangeDocument, frozen=True, kw_only=True):
    """What is restored from the trash, and the existing files that prevent it."""

    batch: str
    session: str
    restored: list[str]
    obstacles: list[str]


class ArchivalDocument(ChangeDocument, frozen=True, kw_only=True):
    """Sessions added to the archive."""

    sessions: list[str]
    total: int
    raw_bytes: int
    stored_bytes: int
    new_bytes: int
    failed: list[ArchiveFailure]


class CleanupSessionDocument(Struct, frozen=True, kw_only=True):
    """An old session, and the reason if it stays."""

    session: str
    title: str
    last_at: dt.datetime | None
    bytes: int
    kept_because: str | None


class CleanupScheduleDocument(ChangeDocument, frozen=True, kw_only=True):
    """A clean-up that runs by itself: the hook in the client's settings, or a line for cron."""

    file: Path
    hook: dict[str, Any]
    cron: str


class ProtectDocument(ChangeDocument, frozen=True, kw_only=True):
    """The hourly run: what is set up, how the last run went, and the entry of the scheduler by its place."""

    protection: Protection
    scheduler: str | None
    entry: dict[str, str]
    command: str
    settings: list[str]


class PluginDocument(ChangeDocument, frozen=True, kw_only=True):
    """What ``plugin install --json`` prints: the settings file, and what is switched on or off in it."""

    file: Path
    directory: Path
    on: list[str]
    off: list[str]
    notes: list[str]
    changes: bool


class ImportDocument(ChangeDocument, frozen=True, kw_only=True):
    """Sessions that come from elsewhere; ``to`` is the home, None for the archive. ``losses`` are by session."""

    kind: str
    to: Path | None
    sessions: list[ImportCandidate]
    skipped: list[SkippedSource]
    losses: dict[str, list[str]]


class FixDocument(ChangeDocument, frozen=True, kw_only=True):
    """What is broken in the homes: the steps that fix it, what is left to the user, and what was done."""

    sessions: int
    steps: tuple[FixStep, ...]
    left: tuple[FixStep, ...]
    outcomes: tuple[FixOutcome, ...]


class CleanupDocument(Struct, frozen=True):
    """What ``cleanup --json`` prints; ``undo`` holds commands. ``emptied`` are directories that were removed too."""

    sessions: list[CleanupSessionDocument]
    applied: bool
    failed: tuple[ArchiveFailure, ...]
    emptied: tuple[Path, ...]
    undo: list[str]


class PageCleanupDocument(ChangeDocument, frozen=True, kw_only=True):
    """Old sessions that are archived and moved to the trash."""

    sessions: list[CleanupSessionDocument]
    total: int
    bytes: int
    failed: list[ArchiveFailure]
    batches: list[str]


class ChangeStepDocument(Struct, frozen=True):
    """One file of a change."""

    kind: str
    path: str


class JournalEntryDocument(Struct, frozen=True, kw_only=True):
    """A change in the journal."""

    id: str
    what: str
    subject: str
    at: dt.datetime
    state: ChangeState


class DetailedEntryDocument(JournalEntryDocument, frozen=True, kw_only=True):
    """A change in the journal, with its steps."""

    steps: list[ChangeStepDocument]


class UndoDocument(ChangeDocument, frozen=True, kw_only=True):
    """A change that is undone."""

    change: DetailedEntryDocument


class RecentChangeDocument(JournalEntryDocument, frozen=True, kw_only=True):
    """A change that can be undone."""

    undo: RequestDocument


class RemovedSessionDocument(Struct, frozen=True, kw_only=True):
    """A session of ``rm``: what moves to the trash, and the batch it became."""

    session: str
    title: str
    paths: Sequence[Path]
    bytes: int
    open_in: int | None
    batch: str | None


class RemovalsDocument(Struct, frozen=True):
    """What ``rm --json`` prints; ``undo`` holds commands."""

    sessions: list[RemovedSessionDocument]
    applied: bool
    undo: list[str]


class TrashBatchDocument(Struct, frozen=True, kw_only=True):
    """One removal in the trash."""

    batch: str
    session: str
    title: str
    home: str
    at: str
    bytes: int
    paths: Sequence[Path]


class TrashDocument(Struct, frozen=True):
    """What ``trash list --json`` and ``rm --list --json`` print."""

    batches: list[TrashBatchDocument]
    total: int


class RestoredBatchDocument(Struct, frozen=True, kw_only=True):
    """What ``trash restore --json`` prints; ``obstacles`` are existing files that prevent it."""

    batch: str
    session: str
    paths: Sequence[Path]
    obstacles: Sequence[Path]
    applied: bool
    undo: str


class EmptiedBatchDocument(Struct, frozen=True):
    """A batch that is deleted for good."""

    batch: str
    session: str
    bytes: int


class EmptiedTrashDocument(Struct, frozen=True):
    """What ``trash empty --json`` prints; ``kept`` are old batches whose session is not archived."""

    batches: list[EmptiedBatchDocument]
    kept: list[str]
    applied: bool


class UndoableChangesDocument(Struct, frozen=True):
    """What ``undo --json`` prints without an id."""

    changes: list[UndoableChange]


class TakenBackDocument(Struct, frozen=True):
    """A change that is taken back; ``undo`` makes it again."""

    change: UndoableChange
    applied: bool
    undo: str | None


class MovedProjectDocument(Struct, frozen=True, kw_only=True):
    """What ``mv --json`` prints; ``undo`` holds commands."""

    sessions: list[SessionMove]
    conflicts: list[MoveConflict]
    config_keys: list[str]
    prompts: int
    steps: list[Step]
    applied: bool
    undo: list[str]


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


class RepairUndoDocument(Struct, frozen=True, kw_only=True):
    """A repair that is taken back."""

    change: str
    session: str
    steps: list[ChangeStepDocument]
    applied: bool
    undo: str | None


def fork_document(
    plan: ForkPlan, *, applied: bool, undo: str | None, request: RequestDocument | UnsetType | None = UNSET
) -> ForkDocument:
    return ForkDocument(
        session=plan.session,
        at=plan.leaf,
        title=plan.title,
        entries=plan.entries,
        bytes=plan.bytes,
        backups=len(plan.backups),
        new=str(plan.new) if applied else None,
        path=str(plan.path) if applied else None,
        applied=applied,
        undo=undo,
        undo_request=request,
    )


def cleanup_session(one: CleanupCandidate) -> CleanupSessionDocument:
    return CleanupSessionDocument(
        session=one.session.id,
        title=one.session.title if one.last_at else "",
        last_at=one.last_at,
        bytes=one.bytes,
        kept_because=one.kept_because,
    )


def removals_document(
    planned: Sequence[RemovalPlan], batches: Sequence[str], undo: list[str]
) -> RemovalsDocument:
    """``batches`` are the removals that were carried out, in the order of the plan."""
    names = [*batches, *[None] * (len(planned) - len(batches))]
    rows = [
        RemovedSessionDocument(
            session=plan.session,
            title=plan.title,
            paths=plan.items,
            bytes=plan.bytes,
            open_in=plan.open_in,
            batch=batch,
        )
        for plan, batch in zip(planned, names, strict=True)
    ]
    return RemovalsDocument(rows, len(batches) == len(planned), undo)


def trash_document(batches: Sequence[TrashBatch]) -> TrashDocument:
    rows = [
        TrashBatchDocument(
            batch=one.batch,
            session=one.session,
            title=one.title,
            home=one.home,
            at=one.at,
            bytes=one.bytes,
            paths=one.targets(),
        )
        for one in batches
    ]
    return TrashDocument(rows, len(rows))


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
