"""Read the usage out of logs, and nothing else, as fast as Python can.

Only lines that hold the word ``"usage"`` are looked at, by a view that builds nothing but numbers and short names
(``model.line_views.usage``); a line that is not a plain answer goes the long way of the index, so both come to the
same rows.

``services.cost.scan`` runs it as a job of the pool.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.errors import NotFound, StorageError
from recollect.model.cost.copies import AGENT_PROGRESS
from recollect.model.cost.line_usage import is_billed, speaker_of
from recollect.model.line_views.links import line_key, line_links
from recollect.model.line_views.usage import OddLine, agents_answer, first_tool, plain_answer
from recollect.model.lines_with import LinesWith
from recollect.services.cost.usage_tuples import UsageTuple, is_as_good, moment, together, usage_tuple
from recollect.storage.logs.chunks import LogChunk, chunks
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run

# What only odd lines need is imported for the first of them.
if TYPE_CHECKING:
    from recollect.index.frame import RunningTotal
    from recollect.model.line_views.usage import AnswerLine

_USAGE, _COST_STATE, _CWD, _SESSION = b'"usage"', b'"cost-state"', b'"cwd"', b'"session'


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


def read(task: UsageTask, search: LinesWith | None = None) -> LogUsage:
    """All that a log says of usage. One that went away since it was seen says nothing."""
    reader = _LogUsageReader(task, search or LinesWith(_USAGE))
    problem = None
    try:
        with OpenLog(Path(task.path)) as log:
            for chunk in chunks(log):
                reader.take(chunk)
            if task.with_durations:
                reader.add_durations(log)
    except NotFound:
        return LogUsage(None, None, [])
    except StorageError as cause:
        problem = cause.message
    totals = _running_total(task.path) if reader.has_totals else None
    return LogUsage(reader.session, reader.cwd, reader.rows, totals, problem)


class _LogUsageReader:
    """Gathers what the chunks of one log say, one row for each response and speaker."""

    def __init__(self, task: UsageTask, search: LinesWith) -> None:
        self._task, self._search = task, search
        self.rows: list[UsageTuple] = []
        self._asked: list[str | None] = []  # for each row, the line that was answered
        self._places: dict[tuple[str | None, str, int], int] = {}  # by message, request and speaker
        self.session: str | None = None
        self.cwd: str | None = None
        self.has_totals = False

    def take(self, chunk: LogChunk) -> None:
        """Look at the lines of a chunk."""
        if self.cwd is None:
            self._seek(_CWD, chunk)
        if self.session is None and self._task.needs_session:
            self._seek(_SESSION, chunk)
        if self._task.with_records and not self.has_totals:
            self.has_totals = chunk.has(_COST_STATE)
        data = chunk.data
        self._take_lines([data[start:stop] for start, stop in chunk.spans(self._search.ends(data))])

    def add_durations(self, log: OpenLog) -> None:
        """How long each answer took, where its line does not say so itself."""
        times = _times(log, {line for line in self._asked if line is not None})
        self.rows = [
            (*row[:18], row[5] - times[asked], row[19])
            if row[18] is None and row[5] is not None and asked in times
            else row
            for row, asked in zip(self.rows, self._asked, strict=True)
        ]

    def _seek(self, word: bytes, chunk: LogChunk) -> None:
        for data in chunk.lines_with(word):
            head = line_links(data)
            if head is not None:
                self.cwd = self.cwd or head.cwd or None
                self.session = self.session or head.session_id or None
            if (self.cwd if word is _CWD else self.session) is not None:
                return

    def _take_lines(self, lines: Iterable[bytes]) -> None:
        # Written out: this runs for every line of an answer. A response has several, nearly always one after
        # another; ``best`` is the best of them so far, ``said`` its message.
        with_records, with_tools = self._task.with_records, self._task.with_tools
        best: AnswerLine | None = None
        said: Any = None
        most, count, called, asked = 0, 0, None, None
        for data in lines:
            try:
                line = plain_answer(data, with_records)
                if line is None:
                    continue
                message: Any = line.message
                tool = first_tool(message.content) if with_tools else None
            except OddLine:
                self._take_progress(data)
                continue
            output = message.usage.output_tokens or 0
            if (
                best is not None
                and message.id == said.id
                and line.request_id == best.request_id
                and message.model == said.model
                and line.is_sidechain is best.is_sidechain
                and line.model == best.model
            ):
                count += 1
                called = called or tool
                if output > most or (output == most and is_as_good(line, best)):
                    best, said, most = line, message, output
                continue
            if best is not None:
                self._keep(usage_tuple(best, speaker_of(best.is_sidechain), count, called), asked)
            best, said, most, count, called, asked = line, message, output, 1, tool, line.parent_uuid
            if not is_billed("assistant", message.model or line.model):
                best = None
            elif message.id is None:
                self._keep(usage_tuple(best, speaker_of(best.is_sidechain), 1, tool), asked)
                best = None
        if best is not None:
            self._keep(usage_tuple(best, speaker_of(best.is_sidechain), count, called), asked)

    def _take_progress(self, data: bytes) -> None:
        """What an agent's parent repeats of it, and other lines that are no plain answers."""
        try:
            line = agents_answer(data, self._task.with_records)
        except OddLine:
            self._take_oddly(data)
            return
        if (
            line is not None
            and line.message is not None
            and is_billed("assistant", line.message.model or line.model)
        ):
            self._keep(usage_tuple(line, AGENT_PROGRESS, 1, None), line.parent_uuid)

    def _take_oddly(self, data: bytes) -> None:
        """The way of the index, for what is not plain."""
        from recollect.model.line_views.facts import facts_of

        facts = facts_of(data)
        if facts is None or facts.response is None:
            return
        from recollect.services.indexing.extraction import usage_rows

        asked = facts.parent
        for row in usage_rows(facts):
            self._keep((*row[:19], 1), asked)  # a UsageRow without ``asked``
            asked = None  # an advisor has no duration of its own

    def _keep(self, row: UsageTuple, asked: str | None) -> None:
        """Keep a row, or what it adds to one about the same response; one without a name is of its own."""
        if row[0] is not None:
            place = self._places.setdefault(row[:3], len(self.rows))
            if place < len(self.rows):
                self.rows[place] = together(self.rows[place], row)
                return
        self.rows.append(row)
        self._asked.append(asked)


def _times(log: OpenLog, wanted: set[str]) -> dict[str, int]:
    """When the lines with these ids were written; the first of two with one id counts (L8)."""
    found: dict[str, int] = {}
    for chunk in chunks(log):
        for data in chunk.lines_with(b'"uuid"'):
            line = line_key(data)
            if line is not None and line.uuid in wanted and line.uuid not in found:
                at = moment(line.timestamp)
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
    search = LinesWith(_USAGE)

    def run(tasks: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        yield [tuple(read(UsageTask(*task), search)) for task in tasks]

    return run
