"""Give a session a title or a tag: one small metadata line at the end of its log.

This is what the client's own ``/rename`` does, and the one thing we append to a
log that is not ours. The line goes in by one write with a sync, on a line of its
own even behind a torn one, so a client that has the session open is not disturbed;
it notices the line and repeats it. An empty text clears the title or tag. A log that
lies outside the home, behind a link, gets no line: it could be any file.

Nothing is decided here about conversations: no line with a ``uuid`` is ever written.
"""

from __future__ import annotations

import datetime as dt
import unicodedata
import uuid
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from recollect.ask.sessions.session import Session
from recollect.change.undo import ChangeDocument, RequestDocument
from recollect.errors import NotFound, UsageError
from recollect.model.lines import draft
from recollect.model.lines.damage import readable_entries
from recollect.model.lines.draft import MetadataDraft, Stamp
from recollect.model.lines.entry import CustomTitle, Tag
from recollect.store.logs.log import Log
from recollect.store.session_files import HomeBorder, lock_path

LONGEST = 200
_COPY_CHARACTERS = 80
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
_JOINER = "\u200d"  # holds emoji together; the one invisible character people do type


class LabelPlan(Struct, frozen=True):
    """A title or tag to be given: what it is now, what it will be, and the line that says so."""

    what: Literal["title", "tag"]
    session: str
    home: Path
    path: Path
    before: str
    after: str
    line: bytes


def titled(session: Session, title: str) -> LabelPlan:
    """The plan to rename a session."""
    earlier = [one.custom_title for one in _labels(session) if isinstance(one, CustomTitle)]
    title = title if _can_return(title, earlier) else checked_label("title", title)
    return _planned("title", session, earlier, title, draft.custom_title(title))


def tagged(session: Session, tag: str) -> LabelPlan:
    """The plan to tag a session."""
    earlier = [one.tag for one in _labels(session) if isinstance(one, Tag)]
    tag = tag if _can_return(tag, earlier) else checked_label("tag", tag)
    return _planned("tag", session, earlier, tag, draft.tag(tag))


def _labels(session: Session) -> list[CustomTitle | Tag]:
    """Every title and tag in the log, in order, whole: lists shorten them, and an undo needs all of one."""
    entries = readable_entries(session.entries())
    return [entry.body for entry in entries if isinstance(entry.body, CustomTitle | Tag)]


def _can_return(text: str, earlier: list[str]) -> bool:
    """Whether the log held this very text before: undoing must always be possible."""
    return bool(text) and text in earlier


def apply(plan: LabelPlan, data: Path) -> None:
    """Append the line. ``data`` is our own directory, where the lock lies."""
    # A log behind a link is written where it lies, if that is in the home: the link stays a link.
    log = HomeBorder(plan.home).require(plan.path)
    if not log.is_file():
        raise NotFound(f"session {plan.session}: its log is gone", hint=f"it was {plan.path}")
    with Log(log, lock_path=lock_path(log, data)) as open_log:
        open_log.append(plan.line)


def checked_label(what: str, text: str) -> str:
    """The text without spaces around it; what would be invisible, or endless, is refused."""
    text = text.strip()
    if len(text) > LONGEST:
        raise UsageError(f"{what}: {len(text)} characters", hint=f"use at most {LONGEST}")
    odd = next((one for one in text if unicodedata.category(one) in _UNSEEN and one != _JOINER), None)
    if odd is not None:
        raise UsageError(f"{what}: holds the character U+{ord(odd):04X}", hint="use text that can be seen")
    return text


def title_line(session_id: str, title: str) -> bytes:
    """The metadata line of a title."""
    return _line(session_id, draft.custom_title(title))


def copy_title(title: str, mark: str) -> str:
    """The title of a copy of a session, with a mark behind it."""
    words = " ".join("".join(one if one.isprintable() else " " for one in title).split())
    return f"{words[:_COPY_CHARACTERS].strip() or 'Session'} {mark}"


def _planned(
    what: Literal["title", "tag"], session: Session, earlier: list[str], after: str, label: MetadataDraft
) -> LabelPlan:
    before = earlier[-1] if earlier else ""
    home = session.home.root
    HomeBorder(home).require(session.path)
    return LabelPlan(what, session.id, home, session.path, before, after, _line(session.id, label))


def _line(session_id: str, label: MetadataDraft) -> bytes:
    stamp = Stamp(
        uuid=str(uuid.uuid4()),
        parent_uuid=None,
        session_id=str(session_id),
        timestamp=dt.datetime.now(dt.UTC),
        cwd="",
        version="",
    )
    return draft.claude_line(label, stamp)


class LabelDocument(ChangeDocument, frozen=True, kw_only=True):
    """A new title or tag."""

    session: str
    path: str
    what: str
    before: str
    after: str


def label_document(
    plan: LabelPlan, *, applied: bool, undo: str | None, request: RequestDocument | UnsetType | None = UNSET
) -> LabelDocument:
    return LabelDocument(
        session=plan.session,
        path=str(plan.path),
        what=plan.what,
        before=plan.before,
        after=plan.after,
        applied=applied,
        undo=undo,
        undo_request=request,
    )
