"""Read the usage out of logs, and nothing else, as fast as Python can.

Only lines that hold the word ``"usage"`` are looked at, by a view that builds nothing but numbers and short names
(``model.line_views.usage``); a line that is not a plain answer goes the long way of the index, so both come to the
same rows.

``services.cost.scan`` runs it as a job of the pool.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET, Struct

from recollect.errors import NotFound, StorageError
from recollect.index.frame import RunningTotal
from recollect.model.cost.line_usage import counts_are_uncertain, is_billed, speaker_of
from recollect.model.cost.prices import variant
from recollect.model.cost.usage import cache_writes
from recollect.model.damage import Line
from recollect.model.line_split import NEWLINE, SEAM, split_lines
from recollect.model.line_views.facts import facts_of, milliseconds
from recollect.model.line_views.links import line_key, line_links
from recollect.model.line_views.usage import AnswerLine, OddLine, first_tool, plain_answer
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run

if TYPE_CHECKING:
    from recollect.model.line_views.usage import UsageCounts

_CHUNK = 256 * 1024
_USAGE, _COST_STATE, _CWD, _SESSION = b'"usage"', b'"cost-state"', b'"cwd"', b'"session'
_PLAIN_TIME = 24  # 2026-11-15T10:00:00.000Z: such times are in order as texts

_Key = tuple[str | None, str, int]  # message, request, speaker
Time = str | int | None  # as written, or milliseconds since 1970

# message, request, speaker, has_stop, forked, at, model, branch, version, tool, variant, six counts,
# recorded, duration, lines
UsageTuple = tuple[
    str | None, str, int, bool, bool, int | None, str | None, str | None, str | None, str | None,
    int, int, int, int, int, int, int, int | None, int | None, int,
]  # fmt: skip


class UsageTask(NamedTuple):
    """A log to read. ``needs_session``: only its lines say whose it is."""

    path: str
    needs_session: bool = False
    with_tools: bool = False
    with_records: bool = False
    with_durations: bool = False


class LogUsage(NamedTuple):
    """What a log says. ``totals``: the client's own running total, its time and its amounts by model.

    ``problem``: why the log could not be read, or not to its end.
    """

    session: str | None
    cwd: str | None
    rows: list[UsageTuple]
    totals: RunningTotal | None = None
    problem: str | None = None


class _BestCopy(Struct, gc=False):
    """The best of a log's lines about one response, so far; ``lines`` is how many there were."""

    best: AnswerLine | UsageTuple
    output: int
    has_stop: bool
    time: Time
    asked: str | None
    tool: str | None = None
    lines: int = 1


def read(task: UsageTask) -> LogUsage:
    """All that a log says of usage. One that went away since it was seen says nothing."""
    reader = _LogUsageReader(task)
    times: dict[str, int] = {}
    problem = None
    try:
        with OpenLog(Path(task.path)) as log:
            for chunk in _chunks(log):
                reader.take(chunk)
            times = _times(log, reader.asked()) if task.with_durations else {}
    except NotFound:
        return LogUsage(None, None, [])
    except StorageError as cause:
        problem = cause.message
    totals = _running_total(task.path) if reader.has_totals else None
    return LogUsage(reader.session, reader.cwd, reader.rows(times), totals, problem)


class _Chunk(NamedTuple):
    """Bytes of a log; the lines before ``end`` are whole, and a new one begins there."""

    data: bytes
    end: int

    def has(self, word: bytes) -> bool:
        return self.data.find(word, 0, self.end) >= 0

    def lines_with(self, word: bytes) -> Iterator[bytes]:
        """The lines in which the word occurs, from the first to the last."""
        place = self.data.find(word, 0, self.end)
        while place >= 0:
            line = self._line_at(place)
            _, stop = self._around(place) if line is None else line
            yield from self._odd_lines(word, place) if line is None else [self.data[slice(*line)]]
            place = self.data.find(word, stop, self.end)

    def all_lines_with(self, word: bytes) -> list[bytes]:
        """The same at once. Found from the last to the first: backwards Python looks faster for a short word."""
        data, found = self.data, []
        place = data.rfind(word, 0, self.end)
        while place >= 0:
            line = self._line_at(place)
            if line is not None:
                start, stop = line
                found.append(data[start:stop])
            else:
                start, _ = self._around(place)
                found += reversed([*self._odd_lines(word, place)])
            place = data.rfind(word, 0, start)
        found.reverse()
        return found

    def _line_at(self, place: int) -> tuple[int, int] | None:
        """Where the line at a place begins and ends; None where that is not sure."""
        data, end = self
        start, stop = data.rfind(NEWLINE, 0, place) + 1, data.find(NEWLINE, place, end)
        stop = stop if stop >= 0 else end
        begins = not start or data[start - 2 : start + 1] == SEAM
        return (start, stop) if begins and (stop >= end - 1 or data[stop - 1 : stop + 2] == SEAM) else None

    def _around(self, place: int) -> tuple[int, int]:
        """The nearest places where a line certainly begins, around another."""
        start, stop = self.data.rfind(SEAM, 0, place), self.data.find(SEAM, place, self.end)
        return (start + 2 if start >= 0 else 0), (stop + 2 if stop >= 0 else self.end)

    def _odd_lines(self, word: bytes, place: int) -> Iterator[bytes]:
        (start, stop), read = self._around(place), self.data.__getitem__
        for line in split_lines(lambda size, at: read(slice(at, at + size)), start, stop, goes_on=True):
            if isinstance(line, Line) and word in line.data:
                yield line.data


def _chunks(log: OpenLog) -> Iterator[_Chunk]:
    """The whole lines of a log; a line over the limit is left out (L3)."""
    position, size = 0, log.size()
    while data := log.read_all(min(_CHUNK, size - position), position):
        end = data.rfind(SEAM) + 2
        if end > 1:
            yield _Chunk(data, end)
            position += end
        else:
            end = 0
        if position - end + len(data) >= size and data.find(NEWLINE, end, -1) < 0:
            yield _Chunk(data[end:], len(data) - end)  # half an entry says nothing to those who decode it
            return
        if not end:
            for item in log.lines(position, size):
                if isinstance(item, Line):
                    yield _Chunk(item.data, len(item.data))
                position = item.end
                if position >= size or len(item.data) >= _CHUNK:
                    break
            else:
                return


class _LogUsageReader:
    """Gathers what the chunks of one log say."""

    def __init__(self, task: UsageTask) -> None:
        self._task = task
        self._kept: dict[_Key, _BestCopy] = {}
        self._nameless: list[tuple[_Key, _BestCopy]] = []
        self.session: str | None = None
        self.cwd: str | None = None
        self.has_totals = False

    def take(self, chunk: _Chunk) -> None:
        """Look at the lines of a chunk."""
        if self.cwd is None:
            self._seek(_CWD, chunk)
        if self.session is None and self._task.needs_session:
            self._seek(_SESSION, chunk)
        if self._task.with_records and not self.has_totals:
            self.has_totals = chunk.has(_COST_STATE)
        self._take_lines(chunk.all_lines_with(_USAGE))

    def asked(self) -> set[str]:
        """The ids of the lines that were answered."""
        kept = itertools.chain(self._kept.values(), (one for _, one in self._nameless))
        return {one.asked for one in kept if one.asked is not None}

    def rows(self, times: dict[str, int]) -> list[UsageTuple]:
        """What was kept, one row for each response."""
        return [_row(key, one, times) for key, one in itertools.chain(self._kept.items(), self._nameless)]

    def _seek(self, word: bytes, chunk: _Chunk) -> None:
        for data in chunk.lines_with(word):
            head = line_links(data)
            if head is not None:
                self.cwd = self.cwd or head.cwd or None
                self.session = self.session or head.session_id or None
            if (self.cwd if word is _CWD else self.session) is not None:
                return

    def _take_lines(self, lines: Iterable[bytes]) -> None:
        # Written out: this runs for every line of an answer, of which a response has several.
        with_records, with_tools, kept = self._task.with_records, self._task.with_tools, self._kept
        for data in lines:
            try:
                line = plain_answer(data, with_records)
                if line is None:
                    continue
                message: Any = line.message
                tool = first_tool(message.content) if with_tools else None
            except OddLine:
                self._take_oddly(data)
                continue
            if not is_billed("assistant", message.model or line.model):
                continue
            output, has_stop = message.usage.output_tokens or 0, message.stop_reason is not None
            key = (message.id, line.request_id or "", speaker_of(line.is_sidechain))
            known = kept.get(key)
            if known is None or key[0] is None:
                self._keep(key, _BestCopy(line, output, has_stop, line.timestamp, line.parent_uuid, tool))
                continue
            known.lines += 1
            if tool is not None and known.tool is None:
                known.tool = tool
            if output > known.output or (
                output == known.output and _is_as_good(has_stop, line.timestamp, known)
            ):
                known.best, known.output, known.has_stop, known.time = line, output, has_stop, line.timestamp

    def _take_oddly(self, data: bytes) -> None:
        """The way of the index, for what is not a plain answer."""
        facts = facts_of(data)
        if facts is None or facts.response is None:
            return
        from recollect.services.indexing.extraction import usage_rows

        asked = facts.parent
        for row in usage_rows(facts):
            best: UsageTuple = (*row[:19], 1)  # a UsageRow without ``asked``
            said = _BestCopy(best, row.output, row.has_stop, row.at, asked, row.tool)
            self._keep((row.message, row.request, row.speaker), said)
            asked = None  # an advisor has no duration of its own

    def _keep(self, key: _Key, said: _BestCopy) -> None:
        """Keep a line unless a better one of the same log and speaker stands for the response (as the index does)."""
        if key[0] is None:
            self._nameless.append((key, said))
            return
        known = self._kept.setdefault(key, said)
        if known is said:
            return
        known.lines += 1
        known.tool = known.tool or said.tool
        if said.output > known.output or (
            said.output == known.output and _is_as_good(said.has_stop, said.time, known)
        ):
            known.best, known.output, known.has_stop, known.time = (
                said.best,
                said.output,
                said.has_stop,
                said.time,
            )


def _is_as_good(has_stop: bool, time: Time, known: _BestCopy) -> bool:
    """Whether a line stands for the response rather than a known one with the same output."""
    return has_stop if has_stop is not known.has_stop else not _is_earlier(time, known.time)


def _is_earlier(one: Time, other: Time) -> bool:
    if isinstance(one, str) and isinstance(other, str) and len(one) == len(other) == _PLAIN_TIME:
        return one < other
    return (_at(one) or 0) < (_at(other) or 0)


def _at(time: Time) -> int | None:
    return milliseconds(time) if isinstance(time, str) else time


def _row(key: _Key, one: _BestCopy, times: dict[str, int]) -> UsageTuple:
    best = one.best
    row = _odd_row(one, best) if isinstance(best, tuple) else _plain_row(key, one, best)
    if times and row[18] is None and one.asked in times and row[5] is not None:
        row = (*row[:18], row[5] - times[one.asked], row[19])
    return row


def _odd_row(one: _BestCopy, row: UsageTuple) -> UsageTuple:
    return (*row[:9], one.tool, *row[10:19], one.lines)


def _plain_row(key: _Key, one: _BestCopy, line: AnswerLine) -> UsageTuple:
    said: Any = line.message
    usage: UsageCounts = said.usage
    has_stop, version = one.has_stop, line.version
    tokens, reads = usage.input_tokens or 0, usage.cache_read_input_tokens or 0
    five, hour = cache_writes(usage.cache_creation_input_tokens, usage.cache_creation)
    searches = usage.server_tool_use
    return (
        *key,
        has_stop,
        line.forked_from is not UNSET,
        _at(one.time),
        _shared(said.model or line.model),
        _shared(line.git_branch),
        _shared(version),
        one.tool,
        variant(
            tokens + five + hour + reads,
            usage.speed,
            usage.inference_geo,
            usage.service_tier,
            not has_stop and counts_are_uncertain(version, False),
        ),
        tokens,
        one.output,
        five,
        hour,
        reads,
        0 if searches is None else searches.web_search_requests or 0,
        None,
        None,
        one.lines,
    )


def _shared(name: str | None, _names: dict[str, str] = {}) -> str | None:  # noqa: B006 - one for the process
    """One object for each name: it crosses the pipe once."""
    return None if name is None else _names.setdefault(name, name)


def _times(log: OpenLog, wanted: set[str]) -> dict[str, int]:
    """When the lines with these ids were written; the first of two with one id counts (L8)."""
    found: dict[str, int] = {}
    for chunk in _chunks(log):
        for data in chunk.lines_with(b'"uuid"'):
            line = line_key(data)
            if line is not None and line.uuid in wanted and line.uuid not in found:
                at = milliseconds(line.timestamp)
                if at is not None:
                    found[line.uuid] = at
    return found


def _running_total(path: str) -> RunningTotal | None:
    """The client's last running total, read the long way: few logs have one, and fewer reports want it."""
    from recollect.services.indexing.extraction import frames
    from recollect.services.indexing.session_listing import ExtractionJob

    found, latest = None, None
    for frame in frames(ExtractionJob(path)):
        found = frame.cost_state or found
        latest = max((at for at in (latest, frame.last_at) if at is not None), default=None)
    return None if found is None else (latest if found[0] is None else found[0], *found[1:])


def usage_job(_: None) -> Run:
    """A job of ``system.pool``: what some logs say of usage."""
    gc.disable()  # many rows, no cycles, and a short life
    return _plain_answers


def _plain_answers(tasks: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    yield [tuple(read(UsageTask(*task))) for task in tasks]
