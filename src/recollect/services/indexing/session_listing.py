"""What the lines of a log add to the catalogue: titles, first prompt, number of messages.

The rules are those of ``storage.logs.summary``, which reads a log from both ends. Here lines come in
order, and reading may start in the middle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from recollect.index.frame import CountValues
from recollect.model.conversation.message_count import MessageCount, Point, continued, counted
from recollect.model.conversation.node import Node, node_of, point_of
from recollect.model.damage import Damage, Line
from recollect.model.line_split import NEWLINE
from recollect.model.line_views.facts import PROSE, LineFacts
from recollect.model.titles import FIRST_PROMPT, STATED_BY, said_of_session
from recollect.storage.logs.reader import OpenLog

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class ExtractionJob(NamedTuple):
    """A log to read from a byte on. The last fields say what is known of the session so far."""

    path: str
    start: int = 0
    is_tool_output: bool = False
    is_session: bool = False
    has_prompt: bool = False
    begins_aside: bool | None = None
    message_count: CountValues | None = None


def typed_text(line: Line, facts: LineFacts) -> str | None:
    """What a user typed in the main conversation, in lower case."""
    if facts.type != "user" or facts.is_meta or facts.is_sidechain or facts.texts is None:
        return None
    text = facts.texts[PROSE]
    if text is None:
        return None
    if b"tool_result" in line.data or b"isCompactSummary" in line.data:
        entry = _entry(line)
        text = None if entry is None else "\n".join(_said(entry))
    return text.casefold() if text else None


class SessionListing:
    """Takes the lines of one log, from where reading begins."""

    def __init__(self, log: OpenLog, job: ExtractionJob) -> None:
        self._log, self._job = log, job
        self._has_prompt = job.has_prompt
        self._begins_aside = job.begins_aside
        self._news: dict[str, object] = {}
        self._points: list[Point] = []
        self._lines = 0
        # Where reading begins inside a line, because its newline was missing, that line is counted already.
        self._has_begun = job.start > 0 and log.read(1, job.start - 1) != NEWLINE

    def take(self, line: Line | Damage, facts: LineFacts | None) -> None:
        """The next line; ``facts`` is None if it is not an entry."""
        self._lines += line.text_lines - self._has_begun
        self._has_begun = False
        if isinstance(line, Damage):
            return
        decoded = None if facts is None else facts.decoded
        point = node_of(line) if decoded is None else point_of(decoded, line)
        if point is not None:
            self._points.append(point)
        if facts is None:
            return
        if facts.is_link and self._begins_aside is None:
            self._begins_aside = self._news["begins_aside"] = facts.is_sidechain
        if not self._has_prompt or facts.type in STATED_BY:
            self._take_title(line, facts)

    def _take_title(self, line: Line, facts: LineFacts) -> None:
        said = said_of_session(
            facts, line, begins_aside=self._begins_aside is True, has_prompt=self._has_prompt
        )
        if said is not None:
            part, text = said
            self._news[part] = text
            self._has_prompt = self._has_prompt or part == FIRST_PROMPT

    def news(self) -> dict[str, object]:
        """What is new since the last call, as fields of a frame."""
        news, lines = self._news, self._lines
        self._news, self._lines = {}, 0
        return {**news, "lines": lines}

    def count(self) -> tuple[CountValues, bool]:
        """The count at the end of the log, and whether it continues the previous one."""
        job = self._job
        if not job.start:
            return _plain(counted(self._points, self._load)), False
        before = MessageCount() if job.message_count is None else MessageCount(*job.message_count)
        return _plain(continued(before, self._points)), True

    def _load(self, node: Node) -> Entry | None:
        data = self._log.read_all(node.length, node.offset)
        return _entry(Line(data.removesuffix(b"\n"), node.offset)) if len(data) == node.length else None


def _plain(count: MessageCount) -> CountValues:
    """As plain values, for another process."""
    messages, has_conversation, leaf, bridge, answer, inline_agents = count
    return messages, has_conversation, leaf, bridge, answer, inline_agents


def _said(entry: Entry) -> list[str]:
    from recollect.model.prompts import typed_texts

    return list(typed_texts(entry))


def _entry(line: Line) -> Entry | None:
    # Imported only if a line must be decoded whole: loading the codec takes longer than reading a line.
    from recollect.model.codec import decode

    item = decode(line)
    return item.readable if isinstance(item, Damage) else item
