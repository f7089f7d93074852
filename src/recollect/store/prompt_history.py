"""The prompts typed in every project: ``history.jsonl`` and the pastes it refers to.

The interactive client appends one line per prompt, including slash commands and ``!`` lines. Long pastes
appear in the line as ``[Pasted text #1 +399 lines]``; their text is in ``paste-cache/<hash>.txt``, named by
the hash of the text, and is not read here.

Lines up to the last newline are read (S3), a line that is not a prompt is skipped and counted in
``home.problems``, and a missing file gives no prompts. Nothing is written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from msgspec import Struct

from recollect.errors import NotFound
from recollect.model.lines.damage import DEFAULT_LIMITS, Damage, Line, brief_repr
from recollect.model.lines.ids import moment_of, parsed_time
from recollect.model.lines.json_text import deeper_than, loose_object
from recollect.store.home import ClaudeHome
from recollect.store.logs.reader import OpenLog


class Paste(Struct, frozen=True):
    """A paste in a prompt: its text, or the hash under which the text is stored."""

    number: str
    kind: str
    content: str | None = None
    content_hash: str | None = None

    __repr__ = brief_repr


class Prompt(Struct, frozen=True):
    """One prompt of a person. ``session_id`` is missing in lines of early clients.

    ``offset`` is where the line starts in ``history.jsonl``.
    """

    display: str
    at: dt.datetime | None
    project: str | None
    session_id: str | None
    pastes: tuple[Paste, ...]
    offset: int

    __repr__ = brief_repr


def prompts(home: ClaudeHome, *, newest_first: bool = False) -> Iterator[Prompt]:
    """Every prompt, in file order or from its end."""
    opened = _opened(home)
    if opened is None:
        return
    with opened as log:
        lines = log.lines_backwards(log.whole_end()) if newest_first else log.lines()
        yield from _prompts_of(home, lines)


def by_session(home: ClaudeHome) -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """The lines of every session, as they stand there, and the hashes of its pastes. Lines of early clients name none and
    are left out.
    """
    opened = _opened(home)
    found: dict[str, tuple[bytes, tuple[str, ...]]] = {}
    if opened is None:
        return found
    with opened as log:
        for line in log.lines():
            prompt = _prompt(line) if isinstance(line, Line) and line.data.strip() else None
            if prompt is not None and prompt.session_id and isinstance(line, Line):
                lines, known = found.get(prompt.session_id, (b"", ()))
                hashes = (paste.content_hash for paste in prompt.pastes if paste.content_hash)
                found[prompt.session_id] = lines + line.data + b"\n", tuple(dict.fromkeys((*known, *hashes)))
    return found


def _opened(home: ClaudeHome) -> OpenLog | None:
    try:
        return OpenLog(home.history_file)
    except NotFound:
        return None


def _prompts_of(home: ClaudeHome, lines: Iterator[Line | Damage]) -> Iterator[Prompt]:
    unreadable = 0
    for line in lines:
        if isinstance(line, Line) and not line.data.strip():
            continue
        prompt = _prompt(line) if isinstance(line, Line) else None
        if prompt is not None:
            yield prompt
            continue
        unreadable += 1
        home.note_problem(home.history_file, f"{unreadable} of its lines are not prompts")


def _prompt(line: Line) -> Prompt | None:
    """A damaged or differently shaped line still counts if it holds the typed text."""
    if deeper_than(line.data, DEFAULT_LIMITS.depth):
        return None
    fields = loose_object(line.data)
    display, pasted = _text(fields, "display"), fields.get("pastedContents")
    if display is None:
        return None
    found = pasted.items() if isinstance(pasted, dict) else ()
    pastes = tuple(_paste(number, paste) for number, paste in found if isinstance(paste, dict))
    project, session = _text(fields, "project"), _text(fields, "sessionId")
    return Prompt(display, _time(fields.get("timestamp")), project, session, pastes, line.offset)


def _paste(number: str, paste_fields: Mapping[str, object]) -> Paste:
    return Paste(
        number,
        _text(paste_fields, "type") or "text",
        _text(paste_fields, "content"),
        _text(paste_fields, "contentHash"),
    )


def _text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) else None


def _time(value: object) -> dt.datetime | None:
    """Milliseconds since 1970, as clients write them; text as other writers may."""
    if isinstance(value, str):
        return parsed_time(value)
    return moment_of(value) if isinstance(value, float | int) else None
