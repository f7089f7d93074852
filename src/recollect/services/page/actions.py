"""Changes made from a page, with the same plans, refusals and undo as the commands.

Each function makes the plan of its command and carries it out with ``apply``. In the documents,
``undo`` is the command to type, ``undo_request`` what a button posts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from recollect.services import file_restore, fork, label
from recollect.services import trash as trash_service
from recollect.services import undo as undo_service
from recollect.services.archive import archive as archive_service
from recollect.services.archive import cleanup
from recollect.services.archive.expiry import expiring
from recollect.services.check.home_checks import WITHIN_DAYS
from recollect.services.documents.changes.change import ChangeStepDocument, RequestDocument
from recollect.services.documents.changes.files import FileRestorationDocument
from recollect.services.documents.changes.keeping import (
    ArchivalDocument,
    PageCleanupDocument,
    cleanup_session,
)
from recollect.services.documents.changes.labels import ForkDocument, LabelDocument, fork_document
from recollect.services.documents.changes.trash import RemovalDocument, TrashRestorationDocument
from recollect.services.documents.changes.undo import DetailedEntryDocument, UndoDocument
from recollect.services.documents.findings import PageRepairDocument, page_repair_members
from recollect.services.label import LabelPlan
from recollect.services.page.desk import PageBackend
from recollect.services.page.session import files_of, version_of
from recollect.services.repair import repair
from recollect.services.repair.slim import with_slimming
from recollect.services.session import Session
from recollect.storage.archive.archive import ArchiveResult

_MOST = 500


def _request(path: str, **body: object) -> RequestDocument:
    return RequestDocument(path, {**body, "apply": True})


# ---- title, tag, fork, removal ---------------------------------------------------------------------------


def rename(desk: PageBackend, name: str, title: str, *, apply: bool) -> LabelDocument:
    session = desk.changing(name)
    return _labelled(desk, label.titled(session, title), "rename", "title", apply=apply)


def tag(desk: PageBackend, name: str, text: str, *, apply: bool) -> LabelDocument:
    session = desk.changing(name)
    return _labelled(desk, label.tagged(session, text), "tag", "tag", apply=apply)


def _labelled(desk: PageBackend, plan: LabelPlan, command: str, field: str, *, apply: bool) -> LabelDocument:
    if apply:
        label.apply(plan, desk.data)
    back = _request(f"/api/sessions/{plan.session}/{command}", **{field: plan.before})
    words = [command, "--apply", "--", plan.session, plan.before]
    return LabelDocument(
        session=plan.session,
        path=str(plan.path),
        what=plan.what,
        before=plan.before,
        after=plan.after,
        applied=apply,
        undo=desk.command(*words) if apply else None,
        undo_request=back if apply else None,
    )


def make_fork(
    desk: PageBackend, name: str, at: str | None, title: str | None, *, apply: bool
) -> ForkDocument:
    plan = fork.planned_fork(desk.changing(name), at, title)
    if apply:
        fork.apply(plan)
    back = _request(f"/api/sessions/{plan.new}/remove") if apply else None
    undo = desk.command("rm", str(plan.new), "--apply") if apply else None
    return fork_document(plan, applied=apply, undo=undo, request=back)


def remove(desk: PageBackend, name: str, *, apply: bool) -> RemovalDocument:
    """Move a session to the trash."""
    session = desk.changing(name)
    plan = trash_service.planned_removal(session)
    batch = trash_service.remove(session, desk.data).batch if apply else None
    return RemovalDocument(
        session=plan.session,
        title=plan.title,
        items=[str(item) for item in plan.items[:_MOST]],
        bytes=plan.bytes,
        open_in=plan.open_in,
        batch=batch,
        applied=apply,
        undo=desk.command("undo", batch, "--apply") if batch is not None else None,
        undo_request=_request("/api/trash/restore", batch=batch) if batch is not None else None,
    )


def restore_trash(desk: PageBackend, name: str, *, apply: bool) -> TrashRestorationDocument:
    """Restore what one removal took away."""
    desk.require_own()
    change = undo_service.found_change(desk.data, name, [undo_service.REMOVAL], "removal")
    obstacles = [] if apply else undo_service.obstacles(desk.data, change)
    paths = undo_service.undo(desk.data, change).paths if apply else [step.path for step in change.steps]
    return TrashRestorationDocument(
        batch=change.id,
        session=change.subject,
        restored=[str(path) for path in paths[:_MOST]],
        obstacles=[str(path) for path in obstacles[:_MOST]],
        applied=apply,
        undo=desk.command("rm", change.subject, "--apply") if apply else None,
        undo_request=_request(f"/api/sessions/{change.subject}/remove") if apply else None,
    )


# ---- repair ----------------------------------------------------------------------------------------------


def make_repair(
    desk: PageBackend, name: str, *, in_place: bool, slim: bool, apply: bool
) -> PageRepairDocument:
    """Repair a session, as a copy unless ``in_place``."""
    session = desk.changing(name)
    with repair.planned_repair(session) as mending:
        plan = with_slimming(mending) if slim else mending
        document = PageRepairDocument(in_place=in_place, slim=slim, **page_repair_members(plan))
        done = None
        if apply and plan.is_needed:
            done = (
                repair.apply_in_place(plan, desk.data) if in_place else repair.apply_as_copy(plan, desk.data)
            )
    if done is None:
        return document
    return replace(
        document,
        new=None if in_place else done.session,
        result=str(done.path),
        quarantine=str(done.quarantine) if done.quarantine is not None else None,
        applied=True,
        undo=desk.command("repair", "--undo", done.change.id, "--apply"),
        undo_request=_request("/api/undo", id=done.change.id),
    )


def undo(desk: PageBackend, change: str, *, apply: bool) -> UndoDocument:
    """Undo a change that a command made in a home."""
    desk.require_own()
    found = undo_service.found_change(desk.data, change)
    done = undo_service.undo(desk.data, found) if apply else None
    redo = done.change if done is not None else None
    return UndoDocument(
        change=DetailedEntryDocument(
            id=found.id,
            what=found.what,
            subject=found.subject,
            at=found.at,
            state=(redo or found).state,
            steps=[ChangeStepDocument(step.kind, str(step.path)) for step in found.steps[:_MOST]],
        ),
        applied=done is not None,
        undo=desk.command(*undo_service.redo_words(done)) if done is not None else None,
        undo_request=_request("/api/undo", id=redo.id) if redo is not None else None,
    )


# ---- files -----------------------------------------------------------------------------------------------


def restore_file(
    desk: PageBackend, name: str, path: str, number: int, to: str, *, overwrite: bool, apply: bool
) -> FileRestorationDocument:
    """Write one version of a file into a directory, given as an absolute path."""
    session = desk.reading(name)
    version = version_of(files_of(desk, session), path, number)
    found = file_restore.planned_restoration(version, Path(to), session.id, overwrite=overwrite)
    change = file_restore.restored(found, desk.data) if apply else None
    return file_restore.restoration_document(
        found,
        session.id,
        path,
        number,
        applied=apply,
        undo=None if change is None else desk.command("undo", change, "--apply"),
        undo_request=None if change is None else _request("/api/undo", id=change),
    )


# ---- archive and clean-up --------------------------------------------------------------------------------


def archive(desk: PageBackend, sessions: Sequence[Session], *, apply: bool) -> ArchivalDocument:
    """Archive sessions. Writes only to recollect's data directory."""
    desk.require_own()
    chosen = [one for one in sessions if one.session_id is not None]
    added: list[ArchiveResult] = []
    failed: list[archive_service.ArchiveFailure] = []
    if apply:
        added, failed = archive_service.add_all(
            archive_service.archive_at(desk.data), chosen, dt.datetime.now(dt.UTC)
        )
    return ArchivalDocument(
        sessions=[one.id for one in chosen[:_MOST]],
        total=len(chosen),
        raw_bytes=sum(one.manifest.raw_bytes for one in added) if apply else sum(s.file.size for s in chosen),
        stored_bytes=sum(one.manifest.stored_bytes for one in added),
        new_bytes=sum(one.new_bytes for one in added),
        failed=failed[:_MOST],
        applied=apply,
        undo=None,
        undo_request=None,
    )


def archive_one(desk: PageBackend, name: str, *, apply: bool) -> ArchivalDocument:
    return archive(desk, [desk.changing(name)], apply=apply)


def archive_many(desk: PageBackend, which: str, *, apply: bool) -> ArchivalDocument:
    """All sessions, or those the client is about to delete."""
    desk.require_own()
    sessions = desk.sessions(fresh=True)
    if which == "expiring":
        soon = expiring(desk.home.homes, desk.data, dt.datetime.now(dt.UTC), WITHIN_DAYS)
        names = {one.path for one in soon if not one.is_archived}
        sessions = [one for one in sessions if one.path in names]
    return archive(desk, sessions, apply=apply)


def clean_up(desk: PageBackend, days: float, project: str | None, *, apply: bool) -> PageCleanupDocument:
    """Archive old sessions, then move them to the trash."""
    desk.require_own()
    now = dt.datetime.now(dt.UTC)
    found = cleanup.candidates(desk.home.sessions(project), now - dt.timedelta(days=days))
    done = cleanup.clean_up(found, archive_service.archive_at(desk.data), desk.data, now) if apply else None
    going = [one for one in found if one.kept_because is None]
    return PageCleanupDocument(
        sessions=[cleanup_session(one) for one in found[:_MOST]],
        total=len(going),
        bytes=sum(one.bytes for one in going),
        failed=list(done.failed[:_MOST]) if done else [],
        batches=[batch.batch for batch in done.batches[:_MOST]] if done else [],
        applied=done is not None,
        undo=desk.command("undo", done.undo, "--apply") if done is not None and done.batches else None,
        undo_request=_request("/api/undo", id=done.undo) if done is not None and done.batches else None,
    )
