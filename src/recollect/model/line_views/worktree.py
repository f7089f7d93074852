"""The line in which a client notes that a session works in a worktree."""

from __future__ import annotations

from recollect.model.json.text import loose_object
from recollect.model.line_views.view import text_of

WORKTREE = "worktree-state"


def origin_of(data: bytes) -> str | None:
    """The directory that a session's worktree was made from; None where a line says none."""
    fields = loose_object(data)
    if fields.get("type") != WORKTREE:
        return None
    return text_of(fields.get("worktreeSession"), "originalCwd") or None
