"""The handlers of changes, with the same plans, refusals and undo as the commands.

Each makes the plan of its command and carries it out with ``apply``. In the documents, ``undo`` is the command to type,
``undo_request`` what a button posts.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import replace

from recollect.ask import archive as archive_service
from recollect.ask.doctor.home_checks import WITHIN_DAYS
from recollect.ask.protection import expiring
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.home_guard import planned_removal
from recollect.ask.sessions.session import Session
from recollect.change import fork, keeping, label, repair, rewind
from recollect.change import undo as undo_service
from recollect.change.fork import ForkDocument, fork_document
from recollect.change.keeping import ArchivalDocument, CleanupDocument, RemovalDocument
from recollect.change.label import LabelDocument, LabelPlan
from recollect.change.repair import SessionRepair, page_repair, repair_document, with_slimming
from recollect.change.rewind import FileRestorationDocument
from recollect.change.undo import RequestDocument, UndoDocument
from recollect.errors import UsageError
from recollect.model.lines.ids import command_name, short_id
from recollect.store.archive.archive import ArchiveResult
from recollect.web import answers
from recollect.web.desk import PageBackend
from recollect.web.page import AT, File, Page, Routes
from recollect.web.parameters import Apply, Id, Label, Name, PathText, Short, Text, Version
from recollect.web.session import files_of, version_of

routes = Routes()
Days = Annotated[float, Meta(ge=1, le=36_500)]
Format = Annotated[str, Meta(max_length=40)]
_MOST = 500


def _request(path: str, **body: object) -> RequestDocument:
    return RequestDocument(path, {**body, "apply": True})


# ---- title, tag, fork, removal ---------------------------------------------------------------------------


@routes.post(f"{AT}/rename")
def rename(page: Page, session: Name, title: Label, apply: Apply = False) -> LabelDocument:
    """Set the title."""
    plan = label.titled(page.backend.changing(session), title)
    return _labelled(page.backend, plan, "rename", "title", apply=apply)


@routes.post(f"{AT}/tag")
def set_tag(page: Page, session: Name, tag: Label, apply: Apply = False) -> LabelDocument:
    """Set the tag."""
    plan = label.tagged(page.backend.changing(session), tag)
    return _labelled(page.backend, plan, "tag", "tag", apply=apply)


def _labelled(desk: PageBackend, plan: LabelPlan, command: str, field: str, *, apply: bool) -> LabelDocument:
    if apply:
        label.apply(plan, desk.data)
    back = _request(f"/api/sessions/{plan.session}/{command}", **{field: plan.before})
    words = [command, "--apply", "--", command_name(plan.session, plan.path), plan.before]
    undo = desk.command(*words) if apply else None
    return label.label_document(plan, applied=apply, undo=undo, request=back if apply else None)


@routes.post(f"{AT}/fork")
def make_fork(
    page: Page, session: Name, at: Id | None = None, title: Label | None = None, apply: Apply = False
) -> ForkDocument:
    """Copy it into a new session."""
    plan = fork.planned_fork(page.backend.changing(session), at, title)
    if apply:
        fork.apply(plan)
    back = _request(f"/api/sessions/{plan.new}/remove") if apply else None
    undo = page.backend.command("rm", str(plan.new), "--apply") if apply else None
    return fork_document(plan, applied=apply, undo=undo, request=back)


@routes.post(f"{AT}/remove")
def remove(page: Page, session: Name, apply: Apply = False) -> RemovalDocument:
    """Move it to the trash."""
    desk = page.backend
    own = desk.changing(session)
    plan = planned_removal(own)
    batch = keeping.remove(own, desk.data).batch if apply else None
    return RemovalDocument(
        session=plan.session,
        title=plan.title,
        items=plan.items[:_MOST],
        bytes=plan.bytes,
        open_in=plan.open_in,
        batch=batch,
        applied=apply,
        undo=desk.command("undo", batch, "--apply") if batch is not None else None,
        undo_request=_request("/api/undo", id=batch) if batch is not None else None,
    )


# ---- repair ----------------------------------------------------------------------------------------------


@routes.post(f"{AT}/repair")
def make_repair(
    page: Page, session: Name, in_place: bool = False, slim: bool = False, apply: Apply = False
) -> SessionRepair:
    """Mend it, as a copy unless ``in_place``."""
    desk = page.backend
    with repair.planned_repair(desk.changing(session)) as mending:
        plan = with_slimming(mending) if slim else mending
        if apply and plan.is_needed:
            done = (repair.apply_in_place if in_place else repair.apply_as_copy)(plan, desk.data)
        else:
            done = repair_document(plan, in_place=in_place)
    return replace(
        page_repair(done),
        undo=desk.command("undo", done.undo, "--apply") if done.undo else None,
        undo_request=_request("/api/undo", id=done.undo) if done.undo else None,
    )


@routes.post("/api/undo")
def undo(page: Page, id_: Short, apply: Apply = False) -> UndoDocument:
    """Undo a change."""
    desk = page.backend
    desk.require_own()
    found = undo_service.found_change(desk.data, id_)
    done = undo_service.undo(desk.data, found) if apply else None
    redo = done.change if done is not None else None
    return UndoDocument(
        change=replace(found, state=(redo or found).state, steps=found.steps[:_MOST]),
        applied=done is not None,
        undo=desk.command(*undo_service.redo_words(done)) if done is not None else None,
        undo_request=_request("/api/undo", id=redo.id) if redo is not None else None,
    )


# ---- files -----------------------------------------------------------------------------------------------


@routes.post(f"{AT}/files/restore")
def restore_file(
    page: Page,
    session: Name,
    *,
    path: PathText,
    number: Version,
    to: PathText,
    overwrite: bool = False,
    apply: Apply = False,
) -> FileRestorationDocument:
    """Write a version of a file into a directory, given as an absolute path."""
    desk = page.backend
    opened = desk.reading(session)
    version = version_of(files_of(page, opened), path, number)
    found, plan = rewind.planned_restoration(version, Path(to), opened.id, number, overwrite=overwrite)
    change = rewind.restore(found, plan, desk.data) if apply else None
    return replace(
        found,
        applied=apply,
        undo=None if change is None else desk.command("undo", change, "--apply"),
        undo_request=None if change is None else _request("/api/undo", id=change),
    )


# ---- archive and clean-up --------------------------------------------------------------------------------


def _archived(desk: PageBackend, sessions: Sequence[Session], *, apply: bool) -> ArchivalDocument:
    """Writes only to recollect's data directory."""
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


@routes.post(f"{AT}/archive")
def archive_one(page: Page, session: Name, apply: Apply = False) -> ArchivalDocument:
    """Archive the session."""
    return _archived(page.backend, [page.backend.changing(session)], apply=apply)


@routes.post("/api/archive")
def archive(page: Page, which: Literal["all", "expiring"], apply: Apply = False) -> ArchivalDocument:
    """Archive several sessions: all, or those the client is about to delete."""
    desk = page.backend
    desk.require_own()
    sessions = desk.sessions(fresh=True)
    if which == "expiring":
        soon = expiring(desk.home.homes, desk.data, dt.datetime.now(dt.UTC), WITHIN_DAYS)
        names = {one.path for one in soon if not one.is_archived}
        sessions = [one for one in sessions if one.path in names]
    return _archived(desk, sessions, apply=apply)


@routes.post("/api/cleanup")
def clean_up(
    page: Page, days: Days = 90, project: Text | None = None, apply: Apply = False
) -> CleanupDocument:
    """Archive old sessions and move them to the trash."""
    desk, now = page.backend, dt.datetime.now(dt.UTC)
    desk.require_own()
    found = keeping.candidates(desk.home.sessions(project), now - dt.timedelta(days=days))
    if apply:
        done = keeping.clean_up(found, archive_service.archive_at(desk.data), desk.data, now)
    else:
        done = keeping.cleanup_plan(found)
    return replace(
        done,
        sessions=done.sessions[:_MOST],
        failed=done.failed[:_MOST],
        batches=done.batches[:_MOST],
        emptied=done.emptied[:_MOST],
        undo=desk.command("undo", done.undo, "--apply") if done.undo else None,
        undo_request=_request("/api/undo", id=done.undo) if done.undo else None,
    )


# ---- a file to save --------------------------------------------------------------------------------------


@routes.post(f"{AT}/export")
def export(page: Page, session: Name, format_: Format, redact: bool = True, whole: bool = False) -> File:
    """The session as a file."""
    chosen = page.exports.get(format_)
    if chosen is None:
        raise UsageError(f"format {format_!a}: unknown", hint=f"one of {', '.join(page.exports)}")
    found = page.backend.session(session)
    pieces = iter(chosen.pieces(found, whole, Redactor(page.backend.data) if redact else None))
    # Made before the answer begins: an unreadable session must be a refusal, not half a file.
    content = itertools.chain([next(pieces, b"")], pieces)
    return answers.download(content, f"{short_id(found.id)}.{chosen.suffix}", chosen.media_type)
