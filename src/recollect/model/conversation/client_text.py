"""Text that the client wrote in the user's name, cut into parts: what is shown as a mark, and what is text.

The page cuts it in the browser (``web/src/lib/clienttext.ts``); one list of cases tests both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from recollect.model.conversation.tool_calls import INTERRUPTED

ClientPartKind = Literal["text", "command", "shell", "output", "reminder", "interrupted", "notice"]

_TAGS: dict[str, ClientPartKind] = {
    "command-name": "command",
    "command-args": "command",
    "bash-input": "shell",
    "bash-stdout": "output",
    "bash-stderr": "output",
    "local-command-stdout": "output",
    "local-command-stderr": "output",
    "local-command-caveat": "reminder",
    "system-reminder": "reminder",
    "session-start-hook": "reminder",
    "user-prompt-submit-hook": "reminder",
    "task-notification": "notice",
    "ide_opened_file": "notice",
    "ide_selection": "notice",
    "ide_diagnostics": "notice",
}
_TAG = re.compile(rf"<(command-message|{'|'.join(_TAGS)})>(.*?)</\1>", re.DOTALL)
# A tag whose end is beyond where a text was cut.
_CUT_OFF = re.compile(rf"<(?:command-message|{'|'.join(_TAGS)})>.*", re.DOTALL)
_INTERRUPTED = re.compile(rf"{re.escape(INTERRUPTED)}[^\]]*\]")


class ClientPart(NamedTuple):
    """A part of such a text."""

    kind: ClientPartKind
    text: str


def client_parts(text: str) -> list[ClientPart]:
    """The parts of a text, in order. A slash command is one part, with its arguments."""
    if "<" not in text and "[Request" not in text:
        return [ClientPart("text", text)]
    parts: list[ClientPart] = []
    end = 0
    for found in _TAG.finditer(text):
        parts += _plain(text[end : found.start()])
        end = found.end()
        _add(parts, found[1], found[2].strip())
    return [*parts, *_plain(text[end:])]


def own_words(text: str) -> str:
    """What a person said in the beginning of a text, a slash command as it was typed; the whole text if no person spoke."""
    parts = [part for part in client_parts(text) if part.kind in ("text", "command", "shell")]
    said = [_CUT_OFF.sub("", part.text).rstrip() if part.kind == "text" else part.text for part in parts]
    return "\n".join(filter(None, said)) or text


def _plain(piece: str) -> Iterator[ClientPart]:
    trimmed = piece.strip()
    if trimmed:
        yield ClientPart("interrupted" if _INTERRUPTED.fullmatch(trimmed) else "text", trimmed)


def _add(parts: list[ClientPart], tag: str, inner: str) -> None:
    """A tag; the message of a slash command says its name again and is left out."""
    last = parts[-1] if parts and parts[-1].kind == "command" else None
    if tag == "command-args" and last is not None:
        parts[-1] = ClientPart("command", f"{last.text} {inner}".strip())
    elif tag == "command-name" and last is not None and not last.text.startswith("/"):
        parts[-1] = ClientPart("command", f"{inner} {last.text}".strip())
    elif inner and tag != "command-message":
        parts.append(ClientPart(_TAGS[tag], inner))
