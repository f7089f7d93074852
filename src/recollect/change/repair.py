"""Repair a session: plan, prove, carry out. ``change/undo.py`` reverts it.

``model/repair/plan.py``, which ``doctor`` uses too, decides what is wrong and what a repair fixes; this module
applies it to files. By default a repaired copy is created beside the original as a session of its own, which
the client resumes like any other; the original is only read. In place is possible where no client has the
session open; then the journal of changes keeps the original. Bytes that are not in the result unchanged go to
quarantine first, exactly and with an index, so that no byte is destroyed (P4).

If no finding would be fixed there is nothing to repair; a plan whose proof does not hold is not carried out.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from recollect.ask.doctor.log_report import identity_of, log_source
from recollect.ask.sessions.home_guard import open_in, refuse_mirrored, refuse_open
from recollect.ask.sessions.session import Session
from recollect.change.label import copy_title, title_line
from recollect.change.undo import RequestDocument
from recollect.errors import DamagedData, StorageError, UsageError
from recollect.model.checks.lines import LIMITS
from recollect.model.checks.rules import Finding
from recollect.model.lines.ids import SessionId
from recollect.model.repair.draft import RepairAction, RepairDraft, SetAsideBytes, with_fields
from recollect.model.repair.plan import Diagnosis, LogRepair, RepairProof, diagnosed, summed, untouched
from recollect.model.repair.slim import slimmed
from recollect.model.text.titles import REPAIRED
from recollect.store.changes.journal import ChangeJournal, ChangePlan
from recollect.store.changes.plan import FileState
from recollect.store.home import ClaudeHome
from recollect.store.logs.reader import OpenLog
from recollect.store.session_files import hold_logs
from recollect.system import fsops
from recollect.system.whole_files import pieces, regular_files, write_new

WHAT = ("repair", "slim")


class RepairPlan(Struct, frozen=True):
    """A planned repair. It reads from the open log, so it is valid only inside ``planned_repair``.

    ``saved`` are the bytes that slimming saves, by kind; empty without slimming.
    """

    session: str
    title: str
    path: Path
    home: ClaudeHome
    diagnosis: Diagnosis
    mending: LogRepair
    seen: FileState
    open_in: int | None
    what: str = "repair"
    saved: dict[str, int] = {}

    @property
    def is_needed(self) -> bool:
        return bool(self.mending.actions)


@contextlib.contextmanager
def planned_repair(session: Session) -> Iterator[RepairPlan]:
    """Plan the repair of a session; nothing is written."""
    refuse_mirrored(session)
    # A linked log is changed at its target: the link stays a link, as with the client.
    path = session.path.resolve()
    process = open_in(session.home, session.id)
    with OpenLog(path, LIMITS) as log:
        seen = FileState.of(log.stat())
        source = log_source(log, identity_of(session.id, session.file, is_open=process is not None))
        diagnosis = diagnosed(source)
        yield RepairPlan(
            session=session.id,
            title=session.title,
            path=path,
            home=session.home,
            diagnosis=diagnosis,
            mending=diagnosis.repair or untouched(source, diagnosis.scan),
            seen=seen,
            open_in=process,
        )


# ---- applying --------------------------------------------------------------------------------------------


def apply_as_copy(plan: RepairPlan, data: Path) -> SessionRepair:
    """Create a new session from the repaired lines, like a fork; the original is not changed."""
    _require(plan)
    new = SessionId(str(uuid.uuid4()))
    target = plan.path.with_name(f"{new}.jsonl")
    change = ChangePlan(plan.what, plan.session, plan.home.root)
    for source, copy in _backups(plan, new):
        change.create(copy, _content(source), mtime_ns=source.stat().st_mtime_ns)
    # The log comes last, so that the session is complete when it becomes visible.
    change.create(target, _relabelled(plan, new))
    with _quarantined(plan, data) as quarantine:
        applied = ChangeJournal(data / "undo").apply(change)
    return structs.replace(
        repair_document(plan), applied=True, new=new, result=target, quarantine=quarantine, undo=applied.id
    )


def apply_in_place(plan: RepairPlan, data: Path) -> SessionRepair:
    """Replace the log; ``Busy`` where a client has it open or it changed since it was planned."""
    _require(plan)
    with hold_logs([plan.path], data):
        refuse_open(plan.home, plan.session)
        change = ChangePlan(plan.what, plan.session, plan.home.root)
        change.replace(plan.path, _counted(plan.mending), expected=plan.seen)
        with _quarantined(plan, data) as quarantine:
            applied = ChangeJournal(data / "undo").apply(change)
    document = repair_document(plan, in_place=True)
    return structs.replace(document, applied=True, result=plan.path, quarantine=quarantine, undo=applied.id)


def _require(plan: RepairPlan) -> None:
    if plan.is_needed:
        return
    if plan.diagnosis.refusal:
        raise DamagedData(
            f"session {plan.session}: the repaired session would not be sound: {plan.diagnosis.refusal[0]}",
            hint="nothing was changed; `recollect fork` copies what can be resumed",
        )
    raise UsageError(f"session {plan.session}: nothing to repair", hint="nothing was changed")


def _counted(mending: LogRepair) -> Iterator[bytes]:
    """The bytes of the result; if their number differs from the plan, the change is rolled back."""
    written = 0
    for line in mending.draft.output():
        written += len(line)
        yield line
    if written != mending.bytes_after:
        raise DamagedData(
            f"{written} bytes were written and {mending.bytes_after} were planned",
            hint="the log changed meanwhile; nothing was changed, plan again",
        )


# ---- the copy --------------------------------------------------------------------------------------------


def _relabelled(plan: RepairPlan, new: SessionId) -> Iterator[bytes]:
    """The lines of the result with the new session id, and its title."""
    draft = plan.mending.draft
    for number in range(len(draft.rows)):
        yield _relabelled_line(draft, number, plan.session, new) + b"\n"
    yield title_line(new, copy_title(plan.title, REPAIRED)) + b"\n"


def _relabelled_line(draft: RepairDraft, number: int, session: str, new: SessionId) -> bytes:
    entry = draft.entry(number)
    if entry is None:
        return draft.text(number)
    changes: dict[str, object] = {"sessionId": str(new)}
    if entry.uuid is not None:
        changes["forkedFrom"] = {"sessionId": session, "messageUuid": entry.uuid}
    elif "sessionId" not in entry.fields():
        return entry.raw
    return with_fields(entry, changes)


def _backups(plan: RepairPlan, new: SessionId) -> Iterator[tuple[Path, Path]]:
    """File backups are copied too, so that a rewind works in the copy."""
    try:
        old = SessionId(plan.session)
    except UsageError:
        return
    target = plan.home.file_history_dir(new)
    for source in regular_files(plan.home.file_history_dir(old)):
        yield source, target / source.name


def _content(path: Path) -> Iterator[bytes]:
    with fsops.reading(path) as fd:
        yield from pieces(fd, fsops.size_of(fd))


# ---- quarantine ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _quarantined(plan: RepairPlan, data: Path) -> Iterator[Path | None]:
    """Write what is set aside to disk before anything is changed; removed if the change fails."""
    if not plan.mending.set_aside:
        yield None
        return
    now = dt.datetime.now(dt.UTC)
    path = data / "quarantine" / plan.session / f"{now:%Y%m%dT%H%M%S}-{now:%f}.jsonl"
    index = path.with_suffix(".index.json")
    try:
        fsops.make_directories(path.parent)
        write_new(path, _set_aside_bytes(plan.mending))
        write_new(index, _index(plan, now))
        fsops.sync_dir(path.parent)
    except OSError as cause:
        hint = f"nothing was changed; {fsops.next_step(cause, 'try again')}"
        raise StorageError("write", path, cause, hint=hint) from cause
    try:
        yield path
    except BaseException:
        # The original still holds these bytes: a failure must leave nothing behind.
        for ours in (index, path):
            with contextlib.suppress(OSError):
                fsops.unlink(ours)
        raise


def _set_aside_bytes(mending: LogRepair) -> Iterator[bytes]:
    total = 0
    for span in mending.set_aside:
        piece = mending.draft.read(span.offset, span.length)
        total += len(piece)
        yield piece
    if total != mending.bytes_set_aside or mending.bytes_kept + total != mending.bytes_before:
        raise DamagedData(
            f"{mending.bytes_before} bytes before, but {mending.bytes_kept} kept and {total} set aside",
            hint="the log changed meanwhile; nothing was changed, plan again",
        )


def _index(plan: RepairPlan, now: dt.datetime) -> bytes:
    """The original position of each piece of the quarantine file."""
    rows, position = [], 0
    for span in plan.mending.set_aside:
        rows.append({**structs.asdict(span), "position": position})
        position += span.length
    document = {"session": plan.session, "log": str(plan.path), "at": now, "pieces": rows}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def with_slimming(plan: RepairPlan) -> RepairPlan:
    """The same plan with slimming added; the messages that would be sent stay the same."""
    before = plan.mending
    draft, saved = slimmed(before.draft)
    mending = summed(draft, before.proof, before.violations, before.mended)
    return structs.replace(plan, mending=mending, what="slim", saved=saved)


# ---- as JSON --------------------------------------------------------------------------------------------

_ACTIONS = 500


class RepairBytes(Struct, frozen=True, kw_only=True):
    """Size of the log before and after; ``saved`` by --slim, per kind."""

    before: int
    kept: int
    set_aside: int
    after: int
    saved: dict[str, int]


class SessionRepair(Struct, frozen=True, kw_only=True):
    """A repair, planned or carried out: what it does, the findings it fixes and leaves, and the result.

    ``new`` is the repaired copy, ``result`` the repaired log, ``quarantine`` holds what it does not, and ``undo`` is the id of
    the change, in JSON a command. ``refusal`` says why it is refused although there is something to repair. On the page there are the first of very many
    actions, of which there are ``actions_total``, and ``undo_request``.
    """

    session: str
    path: Path
    open_in: int | None
    refusal: tuple[str, ...]
    is_needed: bool
    actions: tuple[RepairAction, ...]
    actions_total: int
    set_aside: tuple[SetAsideBytes, ...]
    notes: tuple[str, ...]
    bytes: RepairBytes
    proof: RepairProof
    mends: tuple[Finding, ...] = ()
    left: tuple[Finding, ...] = ()
    in_place: bool = False
    slim: bool = False
    applied: bool = False
    new: str | None = None
    result: Path | None = None
    quarantine: Path | None = None
    undo: str | None = None
    undo_request: RequestDocument | None = None


def repair_document(plan: RepairPlan, *, in_place: bool = False) -> SessionRepair:
    """The plan with every action."""
    mending = plan.mending
    return SessionRepair(
        session=plan.session,
        path=plan.path,
        open_in=plan.open_in,
        refusal=plan.diagnosis.refusal,
        is_needed=plan.is_needed,
        actions=mending.actions,
        actions_total=len(mending.actions),
        set_aside=mending.set_aside,
        notes=mending.notes,
        bytes=RepairBytes(
            before=mending.bytes_before,
            kept=mending.bytes_kept,
            set_aside=mending.bytes_set_aside,
            after=mending.bytes_after,
            saved=plan.saved,
        ),
        proof=mending.proof,
        mends=plan.diagnosis.mended,
        left=plan.diagnosis.left,
        in_place=in_place,
        slim=plan.what == "slim",
    )


def page_repair(document: SessionRepair) -> SessionRepair:
    """The same for the page, which shows the first of very many actions."""
    return structs.replace(
        document,
        actions=document.actions[:_ACTIONS],
        set_aside=document.set_aside[:_ACTIONS],
        mends=document.mends[:_ACTIONS],
        left=document.left[:_ACTIONS],
    )
