"""A line that says where the worktree of a session came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.model.line_views.links import type_of
from recollect.model.line_views.view import LineView, text_of

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class WorktreeOrigin(Struct, rename="camel", gc=False):
    """The directory a worktree was made from."""

    original_cwd: str | None = None


class WorktreeLine(Struct, rename="camel", gc=False):
    """The state of a session's worktree, if the line is one of those that say so."""

    type: str | None = None
    worktree_session: WorktreeOrigin | None = None

    @property
    def origin(self) -> str | None:
        """The directory; None where the line names none."""
        if self.type != "worktree-state" or self.worktree_session is None:
            return None
        return self.worktree_session.original_cwd or None


def _worktree_of(entry: Entry) -> WorktreeLine:
    state = entry.fields().get("worktreeSession")
    origin = WorktreeOrigin(text_of(state, "originalCwd")) if isinstance(state, dict) else None
    return WorktreeLine(type_of(entry), origin)


worktree_line = LineView(WorktreeLine, _worktree_of)
