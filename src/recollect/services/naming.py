"""How a session is told from others in one line, and where one went that is no longer found."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from recollect.errors import NotFound, RecollectError
from recollect.model.ids import short_id
from recollect.model.titles import copy_note
from recollect.services.projects import project_name
from recollect.services.session import Session
from recollect.storage.logs.fork_origin import fork_origin

_TITLE = 40


def in_short(session: Session) -> str:
    """Id, date, project, title, and what it is a copy of: one line of a list to choose from."""
    at = session.glance.last_at or dt.datetime.fromtimestamp(session.file.mtime_ns / 1e9, dt.UTC)
    project = project_name(session.cwd, session.place.parent.name)
    marks = [copy_note(session.title, fork_origin(session.path)), "archived" if session.is_archived else ""]
    return "  ".join(
        part
        for part in (
            short_id(session.id),
            f"{at.astimezone():%Y-%m-%d %H:%M}",
            project,
            f"{session.title[:_TITLE]!r}",
            *marks,
        )
        if part
    )


def missing_session(name: str, data: Path, homes: Sequence[Path], cache: Path | None) -> NotFound:
    """The error for a session that no home has, with the place it went to."""
    from recollect.services.trash import trash_at

    batches = [one for one in trash_at(data).batches() if _is_named(name, one.session, one.title)]
    if batches:
        last = max(batches, key=lambda one: one.at)
        return NotFound(
            f"session {last.session}: it was moved to the trash on {last.at[:10]}",
            hint=f"bring it back with: recollect undo {last.batch} --apply",
        )
    gone = _gone(name, homes, cache)
    if gone is not None:
        return NotFound(
            f"session {gone}: its log was deleted from the home, and neither archive nor trash has it",
            hint="its cost is still in the totals; `recollect archive add --all` keeps the sessions there are",
        )
    return NotFound(f"session {name!r}: not found", hint="`recollect list` shows what there is")


def _is_named(name: str, session: str, title: str) -> bool:
    return bool(name) and (session.startswith(name) or title.casefold() == name.strip().casefold())


def _gone(name: str, homes: Sequence[Path], cache: Path | None) -> str | None:
    """The only deleted session in the index whose id begins so."""
    from recollect.index.cost_queries import gone_sessions
    from recollect.index.database import Failure
    from recollect.services.indexing.at_hand import known_index

    with contextlib.suppress(Failure, RecollectError), known_index(homes, cache) as opened:
        if opened.database is not None:
            found = gone_sessions(opened.database, name)
            return found[0] if len(found) == 1 else None
    return None
