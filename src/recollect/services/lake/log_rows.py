"""The messages and tool calls of a log as rows, read fast: numbers and names, and texts only if asked for.

A log in which every line is plain is read by one narrow view. Any other (damage, another dialect, two lines with one
id, sub-agents inside a session's own log, ends of background calls) is read the way of ``Home.messages`` and
``Home.tool_calls``; a test compares the two. Runs as a job of ``system.pool``.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import UNSET, Raw, UnsetType

from recollect.errors import NotFound, StorageError
from recollect.model.conversation.agents import is_warm_up
from recollect.model.conversation.node import SHOWN_NOTES
from recollect.model.conversation.tool_calls import INTERRUPTED, NOTIFICATION, ToolCallStatus, status_of
from recollect.model.damage import Line
from recollect.model.line_views.plain import (
    CallOutcome,
    PlainBlock,
    PlainLine,
    PlainMessage,
    plain_line,
    plain_number,
    plain_parts,
    plain_text,
)
from recollect.model.line_views.view import REFUSED, is_of_other_dialect
from recollect.model.moments import EPOCH, parsed_time
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run
from recollect.system.unwatched import unwatched

_MICROSECOND = dt.timedelta(microseconds=1)
_INTERRUPTED = INTERRUPTED.encode()
_SPOKEN = ("user", "assistant")
# Types of lines in which other dialects call tools.
_OTHER_CALLS = ("tool_use", "tool_result", "tool_call")


class LakeTask(NamedTuple):
    """A log to read. ``session`` is None where only its lines say whose it is."""

    path: str
    session: str | None
    agent: str | None


class LogRows(NamedTuple):
    """Rows of one log. A message: uuid, parent, role, at, model, blocks, is_meta, is_summary, agent, text. A call: id, name,
    status, called_at, answered_at, elapsed_ms, in_background, input, result. Times are microseconds since 1970.

    ``agents``: how many sub-agents it holds, by the rule of ``services.agents``: itself, where it is the log of one."""

    session: str | None
    messages: list[tuple[Any, ...]]
    calls: list[tuple[Any, ...]]
    agents: int = 0
    problem: str | None = None


_NO_OUTCOME = CallOutcome()


class _NotPlain(Exception):
    """The log has to be read the long way."""


class _Call:
    """A call that waits for its result."""

    __slots__ = ("answered_at", "at", "in_background", "input", "name", "recorded", "result", "status")

    def __init__(self, name: str, at: int | None, input_: str | None) -> None:
        self.name, self.at, self.input = name, at, input_
        self.status = ToolCallStatus.MISSING
        self.answered_at: int | None = None
        self.recorded: float | None = None
        self.result = ""
        self.in_background = False


class _PlainLog:
    """Collects the rows of a log, line by line; ``_NotPlain`` at the first line that needs the long way."""

    def __init__(self, *, is_session: bool, texts: _Texts | None) -> None:
        self._is_session, self._texts = is_session, texts
        self._seeks_prompt = not is_session
        self.session: str | None = None
        self.agents = 0 if is_session else 1
        self._seen: set[str] = set()
        self._groups: list[list[Any]] = []  # a message's row, with the id of its answer before it
        self._calls: dict[str, _Call] = {}

    def take(self, data: bytes) -> None:
        try:
            line = plain_line(data)
        except REFUSED:
            raise _NotPlain from None
        kind = line.type
        if kind in _SPOKEN:
            self._take_spoken(line, data)
        elif kind == "system" and line.subtype in SHOWN_NOTES:
            self._check(line, data)
            self._add(line, None, 1, self._system_text(line))
        elif kind is None or kind in _OTHER_CALLS:
            raise _NotPlain

    def rows(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        messages = [(*row[1:9], None, row[9]) for row in self._groups]
        calls = [
            (
                name,
                call.name,
                call.status.value,
                call.at,
                call.answered_at,
                _elapsed(call),
                call.in_background,
                call.input,
                None if self._texts is None else self._texts.of(call.result),
            )
            for name, call in self._calls.items()
        ]
        if self._texts is not None:
            messages = [(*row[:9], self._texts.of(row[9])) for row in messages]
        return messages, calls

    def _check(self, line: PlainLine, data: bytes) -> None:
        """A line whose place in the conversation only the graph knows makes the log not plain."""
        if line.uuid is None or line.uuid in self._seen or (self._is_session and line.is_sidechain):
            raise _NotPlain
        self._seen.add(line.uuid)
        if line.session_id is None:
            if is_of_other_dialect(data):
                raise _NotPlain
        elif self.session is None:
            self.session = line.session_id

    def _take_spoken(self, line: PlainLine, data: bytes) -> None:
        message = line.message
        if message is None:
            raise _NotPlain
        self._check(line, data)
        content = message.content
        if line.type == "user":
            self._take_user(line, message)
        elif message.id and self._groups and self._groups[-1][0] == message.id:
            self._continue(line, message)
        elif content is not None:
            self._add(line, message, _count(content), self._text_of(content))
        if isinstance(content, list):
            self._take_calls(line, content)

    def _take_user(self, line: PlainLine, message: PlainMessage) -> None:
        content = message.content
        if _is_notice(content):
            raise _NotPlain
        if self._seeks_prompt:
            self._seeks_prompt = False
            self.agents = int(not is_warm_up(_prompt(content)))
        if content is not None:
            self._add(line, message, _count(content), self._text_of(content))

    def _add(self, line: PlainLine, message: PlainMessage | None, blocks: int, text: str | None) -> None:
        is_user = line.type == "user"
        answer = message.id if message is not None and line.type == "assistant" else None
        self._groups.append(
            [
                answer,
                line.uuid,
                line.parent_uuid or None,
                line.type,
                _at(line.timestamp),
                None if message is None or is_user else message.model,
                blocks,
                is_user and line.is_meta is True,
                is_user and line.is_compact_summary is True,
                text,
            ]
        )

    def _continue(self, line: PlainLine, message: PlainMessage) -> None:
        """Another line of the same answer."""
        group = self._groups[-1]
        group[1] = line.uuid
        if group[4] is None:
            group[4] = _at(line.timestamp)
        group[5] = message.model
        if message.content is not None:
            group[6] += _count(message.content)
            more = self._text_of(message.content)
            if more is not None:
                group[9] = more if group[9] is None else f"{group[9]}\n{more}"

    def _text_of(self, content: str | list[PlainBlock]) -> str | None:
        if self._texts is None:
            return None
        if isinstance(content, str):
            return content
        found = [_string(block.text) for block in content if block.type == "text"]
        return "\n".join(found) if found else None

    def _system_text(self, line: PlainLine) -> str | None:
        return None if self._texts is None or line.content is UNSET else _string(line.content)

    def _take_calls(self, line: PlainLine, content: list[PlainBlock]) -> None:
        if line.type == "assistant":
            for block in content:
                if block.type != "tool_use" or block.id is None or block.name is None:
                    continue
                if block.id not in self._calls:
                    given = self._input_of(block.input)
                    self._calls[block.id] = _Call(block.name, _at(line.timestamp), given)
            return
        for block in content:
            call = self._calls.get(block.tool_use_id or "") if block.type == "tool_result" else None
            if call is not None and call.status is ToolCallStatus.MISSING:
                self._answer(call, line, block)

    def _input_of(self, given: Raw | UnsetType) -> str | None:
        if self._texts is None:
            return None
        return self._texts.of_json(b"{}" if isinstance(given, UnsetType) else bytes(given))

    def _answer(self, call: _Call, line: PlainLine, block: PlainBlock) -> None:
        rich = line.tool_use_result if isinstance(line.tool_use_result, CallOutcome) else _NO_OUTCOME
        is_error = block.is_error is True
        text = _result(block.content) if is_error or self._texts is not None else _beginning(block.content)
        call.in_background = rich.is_async is True or rich.background_task_id is not UNSET
        call.status = status_of(
            text,
            is_error=is_error,
            is_refused=_is_refused(line),
            is_interrupted=rich.interrupted is True,
            in_background=call.in_background,
        )
        call.answered_at = _at(line.timestamp)
        call.recorded = _recorded(rich)
        call.result = text


class _Texts:
    """What becomes of texts: without their secrets, and as UTF-8."""

    def __init__(self, data: str) -> None:
        from recollect.services.export.export import Redactor

        self._redactor = Redactor(Path(data))

    def of(self, text: str | None) -> str | None:
        return None if text is None else self._redactor.text(text).encode("utf-8", "replace").decode()

    def of_json(self, data: bytes) -> str:
        return self._redactor.line(data).decode("utf-8", "replace")


@functools.lru_cache(8)  # the time of a line is asked for by its message and by its calls
def _at(timestamp: str | None) -> int | None:
    moment = parsed_time(timestamp)
    return None if moment is None else microseconds(moment)


def microseconds(moment: dt.datetime) -> int:
    """A time as Arrow stores it."""
    return (moment - EPOCH) // _MICROSECOND


def _count(content: str | list[PlainBlock]) -> int:
    return len(content) if isinstance(content, list) else 1


def _is_notice(content: str | list[PlainBlock] | None) -> bool:
    """Whether a user's line tells how a background call ended."""
    if isinstance(content, list):
        return any(block.type == "text" and _string(block.text).startswith(NOTIFICATION) for block in content)
    return content is not None and content.startswith(NOTIFICATION)


def _prompt(content: str | list[PlainBlock] | None) -> str:
    """What was typed, as ``services.agents.first_prompt`` has it."""
    if isinstance(content, list):
        return "\n".join(_string(block.text) for block in content if block.type == "text")
    return content or ""


def _string(raw: Raw | UnsetType) -> str:
    try:
        return "" if isinstance(raw, UnsetType) else plain_text(raw)
    except REFUSED:
        raise _NotPlain from None


def _result(content: Raw | UnsetType) -> str:
    """The text of a result, as ``ToolResultBlock.text`` has it."""
    if isinstance(content, UnsetType) or memoryview(content)[0] not in b'"[':
        return ""
    if memoryview(content)[0] == b'"'[0]:
        return _string(content)
    try:
        parts = plain_parts(content)
    except REFUSED:
        raise _NotPlain from None
    return "\n".join(_string(part.text) for part in parts if part.type == "text")


def _beginning(content: Raw | UnsetType) -> str:
    """As much of a result as says how the call ended: building all of it is most of the work."""
    if isinstance(content, UnsetType) or _INTERRUPTED not in bytes(memoryview(content)[:4096]):
        return ""
    return _result(content)


def _is_refused(line: PlainLine) -> bool:
    if not isinstance(line.permission_decision, UnsetType):
        raise _NotPlain
    kind = line.tool_denial_kind
    return not isinstance(kind, UnsetType) and bytes(kind) not in (b'""', b"null", b"false", b"0")


def _recorded(rich: CallOutcome) -> float | None:
    for raw, factor in ((rich.total_duration_ms, 1), (rich.duration_ms, 1), (rich.duration_seconds, 1000)):
        if isinstance(raw, UnsetType):
            continue
        try:
            value: float = plain_number(raw)
        except REFUSED:
            continue
        if value >= 0:
            return value * factor
    return None


def _elapsed(call: _Call) -> float | None:
    """As ``ToolCall.elapsed_ms``."""
    if call.recorded is not None:
        return call.recorded
    if call.at is None or call.answered_at is None:
        return None
    return max((call.answered_at - call.at) / 1000, 0.0)


def read(task: LakeTask, texts: _Texts | None = None) -> LogRows:
    """All messages and calls of a log. One that went away since it was seen has none."""
    path = Path(task.path)
    try:
        try:
            with OpenLog(path) as log:
                rows = _PlainLog(is_session=task.agent is None, texts=texts)
                for item in log.lines():
                    if not isinstance(item, Line):
                        raise _NotPlain  # noqa: TRY301 - caught below, as those of ``take``
                    rows.take(item.data)
            return LogRows(task.session or rows.session, *rows.rows(), rows.agents)
        except _NotPlain:
            return _the_long_way(task, texts)
    except NotFound:
        return LogRows(task.session, [], [])
    except StorageError as cause:
        return LogRows(task.session, [], [], problem=cause.message)


def _the_long_way(task: LakeTask, texts: _Texts | None) -> LogRows:
    from recollect.services.library.messages import log_messages, log_tool_calls

    path = Path(task.path)
    session = task.session or _session_of(path)
    messages = [
        (
            one.uuid,
            one.parent_uuid,
            one.role,
            None if one.at is None else microseconds(one.at),
            one.model,
            len(one.blocks),
            one.is_meta,
            one.is_summary,
            one.agent if task.agent is None else None,
            None if texts is None else texts.of(one.text),
        )
        for one in log_messages(path, session or "", task.agent)
    ]
    calls = [
        (
            call.id,
            call.name,
            call.status.value,
            None if call.called_at is None else microseconds(call.called_at),
            None if call.answered_at is None else microseconds(call.answered_at),
            call.elapsed_ms,
            call.in_background,
            None if texts is None else texts.of_json(call.input),
            None if texts is None else texts.of(call.text),
        )
        for call in log_tool_calls(path)
    ]
    return LogRows(session, messages, calls, _agents_in(path, task.agent))


def _agents_in(path: Path, agent: str | None) -> int:
    if agent is not None:
        from recollect.services.agents import first_prompt

        return int(not is_warm_up(first_prompt(path)))
    from recollect.model.conversation.agents import inline_roots
    from recollect.storage.logs.log_graph import LogGraph

    return len(inline_roots(LogGraph(path).graph))


def _session_of(path: Path) -> str | None:
    from recollect.model.line_views.links import line_links

    with OpenLog(path) as log:
        links = (line_links(item.data) for item in log.lines() if isinstance(item, Line))
        return next((one.session_id for one in links if one is not None and one.session_id), None)


def lake_job(data: str | None) -> Run:
    """A job of ``system.pool``: the rows of some logs. ``data``: recollect's directory, where texts are wanted."""
    texts = None if data is None else _Texts(data)

    def run(tasks: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        with unwatched():
            found = [tuple(read(LakeTask(*task), texts)) for task in tasks]
        yield found

    return run
