"""A project directory that moved."""

from __future__ import annotations

from msgspec import Struct

from recollect.services.move.move import MoveConflict, SessionMove
from recollect.storage.changes.journal import Step


class MovedProjectDocument(Struct, frozen=True, kw_only=True):
    """What ``mv --json`` prints; ``undo`` holds commands."""

    sessions: list[SessionMove]
    conflicts: list[MoveConflict]
    config_keys: list[str]
    prompts: int
    steps: list[Step]
    applied: bool
    undo: list[str]
