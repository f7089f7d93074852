"""Check, repair, archive and scan as one call each, for programs: values in, values out, nothing left open."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.ask import library
from recollect.ask.archive import ArchiveFailure, add_all, archive_at
from recollect.change import migrate, undo
from recollect.change import repair as repairs
from recollect.change.keeping import candidates, clean_up
from recollect.change.migrations import plan_to
from recollect.change.rewind import RewindReport, planned_rewind, rewind
from recollect.errors import UsageError
from recollect.model.checks.rules import Finding
from recollect.model.convert.turns import Loss
from recollect.model.lines.damage import brief_repr
from recollect.model.repair.draft import RepairAction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.ask.doctor.check import CheckReport, SessionCheck
    from recollect.ask.secrets.scan import SecretScan


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


class CleanupReport(Struct, frozen=True):
    """What a clean-up takes, or took: ``gone`` and ``kept`` are ids of old sessions, ``kept`` with the reason.

    After ``apply=True``, ``undo`` has an id for each session that was moved to the trash: ``Home.undo``.
    """

    gone: tuple[str, ...]
    kept: dict[str, str]
    failed: tuple[ArchiveFailure, ...] = ()
    undo: tuple[str, ...] = ()


class MigrationReport(Struct, frozen=True):
    """The steps that bring a session to a layout. After ``apply=True``, ``undo`` takes them back, in its order."""

    session: str
    target: str
    steps: tuple[str, ...]
    losses: tuple[Loss, ...]
    undo: tuple[str, ...] = ()


class Home(library.Home):
    """The homes of this machine for programs: all that ``homes.Home`` reads, and changes with ``apply=True``."""

    def repair(self, session: str, *, apply: bool = False, in_place: bool = False) -> SessionRepair:
        """What a repair of a session would do; with ``apply``, do it.

        A repaired copy appears beside the original as a session of its own; ``in_place`` replaces the log and
        keeps the original in the undo journal. Raises ``Busy`` where a client has the session open and
        ``DamagedData`` where the result would not be sound.
        """
        with repairs.planned_repair(self.own_session(session)) as plan:
            done = None
            if apply and plan.is_needed:
                carry_out = repairs.apply_in_place if in_place else repairs.apply_as_copy
                done = carry_out(plan, self._data)
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

    def clean_up(
        self, days: float = 30.0, *, project: str | Path | None = None, apply: bool = False
    ) -> CleanupReport:
        """Which sessions a clean-up would archive and move to the trash; with ``apply``, do it.

        Old are those whose last entry is older than ``days``; a log without an entry is as old as its file.
        """
        now = dt.datetime.now(dt.UTC)
        old = candidates(self.sessions(project), now - dt.timedelta(days=days))
        gone = tuple(one.session.id for one in old if one.kept_because is None)
        kept = {one.session.id: one.kept_because for one in old if one.kept_because is not None}
        if not apply:
            return CleanupReport(gone, kept)
        done = clean_up(old, archive_at(self._data), self._data, now)
        return CleanupReport(gone, kept, done.failed, tuple(batch.batch for batch in done.batches))

    def migrate(
        self, session: str, target: str, *, cwd: str | None = None, apply: bool = False
    ) -> MigrationReport:
        """The steps that bring a session to the layout of a client version, or to ``flat``; with ``apply``, do them.

        All or none stay done. ``cwd`` is where a flat log was made. Raises ``UsageError`` where a step cannot be
        done, ``DamagedData`` where the result would not say the same.
        """
        plan = plan_to(target)
        if plan is None:
            raise UsageError(
                f"target {target!a}: not known", hint='name a client version such as "2.1.325", or "flat"'
            )
        opened = self.own_session(session)
        outcome = migrate.planned_steps(plan, [opened], cwd)
        for refused in outcome.refused:
            raise UsageError(refused.reason, hint=refused.hint)
        one = next(iter(outcome.planned), None)
        if one is None:
            return MigrationReport(opened.id, target, (), ())
        if apply:
            migrate.carry_out(plan, one, self._data, cwd)
        return MigrationReport(
            opened.id,
            target,
            tuple(step.name for step, _ in one.steps),
            tuple(loss for _, made in one.steps if made is not None for loss in made.losses),
            tuple(change.id for change in reversed(one.done)),
        )

    def rewind(self, session: str, prompt: str | None = None, *, apply: bool = False) -> RewindReport:
        """What undoing the file changes since a prompt would do; with ``apply``, do it.

        Without a prompt, the last turn that changed files. ``RewindReport.undo`` is the change for ``undo``.
        """
        plan = planned_rewind(self.session(session), prompt)
        return rewind(plan, self._data if apply else None)

    def undo(self, change: str) -> tuple[Path, ...]:
        """Take a change back by its id (``SessionRepair.undo``), byte for byte; gives the files that changed."""
        return undo.undo(self._data, undo.found_change(self._data, change)).paths

    def archive(self, *sessions: str) -> ArchiveReport:
        """Put these sessions into the archive, or without any all of them. The homes are only read."""
        chosen = [self.own_session(name) for name in sessions] or list(self.sessions())
        added, failed = add_all(archive_at(self._data), chosen, dt.datetime.now(dt.UTC))
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


def check(
    *sessions: str,
    home: Home | None = None,
    with_secrets: bool = True,
    rules: Sequence[SessionCheck] = (),
) -> CheckReport:
    """``Home.check`` over the homes of this machine, or over ``home``."""
    return (home or Home()).check(*sessions, with_secrets=with_secrets, rules=rules)


def repair(
    session: str, *, home: Home | None = None, apply: bool = False, in_place: bool = False
) -> SessionRepair:
    """``Home.repair`` over the homes of this machine, or over ``home``."""
    return (home or Home()).repair(session, apply=apply, in_place=in_place)


def archive(*sessions: str, home: Home | None = None) -> ArchiveReport:
    """``Home.archive`` over the homes of this machine, or over ``home``."""
    return (home or Home()).archive(*sessions)


def scan(*sessions: str, home: Home | None = None) -> SecretScan:
    """``Home.scan`` over the homes of this machine, or over ``home``."""
    return (home or Home()).scan(*sessions)
