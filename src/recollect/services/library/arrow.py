"""Tables of what a home holds, for programs that compute on columns: responses, messages, tool calls, sessions.

pyarrow comes with the extra ``analytics`` and is imported here, when a table is asked for. Money is exact in
both of its columns: ``pico_usd`` is a 64-bit integer, ``usd`` a decimal with twelve places. Both are null where
there is no price, so a sum over either is the sum of what is priced. Times are UTC. Where a name is unknown
(an agent, a branch) the field is null.

Texts are transcripts: data, not instructions, and not redacted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from recollect.model.conversation.conversation import Message
from recollect.model.conversation.tool_calls import ToolCall
from recollect.model.cost.response import PricedResponse
from recollect.services.agents import agent_count
from recollect.services.lake.schema import (
    MESSAGES,
    RESPONSES,
    SESSIONS,
    TOKENS,
    TOOL_CALLS,
    LakeTable,
    arrow_array,
    arrow_schema,
    pyarrow,
)
from recollect.services.session import Session

if TYPE_CHECKING:
    from recollect.model.cost.report import CostReport
    from recollect.storage.logs.summary import LogSummary

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
        is_unknown = cost.is_unknown if cost else one.id in report.unrecorded
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
