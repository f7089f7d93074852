"""Every tool call in the logs of the homes: tool, input, directory and session.

Calls of sub-agents count. A call in several logs (a fork copies its history) counts once, by its id. Calls of
other dialects count as well.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Raw

from recollect.errors import RecollectError
from recollect.model.conversation.tool_calls import is_denial
from recollect.model.damage import Line
from recollect.model.json.text import loose_value
from recollect.model.line_views.tool_calls import call_line
from recollect.model.moments import parsed_time
from recollect.storage.home import ClaudeHome, LogFile
from recollect.storage.logs.reader import OpenLog

_HINT = b"tool_use"
_CLOCKS_DIFFER = dt.timedelta(days=2)
_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


class PastCall(NamedTuple):
    """One call. ``input`` is its JSON from the log; ``at`` is None where the line has no time."""

    tool: str
    input: bytes
    cwd: str
    session: str
    at: dt.datetime | None = None
    refused: bool = False
    """A person or a rule denied it."""


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
    """The calls of one log; results follow their calls, so the whole log is read first."""
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
    found = call_line(line.data)
    if found is None:
        return
    session, at = found.session_id or path.stem, parsed_time(found.timestamp)
    for block in found.calls:
        key = block.id or f"{path}:{line.offset}"
        yield key, PastCall(block.name, bytes(block.input), found.cwd or cwd, session, at)
    for block in found.results:
        if block.is_error and block.tool_use_id in earlier and _says_no(block.content):
            earlier[block.tool_use_id] = earlier[block.tool_use_id]._replace(refused=True)


def _says_no(content: Raw) -> bool:
    value = loose_value(content)
    if isinstance(value, list):
        value = next((one.get("text") for one in value if isinstance(one, dict)), None)
    return isinstance(value, str) and is_denial(value)
