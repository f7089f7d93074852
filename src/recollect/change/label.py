"""Give a session a title or a tag: one small metadata line at the end of its log.

This is what the client's own ``/rename`` does, and the one thing we append to a
log that is not ours. The line goes in by one write with a sync, on a line of its
own even behind a torn one, so a client that has the session open is not disturbed;
it notices the line and repeats it. An empty text clears the title or tag. A log that
lies outside the home, behind a link, gets no line: it could be any file.

Nothing is decided here about conversations: no line with a ``uuid`` is ever written.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from msgspec import UNSET, Struct, UnsetType

from recollect.ask.sessions.session import Session
from recollect.change.undo import ChangeDocument, RequestDocument
from recollect.errors import UsageError
from recollect.model.lines.damage import readable_entries
from recollect.model.lines.entry import CustomTitle, Tag
from recollect.store.labels import GivenLabel, LabelKind, give, label_line
from recollect.store.session_files import HomeBorder

LONGEST = 200
_COPY_CHARACTERS = 80
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
_JOINER = "\u200d"  # holds emoji together; the one invisible character people do type


class LabelPlan(Struct, frozen=True):
    """A title or tag to be given: what it is now, what it will be, and the line that says so."""

    what: LabelKind
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
    return _planned("title", session, earlier, title)


def tagged(session: Session, tag: str) -> LabelPlan:
    """The plan to tag a session."""
    earlier = [one.tag for one in _labels(session) if isinstance(one, Tag)]
    tag = tag if _can_return(tag, earlier) else checked_label("tag", tag)
    return _planned("tag", session, earlier, tag)


def _labels(session: Session) -> list[CustomTitle | Tag]:
    """Every title and tag in the log, in order, whole: lists shorten them, and an undo needs all of one."""
    entries = readable_entries(session.entries())
    return [entry.body for entry in entries if isinstance(entry.body, CustomTitle | Tag)]


def _can_return(text: str, earlier: list[str]) -> bool:
    """Whether the log held this very text before: undoing must always be possible."""
    return bool(text) and text in earlier


def apply(plan: LabelPlan, data: Path) -> None:
    """Append the line. ``data`` is our own directory; `recollect undo` lists the change."""
    give(GivenLabel.new(plan.what, plan.session, plan.home, plan.path), plan.line, data)


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
    return label_line("title", session_id, title)


def copy_title(title: str, mark: str) -> str:
    """The title of a copy of a session, with a mark behind it."""
    words = " ".join("".join(one if one.isprintable() else " " for one in title).split())
    return f"{words[:_COPY_CHARACTERS].strip() or 'Session'} {mark}"


def _planned(what: LabelKind, session: Session, earlier: list[str], after: str) -> LabelPlan:
    before = earlier[-1] if earlier else ""
    home = session.home.root
    HomeBorder(home).require(session.path)
    return LabelPlan(what, session.id, home, session.path, before, after, label_line(what, session.id, after))


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
