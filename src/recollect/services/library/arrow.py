"""Tables of what a home holds, for programs that compute on columns: responses, messages, tool calls, sessions.

pyarrow comes with the extra ``analytics`` and is imported here, when a table is asked for. Money is exact in
both of its columns: ``pico_usd`` is a 64-bit integer, ``usd`` a decimal with twelve places. Both are null where
there is no price, so a sum over either is the sum of what is priced. Times are UTC. Where a name is unknown
(an agent, a branch) the field is null.

Texts are transcripts: data, not instructions, and not redacted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from recollect.errors import MissingExtra
from recollect.model.conversation.conversation import Message
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.cost.response import PricedResponse
from recollect.services.agents import agent_count
from recollect.services.session import Session

if TYPE_CHECKING:
    from recollect.model.cost.report import CostRow

Item = TypeVar("Item")
_BATCH = 10_000
_TOKENS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")


class ArrowColumns(Struct, Generic[Item], frozen=True):
    """The columns of a table by name and Arrow type, and the values of one row in their order."""

    types: Mapping[str, str]
    row: Callable[[Item], tuple[object, ...]]


def table_of(items: Iterator[Item], columns: ArrowColumns[Item]) -> Any:
    """All items as one table."""
    arrow = _pyarrow("to_arrow")
    return arrow.Table.from_batches(list(batches_of(items, columns, _BATCH)), schema=_schema(columns))


def batches_of(items: Iterator[Item], columns: ArrowColumns[Item], rows: int) -> Iterator[Any]:
    """Batches of at most ``rows`` rows."""
    arrow, schema = _pyarrow("to_batches"), _schema(columns)
    while some := list(itertools.islice(items, rows)):
        values = zip(*(columns.row(item) for item in some), strict=True)
        arrays = [arrow.array(column, type=field.type) for column, field in zip(values, schema, strict=True)]
        yield arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _pyarrow(what: str) -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as cause:
        raise MissingExtra(what, "pyarrow", "analytics") from cause


def _schema(columns: ArrowColumns[Item]) -> Any:
    arrow = _pyarrow("to_arrow")
    types = {
        "text": arrow.string(),
        "name": arrow.string(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "time": arrow.timestamp("us", tz="UTC"),
        "money": arrow.decimal128(38, 12),
    }
    return arrow.schema([arrow.field(name, types[kind]) for name, kind in columns.types.items()])


# --- the four tables --------------------------------------------------------------------------------


def response_columns() -> ArrowColumns[PricedResponse]:
    """One row for each response that counts."""
    names = ("message_id", "request_id", "session", "agent", "project", "model", "branch", "tool", "path")
    types = {
        **dict.fromkeys(names, "name"),
        "at": "time",
        **dict.fromkeys(_TOKENS, "int"),
        "pico_usd": "int",
        "usd": "money",
        "is_uncertain": "bool",
        "is_deleted": "bool",
    }

    def row(one: PricedResponse) -> tuple[object, ...]:
        tokens = tuple(getattr(one.tokens, name) for name in _TOKENS)
        return (
            *(getattr(one, name) for name in names),
            one.at,
            *tokens,
            one.pico_usd,
            one.usd,
            one.is_uncertain,
            one.is_deleted,
        )

    return ArrowColumns(types, row)


def message_columns() -> ArrowColumns[Message]:
    """One row for each message; ``text`` is its prose."""
    types = {
        "uuid": "name",
        "parent_uuid": "name",
        "session": "name",
        "agent": "name",
        "role": "name",
        "at": "time",
        "model": "name",
        "text": "text",
        "blocks": "int",
        "is_meta": "bool",
        "is_summary": "bool",
    }

    def row(one: Message) -> tuple[object, ...]:
        text = one.text.encode("utf-8", "replace").decode()  # lone surrogates are no UTF-8
        return (
            one.uuid,
            one.parent_uuid,
            one.session or None,
            one.agent,
            one.role,
            one.at,
            one.model,
            text,
            len(one.blocks),
            one.is_meta,
            one.is_summary,
        )

    return ArrowColumns(types, row)


def tool_call_columns() -> ArrowColumns[ToolCall]:
    """One row for each tool call; ``input`` is its JSON, ``result`` the text it gave back."""
    types = {
        "id": "name",
        "name": "name",
        "session": "name",
        "by_agent": "name",
        "status": "name",
        "called_at": "time",
        "answered_at": "time",
        "elapsed_ms": "float",
        "in_background": "bool",
        "input": "text",
        "result": "text",
    }

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
            call.text.encode("utf-8", "replace").decode(),
        )

    return ArrowColumns(types, row)


def session_columns(costs: Mapping[str, CostRow]) -> ArrowColumns[Session]:
    """One row for each session. Money and tokens are those of ``Home.costs("session")``, sub-agents included."""
    types = {
        "id": "name",
        "title": "text",
        "project": "name",
        "branch": "name",
        "first_at": "time",
        "last_at": "time",
        "bytes": "int",
        "agents": "int",
        "responses": "int",
        **dict.fromkeys(_TOKENS, "int"),
        "pico_usd": "int",
        "usd": "money",
        "unpriced_responses": "int",
        "path": "name",
    }

    def row(one: Session) -> tuple[object, ...]:
        seen, cost = one.glance, costs.get(one.id)
        tokens = (getattr(cost.tokens, name) if cost else 0 for name in _TOKENS)
        return (
            one.id,
            one.title,
            one.cwd or None,
            seen.git_branch,
            seen.first_at,
            seen.last_at,
            one.file.size,
            agent_count(one),
            cost.responses if cost else 0,
            *tokens,
            cost.pico_usd if cost else 0,
            cost.usd if cost else 0,
            cost.unpriced_responses if cost else 0,
            str(one.path),
        )

    return ArrowColumns(types, row)
