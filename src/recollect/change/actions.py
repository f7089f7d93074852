"""Check, repair, archive and scan as one call each, for programs: values in, values out, nothing left open."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.ask import library
from recollect.ask.archive import ArchiveFailure, add_all, archive_at
from recollect.change import migration, undo
from recollect.change import repair as repairs
from recollect.change.keeping import CleanupDocument, candidates, clean_up, cleanup_plan
from recollect.change.migration import SessionMigration
from recollect.change.migrations import plan_to
from recollect.change.repair import SessionRepair
from recollect.change.rewind import RewindReport, planned_rewind, rewind
from recollect.errors import UsageError
from recollect.model.lines.damage import brief_repr
from recollect.store.archive.archive import ArchiveResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recollect.ask.doctor.check import CheckReport, SessionCheck
    from recollect.ask.secrets.scan import SecretScan


class ArchiveReport(Struct, frozen=True):
    """What archiving did: the sessions that are in the archive as they are now, and those that could not be added."""

    archived: tuple[ArchiveResult, ...]
    failed: tuple[ArchiveFailure, ...]

    __repr__ = brief_repr


class Home(library.Home):
    """The homes of this machine for programs: all that ``homes.Home`` reads, and changes with ``apply=True``."""

    def repair(self, session: str, *, apply: bool = False, in_place: bool = False) -> SessionRepair:
        """What a repair of a session would do; with ``apply``, do it.

        A repaired copy appears beside the original as a session of its own; ``in_place`` replaces the log and
        keeps the original in the undo journal. Raises ``Busy`` where a client has the session open and
        ``DamagedData`` where the result would not be sound.
        """
        with repairs.planned_repair(self.own_session(session)) as plan:
            if apply and plan.is_needed:
                return (repairs.apply_in_place if in_place else repairs.apply_as_copy)(plan, self._data)
            return repairs.repair_document(plan, in_place=in_place)

    def clean_up(
        self, days: float = 30.0, *, project: str | Path | None = None, apply: bool = False
    ) -> CleanupDocument:
        """Which sessions a clean-up would archive and move to the trash; with ``apply``, do it.

        Old are those whose last entry is older than ``days``; a log without an entry is as old as its file.
        """
        now = dt.datetime.now(dt.UTC)
        old = candidates(self.sessions(project), now - dt.timedelta(days=days))
        return clean_up(old, archive_at(self._data), self._data, now) if apply else cleanup_plan(old)

    def migrate(
        self, session: str, target: str, *, cwd: str | None = None, apply: bool = False
    ) -> SessionMigration:
        """The steps that bring a session to the layout of a client version, or to ``flat``; with ``apply``, do them.

        All or none stay done; ``undo`` takes the ``changes`` back, the last one first. ``cwd`` is where a flat log was
        made. Raises ``UsageError`` where a step cannot be done, ``DamagedData`` where the result would not say the same.
        """
        steps = plan_to(target)
        if steps is None:
            raise UsageError(
                f"target {target!a}: not known", hint='name a client version such as "2.1.325", or "flat"'
            )
        opened = self.own_session(session)
        outcome = migration.planned_steps(steps, [opened], cwd)
        for refused in outcome.refused:
            raise UsageError(refused.reason, hint=refused.hint)
        if apply and outcome.planned:
            return migration.carry_out(steps, opened, self._data, cwd)
        return next((one for _, one in outcome.planned), SessionMigration(opened.id))

    def rewind(self, session: str, prompt: str | None = None, *, apply: bool = False) -> RewindReport:
        """What undoing the file changes since a prompt would do; with ``apply``, do it.

        Without a prompt, the last turn that changed files. ``RewindReport.undo`` is the change for ``undo``.
        """
        opened = self.session(session)
        return rewind(opened, prompt, self._data) if apply else planned_rewind(opened, prompt)[0]

    def undo(self, change: str) -> tuple[Path, ...]:
        """Take a change back by its id (``SessionRepair.undo``), byte for byte; gives the files that changed."""
        return undo.undo(self._data, undo.found_change(self._data, change)).paths

    def archive(self, *sessions: str) -> ArchiveReport:
        """Put these sessions into the archive, or without any all of them. The homes are only read."""
        chosen = [self.own_session(name) for name in sessions] or list(self.sessions())
        added, failed = add_all(archive_at(self._data), chosen, dt.datetime.now(dt.UTC))
        return ArchiveReport(tuple(added), tuple(failed))


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
