"""The messages and tool calls of a log as rows of the lake, in the columns that ``Home.messages`` and ``Home.tool_calls`` have.

Runs as a job of ``system.pool``; texts come only if they are asked for, and without their secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from recollect.ask.data.query import schema_of, shaped
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.messages import first_prompt, log_messages, log_tool_calls
from recollect.ask.tables import (
    LakeTable,
    arrow_array,
    message_columns,
    pyarrow,
    table_of,
    tool_call_columns,
)
from recollect.errors import NotFound, StorageError
from recollect.model.conversation.agents import inline_roots, is_warm_up
from recollect.model.cost.money import usd
from recollect.model.lines.damage import Line
from recollect.model.views.fact_line import fact_line
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.reader import OpenLog
from recollect.system.pool import Run


class LakeTask(NamedTuple):
    """A log to read. ``session`` is None where only its lines say whose it is."""

    path: str
    session: str | None
    agent: str | None


class LogRows(NamedTuple):
    """Rows of one log by table, as Arrow streams.

    ``agents``: how many sub-agents it holds, by the rule of ``ask.sessions.messages``: itself, where it is the log of one."""

    session: str | None
    tables: dict[str, bytes]
    agents: int = 0
    problem: str | None = None

    def table(self, table: LakeTable, path: str, *, with_text: bool) -> Any:
        """The rows of a table, placed in the log of that name."""
        arrow = pyarrow("export")
        if table.name not in self.tables:
            return schema_of(table, with_text=with_text).empty_table()
        rows = arrow.ipc.open_stream(self.tables[table.name]).read_all()
        placed = rows.append_column("path", arrow.repeat(path, rows.num_rows))
        return shaped(
            placed.append_column("place", arrow.array(range(rows.num_rows), arrow.int64())),
            table,
            with_text=with_text,
        )


def joined(table: LakeTable, parts: Iterable[Any], *, with_text: bool) -> Any:
    """The rows of some logs in one table."""
    empty = schema_of(table, with_text=with_text).empty_table()
    return pyarrow("export").concat_tables([empty, *parts])


def read(task: LakeTask, redactor: Redactor | None = None) -> LogRows:
    """All messages and calls of a log. One that went away since it was seen has none."""
    path = Path(task.path)
    try:
        session = task.session or _session_of(path)
        calls = (
            structs.replace(call, session=session or "", by_agent=task.agent) for call in log_tool_calls(path)
        )
        tables = [
            table_of(log_messages(path, session or "", task.agent), message_columns()),
            table_of(calls, tool_call_columns()),
        ]
        named = {
            name: _stream(_clean(rows, redactor))
            for name, rows in zip(("messages", "tool_calls"), tables, strict=True)
        }
        return LogRows(session, named, _agents_in(path, task.agent))
    except NotFound:
        return LogRows(task.session, {})
    except StorageError as cause:
        return LogRows(task.session, {}, problem=cause.message)


def _clean(rows: Any, redactor: Redactor | None) -> Any:
    """Without texts, or with texts without their secrets."""
    texts = [name for name in ("text", "input", "result") if name in rows.column_names]
    if redactor is None:
        return rows.drop_columns(texts)
    for name in texts:
        values = [
            text
            if text is None
            else redactor.line(text.encode()).decode("utf-8", "replace")
            if name == "input"
            else redactor.text(text)
            for text in rows.column(name).to_pylist()
        ]
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, arrow_array(values, rows.schema.field(place).type))
    return rows


def _stream(rows: Any) -> bytes:
    arrow = pyarrow("export")
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(memoryview(sink.getvalue()))


def _agents_in(path: Path, agent: str | None) -> int:
    if agent is not None:
        return int(not is_warm_up(first_prompt(path)))
    return len(inline_roots(LogGraph(path).graph))


def _session_of(path: Path) -> str | None:
    with OpenLog(path) as log:
        links = (fact_line(item.data) for item in log.lines() if isinstance(item, Line))
        return next((one.session_id for one in links if one is not None and one.session_id), None)


def lake_job(data: str | None) -> Run:
    """A job of ``system.pool``: the rows of some logs. ``data``: recollect's directory, where texts are wanted."""
    redactor = None if data is None else Redactor(Path(data))

    def run(tasks: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
        yield [tuple(read(LakeTask(*task), redactor)) for task in tasks]

    return run


def rows_table(table: LakeTable, rows: Sequence[tuple[object, ...]], *, with_text: bool) -> Any:
    """Rows in the order of a table's columns. Times are microseconds since 1970; dollars are those of ``pico_usd``."""
    arrow, schema = pyarrow("export"), schema_of(table, with_text=with_text)
    if not rows:
        return schema.empty_table()
    columns = dict(zip((one.name for one in table.columns), zip(*rows, strict=True), strict=False))
    arrays = []
    for one in schema:
        if arrow.types.is_decimal(one.type):
            whole = arrow_array(columns["pico_usd"], arrow.int64()).cast(arrow.decimal128(19, 0))
            pico = arrow.scalar(usd(1), arrow.decimal128(12, 12))
            arrays.append(arrow.compute.multiply(whole, pico).cast(one.type))
        elif arrow.types.is_timestamp(one.type):
            arrays.append(arrow_array(columns[one.name], arrow.int64()).cast(one.type))
        else:
            arrays.append(arrow_array(columns[one.name], one.type))
    return arrow.Table.from_arrays(arrays, schema=schema)
