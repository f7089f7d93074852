"""What a list of sessions needs to know about one log, without reading the log.

The head of a log says where and when it began and what was asked first; its
end says when it stopped. Titles, tags and prompts of the client are metadata:
the last one wins wherever it stands. The client repeats them near the end and
readers that trust this lose a title once enough text follows it (H5). So both
windows are read first, and what they lack is searched for backwards through
the rest by a pattern over whole blocks; only lines that match are decoded.

Promises. The answer is the same as if every line had been read; where
``deep=False`` or ``with_metadata=False`` forbade the search, the ``complete``
flags say so. Texts are as they stand in the log, only shortened: a caller that
shows them makes them safe.

It does not choose the branch a session would resume with, does not look at the
files beside the log, and does not find a type whose name is written with JSON
escapes, which no client does.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from recollect.model import codec
from recollect.model.brief_repr import brief_repr
from recollect.model.damage import DEFAULT_LIMITS, Damage, Limits, Line, readable
from recollect.model.entry import ChainBody, Entry, Kind
from recollect.model.line_split import NEWLINE, is_plain
from recollect.model.prompts import metadata_text, typed_prompt
from recollect.model.titles import title_of
from recollect.storage.logs.reader import LineBlock, OpenLog

_WINDOW = 64 * 1024
_REPEATED = (Kind.CUSTOM_TITLE, Kind.AI_TITLE, Kind.TAG, Kind.LAST_PROMPT, Kind.SUMMARY)
# Links to other sessions stand near the end where there are any: they are looked for as far back as the rest.
_METADATA = (*_REPEATED, Kind.CONTINUED_IN, Kind.BRIDGE_SESSION)
_BRANCH = re.compile(rb'"gitBranch"[ \t]*:[ \t]*"[^"]')
_MAIN_LINE = re.compile(rb'"isSidechain"[ \t]*:[ \t]*false')
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
    it is controlled. ``head_complete``: a first prompt was found or there is none.
    ``metadata_complete``: titles, tag and prompts were found or there are none.
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
    head_complete: bool = True
    metadata_complete: bool = True

    @property
    def title(self) -> str | None:
        """What the client's own list would show, in its order."""
        return title_of(self.custom_title, self.ai_title, self.last_prompt, self.first_prompt) or None

    __repr__ = brief_repr


def glance(
    path: Path, *, deep: bool = True, with_metadata: bool = True, limits: Limits = DEFAULT_LIMITS
) -> LogSummary:
    """Look at a log. With ``deep=False`` only its first and last 64 KiB are considered.

    Without metadata there is no title, tag, last prompt or link to another session: most logs lack one of them, so
    that looking for it reads all of the log.
    """
    with OpenLog(path, limits) as log:
        end = log.whole_end()
        head = _SummaryHead(log, end, deep=deep)
        kinds = _METADATA if with_metadata else ()
        tail = _SummaryTail(log, end, kinds, deep=deep, seek_main_line=head.begins_aside)
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
            head_complete=head.complete,
            metadata_complete=with_metadata and tail.complete,
        )


def is_message(entry: Entry) -> bool:
    """Whether the entry is a link of a conversation. Of what we do not know, only what has an id is."""
    return entry.kind in _CHAIN_KINDS or entry.uuid is not None


def marked_entries(log: OpenLog, end: int, kinds: Collection[Kind]) -> Iterator[Entry]:
    """Entries of some metadata kinds before ``end``, newest first, decoding no others."""
    pattern = _type_pattern(kinds)
    for block in log.blocks_backwards(end):
        if isinstance(block, LineBlock):
            for line in _matching_lines(log, block, pattern):
                entry = readable(codec.decode(line, log.limits))
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

    def __init__(self, log: OpenLog, end: int, *, deep: bool) -> None:
        self.origin = _SummaryOrigin()
        self.prompt: str | None = None
        self.begins_aside = False
        self._begun = False
        self.complete = self._read(log, end, deep=deep)

    def _read(self, log: OpenLog, end: int, *, deep: bool) -> bool:
        for line in log.lines(0, end, goes_on=True):
            beyond = line.offset >= _WINDOW
            if beyond and not deep:
                return self.prompt is not None
            if isinstance(line, Damage) or (beyond and not self._worth_decoding(line.data)):
                continue
            entry = readable(codec.decode(line, log.limits))
            if entry is not None:
                self._take(entry)
            if self.prompt is not None and self.origin.at is not None and self.origin.cwd:
                return True
        return True

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

    def __init__(
        self, log: OpenLog, end: int, kinds: tuple[Kind, ...], *, deep: bool, seek_main_line: bool
    ) -> None:
        self.origin = _SummaryOrigin()
        self.metadata: dict[Kind, str] = {}
        self.has_main_line = not seek_main_line
        self._end, self._kinds = end, kinds
        self.complete = self._read(log, end, deep=deep)

    def _read(self, log: OpenLog, end: int, *, deep: bool) -> bool:
        for block in log.blocks_backwards(end):
            if isinstance(block, LineBlock):
                self._take_last_link(block, log)
                self._take_branch(block, log)
                self._take_metadata(block, log)
                self._take_main_line(block, log)
                if not deep:
                    return block.offset == 0
            if self._satisfied:
                return True
        return True

    @property
    def _satisfied(self) -> bool:
        has_place = self.origin.at is not None and bool(self.origin.git_branch) and self.has_main_line
        return has_place and all(kind in self.metadata for kind in self._kinds if kind in _REPEATED)

    def _take_last_link(self, block: LineBlock, log: OpenLog) -> None:
        if self.origin.at is not None:
            return
        for line in _lines_backwards(log, block):
            # Beyond the window long runs without a link are what other programs write; look before decoding.
            if line.offset >= self._end - _WINDOW or b'"uuid"' in line.data:
                entry = readable(codec.decode(line, log.limits))
                if entry is not None and entry.chain is not None and is_message(entry):
                    self.origin.note(entry, entry.chain)
                    self.has_main_line = self.has_main_line or entry.chain.is_sidechain is not True
            if self.origin.at is not None:
                return

    def _take_metadata(self, block: LineBlock, log: OpenLog) -> None:
        missing = [kind for kind in self._kinds if kind not in self.metadata]
        if not missing:
            return
        for line in _matching_lines(log, block, _type_pattern(missing)):
            entry = readable(codec.decode(line, log.limits))
            text = None if entry is None else metadata_text(entry)
            if entry is not None and text is not None:
                self.metadata.setdefault(entry.kind, text)

    def _take_branch(self, block: LineBlock, log: OpenLog) -> None:
        if self.origin.git_branch:
            return
        for line in _matching_lines(log, block, _BRANCH):
            entry = readable(codec.decode(line, log.limits))
            if entry is not None and entry.chain is not None and is_message(entry) and entry.chain.git_branch:
                self.origin.git_branch = entry.chain.git_branch
                return

    def _take_main_line(self, block: LineBlock, log: OpenLog) -> None:
        if self.has_main_line:
            return
        for line in _matching_lines(log, block, _MAIN_LINE):
            entry = readable(codec.decode(line, log.limits))
            if entry is not None and entry.chain is not None and entry.chain.is_sidechain is False:
                self.has_main_line = True
                return


def _type_pattern(kinds: Collection[Kind]) -> re.Pattern[bytes]:
    """A line's type in compact or spaced JSON.

    One pattern, because it costs a third of one search for each name: "type" is rare enough
    for the literal prefix to carry it. ``re`` keeps the compiled form.
    """
    names = b"|".join(re.escape(kind.value.encode()) for kind in kinds)
    return re.compile(rb'"type"[ \t]*:[ \t]*"(?:%s)"' % names)


def _matching_lines(log: OpenLog, block: LineBlock, pattern: re.Pattern[bytes]) -> Iterator[Line]:
    """Lines in which the pattern occurs, newest first, each once."""
    data, position = block.data, 0
    places: list[tuple[int, int]] = []
    while match := pattern.search(data, position):
        begin, stop = data.rfind(NEWLINE, 0, match.start()) + 1, data.find(NEWLINE, match.end())
        places.append((begin, stop if stop >= 0 else len(data)))
        position = places[-1][1] + 1
    if places and not is_plain(data):
        yield from (line for line in _lines_backwards(log, block) if pattern.search(line.data))
        return
    for begin, stop in reversed(places):
        yield Line(data[begin:stop], block.offset + begin)


def _lines_backwards(log: OpenLog, block: LineBlock) -> Iterator[Line]:
    """The lines of a block that can be decoded, newest first."""
    return (line for line in reversed(list(log.lines_of(block))) if isinstance(line, Line))
