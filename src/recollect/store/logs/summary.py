"""What a list of sessions needs to know about one log, without decoding the log.

The head of a log says where and when it began and what was asked first; its
end says when it stopped. Titles, tags and prompts of the client are metadata:
the last one wins wherever it stands. The client repeats them near the end and
readers that trust this lose a title once enough text follows it (H5). So the log
is searched backwards by a pattern; only lines that match are decoded.

The answer is the same as if every line had been decoded. Texts are as they stand in
the log, only shortened: a caller that shows them makes them safe.

It does not choose the branch a session would resume with, does not look at the
files beside the log, and does not find a type whose name is written with JSON
escapes, which no client does.

``ConversationLoader`` loads parts of a conversation: its titles, a page of messages, or all of them as a stream. Messages are
the links of a conversation, in log order, including side chains and dead branches; a damaged line counts if its message
could still be read.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
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
from recollect.model.lines.entry import ChainBody, Entry, Kind
from recollect.model.lines.ids import SessionId
from recollect.model.text.titles import metadata_text, title_of, typed_prompt
from recollect.model.views.damage import RecordGenerations, damage_code
from recollect.store.logs.reader import LineBlock, LogReader, OpenLog, read_lines
from recollect.system.peek import open_regular

_WINDOW = 64 * 1024
_REPEATED = (Kind.CUSTOM_TITLE, Kind.AI_TITLE, Kind.TAG, Kind.LAST_PROMPT, Kind.SUMMARY)
# Links to other sessions stand near the end where there are any: they are looked for as far back as the rest.
_METADATA = (*_REPEATED, Kind.CONTINUED_IN, Kind.BRIDGE_SESSION)
_BRANCH = rb'"gitBranch"[ \t]*:[ \t]*"[^"]'
_MAIN_LINE = rb'"isSidechain"[ \t]*:[ \t]*false'
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


class LogSummary(Struct, frozen=True, kw_only=True):
    """A log at a glance. Texts are None where the log has none, or where "" cleared them.

    Place and start come from the first lines, branch and client version from the
    last ones. ``continued_in`` is the session that took over, ``bridge_session`` the one elsewhere through which
    it is controlled.
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
        return title_of(self.custom_title, self.ai_title, self.last_prompt, self.first_prompt) or None

    __repr__ = brief_repr


def glance(path: Path, limits: Limits = DEFAULT_LIMITS) -> LogSummary:
    """Look at a log. Most lack a title or a tag, so that looking for it reads all of the log."""
    with OpenLog(path, limits) as log:
        end = log.whole_end()
        head = _SummaryHead(log, end)
        tail = _SummaryTail(log, end, seek_main_line=head.begins_aside)
        first, last, found = head.origin, tail.origin, tail.metadata
        return LogSummary(
            size=log.size(),
            first_at=first.at or last.at,
            last_at=last.at or first.at,
            session_id=first.session_id or last.session_id,
            cwd=first.cwd or last.cwd,
            git_branch=last.git_branch or first.git_branch,
            version=last.version or first.version,
            entrypoint=first.entrypoint or last.entrypoint,
            first_prompt=head.prompt,
            last_prompt=found.get(Kind.LAST_PROMPT) or None,
            custom_title=found.get(Kind.CUSTOM_TITLE) or None,
            ai_title=found.get(Kind.AI_TITLE) or None,
            summary=found.get(Kind.SUMMARY) or None,
            tag=found.get(Kind.TAG) or None,
            continued_in=found.get(Kind.CONTINUED_IN) or None,
            bridge_session=found.get(Kind.BRIDGE_SESSION) or None,
            is_sidechain_only=head.begins_aside and not tail.has_main_line,
        )


def is_message(entry: Entry) -> bool:
    """Whether the entry is a link of a conversation. Of what we do not know, only what has an id is."""
    return entry.kind in _CHAIN_KINDS or entry.uuid is not None


def marked_entries(log: OpenLog, end: int, kinds: Collection[Kind]) -> Iterator[Entry]:
    """Entries of some metadata kinds before ``end``, newest first, decoding no others."""
    pattern = re.compile(_type_pattern(kinds))
    for block in log.blocks_backwards(end):
        if isinstance(block, LineBlock):
            for line in _lines_backwards(log, block):
                entry = readable(codec.decode(line, log.limits)) if pattern.search(line.data) else None
                if entry is not None and entry.kind in kinds:
                    yield entry


class _SummaryOrigin:
    """Where and when something was said, as told by the first links that are noted."""

    def __init__(self) -> None:
        self.at: dt.datetime | None = None
        self.session_id: str | None = None
        self.cwd: str | None = None
        self.git_branch: str | None = None
        self.version: str | None = None
        self.entrypoint: str | None = None

    def note(self, entry: Entry, chain: ChainBody) -> None:
        """Take over what is not known yet."""
        self.at = self.at or entry.at
        self.session_id = self.session_id or entry.session_id
        self.cwd = self.cwd or chain.cwd
        self.git_branch = self.git_branch or chain.git_branch
        self.version = self.version or chain.version
        self.entrypoint = self.entrypoint or chain.entrypoint


class _SummaryHead:
    """The start of a log, read up to its first prompt."""

    def __init__(self, log: OpenLog, end: int) -> None:
        self.origin = _SummaryOrigin()
        self.prompt: str | None = None
        self.begins_aside = False
        self._begun = False
        for line in log.lines(0, end, goes_on=True):
            if isinstance(line, Damage) or (line.offset >= _WINDOW and not self._worth_decoding(line.data)):
                continue
            entry = readable(codec.decode(line, log.limits))
            if entry is not None:
                self._take(entry)
            if self.prompt is not None and self.origin.at is not None and self.origin.cwd:
                break

    def _worth_decoding(self, data: bytes) -> bool:
        """Whether a line beyond the window could be a prompt, or the first link, time or directory.

        Quotes inside JSON strings are escaped, so what a person wrote cannot look like a member.
        """
        if self.prompt is None and b'"user"' in data and b'"tool_result"' not in data:
            return True
        wanted = (
            (not self._begun, b'"uuid"'),
            (self.origin.at is None, b'"timestamp"'),
            (not self.origin.cwd, b'"cwd"'),
        )
        return any(is_missing and name in data for is_missing, name in wanted)

    def _take(self, entry: Entry) -> None:
        chain = entry.chain
        if chain is None or not is_message(entry):
            self.origin.session_id = self.origin.session_id or entry.session_id
            return
        if not self._begun:
            self._begun, self.begins_aside = True, chain.is_sidechain is True
        self.origin.note(entry, chain)
        # An agent's own log is a side chain from its first line on; elsewhere side chains are not the user's.
        if self.prompt is None and (chain.is_sidechain is True) == self.begins_aside:
            self.prompt = typed_prompt(entry)


class _SummaryTail:
    """The end of a log, and its metadata wherever it stands."""

    def __init__(self, log: OpenLog, end: int, *, seek_main_line: bool) -> None:
        self.origin = _SummaryOrigin()
        self.metadata: dict[Kind, str] = {}
        self._has_main_line = not seek_main_line
        sought = self._sought()
        for block in log.blocks_backwards(end):
            if isinstance(block, Damage) or not sought.search(block.data):
                continue
            for line in _lines_backwards(log, block):
                if sought.search(line.data):
                    self._take(readable(codec.decode(line, log.limits)))
                    if self._is_satisfied:
                        return
                    sought = self._sought()

    @property
    def has_main_line(self) -> bool:
        """Whether a line belongs to the conversation itself."""
        return self._has_main_line

    @property
    def _is_satisfied(self) -> bool:
        has_place = self.origin.at is not None and bool(self.origin.git_branch) and self._has_main_line
        return has_place and all(kind in self.metadata for kind in _REPEATED)

    def _sought(self) -> re.Pattern[bytes]:
        """What is still missing, as a pattern of lines that may have it."""
        missing = [kind for kind in _METADATA if kind not in self.metadata]
        patterns = [_type_pattern(missing)] if missing else []
        patterns += [] if self.origin.at is not None else [rb'"timestamp"']
        patterns += [] if self.origin.git_branch else [_BRANCH]
        patterns += [] if self._has_main_line else [_MAIN_LINE]
        return re.compile(b"|".join(patterns))

    def _take(self, entry: Entry | None) -> None:
        if entry is None:
            return
        text = metadata_text(entry)
        if text is not None and entry.kind in _METADATA:
            self.metadata.setdefault(entry.kind, text)
        if entry.chain is None or not is_message(entry):
            return
        if self.origin.at is None:
            self.origin.note(entry, entry.chain)
        self.origin.git_branch = self.origin.git_branch or entry.chain.git_branch
        self._has_main_line = self._has_main_line or entry.chain.is_sidechain is not True


def _type_pattern(kinds: Collection[Kind]) -> bytes:
    """A line's type in compact or spaced JSON."""
    names = b"|".join(re.escape(kind.value.encode()) for kind in kinds)
    return rb'"type"[ \t]*:[ \t]*"(?:%s)"' % names


def _lines_backwards(log: OpenLog, block: LineBlock) -> Iterator[Line]:
    """The lines of a block that can be decoded, newest first."""
    return (line for line in reversed(list(log.lines_of(block))) if isinstance(line, Line))


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
            newest_first = list(marked_entries(log, log.whole_end(), SUMMARY_KINDS))
        return newest_first[::-1]

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
