"""The messages and tool calls of a log as rows, as ``Home.messages`` and ``Home.tool_calls`` have them.

Runs as a job of ``system.pool``; texts come only if they are asked for, and without their secrets.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from recollect.ask.data.query import schema_of
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.messages import first_prompt, log_messages, log_tool_calls
from recollect.ask.tables import LakeTable, arrow_array, pyarrow
from recollect.errors import NotFound, StorageError
from recollect.model.conversation.agents import inline_roots, is_warm_up
from recollect.model.cost.money import usd
from recollect.model.lines.damage import Line
from recollect.model.lines.ids import EPOCH
from recollect.model.views.links import line_links
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.reader import OpenLog
from recollect.system.pool import Run

_MICROSECOND = dt.timedelta(microseconds=1)


class LakeTask(NamedTuple):
    """A log to read. ``session`` is None where only its lines say whose it is."""

    path: str
    session: str | None
    agent: str | None


class LogRows(NamedTuple):
    """Rows of one log. A message: uuid, parent, role, at, model, blocks, is_meta, is_summary, agent, text. A call: id, name,
    status, called_at, answered_at, elapsed_ms, in_background, input, result. Times are microseconds since 1970.

    ``agents``: how many sub-agents it holds, by the rule of ``ask.sessions.messages``: itself, where it is the log of one."""

    session: str | None
    messages: list[tuple[Any, ...]]
    calls: list[tuple[Any, ...]]
    agents: int = 0
    problem: str | None = None


class _Texts:
    """What becomes of texts: without their secrets, and as UTF-8."""

    def __init__(self, data: str) -> None:
        self._redactor = Redactor(Path(data))

    def of(self, text: str | None) -> str | None:
        return None if text is None else self._redactor.text(text).encode("utf-8", "replace").decode()

    def of_json(self, data: bytes) -> str:
        return self._redactor.line(data).decode("utf-8", "replace")


def microseconds(moment: dt.datetime) -> int:
    """A time as Arrow stores it."""
    return (moment - EPOCH) // _MICROSECOND


def read(task: LakeTask, texts: _Texts | None = None) -> LogRows:
    """All messages and calls of a log. One that went away since it was seen has none."""
    path = Path(task.path)
    try:
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
    except NotFound:
        return LogRows(task.session, [], [])
    except StorageError as cause:
        return LogRows(task.session, [], [], problem=cause.message)


def _agents_in(path: Path, agent: str | None) -> int:
    if agent is not None:
        return int(not is_warm_up(first_prompt(path)))

    return len(inline_roots(LogGraph(path).graph))


def _session_of(path: Path) -> str | None:
    with OpenLog(path) as log:
        links = (line_links(item.data) for item in log.lines() if isinstance(item, Line))
        return next((one.session_id for one in links if one is not None and one.session_id), None)


def lake_job(data: str | None) -> Run:
    """A job of ``system.pool``: the rows of some logs. ``data``: recollect's directory, where texts are wanted."""
    texts = None if data is None else _Texts(data)

    def run(tasks: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        yield [tuple(read(LakeTask(*task), texts)) for task in tasks]

    return run


class PlacedLog(Protocol):
    """What rows say of the log they were read from."""

    @property
    def path(self) -> str: ...

    @property
    def agent(self) -> str | None: ...


class RowsBuilder:
    """Rows as Arrow batches: a tenth of the memory that Python objects take."""

    def __init__(self, table: LakeTable, *, with_text: bool) -> None:
        self._schema = schema_of(table, with_text=with_text)
        self._names = [one.name for one in table.columns]
        self._batches: list[Any] = []

    def add(self, rows: Iterator[tuple[object, ...]]) -> None:
        arrow = pyarrow("export")
        columns = dict(zip(self._names, zip(*rows, strict=True), strict=False))
        if not columns:
            return
        arrays = []
        for one in self._schema:
            if arrow.types.is_decimal(one.type):
                arrays.append(_dollars(columns["pico_usd"], one.type))
            elif arrow.types.is_timestamp(one.type):
                arrays.append(arrow_array(columns[one.name], arrow.int64()).cast(one.type))
            else:
                arrays.append(arrow_array(columns[one.name], one.type))
        self._batches.append(arrow.RecordBatch.from_arrays(arrays, schema=self._schema))

    def table(self) -> Any:
        return pyarrow("export").Table.from_batches(self._batches, schema=self._schema)


def _dollars(pico_usd: Sequence[object], type_: Any) -> Any:
    """Pico-dollars as decimals with twelve places, all at once and exact."""
    arrow = pyarrow("export")
    whole = arrow_array(pico_usd, arrow.int64()).cast(arrow.decimal128(19, 0))
    return arrow.compute.multiply(whole, arrow.scalar(usd(1), arrow.decimal128(12, 12))).cast(type_)


def message_rows(placed: Sequence[tuple[PlacedLog, LogRows]]) -> Iterator[tuple[object, ...]]:
    for log, found in placed:
        session, agent, path = found.session, log.agent, log.path
        for place, one in enumerate(found.messages):
            uuid, parent, role, at, model, blocks, is_meta, is_summary, inline, text = one
            yield (
                uuid, parent, session, agent or inline, role, at, model, text, blocks, is_meta, is_summary,
                path, place,
            )  # fmt: skip


def call_rows(placed: Sequence[tuple[PlacedLog, LogRows]]) -> Iterator[tuple[object, ...]]:
    for log, found in placed:
        session, agent, path = found.session, log.agent, log.path
        for place, one in enumerate(found.calls):
            name, tool, status, called, answered, elapsed, in_background, given, result = one
            yield (
                name, tool, session, agent, status, called, answered, elapsed, in_background, given, result,
                path, place,
            )  # fmt: skip
