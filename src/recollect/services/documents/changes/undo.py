"""The journal of changes, and what is taken back."""

from __future__ import annotations

import datetime as dt

from msgspec import Struct

from recollect.services.documents.changes.change import ChangeDocument, ChangeStepDocument, RequestDocument
from recollect.services.undo import UndoableChange
from recollect.storage.changes.journal import ChangeState


class JournalEntryDocument(Struct, frozen=True, kw_only=True):
    """A change in the journal."""

    id: str
    what: str
    subject: str
    at: dt.datetime
    state: ChangeState


class DetailedEntryDocument(JournalEntryDocument, frozen=True, kw_only=True):
    """A change in the journal, with its steps."""

    steps: list[ChangeStepDocument]


class UndoDocument(ChangeDocument, frozen=True, kw_only=True):
    """A change that is undone."""

    change: DetailedEntryDocument


class RecentChangeDocument(JournalEntryDocument, frozen=True, kw_only=True):
    """A change that can be undone."""

    undo: RequestDocument


class UndoableChangesDocument(Struct, frozen=True):
    """What ``undo --json`` prints without an id."""

    changes: list[UndoableChange]


class TakenBackDocument(Struct, frozen=True):
    """A change that is taken back; ``undo`` makes it again."""

    change: UndoableChange
    applied: bool
    undo: str | None
