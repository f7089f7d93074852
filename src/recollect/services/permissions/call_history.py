"""Every tool call that the homes remember: which tool, with what, where and in which session.

Calls of sub-agents count. A call that stands in several logs (a fork copies its history) counts once, by
its id. Lines are read narrowly first; what that does not understand is read by the codec, so
that other dialects count as well.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from recollect.errors import RecollectError
from recollect.model import codec
from recollect.model.blocks import ToolUseBlock
from recollect.model.conversation.tool_calls import is_denial
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Entry, ToolCallBody
from recollect.model.json_text import loose_value
from recollect.model.moments import parsed_time
from recollect.storage.home import ClaudeHome, LogFile
from recollect.storage.logs.reader import OpenLog

_HINT = b"tool_use"
_CLOCKS_DIFFER = dt.timedelta(days=2)
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


class PastCall(NamedTuple):
    """One call. ``input`` is its JSON as it stands in the log; ``at`` is None where the line has no time."""

    tool: str
    input: bytes
    cwd: str
    session: str
    at: dt.datetime | None = None
    refused: bool = False
    """Somebody, or a rule, said no to it."""


class _HistoryBlock(Struct, gc=False):
    type: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")
    tool_use_id: str = ""
    is_error: bool | None = None
    content: Raw = Raw(b"null")


class _HistoryMessage(Struct, gc=False):
    content: list[_HistoryBlock]


class _HistoryLine(Struct, gc=False, rename={"session": "sessionId"}):
    message: _HistoryMessage
    timestamp: str | None = None
    cwd: str | None = None
    session: str | None = None


_decoder = msgspec.json.Decoder(_HistoryLine)


def past_calls(
    homes: Sequence[ClaudeHome], since: dt.datetime | None = None, until: dt.datetime | None = None
) -> Iterator[PastCall]:
    """The calls of all sessions and sub-agents, in the order of the files, each once."""
    seen: set[str] = set()
    for home in homes:
        for project in home.projects():
            for log in (*home.sessions(project), *home.project_agents(project)):
                if since is None or _modified(log) >= since - _CLOCKS_DIFFER:
                    for key, call in _calls(home, log):
                        if key in seen or not _within(call.at, since, until):
                            continue
                        seen.add(key)
                        yield call


def _modified(log: LogFile) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=log.mtime_ns // 1000)


def _within(at: dt.datetime | None, since: dt.datetime | None, until: dt.datetime | None) -> bool:
    if at is None:
        return since is None and until is None
    return (since is None or at >= since) and (until is None or at < until)


def _calls(home: ClaudeHome, log: LogFile) -> Iterator[tuple[str, PastCall]]:
    """The calls of one log; the answers come after them, so all of it is read first."""
    found: dict[str, PastCall] = {}
    cwd = ""
    try:
        with OpenLog(log.path) as opened:
            for line in opened.lines():
                if isinstance(line, Line) and _HINT in line.data:
                    for key, call in _in_line(log.path, line, cwd, found):
                        cwd = call.cwd
                        found.setdefault(key, call)
    except RecollectError as problem:
        home.note_problem(log.path, problem.message)
    yield from found.items()


def _in_line(
    path: Path, line: Line, cwd: str, earlier: dict[str, PastCall]
) -> Iterator[tuple[str, PastCall]]:
    try:
        found = _decoder.decode(line.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        yield from _by_codec(path, line, cwd)
        return
    session, at = found.session or path.stem, parsed_time(found.timestamp)
    for block in found.message.content:
        if block.type == "tool_use" and block.name:
            key = block.id or f"{path}:{line.offset}"
            yield key, PastCall(block.name, bytes(block.input), found.cwd or cwd, session, at)
        elif block.is_error and block.tool_use_id in earlier and _says_no(block.content):
            earlier[block.tool_use_id] = earlier[block.tool_use_id]._replace(refused=True)


def _says_no(content: Raw) -> bool:
    value = loose_value(content)
    if isinstance(value, list):
        value = next((one.get("text") for one in value if isinstance(one, dict)), None)
    return isinstance(value, str) and is_denial(value)


def _by_codec(path: Path, line: Line, cwd: str) -> Iterator[tuple[str, PastCall]]:
    entry = codec.decode(line)
    if not isinstance(entry, Entry):
        return
    for call_id, name, given in _blocks(entry):
        chain = getattr(entry.body, "cwd", None)
        place = chain if isinstance(chain, str) else cwd
        yield call_id or f"{path}:{line.offset}", PastCall(name, given, place, path.stem, entry.at)


def _blocks(entry: Entry) -> Iterator[tuple[str, str, bytes]]:
    body = entry.body
    if isinstance(body, Assistant):
        for block in body.message.blocks:
            if isinstance(block, ToolUseBlock):
                yield block.id, block.name, bytes(block.input)
    elif isinstance(body, ToolCallBody):
        yield body.call_id or "", body.name, bytes(body.input)
