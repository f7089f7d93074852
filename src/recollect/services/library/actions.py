"""Check, repair, archive and scan as one call each, for programs: values in, values out, nothing left open."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.errors import UsageError
from recollect.model.brief_repr import brief_repr
from recollect.model.convert.loss import Loss
from recollect.model.findings import Finding
from recollect.model.repair.draft import RepairAction
from recollect.services.archive.archive import ArchiveFailure, add_all, archive_at
from recollect.services.repair import repair as repairs
from recollect.services.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.services.check.check import CheckReport
    from recollect.services.homes import Home
    from recollect.services.library.plugins import SessionCheck
    from recollect.services.secrets.scan import SecretScan


class SessionRepair(Struct, frozen=True):
    """What a repair of one session does, or did.

    ``mended`` are the findings of ``check`` that it ends, ``left`` those that no repair ends. ``actions`` is empty
    where there is nothing to repair. ``refusal`` says why a repair would not be made: its result would not be
    sound. After ``apply=True``, ``path`` and ``result`` are the repaired log and
    its session (a new one, or the same in place), ``quarantine`` holds what the result does not, and
    ``undo`` is the id that takes it back: ``Home.undo``.
    """

    session: str
    title: str
    mended: tuple[Finding, ...]
    left: tuple[Finding, ...]
    actions: tuple[RepairAction, ...]
    notes: tuple[str, ...]
    refusal: tuple[str, ...]
    bytes_before: int
    bytes_after: int
    bytes_set_aside: int
    is_applied: bool = False
    result: str | None = None
    path: Path | None = None
    quarantine: Path | None = None
    undo: str | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.actions)


def session_repair(session: Session, data: Path, *, apply: bool, in_place: bool) -> SessionRepair:
    """Plan the repair of a session; with ``apply``, make it where it is needed."""
    with repairs.planned_repair(session) as plan:
        done = None
        if apply and plan.is_needed:
            done = repairs.apply_in_place(plan, data) if in_place else repairs.apply_as_copy(plan, data)
        mending = plan.mending
        return SessionRepair(
            session=plan.session,
            title=plan.title,
            mended=plan.diagnosis.mended,
            left=plan.diagnosis.left,
            actions=mending.actions,
            notes=mending.notes,
            refusal=plan.diagnosis.refusal,
            bytes_before=mending.bytes_before,
            bytes_after=mending.bytes_after,
            bytes_set_aside=mending.bytes_set_aside,
            is_applied=done is not None,
            result=done.session if done is not None else None,
            path=done.path if done is not None else None,
            quarantine=done.quarantine if done is not None else None,
            undo=done.change.id if done is not None else None,
        )


class ArchivedCopy(Struct, frozen=True):
    """A session as the archive holds it now. ``new_bytes`` is what the archive grew by."""

    session: str
    title: str
    raw_bytes: int
    stored_bytes: int
    new_bytes: int
    is_new: bool
    is_changed: bool


class ArchiveReport(Struct, frozen=True):
    """What archiving did: the sessions that are in the archive as they are now, and those that could not be added."""

    archived: tuple[ArchivedCopy, ...]
    failed: tuple[ArchiveFailure, ...]

    __repr__ = brief_repr


def archived(sessions: Sequence[Session], data: Path, now: dt.datetime) -> ArchiveReport:
    """Put sessions with all that belongs to them into the archive; the homes are only read."""
    added, failed = add_all(archive_at(data), sessions, now)
    copies = (
        ArchivedCopy(
            one.manifest.session,
            one.manifest.title,
            one.manifest.raw_bytes,
            one.manifest.stored_bytes,
            one.new_bytes,
            one.is_new,
            one.is_changed,
        )
        for one in added
    )
    return ArchiveReport(tuple(copies), tuple(failed))


class CleanupReport(Struct, frozen=True):
    """What a clean-up takes, or took: ``gone`` and ``kept`` are ids of old sessions, ``kept`` with the reason.

    After ``apply=True``, ``undo`` has an id for each session that was moved to the trash: ``Home.undo``.
    """

    gone: tuple[str, ...]
    kept: dict[str, str]
    failed: tuple[ArchiveFailure, ...] = ()
    undo: tuple[str, ...] = ()


def cleaned_up(
    home: Home, data: Path, days: float, project: str | Path | None, *, apply: bool
) -> CleanupReport:
    """Plan a clean-up, or make it."""
    from recollect.services.archive.cleanup import candidates, clean_up

    now = dt.datetime.now(dt.UTC)
    found = candidates(home.sessions(project), now - dt.timedelta(days=days))
    gone = tuple(one.session.id for one in found if one.kept_because is None)
    kept = {one.session.id: one.kept_because for one in found if one.kept_because is not None}
    if not apply:
        return CleanupReport(gone, kept)
    done = clean_up(found, archive_at(data), data, now)
    return CleanupReport(gone, kept, done.failed, tuple(batch.batch for batch in done.batches))


class MigrationReport(Struct, frozen=True):
    """The steps that bring a session to a layout. After ``apply=True``, ``undo`` takes them back, in its order."""

    session: str
    target: str
    steps: tuple[str, ...]
    losses: tuple[Loss, ...]
    undo: tuple[str, ...] = ()


def migrated(session: Session, target: str, data: Path, cwd: str | None, *, apply: bool) -> MigrationReport:
    """Plan the steps to a client version or to ``flat``; with ``apply``, make them, all or none."""
    from recollect.services import migrate
    from recollect.storage.migrations.registry import plan_to

    plan = plan_to(target)
    if plan is None:
        raise UsageError(
            f"target {target!a}: not known", hint='name a client version such as "2.1.325", or "flat"'
        )
    outcome = migrate.planned_steps(plan, [session], cwd)
    for refused in outcome.refused:
        raise UsageError(refused.reason, hint=refused.hint)
    one = next(iter(outcome.planned), None)
    if one is None:
        return MigrationReport(session.id, target, (), ())
    if apply:
        migrate.carry_out(plan, one, data, cwd)
    return MigrationReport(
        session.id,
        target,
        tuple(step.name for step, _ in one.steps),
        tuple(loss for _, made in one.steps if made is not None for loss in made.losses),
        tuple(change.id for change in reversed(one.done)),
    )


def check(
    *sessions: str,
    home: Home | None = None,
    with_secrets: bool = True,
    with_plugins: bool = True,
    rules: Sequence[SessionCheck] = (),
) -> CheckReport:
    """``Home.check`` over the homes of this machine, or over ``home``."""
    chosen = home or _home()
    return chosen.check(*sessions, with_secrets=with_secrets, with_plugins=with_plugins, rules=rules)


def repair(
    session: str, *, home: Home | None = None, apply: bool = False, in_place: bool = False
) -> SessionRepair:
    """``Home.repair`` over the homes of this machine, or over ``home``."""
    return (home or _home()).repair(session, apply=apply, in_place=in_place)


def archive(*sessions: str, home: Home | None = None) -> ArchiveReport:
    """``Home.archive`` over the homes of this machine, or over ``home``."""
    return (home or _home()).archive(*sessions)


def scan(*sessions: str, home: Home | None = None) -> SecretScan:
    """``Home.scan`` over the homes of this machine, or over ``home``."""
    return (home or _home()).scan(*sessions)


def _home() -> Home:
    from recollect.services.homes import Home

    return Home()
