"""Everything that can be taken back, in one list, and the one way to take it back.

Whatever recollect changes in a home is kept in one of three places, by ids that start with the time:

* the journal of changes (``store/changes``, in ``undo/``): files that were replaced, made, moved or removed, by
  repair, redact, migrate, mv, settings, config, archive restore, sync pull and so on. An undo is a change too, so it can
  be undone.
* the trash (``store/trash.py``, in ``trash/``): sessions that rm and cleanup took out as a whole. What is put back
  leaves the trash; ``rm`` takes it out again. Files that the client's next clean-up would delete get the present time.
* the session logs themselves: a title or tag is a line that is added (``store/labels.py``); taking it back adds
  the one that was there before.

What one command changed is one batch, listed and taken back by one id; each of its changes has an id of its own too.

``recollect undo`` and the page all find and undo here. Each takes our locks of the session logs that come back or change, and is refused where a client has one
of those sessions open.

Not kept, because nothing is lost: a fork is a new session.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from recollect.ask.protection import renewed_before
from recollect.errors import Ambiguous, Busy, NotFound, RecollectError, UsageError
from recollect.model.lines.ids import command_name
from recollect.store.changes.batch import one_batch, word_of
from recollect.store.changes.journal import Change, ChangeJournal, ChangeState, Step
from recollect.store.home import ClaudeHome
from recollect.store.labels import given, taken_back
from recollect.store.live import live_sessions
from recollect.store.session_files import hold_logs
from recollect.store.trash import TrashBatch, trash_at

REMOVAL = "rm"


class UndoResult(Struct, frozen=True):
    """What was taken back, and where its files are now. ``change`` is the undo itself, where it can be undone by its id.

    ``failed`` are the changes of a batch that could not be taken back, each with the reason.
    """

    undone: Change
    paths: tuple[Path, ...]
    change: Change | None
    failed: tuple[str, ...] = ()


def journal_at(data: Path) -> ChangeJournal:
    """The journal in our own directory."""
    return ChangeJournal(data / "undo")


# ---- looking ---------------------------------------------------------------------------------------------


def changes(data: Path) -> list[Change]:
    """Every change, the newest first; what cannot be read comes last."""
    found = journal_at(data).changes()
    found += map(removal_of, trash_at(data).batches())
    found += _label_changes(data)
    return sorted(found, key=lambda one: one.at, reverse=True)


def batches(data: Path) -> list[Change]:
    """The same, with the changes of one command as one."""
    groups: dict[str, list[Change]] = {}
    for one in changes(data):
        groups.setdefault(one.batch or one.id, []).append(one)
    return [_merged(group) if len(group) > 1 else group[0] for group in groups.values()]


def _merged(group: list[Change]) -> Change:
    states = [one.state for one in group]
    homes = [str(one.home) for one in group]
    return Change(
        id=group[0].batch,
        what=word_of(group[0].batch),
        subject=f"{len({one.subject for one in group}):,} sessions or files",
        home=Path(os.path.commonpath(homes)) if len(set(homes)) > 1 else group[0].home,
        at=group[0].at,
        state="done" if "done" in states else states[0],
        steps=tuple(step for one in group for step in one.steps),
        kept_bytes=sum(one.kept_bytes for one in group),
        set_aside=tuple(path for one in group for path in one.set_aside),
        late_bytes=sum(one.late_bytes for one in group),
        batch=group[0].batch,
        store="batch",
        members=tuple(one.id for one in group),
    )


def found_change(data: Path, name: str) -> Change:
    """The batch or change with this id, or the only one whose id starts so; a removal also by its session."""
    matches = _matches(batches(data), name) or _matches(changes(data), name)
    exact = [one for one in matches if one.id == name] or matches
    if len(exact) > 1:
        raise Ambiguous("change", name, tuple(one.id for one in exact))
    if not exact:
        raise NotFound(f"change {name!r}: not found", hint="`recollect undo` shows what there is")
    return exact[0]


def obstacles(data: Path, change: Change) -> list[Path]:
    """What stands in the way of sessions that would come out of the trash."""
    if change.store == "batch":
        return [path for one in _members(data, change) for path in obstacles(data, one)]
    return trash_at(data).obstacles(_batch(data, change)) if change.store == "trash" else []


def _matches(every: list[Change], name: str) -> list[Change]:
    found = [
        one
        for one in every
        if name and (one.id.startswith(name) or (one.store == "trash" and one.subject.startswith(name)))
    ]
    return found or [one for one in every if name and one.batch == name]


def _members(data: Path, change: Change) -> list[Change]:
    """The changes of a batch that can be taken back, the newest first."""
    return [one for one in changes(data) if one.id in change.members and one.state == "done"]


def removal_of(one: TrashBatch) -> Change:
    """A removal in the trash as a change."""
    return Change(
        id=one.batch,
        what=REMOVAL,
        subject=one.session,
        home=Path(one.home),
        at=dt.datetime.fromisoformat(one.at),
        state="done",
        steps=tuple(Step("remove", path) for path in one.targets()),
        kept_bytes=one.bytes,
        batch=one.command,
        store="trash",
        title=one.title,
    )


def _label_changes(data: Path) -> list[Change]:
    """Titles and tags as changes."""
    labels, undone, found = given(data), set[str](), []
    for one in labels:  # an undo is newer than what it undoes
        if one.undoes is not None and one.id not in undone:
            undone.add(one.undoes)
        found.append(
            Change(
                id=one.id,
                what=word_of(one.id),
                subject=one.session,
                home=one.home,
                at=one.at,
                state="undone" if one.id in undone else "done",
                steps=(Step("replace", one.path),),
                undoes=one.undoes,
                store="labels",
            )
        )
    return found


def _batch(data: Path, change: Change) -> TrashBatch:
    return trash_at(data).find(change.id)


# ---- taking back -----------------------------------------------------------------------------------------


def undo(data: Path, change: Change, *, force: bool = False) -> UndoResult:
    """Take a change back, byte for byte; ``Busy`` where a client has one of its sessions open.

    ``force``: also where files were changed since; the present bytes are kept with the undo. What comes out of the
    trash never overwrites anything.
    """
    if change.store == "batch":
        return _undone_batch(data, change, force=force)
    if change.store == "labels":
        if change.state != "done":
            raise UsageError(
                f"undo {change.id}: it is {change.state}", hint="only what is done can be undone"
            )
        done_label = taken_back(next(one for one in given(data) if one.id == change.id), data, force=force)
        own = next(one for one in changes(data) if one.id == done_label.id)
        return UndoResult(change, (done_label.path,), own)
    with _held(data, change):
        if change.store == "trash":
            paths = trash_at(data).restore(_batch(data, change), renewed_before(ClaudeHome(change.home)))
            return UndoResult(change, tuple(paths), None)
        done = journal_at(data).undo(change.id, force=force)
        return UndoResult(change, tuple(step.path for step in done.steps), done)


def _undone_batch(data: Path, change: Change, *, force: bool) -> UndoResult:
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


def recovered(data: Path) -> list[Change]:
    """Bring what a crash interrupted to an end; gives the changes that were."""
    return journal_at(data).recover()


def forgotten(data: Path, change: Change) -> Change:
    """Give up what the journal keeps of a change: it cannot be undone any more. Never done but on request."""
    kept = [
        one for one in changes(data) if one.id in (change.members or (change.id,)) and one.store == "journal"
    ]
    if not kept and change.store == "labels":
        raise UsageError(
            f"undo {change.id}: nothing is kept but the log itself",
            hint="`recollect secrets remove` cleans it",
        )
    if not kept:
        raise UsageError(
            f"undo {change.id}: --forget does not apply to removed sessions",
            hint="`recollect undo --purge` deletes them for good",
        )
    for one in kept[1:]:
        journal_at(data).forget(one.id)
    if change.store == "batch":
        journal_at(data).forget(kept[0].id)
        return structs.replace(change, state="forgotten", kept_bytes=0)
    return journal_at(data).forget(change.id)


@contextlib.contextmanager
def _held(data: Path, change: Change) -> Iterator[None]:
    """Our locks of the logs that an undo writes, taken in one order everywhere; none of them may be open in a client."""
    logs = sorted(set(_logs(change)))
    with hold_logs(logs, data):
        _refuse_open(change, logs)
        yield


def _logs(change: Change) -> Iterator[Path]:
    """The session logs among what was changed: where they were, and where they are now."""
    projects = Path(os.path.realpath(change.home / "projects"))
    for step in change.steps:
        for path in (step.path, step.target):
            above = path.parent.parent if path is not None and path.suffix == ".jsonl" else None
            if path is not None and above is not None and (above.name == "projects" or above == projects):
                yield path


def _refuse_open(change: Change, logs: list[Path]) -> None:
    sessions = {change.subject, *(log.stem for log in logs)}
    for root in {change.home, *(log.parents[2] for log in logs)}:
        for one in live_sessions(ClaudeHome(root)):
            if str(one.session_id) in sessions:
                raise Busy(
                    f"undo {change.id}: a client has it open (process {one.pid}); nothing was changed",
                    hint="leave the session in that client first",
                )


def subject_name(session: str, paths: Iterable[Path]) -> str:
    """How a command names the session of a change, whose paths these are."""
    log = next((path for path in paths if path.name == f"{session}.jsonl"), session)
    return command_name(session, log)


def redo_words(done: UndoResult) -> list[str]:
    """The command that takes an undo back, without the program's name."""
    if done.change is None:
        sessions = [
            command_name(path.stem, path)
            for path in done.paths
            if path.suffix == ".jsonl" and not path.stem.startswith("agent-")
        ]
        return [
            "rm",
            *(sessions if done.undone.members else [subject_name(done.undone.subject, done.paths)]),
            "--apply",
        ]
    return ["undo", done.change.id, "--apply"]


class RequestDocument(Struct, frozen=True):
    """What a button of the page posts."""

    path: str
    body: dict[str, Any]


class ChangeDocument(Struct, frozen=True, kw_only=True):
    """A plan, or with ``applied`` what was done. ``undo`` is a command to type; the page also gets a request."""

    applied: bool
    undo: str | None
    undo_request: RequestDocument | UnsetType | None = UNSET


class UndoDocument(ChangeDocument, frozen=True, kw_only=True):
    """A change that is taken back; ``undo`` makes it again."""

    change: Change


class RecentChangeDocument(Struct, frozen=True, kw_only=True):
    """A change that can be undone, for the page."""

    id: str
    what: str
    subject: str
    at: dt.datetime
    state: ChangeState
    undo: RequestDocument
