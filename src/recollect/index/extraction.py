"""Turn ranges of logs into frames for the index.

Uses the tolerant reader and the model, and knows no tables. A frame ends after about a megabyte of
text, so memory does not grow with the log.
"""

from __future__ import annotations

import decimal
import zlib
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from recollect.agents.homes import agent_named_in
from recollect.errors import DamagedData, NotFound, StorageError
from recollect.index.frame import (
    CALLS_A_LINE,
    KIND_CODES,
    TOOL_OUTPUT_KIND,
    CallRow,
    Columns,
    Frame,
    MessageRow,
    RecordedAmount,
    UsageRow,
    call_key,
)
from recollect.index.schema import ANSWERED, COPIED, MIRRORED, Id
from recollect.model.conversation.agents import MessageCount, Point, continued, counted, is_warm_up
from recollect.model.conversation.graph import Node, node_of, point_of
from recollect.model.cost.line_usage import ResponseUsage, counts_are_uncertain
from recollect.model.cost.prices import variant
from recollect.model.files.reports import changes_by_call
from recollect.model.lines.damage import DEFAULT_LIMITS, FOREIGN_SOURCE, NEWLINE, RECORD_DAMAGE, Damage, Line
from recollect.model.lines.entry import Entry
from recollect.model.lines.json_text import is_plainly_sound
from recollect.model.text.terms import indexed_bytes
from recollect.model.text.titles import (
    FIRST_PROMPT,
    NEXT_PROMPT,
    STATED_BY,
    read_entry,
    said_of_session,
    typed_texts,
)
from recollect.model.views.damage import RecordGenerations, code_of, damage_of, generation_of
from recollect.model.views.fact_line import RESULT, WORKTREE, goes_on_from, origin_of
from recollect.model.views.facts import (
    PROSE,
    TITLE,
    TOOL_RESULT,
    LineFacts,
    RecordedTotal,
    call_events,
    facts_of,
    lists_changes,
)
from recollect.store.logs.reader import OpenLog
from recollect.store.logs.summary import FORK_ORIGIN

_FRAME_BYTES = 1 << 20
_FRAME_LINES = 2_000
_LONGEST_FRAME = 8 * _FRAME_BYTES  # of the log, where lines have few words
_HEAD = 4096
_TAIL = 256
_PICO = 10**12
_WITH_CALLS = frozenset(("assistant", "user", "tool_use", "tool_call", "tool_result"))
_OF_MIRRORS = "foreign-"  # types of lines that only mirrors of other agents have (agents/lines.py)
_DEPTH = DEFAULT_LIMITS.depth
# A larger side file is indexed up to here; --substring reads the rest from the file.
_LONGEST_OUTPUT = 32 << 20


class ExtractionJob(NamedTuple):
    """A log to read from a byte on. The last fields say what is known of the session so far."""

    path: str
    start: int = 0
    is_tool_output: bool = False
    is_session: bool = False
    prompts: int = 0
    begins_aside: bool | None = None
    message_count: MessageCount | None = None


NumberedFrame = tuple[int, Frame | None]
"""A frame with the number of its job; None marks the end of a job."""


def frames(job: ExtractionJob) -> Iterator[Frame]:
    """The frames of one log; the last one is marked if the log could not be read to its end."""
    try:
        if job.is_tool_output:
            yield _tool_output(job)
            return
        with OpenLog(Path(job.path)) as log:
            yield from _log_frames(log, job)
    except NotFound:
        yield Frame(job.start, job.start, problem="")
    except (StorageError, DamagedData) as refused:  # damaged: an object of the archive
        yield Frame(job.start, job.start, problem=refused.message)


def numbered_frames(number: int, job: ExtractionJob) -> Iterator[NumberedFrame]:
    """The same with the number of the job, and its end."""
    for frame in frames(job):
        yield number, frame
    yield number, None


def head_of(log: OpenLog, end: int) -> bytes:
    """A digest of the beginning of a log, with the length it covers."""
    length = min(end, _HEAD)
    return length.to_bytes(2, "big") + _digest(log.read_all(length, 0))


def tail_of(log: OpenLog, end: int) -> bytes:
    """A digest of the bytes before a position."""
    start = max(0, end - _TAIL)
    return _digest(log.read_all(end - start, start))


def is_continued(path: str, consumed: int, head: bytes, tail: bytes) -> bool:
    """Whether a log still has the same beginning and the same bytes before the position it was read to."""
    try:
        with OpenLog(Path(path)) as log:
            length = int.from_bytes(head[:2], "big")
            return (
                log.size() >= consumed
                and _digest(log.read_all(length, 0)) == head[2:]
                and tail_of(log, consumed) == tail
            )
    except (NotFound, StorageError, DamagedData):
        return False


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _log_frames(log: OpenLog, job: ExtractionJob) -> Iterator[Frame]:
    listing = SessionListing(log, job) if job.is_session else None
    earlier = _EarlierRecords(log)
    collected = _FrameBuilder(log, job.start, earlier, listing)
    for line in log.lines(job.start):
        if collected.take(line):
            yield collected.frame()
            collected = _FrameBuilder(log, line.end, earlier, listing)
    last = collected.frame()
    if listing is not None and last.end > job.start:
        listing.finish(last)  # this needs every line
        yield last
    elif last.end > last.start:
        yield last


def _tool_output(job: ExtractionJob) -> Frame:
    """A result too large for the log: its file is one message."""
    with OpenLog(Path(job.path)) as file:
        size = file.stat().st_size
        data = file.read_all(min(size, _LONGEST_OUTPUT), 0)
        text = data.decode("utf-8", "replace")
        texts = tuple(indexed_bytes(text) if at == TOOL_RESULT else None for at in range(6))
        row = MessageRow(0, size, None, None, TOOL_OUTPUT_KIND, None, texts)
        # An empty file yields nothing, and never moves the position to continue from.
        return Frame(0, size, [row] if text else [], head=head_of(file, size), tail=tail_of(file, size))


class _EarlierRecords:
    """How many earlier damaged records of a client's file stop counting at a line, also where reading began after them."""

    def __init__(self, log: OpenLog) -> None:
        self._log = log
        self._generations: RecordGenerations | None = None

    def stopped_by(self, line: Line | Damage) -> int:
        """How many lines before it no longer count: none as long as no file was read a second time."""
        if self._generations is None:
            if not generation_of(line.data)[1]:
                return 0
            self._generations = RecordGenerations()
            for before in self._log.lines(0, line.offset):
                self._generations.take(before)
        return len(self._generations.take(line))


class _FrameBuilder:
    """Collects the lines of one frame."""

    def __init__(
        self, log: OpenLog, start: int, earlier: _EarlierRecords, listing: SessionListing | None = None
    ) -> None:
        self._frame = Frame(start, start)
        self._log, self._listing, self._earlier = log, listing, earlier
        self._seeks_prompt = listing is None and start == 0
        self._usage: dict[tuple[str, str, int], _BestLine] = {}
        self._size = 0

    def take(self, line: Line | Damage) -> bool:
        """Add a line; whether the frame is full."""
        frame = self._frame
        self._add(line, frame)
        frame.end = line.end
        return (
            self._size >= _FRAME_BYTES
            or frame.end - frame.start > _LONGEST_FRAME
            or len(frame.messages) >= _FRAME_LINES
        )

    def _add(self, line: Line | Damage, frame: Frame) -> None:
        facts = facts_of(line.data) if isinstance(line, Line) else None
        # A line that the codec refuses is not an entry, even if its words can be found.
        as_entry, code = facts, None
        if facts is None or facts.decoded is None or not is_plainly_sound(line.data, _DEPTH):
            damage, code = _damage_of(line)
            if code is not None:
                self._count(code, 1)
            if damage is not None:
                as_entry = None if damage.readable is None else facts
        if code == RECORD_DAMAGE or (facts is not None and facts.type == FOREIGN_SOURCE):
            self._count(RECORD_DAMAGE, -self._earlier.stopped_by(line))
        if self._listing is not None:
            self._listing.take(line, as_entry, frame)
        if facts is None or isinstance(line, Damage):
            return
        self._note(facts, line.data, frame, is_entry=as_entry is not None)
        if facts.uuid is not None or facts.texts is not None:
            frame.messages.append(self._row(facts, line))
        if facts.response is not None:
            self._take_usage(facts, facts.response, None if facts.parent is None else packed_id(facts.parent))
        if as_entry is not None and facts.type in _WITH_CALLS:
            rows = call_rows(facts, line)
            frame.calls += self._with_changes([*rows], line) if lists_changes(line.data) else rows

    def _count(self, code: str, lines: int) -> None:
        if lines:
            damage = self._frame.damage
            damage[code] = damage.get(code, 0) + lines

    def _with_changes(self, rows: Sequence[CallRow], line: Line) -> Iterator[CallRow]:
        """The results in a line that lists changes of files. Several stand behind the line of their calls, which tells them apart."""
        entry = read_entry(line)
        before = next(self._log.lines_backwards(line.offset), None) if len(rows) > 1 else None
        asked = before.data if isinstance(before, Line) else None
        listed = () if entry is None else changes_by_call(entry, asked)
        found = {call_key(call): len(changes) for call, changes in listed}
        for row in rows:
            yield row if row.tool is not None else row._replace(changes=found.get(row.key, 0))

    def frame(self) -> Frame:
        frame, log = self._frame, self._log
        frame.usage = [*(best.row() for best in self._usage.values()), *frame.usage]
        frame.head = head_of(log, frame.end) if frame.start == 0 else b""
        frame.tail = tail_of(log, frame.end)
        return frame

    def _note(self, facts: LineFacts, data: bytes, frame: Frame, *, is_entry: bool) -> None:
        if is_entry and facts.is_link:
            if facts.at is not None:
                frame.first_at = facts.at if frame.first_at is None else frame.first_at
                frame.last_at = facts.at
            frame.cwd = frame.cwd or facts.cwd or None
            frame.branch = facts.branch or frame.branch
        frame.session = frame.session or facts.session or None
        if facts.type == "assistant":
            frame.traits |= COPIED if facts.is_forked else ANSWERED
        elif facts.type.startswith(_OF_MIRRORS):
            frame.traits |= MIRRORED
        elif facts.type == "user" and self._seeks_prompt:
            self._seeks_prompt = False
            frame.is_warm_up = facts.texts is not None and is_warm_up(facts.texts[PROSE] or "")
        elif facts.type == WORKTREE:
            frame.origins = "\n".join(filter(None, (origin_of(data), frame.origins))) or None
        if facts.recorded is not None:
            # Its own time or none: the time of the line before it would depend on where frames are cut.
            frame.cost_state = (facts.at, facts.recorded.started, _amounts(facts.recorded))

    def _row(self, facts: LineFacts, line: Line) -> MessageRow:
        texts: Columns | None = None
        typed = digest = None
        kind = facts.type
        if facts.texts is not None:
            texts = tuple([None if text is None else indexed_bytes(text) for text in facts.texts])
            size, digest = _text_digest(texts)
            self._size += size
            if facts.texts[TITLE] is not None:
                kind = "title"
            elif kind == "user" and self._listing is not None:
                typed = typed_text(line, facts)
        return MessageRow(
            line.offset,
            line.length,
            None if facts.uuid is None else packed_id(facts.uuid),
            facts.at,
            KIND_CODES.get(kind, 0),
            None if facts.uuid is None else digest,
            texts,
            typed,
        )

    def _take_usage(self, facts: LineFacts, response: ResponseUsage, asked: Id) -> None:
        for said in response.each():
            if said.message_id is None:
                self._frame.usage.append(_usage_row(facts, said, asked, said.tool))
            else:
                key = (said.message_id, said.request_id, said.speaker)
                known = self._usage.get(key)
                if known is None:
                    self._usage[key] = _BestLine(facts, said, asked)
                else:
                    known.take(facts, said)
            asked = None  # an advisor has no duration of its own


class _BestLine:
    """What the lines of one speaker say about a response: the best of them, the last of equals.

    Its row is made once, at the end of the frame: a response has two or three lines.
    """

    __slots__ = ("_asked", "_facts", "_lines", "_said", "_tool")

    def __init__(self, facts: LineFacts, said: ResponseUsage, asked: Id) -> None:
        self._facts, self._said = facts, said
        self._asked, self._tool, self._lines = asked, said.tool, 1

    def take(self, facts: LineFacts, said: ResponseUsage) -> None:
        self._lines += 1
        self._tool = self._tool or said.tool
        if _rank(facts, said) >= _rank(self._facts, self._said):
            self._facts, self._said = facts, said

    def row(self) -> UsageRow:
        return _usage_row(self._facts, self._said, self._asked, self._tool, self._lines)


def _rank(facts: LineFacts, said: ResponseUsage) -> tuple[int, bool, int]:
    return max(said.usage.output_tokens or 0, 0), said.has_stop, facts.at or 0


def call_rows(facts: LineFacts, line: Line) -> Iterator[CallRow]:
    """The calls and results of a line."""
    for number, (block, kind, is_commit) in enumerate(islice(call_events(facts, line.data), CALLS_A_LINE)):
        name, tool = (block.tool_use_id, None) if block.type == RESULT else (block.id, block.name)
        is_error = tool is None and block.is_error is True
        place = line.offset * CALLS_A_LINE + number
        yield CallRow(place, call_key(name), facts.at, tool, kind, is_commit, is_error, facts.is_forked)


def usage_rows(facts: LineFacts, asked: Id = None) -> Iterator[UsageRow]:
    """What one line says about a response, and about the advisors it asked: they have no duration of their own."""
    if facts.response is not None:
        for said in facts.response.each():
            yield _usage_row(facts, said, asked if said is facts.response else None, said.tool)


def _usage_row(
    facts: LineFacts, said: ResponseUsage, asked: Id, tool: str | None, lines: int = 1
) -> UsageRow:
    usage = said.usage
    tokens = usage.tokens()
    uncertain = not said.has_stop and counts_are_uncertain(facts.version, said.has_stop)
    context = tokens.input + tokens.cache_write_5m + tokens.cache_write_1h + tokens.cache_read
    return UsageRow(
        said.message_id,
        said.request_id,
        said.speaker,
        said.has_stop,
        facts.is_forked,
        facts.at,
        said.model,
        facts.branch,
        facts.version,
        tool,
        variant(context, usage.speed, usage.inference_geo, usage.service_tier, uncertain),
        *tokens.counts,
        None if said.recorded is None else _pico(said.recorded),
        said.duration_ms,
        asked,
        lines,
    )


def packed_id(text: str) -> Id:
    """A uuid as 16 bytes, if they give back exactly this text."""
    if len(text) != 36:
        return text
    digits = text.replace("-", "")
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        return text
    is_plain = text[8] == text[13] == text[18] == text[23] == "-" and data.hex() == digits and len(data) == 16
    return data if is_plain else text


def _text_digest(texts: Columns) -> tuple[int, int]:
    """Length and checksum. Only compared between lines with the same id: tells an altered copy from an exact one.

    The checksum begins with the length, and is signed: SQLite stores it in four bytes.
    """
    size = sum([len(text) for text in texts if text is not None])
    check = size & 0xFFFFFFFF
    for number, text in enumerate(texts):
        if text is not None:
            check = zlib.crc32(text, check ^ number)
    return size, check - (1 << 31)


def _damage_of(line: Line | Damage) -> tuple[Damage | None, str | None]:
    """What is wrong with an odd line, and the code it is counted by."""
    damage = line if isinstance(line, Damage) else damage_of(line)
    return damage, code_of(damage, line.data)


def _pico(dollars: str) -> int:
    return int((decimal.Decimal(dollars) * _PICO).to_integral_value())


def _amounts(recorded: RecordedTotal) -> list[RecordedAmount]:
    """Amounts by model. The rest of the total has no model, so that the sum stays exact."""
    amounts: list[RecordedAmount] = [
        (model, _pico(text), *msgspec.structs.astuple(tokens))
        for model, (text, tokens) in recorded.by_model.items()
    ]
    rest = 0 if recorded.total is None else _pico(recorded.total) - sum(one[1] for one in amounts)
    return amounts if recorded.total is None or not rest else [*amounts, ("", rest, 0, 0, 0, 0, 0, 0)]


# ---- what a list shows -----------------------------------------------------------------------------------
# The rules are those of ``store.logs.summary``, which reads a log from both ends. Here lines come in order, and reading may
# start in the middle.


def typed_text(line: Line, facts: LineFacts) -> str | None:
    """What a user typed in the main conversation, in lower case."""
    if facts.type != "user" or facts.is_meta or facts.is_sidechain or facts.texts is None:
        return None
    text = facts.texts[PROSE]
    if text is None:
        return None
    if b"tool_result" in line.data or b"isCompactSummary" in line.data:
        entry = read_entry(line)
        text = None if entry is None else "\n".join(typed_texts(entry))
    return text.casefold() if text else None


class SessionListing:
    """Takes the lines of one log, from where reading begins."""

    def __init__(self, log: OpenLog, job: ExtractionJob) -> None:
        self._log, self._job = log, job
        self._prompts = job.prompts
        self._begins_aside = job.begins_aside
        self._points: list[Point] = []
        # Where reading begins inside a line, because its newline was missing, that line is counted already.
        self._has_begun = job.start > 0 and log.read(1, job.start - 1) != NEWLINE

    def take(self, line: Line | Damage, facts: LineFacts | None, frame: Frame) -> None:
        """Add the next line to a frame; ``facts`` is None if it is not an entry."""
        frame.lines += line.text_lines - self._has_begun
        self._has_begun = False
        if isinstance(line, Damage):
            return
        decoded = None if facts is None else facts.decoded
        point = node_of(line) if decoded is None else point_of(decoded, line)
        if point is not None:
            self._points.append(point)
        if facts is None:
            return
        if self._begins_aside is None and b"history_base" in line.data:
            entry = read_entry(line)
            frame.lost_beginning = frame.lost_beginning or (None if entry is None else goes_on_from(entry))
        if facts.is_link and self._begins_aside is None:
            self._begins_aside = frame.begins_aside = facts.is_sidechain
        if facts.is_forked and frame.copied_from is None:
            origin = FORK_ORIGIN.search(line.data)
            frame.copied_from = None if origin is None else origin[1].decode()
        if self._prompts > 1 and facts.type not in STATED_BY:
            return
        said = said_of_session(facts, line, begins_aside=self._begins_aside is True, prompts=self._prompts)
        if said is not None:
            part, text = said
            setattr(frame, part, text)
            self._prompts += part in (FIRST_PROMPT, NEXT_PROMPT)

    def finish(self, frame: Frame) -> None:
        """Add to the last frame what is known at the end of the log: its count, and which agent it names."""
        if self._job.start:
            frame.message_count = continued(self._job.message_count or MessageCount(), self._points)
            frame.is_continued = True
        else:
            frame.message_count = counted(self._points, self._load)
            frame.client = agent_named_in(self._job.path)

    def _load(self, node: Node) -> Entry | None:
        data = self._log.read_all(node.length, node.offset)
        return read_entry(Line(data.removesuffix(b"\n"), node.offset)) if len(data) == node.length else None
