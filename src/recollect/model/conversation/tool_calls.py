"""Every tool call with its outcome: result, error, denial, interruption, or none.

A call is a block of an answer; its result is a block of a later user line, with a richer form beside it
(``toolUseResult``). Background calls are answered twice: at once that they were started, and later, in a task
notification, how they ended.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct, UnsetType, structs

from recollect.model.conversation.client_words import INTERRUPTED
from recollect.model.lines.blocks import TextBlock, ToolResultBlock, ToolUseBlock
from recollect.model.lines.damage import brief_repr
from recollect.model.lines.entry import Assistant, Entry, ToolCallBody, ToolResultBody, User
from recollect.model.lines.json_text import loose_object, loose_value

_DENIED = re.compile(
    r"(Error: )?(User rejected tool use|The user doesn't want to|Permission to use |Claude requested permissions|"
    r"This command requires approval|This Bash command contains multiple operations)"
)
# Fields of a call's input that tell a reader what it does, best first.
DESCRIPTIVE_FIELDS = (
    *("command", "cmd", "file_path", "filePath", "notebook_path", "pattern", "url", "query", "path"),
    *("description", "prompt", "subject"),
)
NOTIFICATION = "<task-notification>"


def is_denial(text: str) -> bool:
    """Whether a failed result says that the call was denied, by a person or by the rules."""
    return _DENIED.match(text) is not None


class ToolCallStatus(enum.StrEnum):
    """How a call ended."""

    OK = "ok"
    ERROR = "error"
    DENIED = "denied"
    INTERRUPTED = "interrupted"
    RUNNING = "running"  # started in the background, no end seen
    MISSING = "missing"


class ToolCall(Struct, frozen=True):
    """One tool call from request to result. ``agent_id`` is the sub-agent it started.

    ``session`` is the session it was made in and ``by_agent`` the sub-agent that made it; both are empty where
    the call was not read from a home.
    """

    id: str
    name: str
    input: bytes
    uuid: str | None
    called_at: dt.datetime | None
    status: ToolCallStatus = ToolCallStatus.MISSING
    result_uuid: str | None = None
    answered_at: dt.datetime | None = None
    text: str = ""
    duration_ms: float | None = None  # as recorded by the client
    agent_id: str | None = None
    in_background: bool = False
    session: str = ""
    by_agent: str | None = None

    @property
    def elapsed_ms(self) -> float | None:
        """The recorded duration, else the time between call and result; never negative (S11)."""
        if self.duration_ms is not None:
            return self.duration_ms
        if self.called_at is None or self.answered_at is None:
            return None
        return max((self.answered_at - self.called_at).total_seconds() * 1000, 0.0)

    __repr__ = brief_repr


def tool_calls(entries: Iterable[Entry]) -> list[ToolCall]:
    """All calls in the order they were made, each with its first result."""
    calls: dict[str, ToolCall] = {}
    for entry in entries:
        body = entry.body
        if isinstance(body, Assistant):
            for block in body.message.blocks:
                if isinstance(block, ToolUseBlock):
                    calls.setdefault(block.id, _asked(block, entry))
        elif isinstance(body, ToolCallBody) and body.call_id:
            made = ToolUseBlock(body.call_id, body.name, body.input)
            calls.setdefault(body.call_id, _asked(made, entry))
        elif isinstance(body, User):
            _answer(calls, entry, body)
        elif isinstance(body, ToolResultBody) and body.call_id in calls:
            calls[body.call_id] = _flat_answer(calls[body.call_id], entry, body)
    return list(calls.values())


def _asked(block: ToolUseBlock, entry: Entry) -> ToolCall:
    return ToolCall(block.id, block.name, bytes(block.input), entry.uuid, entry.at)


def _answer(calls: dict[str, ToolCall], entry: Entry, body: User) -> None:
    rich = {} if isinstance(body.tool_use_result, UnsetType) else loose_object(body.tool_use_result)
    for block in body.message.blocks:
        if isinstance(block, ToolResultBlock):
            call = calls.get(block.tool_use_id)
            if call is not None and call.status is ToolCallStatus.MISSING:
                calls[call.id] = _answered(call, block, entry, rich)
        elif isinstance(block, TextBlock) and block.text.startswith(NOTIFICATION):
            _notify(calls, entry, block.text)


def _answered(call: ToolCall, block: ToolResultBlock, entry: Entry, rich: Mapping[str, object]) -> ToolCall:
    text = block.text()
    background = rich.get("isAsync") is True or "backgroundTaskId" in rich
    agent = rich.get("agentId")
    return structs.replace(
        call,
        status=_status(block, text, entry, rich, background),
        result_uuid=entry.uuid,
        answered_at=entry.at,
        text=text,
        duration_ms=_duration(rich),
        agent_id=agent if isinstance(agent, str) else None,
        in_background=background,
    )


def _status(
    block: ToolResultBlock, text: str, entry: Entry, rich: Mapping[str, object], background: bool
) -> ToolCallStatus:
    fields = entry.fields()
    decision = fields.get("permissionDecision")
    rejected = isinstance(decision, dict) and decision.get("decision") == "reject"
    if fields.get("toolDenialKind") or rejected or (block.is_error and is_denial(text)):
        return ToolCallStatus.DENIED
    if rich.get("interrupted") is True or text.startswith(INTERRUPTED):
        return ToolCallStatus.INTERRUPTED
    if block.is_error:
        return ToolCallStatus.ERROR
    return ToolCallStatus.RUNNING if background else ToolCallStatus.OK


def _notify(calls: dict[str, ToolCall], entry: Entry, text: str) -> None:
    """Record the end of a background call."""
    call = calls.get(_tag(text, "tool-use-id"))
    if call is None:
        return
    state = _tag(text, "status")
    ends = {
        "completed": ToolCallStatus.OK,
        "failed": ToolCallStatus.ERROR,
        "killed": ToolCallStatus.INTERRUPTED,
    }
    calls[call.id] = structs.replace(
        call,
        status=ends.get(state, call.status),
        result_uuid=entry.uuid,
        answered_at=entry.at,
        text=_tag(text, "result") or _tag(text, "summary"),
        duration_ms=None,
    )


def _tag(text: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return found[1].strip() if found else ""


def _flat_answer(call: ToolCall, entry: Entry, body: ToolResultBody) -> ToolCall:
    text = body.error or ("" if isinstance(body.content, UnsetType) else str(loose_value(body.content)))
    return structs.replace(
        call,
        status=ToolCallStatus.ERROR if body.error is not None else ToolCallStatus.OK,
        result_uuid=entry.uuid,
        answered_at=entry.at,
        text=text,
        duration_ms=body.duration_ms,
    )


def _duration(rich: Mapping[str, object]) -> float | None:
    for name, factor in (("totalDurationMs", 1), ("durationMs", 1), ("durationSeconds", 1000)):
        value = rich.get(name)
        if isinstance(value, int | float) and value >= 0:
            return value * factor
    return None


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
