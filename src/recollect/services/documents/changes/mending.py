"""What ``fix`` and ``repair --undo`` change."""

from __future__ import annotations

from msgspec import Struct

from recollect.services.documents.changes.change import ChangeDocument, ChangeStepDocument
from recollect.services.fix.fix import FixOutcome, FixStep


class FixDocument(ChangeDocument, frozen=True, kw_only=True):
    """What is broken in the homes: the steps that fix it, what is left to the user, and what was done."""

    sessions: int
    steps: tuple[FixStep, ...]
    left: tuple[FixStep, ...]
    outcomes: tuple[FixOutcome, ...]


class RepairUndoDocument(Struct, frozen=True, kw_only=True):
    """A repair that is taken back."""

    change: str
    session: str
    steps: list[ChangeStepDocument]
    applied: bool
    undo: str | None
