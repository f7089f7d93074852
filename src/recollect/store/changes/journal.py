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
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from recollect.errors import Ambiguous, DamagedData, NotFound, UsageError
from recollect.store.changes.batch import open_batch
from recollect.store.changes.plan import ChangePlan, FileState, PlannedStep, Step
from recollect.store.changes.record import (
    UNFINISHED,
    ChangeRecord,
    RecordedStep,
    is_without_record,
    new_id,
    number_of,
    remove_unbegun,
)
from recollect.store.changes.run import as_storage_error, bring_to_an_end, run, undo_steps
from recollect.store.changes.steps import ChangeSteps
from recollect.system import fsops
from recollect.system.lock import FileLock

__all__ = ["Change", "ChangeJournal", "ChangePlan", "ChangeState", "FileState", "Step"]

ChangeState = Literal["done", "undone", "rolled-back", "unfinished", "forgotten", "damaged"]
_LONG_AGO = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Change(Struct, frozen=True):
    """A change that can be taken back, where ``state`` is "done". ``undoes`` is the change that it reverted itself.

    ``what`` is the command's word, ``subject`` the session or path it was done to, ``home`` where its files belong.
    ``store`` says what keeps it: the journal, the trash, the log itself (labels), or several, where it stands for all ``members`` of a batch;
    ``batch`` names the command it is part of. ``kept_bytes`` is what is stored for it. ``set_aside`` are files of a
    change that was rolled back: originals that could not return because another program's file has their place, and
    files of ours that others had written to. ``late_bytes`` were written to originals after they had been replaced, by
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
    batch: str = ""
    store: Literal["journal", "trash", "batch", "labels"] = "journal"
    title: str = ""
    members: tuple[str, ...] = ()


class ChangeJournal:
    """All changes, below one of our directories."""

    def __init__(self, root: Path, *, lock_timeout: float = 10.0) -> None:
        self.root = root
        self._lock = FileLock(root / "lock", lock_timeout, guards=root)

    # --- changing -----------------------------------------------------------------------------

    def apply(self, plan: ChangePlan, *, transient: bool = False) -> Change:
        """Carry out a plan completely or not at all; ``Busy`` where a file differs from the planned one.

        A ``transient`` change leaves no record once it is done: what it moved can be moved back otherwise.
        """
        with self._lock:
            self._end_last()
            record = _new_record(plan.what, plan.subject, plan.home, plan.base)
            prunes = tuple(path.relative_to(plan.base).as_posix() for path in plan.prunes)
            return self._run(structs.replace(record, prunes=prunes, is_transient=transient), plan.take())

    def undo(self, name: str, *, force: bool = False) -> Change:
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
            record = _new_record("undo", change.record.subject, change.home, change.base)
            undone = {"prunes": change.record.directories, "undoes": change.record.id}
            return self._run(structs.replace(record, **undone), planned)

    def recover(self) -> list[Change]:
        """Finish what a crash interrupted: completed if every step was done, else rolled back."""
        with self._lock:
            readable, _ = self._read_all()
            unfinished = [change for change in readable if change.record.state in UNFINISHED]
            for change in unfinished:
                bring_to_an_end(change)
            with fsops.as_storage_error("read", self.root):
                ended = [_looked_up(change, is_undone=False) for change in unfinished]
            self._tidy(readable)
            return ended

    def forget(self, name: str) -> Change:
        """Delete the stored originals of a change: it can no longer be undone. Only on request."""
        with self._lock:
            self._end_last()
            change = self._read(self.find(name))
            with fsops.as_storage_error("forget", change.directory):
                change.write(is_forgotten=True)
                change.drop(change.holdings())
            return self.find(change.record.id)

    # --- reading ------------------------------------------------------------------------------

    def changes(self) -> list[Change]:
        """Every change, the newest first. One in progress in another process counts as unfinished."""
        found, damaged = self._read_all()
        readable = [change for change in found if not _is_over(change)]
        undone: set[str] = set()
        for record in (change.record for change in readable):
            # An undo is newer than what it undoes, so it is already known whether it was undone itself.
            if record.state == "done" and record.undoes is not None and record.id not in undone:
                undone.add(record.undoes)
        with fsops.as_storage_error("read", self.root):
            return [_looked_up(change, change.record.id in undone) for change in readable] + damaged

    def unfinished(self) -> list[Change]:
        """Changes that a crash left half done, or that another process is making."""
        return [one for one in self.changes() if one.state == "unfinished"]

    def find(self, prefix: str) -> Change:
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

    def _read_all(self) -> tuple[list[ChangeSteps], list[Change]]:
        """The changes that can be read, the newest first, and those that cannot."""
        readable, damaged = [], []
        with fsops.as_storage_error("read", self.root):
            for path in self._directories():
                change = None if is_without_record(path) else ChangeSteps.read(path)
                if change is not None:
                    readable.append(change)
                elif not is_without_record(path):
                    damaged.append(Change(path.name, "", "", Path(), _LONG_AGO, "damaged", ()))
        return readable, damaged

    def _directories(self) -> list[Path]:
        """The directories of changes, the newest first."""
        with fsops.as_storage_error("read", self.root):
            try:
                names = [path.name for path in self.root.iterdir() if number_of(path.name)]
            except FileNotFoundError:
                return []
        return [self.root / name for name in sorted(names, key=number_of, reverse=True)]

    def _read(self, applied: Change) -> ChangeSteps:
        change = ChangeSteps.read(self.root / applied.id)
        if change is None:
            place = self.root / applied.id
            raise DamagedData(f"change {applied.id}: its record cannot be read", hint=f"look into {place}")
        return change

    # --- one change ---------------------------------------------------------------------------

    def _run(self, record: ChangeRecord, planned: list[PlannedStep]) -> Change:
        self._require_outside(planned)
        newest = next((number_of(path.name) for path in self._directories()), 0)
        steps = tuple(_recorded(step, Path(record.base)) for step in planned)
        record = structs.replace(record, id=new_id(newest + 1, record.at), steps=steps)
        change = ChangeSteps(self.root / record.id, record)
        run(change, planned)
        applied = _applied(change, is_undone=False)
        self._dissolve_if_over(change)
        return applied

    def _end_last(self) -> None:
        """Finish an interrupted change before a new one begins; so only the newest can be unfinished."""
        with fsops.as_storage_error("read", self.root):
            last = next((path for path in self._directories() if not is_without_record(path)), None)
        change = None if last is None else ChangeSteps.read(last)
        if change is not None and change.record.state in UNFINISHED:
            bring_to_an_end(change)
        if change is not None:
            self._dissolve_if_over(change)

    def _dissolve_if_over(self, change: ChangeSteps) -> None:
        """Remove the record of a transient change that has ended. A failure is harmless: the next change does it."""
        if _is_over(change):
            with contextlib.suppress(OSError):
                change.dissolve()

    def _tidy(self, changes: list[ChangeSteps]) -> None:
        """Remove the remains of changes that were forgotten, or had not begun."""
        with fsops.as_storage_error("look through", self.root):
            for change in changes:
                self._dissolve_if_over(change)
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


def _new_record(what: str, subject: str, home: Path, base: Path) -> ChangeRecord:
    now = dt.datetime.now(dt.UTC)
    return ChangeRecord(
        "",
        _writable(what),
        _writable(subject),
        str(home),
        now,
        "preparing",
        (),
        base=str(base),
        batch=open_batch(),
    )


def _recorded(step: PlannedStep, base: Path) -> RecordedStep:
    target = None if step.target is None else step.target.relative_to(base).as_posix()
    path = step.path.relative_to(base).as_posix()
    return RecordedStep(step.kind, path, target, step.before, is_copied=step.is_copied)


def _is_over(change: ChangeSteps) -> bool:
    """Whether it is transient, has ended, and holds nothing that is not elsewhere."""
    record = change.record
    has_returned = record.state == "rolled-back" and not change.holdings()
    return record.is_transient and (record.state == "done" or has_returned)


def _looked_up(change: ChangeSteps, is_undone: bool) -> Change:
    applied = _applied(change, is_undone)
    return structs.replace(applied, late_bytes=change.late_bytes()) if applied.state == "done" else applied


def _applied(change: ChangeSteps, is_undone: bool) -> Change:
    record, sizes = change.record, []
    if record.state == "done" and not record.is_forgotten:
        sizes = [
            step.before.size for step in record.steps if step.before and step.kind in {"replace", "remove"}
        ]
    elif record.state == "rolled-back":
        sizes = [path.lstat().st_size for path in change.holdings()]
    return Change(
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
        batch=record.batch,
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
