"""A title, a tag, a copy of a session."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from recollect.services.documents.changes.change import ChangeDocument, RequestDocument
from recollect.services.fork import ForkPlan


class LabelDocument(ChangeDocument, frozen=True, kw_only=True):
    """A new title or tag."""

    session: str
    path: str
    what: str
    before: str
    after: str


class ForkDocument(ChangeDocument, frozen=True, kw_only=True):
    """A copy that continues as a separate session. A plan has no id yet: every run makes a new one."""

    session: str
    at: str
    title: str
    entries: int
    bytes: int
    backups: int
    new: str | None
    path: str | None


def fork_document(
    plan: ForkPlan, *, applied: bool, undo: str | None, request: RequestDocument | UnsetType | None = UNSET
) -> ForkDocument:
    return ForkDocument(
        session=plan.session,
        at=plan.leaf,
        title=plan.title,
        entries=plan.entries,
        bytes=plan.bytes,
        backups=len(plan.backups),
        new=str(plan.new) if applied else None,
        path=str(plan.path) if applied else None,
        applied=applied,
        undo=undo,
        undo_request=request,
    )
