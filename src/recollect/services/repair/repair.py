"""Repair a session: plan, prove, carry out. ``services/undo.py`` reverts it.

``model/diagnosis.py``, which ``check`` uses too, decides what is wrong and what a repair fixes; this module
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

from recollect.errors import Busy, DamagedData, StorageError, UsageError
from recollect.model.diagnosis import Diagnosis, diagnosed
from recollect.model.ids import SessionId
from recollect.model.repair.draft import RepairDraft, with_fields
from recollect.model.repair.plan import LogRepair, untouched
from recollect.model.titles import REPAIRED
from recollect.services.check.log_source import LIMITS, identity_of, log_source
from recollect.services.home_guard import refuse_mirrored
from recollect.services.label import title_line
from recollect.services.session import Session
from recollect.storage.changes.journal import AppliedChange, ChangeJournal, ChangePlan
from recollect.storage.changes.plan import FileState
from recollect.storage.home import ClaudeHome
from recollect.storage.home_locks import lock_path
from recollect.storage.live import live_sessions
from recollect.storage.logs.reader import OpenLog
from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.new_files import regular_files
from recollect.system.whole_files import pieces, write_new

_TITLE_CHARACTERS = 80
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


class RepairResult(Struct, frozen=True):
    """A completed repair: its undo id, the resulting log, and the quarantine."""

    change: AppliedChange
    path: Path
    session: str
    quarantine: Path | None


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


def open_in(home: ClaudeHome, session: str) -> int | None:
    """The process that has a session open, according to its marker."""
    return next((one.pid for one in live_sessions(home) if str(one.session_id) == session), None)


# ---- applying --------------------------------------------------------------------------------------------


def apply_as_copy(plan: RepairPlan, data: Path) -> RepairResult:
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
    return RepairResult(applied, target, new, quarantine)


def apply_in_place(plan: RepairPlan, data: Path) -> RepairResult:
    """Replace the log; ``Busy`` where a client has it open or it changed since it was planned."""
    _require(plan)
    with FileLock(lock_path(plan.path, data), guards=plan.path):
        _refuse_live(plan.home, plan.session)
        change = ChangePlan(plan.what, plan.session, plan.home.root)
        change.replace(plan.path, _counted(plan.mending), expected=plan.seen)
        with _quarantined(plan, data) as quarantine:
            applied = ChangeJournal(data / "undo").apply(change)
    return RepairResult(applied, plan.path, plan.session, quarantine)


def _require(plan: RepairPlan) -> None:
    if plan.is_needed:
        return
    if plan.diagnosis.refusal:
        raise DamagedData(
            f"session {plan.session}: the repaired session would not be sound: {plan.diagnosis.refusal[0]}",
            hint="nothing was changed; `recollect fork` copies what can be resumed",
        )
    raise UsageError(f"session {plan.session}: nothing to repair", hint="nothing was changed")


def _refuse_live(home: ClaudeHome, session: str) -> None:
    process = open_in(home, session)
    if process is not None:
        raise Busy(
            f"session {session}: a client has it open (process {process}); nothing was changed",
            hint="leave the session in that client first, or repair a copy (without --in-place)",
        )


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
    yield title_line(new, _title(plan)) + b"\n"


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


def _title(plan: RepairPlan) -> str:
    words = " ".join("".join(one if one.isprintable() else " " for one in plan.title).split())
    return f"{words[:_TITLE_CHARACTERS].strip() or 'Session'} {REPAIRED}"


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
    fd = fsops.open_nofollow(path)
    try:
        yield from pieces(fd, fsops.size_of(fd))
    finally:
        fsops.close_quietly(fd)


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
