"""The four tables of a home and their columns: of ``to_arrow``, of the Parquet lake, of the Iceberg tables.

``tables.json`` is the only place that names a column. One may be added, and then ``VERSION`` grows: readers of older files
see null there. A column is never renamed, and never changes its type.

Imports no Arrow: a list of columns is enough for most readers.
"""

from __future__ import annotations

import itertools
import pkgutil
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct

from recollect.ask.sessions.messages import agent_count
from recollect.ask.sessions.session import Session
from recollect.errors import MissingExtra
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.cost.money import PricedResponse

if TYPE_CHECKING:
    from recollect.model.cost.report import CostReport
    from recollect.store.logs.summary import LogSummary


VERSION = 2
# Where the version of a file is written, in its own metadata.
VERSION_KEY = b"recollect.lake.version"
DAY = "day"

ColumnKind = Literal["name", "text", "int", "float", "bool", "time", "money"]


class LakeColumn(Struct, frozen=True):
    """A column. A ``text`` is of a transcript: the lake has it only if it was asked for.

    ``is_walked``: whether ``to_arrow`` has it too; what only says where a row was read is the lake's alone.
    """

    name: str
    kind: ColumnKind
    about: str
    is_walked: bool = True


class LakeTable(Struct, frozen=True):
    """A table. ``day_of`` names the column whose UTC day is the partition; rows of a day are in ``order``."""

    name: str
    about: str
    day_of: str
    order: tuple[str, ...]
    columns: tuple[LakeColumn, ...]

    def chosen(self, *, with_text: bool, walked: bool = False) -> list[LakeColumn]:
        """The columns a reader gets."""
        return [
            one for one in self.columns if (with_text or one.kind != "text") and (one.is_walked or not walked)
        ]


RESPONSES, MESSAGES, TOOL_CALLS, SESSIONS = msgspec.json.decode(
    pkgutil.get_data("recollect.ask", "tables.json") or b"", type=list[LakeTable]
)
TABLES = {table.name: table for table in (RESPONSES, MESSAGES, TOOL_CALLS, SESSIONS)}
TOKENS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")


def pyarrow(what: str) -> Any:
    """The package; ``MissingExtra`` says what needs it."""
    try:
        return import_module("pyarrow")
    except ImportError as cause:
        raise MissingExtra(what, "pyarrow", "data") from cause


def arrow_schema(columns: list[LakeColumn], what: str) -> Any:
    """Columns as an Arrow schema."""
    arrow = pyarrow(what)
    types = {
        "text": arrow.string(),
        "name": arrow.string(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "money": arrow.decimal128(38, 12),
    }
    return arrow.schema([arrow.field(one.name, types[one.kind]) for one in columns])


def arrow_array(values: Sequence[object], type_: Any) -> Any:
    """Values as one array; half a surrogate pair, which no UTF-8 has, becomes a question mark."""
    arrow = pyarrow("to_arrow")
    try:
        return arrow.array(values, type=type_)
    except UnicodeEncodeError:
        clean = [one.encode("utf-8", "replace").decode() if isinstance(one, str) else one for one in values]
        return arrow.array(clean, type=type_)


Item = TypeVar("Item")
_BATCH = 10_000
_NAMES = ("message_id", "request_id", "session", "agent", "project", "model", "branch", "tool", "path")


class ArrowColumns(Struct, Generic[Item], frozen=True):
    """The table, and the values of one row in the order of its columns."""

    table: LakeTable
    row: Callable[[Item], tuple[object, ...]]


def table_of(items: Iterator[Item], columns: ArrowColumns[Item]) -> Any:
    """All items as one table."""
    arrow = pyarrow("to_arrow")
    return arrow.Table.from_batches(list(batches_of(items, columns, _BATCH)), schema=_schema(columns))


def batches_of(items: Iterator[Item], columns: ArrowColumns[Item], rows: int) -> Iterator[Any]:
    """Batches of at most ``rows`` rows."""
    arrow, schema = pyarrow("to_batches"), _schema(columns)
    while some := list(itertools.islice(items, rows)):
        values = zip(*(columns.row(item) for item in some), strict=True)
        arrays = [arrow_array(column, field.type) for column, field in zip(values, schema, strict=True)]
        yield arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _schema(columns: ArrowColumns[Item]) -> Any:
    return arrow_schema(columns.table.chosen(with_text=True, walked=True), "to_arrow")


# --- the four tables --------------------------------------------------------------------------------


def response_columns() -> ArrowColumns[PricedResponse]:
    """One row for each response that counts."""

    def row(one: PricedResponse) -> tuple[object, ...]:
        tokens = tuple(getattr(one.tokens, name) for name in TOKENS)
        return (
            *(getattr(one, name) for name in _NAMES),
            one.at,
            *tokens,
            one.pico_usd,
            one.usd,
            one.is_uncertain,
            one.is_deleted,
            one.is_counted,
        )

    return ArrowColumns(RESPONSES, row)


def message_columns() -> ArrowColumns[Message]:
    """One row for each message; ``text`` is its prose."""

    def row(one: Message) -> tuple[object, ...]:
        return (
            one.uuid,
            one.parent_uuid,
            one.session or None,
            one.agent,
            one.role,
            one.at,
            one.model,
            one.text,
            len(one.blocks),
            one.is_meta,
            one.is_summary,
        )

    return ArrowColumns(MESSAGES, row)


def tool_call_columns() -> ArrowColumns[ToolCall]:
    """One row for each tool call; ``input`` is its JSON, ``result`` the text it gave back."""

    def row(call: ToolCall) -> tuple[object, ...]:
        return (
            call.id,
            call.name,
            call.session or None,
            call.by_agent,
            call.status.value,
            call.called_at,
            call.answered_at,
            call.elapsed_ms,
            call.in_background,
            call.input.decode("utf-8", "replace"),
            call.text,
        )

    return ArrowColumns(TOOL_CALLS, row)


def session_columns(
    report: CostReport,
    agents: Callable[[Session], int] = agent_count,
    glance: Callable[[Session], LogSummary] = attrgetter("glance"),
) -> ArrowColumns[Session]:
    """One row for each session. Money and tokens are those of the report, ``Home.costs("session")``, sub-agents included."""
    costs = {row.keys["session"]: row for row in report.rows}

    def row(one: Session) -> tuple[object, ...]:
        seen, cost = glance(one), costs.get(one.id)
        tokens = (getattr(cost.tokens, name) if cost else 0 for name in TOKENS)
        is_unknown = cost.usd is None if cost else one.id in report.unrecorded_sessions
        return (
            one.id,
            seen.title or "",
            seen.cwd or None,
            seen.git_branch,
            seen.first_at,
            seen.last_at,
            one.file.size,
            agents(one),
            cost.responses if cost else 0,
            *tokens,
            None if is_unknown else cost.pico_usd if cost else 0,
            None if is_unknown else cost.usd if cost else 0,
            cost.unpriced_responses if cost else 0,
            str(one.path),
            one.agent,
        )

    return ArrowColumns(SESSIONS, row)


class Walk(Iterator[Item], Generic[Item]):
    """An iterator that can also become an Arrow table. It can be walked once; ask its home for another."""

    def __init__(
        self,
        what: str,
        items: Callable[[], Generator[Item, None, None]],
        _columns: Callable[[], ArrowColumns[Item]],
    ) -> None:
        self._what, self._items, self._columns = what, items, _columns
        self._running: Generator[Item, None, None] | None = None

    def __repr__(self) -> str:
        return f"<Walk over {self._what}, {'not begun' if self._running is None else 'begun'}>"

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self._running is None:
            self._running = self._items()
        return next(self._running)

    def close(self) -> None:
        """End the walk and give back what it holds open. Not needed after the last one."""
        if self._running is None:
            self._running = self._items()
        self._running.close()

    # Any: pyarrow comes without types, and callers under strict checking would get errors for naming its classes.
    def to_arrow(self) -> Any:
        """What is left of the walk as a ``pyarrow.Table``, for pandas, polars or DuckDB (extra ``data``).

        Money stands in two columns: ``pico_usd`` as whole numbers and ``usd`` as exact decimals.
        """
        return table_of(self, self._columns())

    def to_batches(self, rows: int = 10_000) -> Iterator[Any]:
        """The same as ``pyarrow.RecordBatch``es of at most ``rows`` rows, for more than fits into memory."""
        return batches_of(self, self._columns(), rows)
