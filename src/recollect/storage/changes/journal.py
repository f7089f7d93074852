"""Change files of a Claude home so that nothing is lost or left half done, and everything can be undone.

Every command that changes a home uses this module. It builds a ``ChangePlan``; the journal in our own
directory carries it out. Before the first step the journal holds, synced, the steps and every original, so
after a crash at any moment ``recover`` restores the old state, or the new one if every step was done.
``apply`` and ``undo`` recover first, and only one process works at a time.

Promises: no byte is destroyed (P4); what is no longer in the home is in the journal until ``forget`` is
called. A file is the old one or the new one at every moment. A failure is rolled back at once, and the error
says so. A file that changed since it was planned, or while it is being changed, is left alone.

The caller checks whether a session may be changed (has a client opened it?), and holds our lock of every log
it changes (``home_locks``).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from recollect.errors import Ambiguous, DamagedData, NotFound, StorageError, UsageError
from recollect.storage.changes.plan import ChangePlan, FileState, PlannedStep, Step
from recollect.storage.changes.record import (
    UNFINISHED,
    ChangeRecord,
    RecordedStep,
    is_without_record,
    new_id,
    number_of,
    remove_unbegun,
)
from recollect.storage.changes.run import as_storage_error, bring_to_an_end, run
from recollect.storage.changes.steps import ChangeSteps
from recollect.storage.changes.undo import undo_steps
from recollect.system import fsops
from recollect.system.lock import FileLock

__all__ = ["AppliedChange", "ChangeJournal", "ChangePlan", "ChangeState", "FileState", "Step"]

ChangeState = Literal["done", "undone", "rolled-back", "unfinished", "forgotten", "damaged"]
_LONG_AGO = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class AppliedChange(Struct, frozen=True):
    """A change in the journal. ``undoes`` is the change it reverted, if it is an undo.

    ``kept_bytes`` is what the journal stores for it. ``set_aside`` are files of a change that was rolled
    back: originals that could not return because another program's file has their place, and files of ours
    that others had written to. ``late_bytes`` were written to originals after they had been replaced, by
    programs that still had them open: an undo restores them too.
    """

    id: str
    what: str
    subject: str
    home: Path
    at: dt.datetime
    state: ChangeState
    steps: tuple[Step, ...]
    undoes: str | None = None
    kept_bytes: int = 0
    set_aside: tuple[Path, ...] = ()
    late_bytes: int = 0


class ChangeJournal:
    """All changes, below one of our directories."""

    def __init__(self, root: Path, *, lock_timeout: float = 10.0) -> None:
        self.root = root
        self._lock = FileLock(root / "lock", lock_timeout, guards=root)

    # --- changing -----------------------------------------------------------------------------

    def apply(self, plan: ChangePlan) -> AppliedChange:
        """Carry out a plan completely or not at all; ``Busy`` where a file differs from the planned one."""
        with self._lock:
            self._end_last()
            return self._run(plan.what, plan.subject, plan.home, plan.take())

    def undo(self, name: str, *, force: bool = False) -> AppliedChange:
        """Revert a change: bytes, modes and times as before. The undo can be undone too.

        Refused where a file has changed since; ``force`` stores the current file with the undo, and then
        restores the earlier one.
        """
        with self._lock:
            self._end_last()
            applied = self.find(name)
            if applied.state != "done":
                raise UsageError(
                    f"undo {applied.id}: it is {applied.state}", hint="only what is done can be undone"
                )
            change = self._read(applied)
            with as_storage_error(change, "nothing was changed"):
                planned = undo_steps(change, force=force)
            if not planned:
                raise UsageError(
                    f"undo {change.record.id}: everything is already as before", hint="there is nothing to do"
                )
            return self._run("undo", change.record.subject, change.home, planned, of=change.record)

    def recover(self) -> list[AppliedChange]:
        """Finish what a crash interrupted: completed if every step was done, else rolled back."""
        with self._lock:
            readable, _ = self._read_all()
            ended = {change.record.id for change in readable if change.record.state in UNFINISHED}
            for change in readable:
                if change.record.id in ended:
                    bring_to_an_end(change)
            self._tidy(readable)
            return [one for one in self.changes() if one.id in ended]

    def forget(self, name: str) -> AppliedChange:
        """Delete the stored originals of a change: it can no longer be undone. Only on request."""
        with self._lock:
            self._end_last()
            change = self._read(self.find(name))
            with _as_storage_error("forget", change.directory):
                change.write(is_forgotten=True)
                change.drop(change.holdings())
            return self.find(change.record.id)

    # --- reading ------------------------------------------------------------------------------

    def changes(self) -> list[AppliedChange]:
        """Every change, the newest first. One in progress in another process counts as unfinished."""
        readable, damaged = self._read_all()
        undone: set[str] = set()
        for record in (change.record for change in readable):
            # An undo is newer than what it undoes, so it is already known whether it was undone itself.
            if record.state == "done" and record.undoes is not None and record.id not in undone:
                undone.add(record.undoes)
        with _as_storage_error("read", self.root):
            return [_looked_up(change, change.record.id in undone) for change in readable] + damaged

    def unfinished(self) -> list[AppliedChange]:
        """Changes that a crash left half done, or that another process is making."""
        return [one for one in self.changes() if one.state == "unfinished"]

    def find(self, prefix: str) -> AppliedChange:
        """The only change whose id has this prefix."""
        found = [one for one in self.changes() if prefix and one.id.startswith(prefix)]
        exact = [one for one in found if one.id == prefix] or found
        if len(exact) > 1:
            raise Ambiguous("change", prefix, tuple(one.id for one in exact))
        if not exact:
            raise NotFound(
                f"change {prefix!r}: not in {self.root}", hint="`recollect undo` lists the changes"
            )
        return exact[0]

    def _read_all(self) -> tuple[list[ChangeSteps], list[AppliedChange]]:
        """The changes that can be read, the newest first, and those that cannot."""
        readable, damaged = [], []
        with _as_storage_error("read", self.root):
            for path in self._directories():
                change = None if is_without_record(path) else ChangeSteps.read(path)
                if change is not None:
                    readable.append(change)
                elif not is_without_record(path):
                    damaged.append(AppliedChange(path.name, "", "", Path(), _LONG_AGO, "damaged", ()))
        return readable, damaged

    def _directories(self) -> list[Path]:
        """The directories of changes, the newest first."""
        with _as_storage_error("read", self.root):
            try:
                names = [path.name for path in self.root.iterdir() if number_of(path.name)]
            except FileNotFoundError:
                return []
        return [self.root / name for name in sorted(names, key=number_of, reverse=True)]

    def _read(self, applied: AppliedChange) -> ChangeSteps:
        change = ChangeSteps.read(self.root / applied.id)
        if change is None:
            place = self.root / applied.id
            raise DamagedData(f"change {applied.id}: its record cannot be read", hint=f"look into {place}")
        return change

    # --- one change ---------------------------------------------------------------------------

    def _run(
        self,
        what: str,
        subject: str,
        home: Path,
        planned: list[PlannedStep],
        *,
        of: ChangeRecord | None = None,
    ) -> AppliedChange:
        self._require_outside(planned)
        now = dt.datetime.now(dt.UTC)
        newest = next((number_of(path.name) for path in self._directories()), 0)
        record = ChangeRecord(
            id=new_id(newest + 1, now),
            what=_writable(what),
            subject=_writable(subject),
            home=str(home),
            at=now,
            state="preparing",
            steps=tuple(_recorded(step, home) for step in planned),
            prunes=() if of is None else of.directories,
            undoes=None if of is None else of.id,
        )
        change = ChangeSteps(self.root / record.id, record)
        run(change, planned)
        return _applied(change, is_undone=False)

    def _end_last(self) -> None:
        """Finish an interrupted change before a new one begins; so only the newest can be unfinished."""
        with _as_storage_error("read", self.root):
            last = next((path for path in self._directories() if not is_without_record(path)), None)
        change = None if last is None else ChangeSteps.read(last)
        if change is not None and change.record.state in UNFINISHED:
            bring_to_an_end(change)

    def _tidy(self, changes: list[ChangeSteps]) -> None:
        """Remove the remains of changes that were forgotten, or had not begun."""
        with _as_storage_error("look through", self.root):
            for change in changes:
                if change.record.is_forgotten and change.holdings():
                    change.drop(change.holdings())
            for path in self._directories():
                if is_without_record(path):
                    remove_unbegun(path)

    def _require_outside(self, planned: Sequence[PlannedStep]) -> None:
        """A change must not touch the journal that records it."""
        ours = Path(os.path.realpath(self.root))
        for path in (path for step in planned for path in (step.path, step.target) if path is not None):
            if path.is_relative_to(ours) or ours.is_relative_to(path):
                raise UsageError(
                    f"{path}: our own journal is there", hint="nothing was changed; use another --data"
                )


def _recorded(step: PlannedStep, home: Path) -> RecordedStep:
    target = None if step.target is None else step.target.relative_to(home).as_posix()
    return RecordedStep(step.kind, step.path.relative_to(home).as_posix(), target, step.before)


def _looked_up(change: ChangeSteps, is_undone: bool) -> AppliedChange:
    applied = _applied(change, is_undone)
    return structs.replace(applied, late_bytes=change.late_bytes()) if applied.state == "done" else applied


def _applied(change: ChangeSteps, is_undone: bool) -> AppliedChange:
    record, sizes = change.record, []
    if record.state == "done" and not record.is_forgotten:
        sizes = [
            step.before.size for step in record.steps if step.before and step.kind in {"replace", "remove"}
        ]
    elif record.state == "rolled-back":
        sizes = [path.lstat().st_size for path in change.holdings()]
    return AppliedChange(
        record.id,
        record.what,
        record.subject,
        change.home,
        record.at,
        _state(record, is_undone),
        tuple(_printable(change, step) for step in record.steps),
        record.undoes,
        sum(sizes),
        tuple(change.unreturned()) if record.state == "rolled-back" else (),
    )


def _state(record: ChangeRecord, is_undone: bool) -> ChangeState:
    if record.is_forgotten:
        return "forgotten"
    if record.state == "done":
        return "undone" if is_undone else "done"
    return "rolled-back" if record.state == "rolled-back" else "unfinished"


def _printable(change: ChangeSteps, step: RecordedStep) -> Step:
    before = step.before.size if step.before is not None and step.before.is_file else None
    after = step.after.size if step.after is not None and step.after.is_file else None
    return Step(
        step.kind,
        change.inside(step.path),
        None if step.target is None else change.inside(step.target),
        0 if step.kind == "create" else before,
        0 if step.kind == "remove" else after,
    )


def _writable(text: str) -> str:
    """A project's name may not be valid UTF-8; the journal must be."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextlib.contextmanager
def _as_storage_error(operation: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        raise StorageError(operation, path, cause, hint=fsops.next_step(cause, "try again")) from cause
