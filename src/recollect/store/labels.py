"""Titles and tags that were given: the one line that gives them, and where it stands, so that it can be taken back.

A record holds no text: what a title or tag was and became is in the log alone. The records are lines of
``labels.jsonl`` in our own directory; without it nothing is lost but the list.
"""

from __future__ import annotations

import datetime as dt
import os
import uuid
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from recollect.errors import NotFound, UsageError
from recollect.model.lines import draft
from recollect.model.lines.damage import Damage
from recollect.model.lines.draft import Stamp
from recollect.model.lines.entry import CustomTitle, Tag
from recollect.model.text.titles import read_entry
from recollect.store.logs.log import Log
from recollect.store.logs.reader import read_lines
from recollect.store.session_files import HomeBorder, lock_path

LabelKind = Literal["title", "tag"]
_MARKS = {"title": b'"custom-title"', "tag": b'"tag"'}


class GivenLabel(Struct, frozen=True):
    """A title or tag that was given; ``offset`` is where its line starts. ``undoes`` is the one it took back."""

    id: str
    at: dt.datetime
    what: LabelKind
    session: str
    home: Path
    path: Path
    offset: int = 0
    undoes: str | None = None

    @staticmethod
    def new(what: LabelKind, session: str, home: Path, path: Path, undoes: str | None = None) -> GivenLabel:
        now = dt.datetime.now(dt.UTC)
        word = "rename" if what == "title" else "tag"
        name = f"{now:%Y%m%dT%H%M%S}-{word}-{os.urandom(3).hex()}"
        return GivenLabel(name, now, what, session, home, path, undoes=undoes)


def label_line(what: LabelKind, session: str, text: str) -> bytes:
    """The metadata line of a title or a tag."""
    stamp = Stamp(
        uuid=str(uuid.uuid4()),
        parent_uuid=None,
        session_id=str(session),
        timestamp=dt.datetime.now(dt.UTC),
        cwd="",
        version="",
    )
    return draft.claude_line(draft.custom_title(text) if what == "title" else draft.tag(text), stamp)


def give(label: GivenLabel, line: bytes, data: Path) -> GivenLabel:
    """Append the line to the log, and remember where it stands. ``data`` is our own directory."""
    # A log behind a link is written where it lies, if that is in the home: the link stays a link.
    log = HomeBorder(label.home).require(label.path)
    if not log.is_file():
        raise NotFound(f"session {label.session}: its log is gone", hint=f"it was {label.path}")
    with Log(log, lock_path=lock_path(log, data)) as open_log:
        offset = open_log.append(line).offset
    label = structs.replace(label, offset=offset)
    try:
        record = msgspec.json.encode(label, enc_hook=str)
    except UnicodeEncodeError:  # a name that is no text: the line is in the log, the list does without it
        return label
    records = _records(data)
    with Log(records, lock_path=lock_path(records, data)) as open_log:
        open_log.append(record)
    return label


def given(data: Path) -> list[GivenLabel]:
    """Every title and tag that was given, the newest first; lines that cannot be read are left out."""
    try:
        lines = _records(data).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    labels = []
    for line in lines:
        try:
            labels.append(
                msgspec.json.decode(line, type=GivenLabel, dec_hook=lambda kind, value: kind(value))
            )
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    return labels[::-1]


def taken_back(label: GivenLabel, data: Path, *, force: bool = False) -> GivenLabel:
    """Give the text that was there before; refused where another was given since, unless ``force``."""
    before, own, last = _texts(label)
    if last != own and not force:
        raise UsageError(
            f"undo {label.id}: the session has another {label.what} since",
            hint="--force takes back this one all the same",
        )
    line = label_line(label.what, label.session, before)
    return give(GivenLabel.new(label.what, label.session, label.home, label.path, label.id), line, data)


def _texts(label: GivenLabel) -> tuple[str, str, str]:
    """What was there before a label, its own text, and what is there now."""
    log = HomeBorder(label.home).require(label.path)
    if not log.is_file():
        raise NotFound(f"session {label.session}: its log is gone", hint=f"it was {label.path}")
    before, own, last = "", None, ""
    for line in read_lines(log):
        if isinstance(line, Damage) or _MARKS[label.what] not in line.data:
            continue
        body = getattr(read_entry(line), "body", None)
        if label.what == "title" and isinstance(body, CustomTitle):
            last = body.custom_title
        elif label.what == "tag" and isinstance(body, Tag):
            last = body.tag
        else:
            continue
        if line.offset < label.offset:
            before = last
        elif line.offset == label.offset:
            own = last
    if own is None:
        raise UsageError(
            f"undo {label.id}: the log was rewritten since", hint="`recollect rename` gives another title"
        )
    return before, own, last


def _records(data: Path) -> Path:
    return data / "labels.jsonl"
