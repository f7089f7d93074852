"""What a list of sessions needs to know about one log, without decoding the log.

The head of a log says where and when it began and what was asked first; its
end says when it stopped. Titles, tags and prompts of the client are metadata:
the last one wins wherever it stands. The client repeats them near the end and
readers that trust this lose a title once enough text follows it (H5). So every line
is looked at, and those are decoded that may say something.

The answer is the same as if every line had been decoded. Texts are as they stand in
the log, only shortened: a caller that shows them makes them safe.

It does not choose the branch a session would resume with and does not look at the
files beside the log.

``ConversationLoader`` loads parts of a conversation: its titles, a page of messages, or all of them as a stream. Messages are
the links of a conversation, in log order, including side chains and dead branches; a damaged line counts if its message
could still be read.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import deque
from collections.abc import Callable, Collection, Generator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from recollect.errors import RecollectError, UsageError
from recollect.model.conversation.agents import MessageCount, Point, counted
from recollect.model.conversation.graph import Node, node_of
from recollect.model.lines import codec
from recollect.model.lines.damage import (
    DEFAULT_LIMITS,
    Damage,
    Limits,
    Line,
    brief_repr,
    readable,
)
from recollect.model.lines.entry import Entry, Kind
from recollect.model.lines.ids import SessionId, parsed_time
from recollect.model.text.titles import metadata_text, opening_prompt, title_of, typed_prompt
from recollect.model.views.damage import RecordGenerations, damage_code
from recollect.model.views.fact_line import FactLine, fact_line
from recollect.store.logs.reader import LogReader, OpenLog, read_lines
from recollect.system.peek import open_regular

# Metadata entries, of which the last one wins, and what they say.
_METADATA = {
    Kind.CUSTOM_TITLE.value: "custom_title",
    Kind.AI_TITLE.value: "ai_title",
    Kind.TAG.value: "tag",
    Kind.LAST_PROMPT.value: "last_prompt",
    Kind.SUMMARY.value: "summary",
    Kind.CONTINUED_IN.value: "continued_in",
    Kind.BRIDGE_SESSION.value: "bridge_session",
}
_CHAIN_KINDS = frozenset(
    (
        Kind.USER,
        Kind.ASSISTANT,
        Kind.SYSTEM,
        Kind.ATTACHMENT,
        Kind.PROGRESS,
        Kind.TOOL_CALL,
        Kind.TOOL_RESULT,
    )
)


_CHAIN_TYPES = frozenset(kind.value for kind in _CHAIN_KINDS)


class LogSummary(Struct, frozen=True, kw_only=True):
    """A log at a glance. Texts are None where the log has none, or where "" cleared them.

    Place and start come from the first lines, branch and client version from the
    last ones. ``continued_in`` is the session that took over, ``bridge_session`` the one elsewhere through which
    it is controlled. ``is_shared``: many sessions begin with the same prompt, which one log cannot tell.
    """

    size: int = 0
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    session_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    entrypoint: str | None = None
    first_prompt: str | None = None
    next_prompt: str | None = None
    is_shared: bool = False
    last_prompt: str | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    tag: str | None = None
    continued_in: str | None = None
    bridge_session: str | None = None
    is_sidechain_only: bool = False

    @property
    def title(self) -> str | None:
        """What the client's own list would show, in its order."""
        opening = opening_prompt(self.first_prompt, self.next_prompt, self.is_shared)
        return title_of(self.custom_title, self.ai_title, self.last_prompt, opening) or None

    __repr__ = brief_repr


def glance(path: Path, limits: Limits = DEFAULT_LIMITS) -> LogSummary:
    """Look at a log. Every line is looked at, few are decoded."""
    with OpenLog(path, limits) as log:
        seen = _Glance(limits)
        for line in log.lines(0, log.whole_end(), goes_on=True):
            if isinstance(line, Line):
                seen.take(line)
        return seen.summary(log.size())


def is_message(entry: Entry) -> bool:
    """Whether the entry is a link of a conversation. Of what we do not know, only what has an id is."""
    return entry.kind in _CHAIN_KINDS or entry.uuid is not None


def marked_entries(log: OpenLog, end: int, kinds: Collection[Kind]) -> list[Entry]:
    """Entries of some metadata kinds before ``end``, newest first, decoding no others."""
    names = b"|".join(re.escape(kind.value.encode()) for kind in kinds)
    pattern = re.compile(rb'"type"[ \t]*:[ \t]*"(?:%s)"' % names)
    found = [
        readable(codec.decode(line, log.limits))
        for line in log.lines(0, end, goes_on=True)
        if isinstance(line, Line) and pattern.search(line.data)
    ]
    return [entry for entry in found[::-1] if entry is not None and entry.kind in kinds]


class _Glance:
    """What the lines of a log say of it, taken in their order."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._first_at: dt.datetime | None = None
        self._last_at: dt.datetime | None = None
        self._prompts: list[str] = []
        self._texts: dict[str, str | None] = {}
        # An agent's own log is a side chain from its first line on; elsewhere side chains are not the user's.
        self._begins_aside: bool | None = None
        self._has_main_line = False

    def take(self, line: Line) -> None:
        facts = fact_line(line.data)
        if facts is None:
            return
        if facts.session_id:
            self._texts.setdefault("session_id", facts.session_id)
        if facts.type in _METADATA:
            entry = self._entry(line)
            text = None if entry is None else metadata_text(entry)
            if text is not None:
                self._texts[_METADATA[facts.type]] = text or None
        elif facts.uuid is not None or facts.type in _CHAIN_TYPES:
            self._take_link(line, facts)

    def _take_link(self, line: Line, facts: FactLine) -> None:
        is_aside = facts.is_sidechain is True
        if self._begins_aside is None:
            self._begins_aside = is_aside
        self._has_main_line |= not is_aside
        is_own = facts.type == "user" and is_aside == self._begins_aside
        is_result = bool(self._prompts) and b'"tool_result"' in line.data  # which may be large
        if is_own and len(self._prompts) < 2 and not is_result:
            entry = self._entry(line)
            prompt = None if entry is None else typed_prompt(entry)
            self._prompts += [] if prompt is None else [prompt]
        if "entrypoint" not in self._texts and b'"entrypoint"' in line.data:
            chain = entry.chain if (entry := self._entry(line)) is not None else None
            self._texts["entrypoint"] = None if chain is None else chain.entrypoint
        if facts.cwd:
            self._texts.setdefault("cwd", facts.cwd)
        for name, text in (("git_branch", facts.git_branch), ("version", facts.version)):
            if text:
                self._texts[name] = text
        at = parsed_time(facts.timestamp)
        self._first_at, self._last_at = self._first_at or at, at or self._last_at

    def summary(self, size: int) -> LogSummary:
        """The summary of the lines so far."""
        return LogSummary(
            size=size,
            first_at=self._first_at,
            last_at=self._last_at,
            first_prompt=self._prompts[0] if self._prompts else None,
            next_prompt=self._prompts[1] if len(self._prompts) > 1 else None,
            is_sidechain_only=self._begins_aside is True and not self._has_main_line,
            **self._texts,  # type: ignore[arg-type]
        )

    def _entry(self, line: Line) -> Entry | None:
        return readable(codec.decode(line, self._limits))


_ORIGIN_WINDOW = 64 << 10
# Quotes inside JSON strings are escaped, so what a person wrote cannot look like a member.
FORK_ORIGIN = re.compile(rb'"forkedFrom"\s*:\s*\{[^{}]{0,200}?"sessionId"\s*:\s*"([0-9A-Za-z_-]{1,64})"')


def fork_origin(log: Path) -> str | None:
    """The session in the first 64 KiB that its lines name as their origin; None if there is none."""
    try:
        found = FORK_ORIGIN.search(_head(log))
    except (OSError, RecollectError):
        return None
    return None if found is None else found[1].decode()


def _head(log: Path) -> bytes:
    if log.suffix == ".zst":
        with OpenLog(log) as packed:
            return packed.read_all(_ORIGIN_WINDOW, 0)
    with open_regular(log) as file:
        return file.read(_ORIGIN_WINDOW)


class LogCounts(NamedTuple):
    """Lines, messages and damaged lines of a log."""

    lines: int
    messages: MessageCount
    damaged: int


def log_counts(path: Path, stop: int | None = None) -> LogCounts:
    """The counts of a log, as if it ended at ``stop``."""
    lines = damaged = 0
    points: list[Point] = []
    generations = RecordGenerations()
    for line in read_lines(path, stop=stop):
        lines += line.text_lines
        damaged += (damage_code(line) is not None) - len(generations.take(line))
        point = node_of(line) if isinstance(line, Line) else None
        if point is not None:
            points.append(point)
    reader = LogReader(path)

    def load(node: Node) -> Entry | None:
        item = reader.entry_at(node.offset)
        return item.readable if isinstance(item, Damage) else item

    return LogCounts(lines, counted(points, load), damaged)


SUMMARY_KINDS = (Kind.SUMMARY, Kind.CUSTOM_TITLE, Kind.AI_TITLE)


class ConversationLoader:
    """Loads conversations by session; ``path_of`` gives the path of a session's log."""

    def __init__(self, path_of: Callable[[SessionId], Path], limits: Limits = DEFAULT_LIMITS) -> None:
        self._path_of = path_of
        self._limits = limits

    def load_summary(self, session: SessionId) -> list[Entry]:
        """Every summary and title entry in log order, from any position."""
        with OpenLog(self._path_of(session), self._limits) as log:
            return marked_entries(log, log.whole_end(), SUMMARY_KINDS)[::-1]

    def load_messages(self, session: SessionId, offset: int, limit: int) -> list[Entry]:
        """``messages[offset:][:limit]``, by Python's rules for a negative offset."""
        if limit < 0:
            raise UsageError(f"{limit} messages: the limit is negative", hint="give a limit of 0 or more")
        messages = self.stream_messages(session)
        if offset >= 0:
            return list(islice(messages, offset, offset + limit))
        return list(deque(messages, maxlen=-offset))[:limit]

    def stream_messages(self, session: SessionId) -> Generator[Entry, None, None]:
        """All messages, one at a time."""
        entries = map(readable, LogReader(self._path_of(session), self._limits))
        yield from (entry for entry in entries if entry is not None and is_message(entry))
