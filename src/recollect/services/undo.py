"""Everything that can be taken back, in one list, and the one way to take it back.

Whatever recollect changes in a home is kept in one of two stores below our own directory, both by ids that start with
the time:

* the journal of changes (``storage/changes``, in ``undo/``): files that were replaced, made, moved or removed, by
  repair, redact, migrate, mv, settings, config, archive restore, sync pull and so on. An undo is a change too, so it can
  be undone.
* the trash (``storage/trash.py``, in ``trash/``): sessions that rm and cleanup took out as a whole. What is put back
  leaves the trash; ``rm`` takes it out again. Files that the client's next clean-up would delete get the present time.

What one command changed is one batch, listed and taken back by one id; each of its changes has an id of its own too.

``recollect undo``, ``repair --undo``, ``migrate --rollback``, ``rm --restore``, ``trash restore`` and the page all find
and undo here. Each takes our locks of the session logs that come back or change, and is refused where a client has one
of those sessions open.

Not kept, because nothing is lost: a title or tag is a line that is added to the log, and a fork is a new session.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from recollect.errors import Ambiguous, Busy, NotFound, RecollectError, UsageError
from recollect.services.archive.expiry import renewed_before
from recollect.services.trash import trash_at
from recollect.storage.changes.batch import one_batch, word_of
from recollect.storage.changes.journal import AppliedChange, ChangeJournal, ChangeState, Step
from recollect.storage.home import ClaudeHome
from recollect.storage.home_locks import lock_path
from recollect.storage.live import live_sessions
from recollect.storage.trash import TrashBatch
from recollect.system.lock import FileLock

REMOVAL = "rm"


class UndoableChange(Struct, frozen=True):
    """One change of either store, or all changes of one command. ``state`` says "done" where it can be taken back.

    ``what`` is the command's word, ``subject`` the session or path it was done to, ``home`` where its files belong.
    ``batch`` names the command it is part of; ``members`` are the ids of the changes, where it stands for several.
    """

    id: str
    store: Literal["journal", "trash", "batch"]
    what: str
    subject: str
    home: Path
    at: dt.datetime
    state: ChangeState
    steps: tuple[Step, ...]
    kept_bytes: int
    undoes: str | None = None
    title: str = ""
    batch: str = ""
    members: tuple[str, ...] = ()


class UndoResult(Struct, frozen=True):
    """What was taken back, and where its files are now. ``change`` is the undo itself, where it can be undone by its id.

    ``failed`` are the changes of a batch that could not be taken back, each with the reason.
    """

    undone: UndoableChange
    paths: tuple[Path, ...]
    change: UndoableChange | None
    failed: tuple[str, ...] = ()


def journal_at(data: Path) -> ChangeJournal:
    """The journal in our own directory."""
    return ChangeJournal(data / "undo")


# ---- looking ---------------------------------------------------------------------------------------------


def changes(data: Path) -> list[UndoableChange]:
    """Every change of both stores, the newest first; what cannot be read comes last."""
    found = [_of_journal(one) for one in journal_at(data).changes()]
    found += [_of_trash(one) for one in trash_at(data).batches()]
    return sorted(found, key=lambda one: one.at, reverse=True)


def batches(data: Path) -> list[UndoableChange]:
    """The same, with the changes of one command as one."""
    groups: dict[str, list[UndoableChange]] = {}
    for one in changes(data):
        groups.setdefault(one.batch or one.id, []).append(one)
    return [_merged(group) if len(group) > 1 else group[0] for group in groups.values()]


def _merged(group: list[UndoableChange]) -> UndoableChange:
    states = [one.state for one in group]
    homes = [str(one.home) for one in group]
    return UndoableChange(
        group[0].batch,
        "batch",
        word_of(group[0].batch),
        f"{len({one.subject for one in group}):,} sessions or files",
        Path(os.path.commonpath(homes)) if len(set(homes)) > 1 else group[0].home,
        group[0].at,
        "done" if "done" in states else states[0],
        tuple(step for one in group for step in one.steps),
        sum(one.kept_bytes for one in group),
        batch=group[0].batch,
        members=tuple(one.id for one in group),
    )


def found_change(
    data: Path, name: str, only: Collection[str] | None = None, noun: str = "change"
) -> UndoableChange:
    """The batch or change with this id, or the only one whose id starts so; a removal also by its session.

    ``only`` are the words of a command that undoes its own changes: others are refused, in its own ``noun``.
    """
    every = changes(data) if only is not None else batches(data)
    matches = _matches(every, name) or _matches(changes(data), name)
    own = matches if only is None else [one for one in matches if one.what in only] or matches
    exact = [one for one in own if one.id == name] or own
    if len(exact) > 1:
        raise Ambiguous("change", name, tuple(one.id for one in exact))
    if not exact:
        listed = "trash list" if only is not None and REMOVAL in only else "undo"
        raise NotFound(f"{noun} {name!r}: not found", hint=f"`recollect {listed}` shows what there is")
    (change,) = exact
    if only is not None and change.what not in only:
        raise UsageError(
            f"change {change.id}: it is no {noun}", hint=f"undo it with `recollect undo {change.id}`"
        )
    return change


def obstacles(data: Path, change: UndoableChange) -> list[Path]:
    """What stands in the way of sessions that would come out of the trash."""
    if change.store == "batch":
        return [path for one in _members(data, change) for path in obstacles(data, one)]
    return trash_at(data).obstacles(_batch(data, change)) if change.store == "trash" else []


def _matches(every: list[UndoableChange], name: str) -> list[UndoableChange]:
    found = [one for one in every if name and (one.id.startswith(name) or _is_removal_of(one, name))]
    return found or [one for one in every if name and one.batch == name]


def _members(data: Path, change: UndoableChange) -> list[UndoableChange]:
    """The changes of a batch that can be taken back, the newest first."""
    return [one for one in changes(data) if one.id in change.members and one.state == "done"]


def _is_removal_of(change: UndoableChange, name: str) -> bool:
    return change.store == "trash" and change.subject.startswith(name)


def _of_journal(one: AppliedChange) -> UndoableChange:
    return UndoableChange(
        one.id,
        "journal",
        one.what,
        one.subject,
        one.home,
        one.at,
        one.state,
        one.steps,
        one.kept_bytes,
        one.undoes,
        batch=one.batch,
    )


def _of_trash(one: TrashBatch) -> UndoableChange:
    steps = tuple(Step("remove", path) for path in one.targets())
    at = dt.datetime.fromisoformat(one.at)
    return UndoableChange(
        one.batch,
        "trash",
        REMOVAL,
        one.session,
        Path(one.home),
        at,
        "done",
        steps,
        one.bytes,
        title=one.title,
        batch=one.command,
    )


def _batch(data: Path, change: UndoableChange) -> TrashBatch:
    return trash_at(data).find(change.id)


# ---- taking back -----------------------------------------------------------------------------------------


def undo(data: Path, change: UndoableChange, *, force: bool = False) -> UndoResult:
    """Take a change back, byte for byte; ``Busy`` where a client has one of its sessions open.

    ``force``: also where files were changed since; the present bytes are kept with the undo. What comes out of the
    trash never overwrites anything.
    """
    if change.store == "batch":
        return _undone_batch(data, change, force=force)
    with _held(data, change):
        if change.store == "trash":
            paths = trash_at(data).restore(_batch(data, change), renewed_before(ClaudeHome(change.home)))
            return UndoResult(change, tuple(paths), None)
        done = journal_at(data).undo(change.id, force=force)
        return UndoResult(change, tuple(step.path for step in done.steps), _of_journal(done))


def _undone_batch(data: Path, change: UndoableChange, *, force: bool) -> UndoResult:
    """Take back what can be; refused as a whole where a client has one of its sessions open."""
    members = _members(data, change)
    if not members:
        raise UsageError(f"undo {change.id}: it is {change.state}", hint="only what is done can be undone")
    for one in members:
        _refuse_open(one, sorted(set(_logs(one))))
    paths: list[Path] = []
    failed: list[str] = []
    with one_batch("undo") as batch:
        for one in members:
            try:
                paths += undo(data, one, force=force).paths
            except RecollectError as problem:
                failed.append(problem.message)
    if len(failed) == len(members):
        raise UsageError(f"undo {change.id}: {failed[0]}", hint="nothing was changed; --force may help")
    own = next((one for one in batches(data) if one.batch == batch), None)
    return UndoResult(change, tuple(paths), own, tuple(failed))


def recovered(data: Path) -> list[UndoableChange]:
    """Bring what a crash interrupted to an end; gives the changes that were."""
    return [_of_journal(one) for one in journal_at(data).recover()]


def forgotten(data: Path, change: UndoableChange) -> UndoableChange:
    """Give up what the journal keeps of a change: it cannot be undone any more. Never done but on request."""
    kept = [
        one for one in changes(data) if one.id in (change.members or (change.id,)) and one.store == "journal"
    ]
    if not kept:
        raise UsageError(
            f"undo {change.id}: --forget does not apply to removed sessions",
            hint="`recollect trash empty` deletes them for good",
        )
    for one in kept[1:]:
        journal_at(data).forget(one.id)
    if change.store == "batch":
        journal_at(data).forget(kept[0].id)
        return structs.replace(change, state="forgotten", kept_bytes=0)
    return _of_journal(journal_at(data).forget(change.id))


@contextlib.contextmanager
def _held(data: Path, change: UndoableChange) -> Iterator[None]:
    """Our locks of the logs that an undo writes, taken in one order everywhere; none of them may be open in a client."""
    logs = sorted(set(_logs(change)))
    with contextlib.ExitStack() as held:
        for log in logs:
            held.enter_context(FileLock(lock_path(log, data), guards=log))
        _refuse_open(change, logs)
        yield


def _logs(change: UndoableChange) -> Iterator[Path]:
    """The session logs among what was changed: where they were, and where they are now."""
    projects = Path(os.path.realpath(change.home / "projects"))
    for step in change.steps:
        for path in (step.path, step.target):
            above = path.parent.parent if path is not None and path.suffix == ".jsonl" else None
            if path is not None and above is not None and (above.name == "projects" or above == projects):
                yield path


def _refuse_open(change: UndoableChange, logs: list[Path]) -> None:
    sessions = {change.subject, *(log.stem for log in logs)}
    for root in {change.home, *(log.parents[2] for log in logs)}:
        for one in live_sessions(ClaudeHome(root)):
            if str(one.session_id) in sessions:
                raise Busy(
                    f"undo {change.id}: a client has it open (process {one.pid}); nothing was changed",
                    hint="leave the session in that client first",
                )


def redo_words(done: UndoResult) -> list[str]:
    """The command that takes an undo back, without the program's name."""
    if done.change is None:
        sessions = [
            path.stem for path in done.paths if path.suffix == ".jsonl" and not path.stem.startswith("agent-")
        ]
        return ["rm", *(sessions if done.undone.members else [done.undone.subject]), "--apply"]
    return ["undo", done.change.id, "--apply"]
