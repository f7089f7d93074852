"""What a page may change: the same plans, refusals and undos as the commands, as documents.

Nothing is decided here. Each function makes the plan that its command makes; with ``apply`` it carries it out.
``undo`` is what to type to take it back, ``undo_request`` what a button posts for that.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import UsageError
from recollect.services import fork, label
from recollect.services import trash as trash_service
from recollect.services.archive import archive as archive_service
from recollect.services.archive import cleanup
from recollect.services.check.home_checks import WITHIN_DAYS
from recollect.services.label import LabelPlan
from recollect.services.page.desk import PageBackend
from recollect.services.page.findings import repair_plan_document
from recollect.services.page.session import files_of, length_of, version_of
from recollect.services.repair import repair
from recollect.services.repair.slim import with_slimming
from recollect.services.session import Session
from recollect.storage.archive.archive import ArchiveResult
from recollect.storage.changes.journal import ChangeJournal
from recollect.storage.file_backups import RestoredFile, restore

Document = dict[str, object]
_MOST = 500


def _request(path: str, **body: object) -> Document:
    return {"path": path, "body": {**body, "apply": True}}


# ---- title, tag, fork, removal ---------------------------------------------------------------------------


def rename(desk: PageBackend, name: str, title: str, *, apply: bool) -> Document:
    """Give a session a title."""
    session = desk.changing(name)
    return _labelled(desk, label.titled(session, title), "rename", "title", apply=apply)


def tag(desk: PageBackend, name: str, text: str, *, apply: bool) -> Document:
    """Give a session a tag."""
    session = desk.changing(name)
    return _labelled(desk, label.tagged(session, text), "tag", "tag", apply=apply)


def _labelled(desk: PageBackend, plan: LabelPlan, command: str, field: str, *, apply: bool) -> Document:
    if apply:
        label.apply(plan, desk.data)
    back = _request(f"/api/sessions/{plan.session}/{command}", **{field: plan.before})
    words = [command, "--apply", "--", plan.session, plan.before]
    return {
        "session": plan.session,
        "path": str(plan.path),
        "what": plan.what,
        "before": plan.before,
        "after": plan.after,
        "applied": apply,
        "undo": desk.command(*words) if apply else None,
        "undo_request": back if apply else None,
    }


def make_fork(desk: PageBackend, name: str, at: str | None, title: str | None, *, apply: bool) -> Document:
    """A new session that starts as a copy of another."""
    plan = fork.planned_fork(desk.changing(name), at, title)
    if apply:
        fork.apply(plan)
    return {
        "session": plan.session,
        "at": plan.leaf,
        "title": plan.title,
        "entries": plan.entries,
        "bytes": plan.bytes,
        "backups": len(plan.backups),
        "new": str(plan.new) if apply else None,
        "path": str(plan.path) if apply else None,
        "applied": apply,
        "undo": desk.command("rm", str(plan.new), "--apply") if apply else None,
        "undo_request": _request(f"/api/sessions/{plan.new}/remove") if apply else None,
    }


def remove(desk: PageBackend, name: str, *, apply: bool) -> Document:
    """Move a session to our trash."""
    session = desk.changing(name)
    plan = trash_service.planned_removal(session)
    batch = trash_service.remove(session, desk.data).batch if apply else None
    return {
        "session": plan.session,
        "title": plan.title,
        "items": [str(item) for item in plan.items[:_MOST]],
        "bytes": plan.bytes,
        "open_in": plan.open_in,
        "batch": batch,
        "applied": apply,
        "undo": desk.command("rm", "--restore", batch, "--apply") if batch is not None else None,
        "undo_request": _request("/api/trash/restore", batch=batch) if batch is not None else None,
    }


def restore_trash(desk: PageBackend, name: str, *, apply: bool) -> Document:
    """Bring back what one removal took away."""
    desk.require_own()
    trash = trash_service.trash_at(desk.data)
    batch = trash.find(name)
    obstacles = [] if apply else trash.obstacles(batch)
    paths = trash_service.restore(batch, desk.data) if apply else batch.targets()
    return {
        "batch": batch.batch,
        "session": batch.session,
        "restored": [str(path) for path in paths[:_MOST]],
        "obstacles": [str(path) for path in obstacles[:_MOST]],
        "applied": apply,
        "undo": desk.command("rm", batch.session, "--apply") if apply else None,
        "undo_request": _request(f"/api/sessions/{batch.session}/remove") if apply else None,
    }


# ---- repair ----------------------------------------------------------------------------------------------


def make_repair(desk: PageBackend, name: str, *, in_place: bool, slim: bool, apply: bool) -> Document:
    """Mend a session, as a copy unless told otherwise."""
    session = desk.changing(name)
    with repair.planned_repair(session) as mending:
        plan = with_slimming(mending) if slim else mending
        document = repair_plan_document(plan) | {"in_place": in_place, "slim": slim}
        done = None
        if apply and plan.is_needed:
            done = (
                repair.apply_in_place(plan, desk.data) if in_place else repair.apply_as_copy(plan, desk.data)
            )
    if done is None:
        nothing = dict.fromkeys(("new", "result", "quarantine", "undo", "undo_request"))
        return document | nothing | {"applied": False}
    return document | {
        "new": None if in_place else done.session,
        "result": str(done.path),
        "quarantine": str(done.quarantine) if done.quarantine is not None else None,
        "applied": True,
        "undo": desk.command("repair", "--undo", done.change.id, "--apply"),
        "undo_request": _request("/api/undo", id=done.change.id),
    }


def undo(desk: PageBackend, change: str, *, apply: bool) -> Document:
    """Take back what a command changed in a home."""
    desk.require_own()
    journal = ChangeJournal(desk.data / "undo")
    found = journal.find(change)
    if not apply:
        done = None
    elif found.what in repair.WHAT:
        done = repair.undo(found, desk.data)
    else:
        done = journal.undo(found.id)
    return {
        "change": {
            "id": found.id,
            "what": found.what,
            "subject": found.subject,
            "at": found.at,
            "state": (done or found).state,
            "steps": [{"kind": step.kind, "path": str(step.path)} for step in found.steps[:_MOST]],
        },
        "applied": done is not None,
        "undo": desk.command("undo", done.id, "--apply") if done is not None else None,
        "undo_request": _request("/api/undo", id=done.id) if done is not None else None,
    }


# ---- files -----------------------------------------------------------------------------------------------


def restore_file(
    desk: PageBackend, name: str, path: str, number: int, to: str, *, overwrite: bool, apply: bool
) -> Document:
    """Write one version of a file below a directory that is named as a whole."""
    session = desk.reading(name)
    version = version_of(files_of(desk, session), path, number)
    directory = Path(to)
    if not directory.is_absolute():
        raise UsageError(
            f"directory {to!a}: not a whole path", hint="name it from the root, as in /home/me/out"
        )
    if not version.is_known or not version.existed:
        raise UsageError(f"{path}: version {number} has no content to restore", hint="choose another one")
    target = directory / Path(path.replace("\\", "/")).name
    done = restore(version, directory, overwrite=overwrite) if apply else None
    return {
        "session": session.id,
        "path": path,
        "version": number,
        "to": str(done.path if done else target),
        "bytes": length_of(version),
        "in_the_way": done is None and target.exists(),
        "kept": str(done.kept) if done is not None and done.kept is not None else None,
        "applied": done is not None,
        "undo": _undo_restore(done) if done is not None else None,
        "undo_request": None,
    }


def _undo_restore(done: RestoredFile) -> str:
    if done.kept is None:
        return shlex.join(["rm", "--", str(done.path)])
    return shlex.join(["mv", "--", str(done.kept), str(done.path)])


# ---- keeping and making room -----------------------------------------------------------------------------


def archive(desk: PageBackend, sessions: Sequence[Session], *, apply: bool) -> Document:
    """Put sessions into the archive; only our own directory is written to."""
    desk.require_own()
    chosen = [one for one in sessions if one.session_id is not None]
    added: list[ArchiveResult] = []
    failed: list[archive_service.ArchiveFailure] = []
    if apply:
        added, failed = archive_service.add_all(
            archive_service.archive_at(desk.data), chosen, dt.datetime.now(dt.UTC)
        )
    return {
        "sessions": [one.id for one in chosen[:_MOST]],
        "total": len(chosen),
        "raw_bytes": sum(one.manifest.raw_bytes for one in added)
        if apply
        else sum(s.file.size for s in chosen),
        "stored_bytes": sum(one.manifest.stored_bytes for one in added),
        "new_bytes": sum(one.new_bytes for one in added),
        "failed": failed[:_MOST],
        "applied": apply,
        "undo": None,
        "undo_request": None,
    }


def archive_one(desk: PageBackend, name: str, *, apply: bool) -> Document:
    """One session."""
    return archive(desk, [desk.changing(name)], apply=apply)


def archive_many(desk: PageBackend, which: str, *, apply: bool) -> Document:
    """All sessions, or those the client is about to delete."""
    desk.require_own()
    sessions = desk.sessions(fresh=True)
    if which == "expiring":
        soon = archive_service.expiring(
            sessions, archive_service.archive_at(desk.data), dt.datetime.now(dt.UTC), WITHIN_DAYS
        )
        names = {one.path for one in soon if not one.is_archived}
        sessions = [one for one in sessions if one.path in names]
    return archive(desk, sessions, apply=apply)


def clean_up(desk: PageBackend, days: float, project: str | None, *, apply: bool) -> Document:
    """Archive old sessions, then move them to the trash."""
    desk.require_own()
    now = dt.datetime.now(dt.UTC)
    found = cleanup.candidates(desk.home.sessions(project), now - dt.timedelta(days=days))
    done = cleanup.clean_up(found, archive_service.archive_at(desk.data), desk.data, now) if apply else None
    going = [one for one in found if one.kept_because is None]
    return {
        "sessions": [
            {
                "session": one.session.id,
                "title": one.session.title if one.last_at else "",
                "last_at": one.last_at,
                "bytes": one.bytes,
                "kept_because": one.kept_because,
            }
            for one in found[:_MOST]
        ],
        "total": len(going),
        "bytes": sum(one.bytes for one in going),
        "failed": list(done.failed[:_MOST]) if done else [],
        "batches": [batch.batch for batch in done.batches[:_MOST]] if done else [],
        "applied": done is not None,
        "undo": desk.command("trash", "list") if done is not None else None,
        "undo_request": None,
    }
