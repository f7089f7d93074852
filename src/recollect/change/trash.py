"""Take a session out of its home, all of it. ``change/undo.py`` brings it back.

All of it goes to our trash, none of it is deleted. A session that a client has open is refused: the client would go on
writing and leave a new log with only its later lines behind.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from recollect.ask.sessions.home_guard import RemovalPlan, planned_removal, refuse_open
from recollect.ask.sessions.session import Session
from recollect.change.undo import RequestDocument
from recollect.store.session_files import hold_logs
from recollect.store.trash import TrashBatch, trash_at


def remove(session: Session, data: Path) -> TrashBatch:
    """Move it to the trash; ``Busy`` where a client has it open, or another of us writes to it."""
    with hold_logs([session.path], data):
        refuse_open(session.home, session.id)
        plan = planned_removal(session)
        now = dt.datetime.now(dt.UTC)
        return trash_at(data).put(session.home.root, plan.items, session=session.id, title=plan.title, at=now)


class RemovedSessionDocument(Struct, frozen=True, kw_only=True):
    """What moves to the trash of a session, and the batch it became."""

    session: str
    title: str
    items: Sequence[Path]
    bytes: int
    open_in: int | None
    batch: str | None


class RemovalDocument(RemovedSessionDocument, frozen=True, kw_only=True):
    """A session that moves to the trash, for the page."""

    applied: bool
    undo: str | None
    undo_request: RequestDocument | None


class RemovalsDocument(Struct, frozen=True):
    """What ``rm --json`` prints; ``undo`` holds commands."""

    sessions: list[RemovedSessionDocument]
    applied: bool
    undo: list[str]


def removals_document(
    planned: Sequence[RemovalPlan], batches: Sequence[str], undo: list[str]
) -> RemovalsDocument:
    """``batches`` are the removals that were carried out, in the order of the plan."""
    names = [*batches, *[None] * (len(planned) - len(batches))]
    rows = [
        RemovedSessionDocument(
            session=plan.session,
            title=plan.title,
            items=plan.items,
            bytes=plan.bytes,
            open_in=plan.open_in,
            batch=batch,
        )
        for plan, batch in zip(planned, names, strict=True)
    ]
    return RemovalsDocument(rows, len(batches) == len(planned), undo)
