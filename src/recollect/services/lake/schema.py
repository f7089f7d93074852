"""The four tables of a home and their columns: of ``to_arrow``, of the Parquet lake, of the Iceberg tables.

This is the only place that names a column. ``docs/reference/lake.md`` is made from it. A column may be added, and
then ``VERSION`` grows: readers of older files see null there. A column is never renamed, and never changes its type.

Imports no Arrow: a list of columns is enough for most readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

from msgspec import Struct

from recollect.errors import MissingExtra

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


def _tokens() -> tuple[LakeColumn, ...]:
    names = {
        "input": "input tokens that no cache held",
        "output": "output tokens, thinking included",
        "cache_write_5m": "tokens written to the five-minute cache",
        "cache_write_1h": "tokens written to the one-hour cache",
        "cache_read": "tokens read from a cache",
        "web_searches": "web searches that the API ran",
    }
    return tuple(LakeColumn(name, "int", about) for name, about in names.items())


TOKENS = tuple(one.name for one in _tokens())
_MONEY = (
    LakeColumn("pico_usd", "int", "cost in pico-dollars; null where it has no price"),
    LakeColumn("usd", "money", "the same in dollars, exact"),
)
_PLACE = (
    LakeColumn("path", "name", "the log it was read from", is_walked=False),
    LakeColumn("place", "int", "its place among the rows of that log", is_walked=False),
)

RESPONSES = LakeTable(
    "responses",
    "One row for each log that speaks of a response of the API. A response counts once: in the row with `counted`.",
    "at",
    ("path", "at", "message_id", "request_id", "counted"),
    (
        LakeColumn("message_id", "name", "the API's id of the answer"),
        LakeColumn("request_id", "name", "the API's id of the request; empty where the log has none"),
        LakeColumn("session", "name", "session it belongs to"),
        LakeColumn("agent", "name", "sub-agent that asked; null in the session's own conversation"),
        LakeColumn("project", "name", "directory the session worked in"),
        LakeColumn("model", "name", "model that answered"),
        LakeColumn("branch", "name", "git branch"),
        LakeColumn("tool", "name", "first tool it called"),
        LakeColumn("path", "name", "the log it was read from"),
        LakeColumn("at", "time", "time of its last line"),
        *_tokens(),
        LakeColumn(
            "pico_usd", "int", "cost in pico-dollars; null without a price, and where `counted` is false"
        ),
        LakeColumn("usd", "money", "the same in dollars, exact; its sum is the total of `recollect cost`"),
        LakeColumn("is_uncertain", "bool", "the log may hold too low a count (client 2.1.30)"),
        LakeColumn("is_deleted", "bool", "the log is gone; the index still knew what it said"),
        LakeColumn(
            "counted", "bool", "false for a copy: a fork, a replay or an agent's news of the same response"
        ),
    ),
)
MESSAGES = LakeTable(
    "messages",
    "One row for each message of each log, all branches and sub-agents; the lines of one answer are one message.",
    "at",
    ("path", "place"),
    (
        LakeColumn("uuid", "name", "id of its last line"),
        LakeColumn("parent_uuid", "name", "the line it follows"),
        LakeColumn("session", "name", "session it stands in"),
        LakeColumn("agent", "name", "sub-agent; null in the session's own conversation"),
        LakeColumn("role", "name", "user, assistant or system"),
        LakeColumn("at", "time", "time of its first line"),
        LakeColumn("model", "name", "model that answered"),
        LakeColumn("text", "text", "its prose"),
        LakeColumn("blocks", "int", "content blocks"),
        LakeColumn("is_meta", "bool", "written by the client, not by a person"),
        LakeColumn("is_summary", "bool", "the summary of a compaction"),
        *_PLACE,
    ),
)
TOOL_CALLS = LakeTable(
    "tool_calls",
    "One row for each tool call of each log, with what became of it.",
    "called_at",
    ("path", "place"),
    (
        LakeColumn("id", "name", "the API's id of the call"),
        LakeColumn("name", "name", "tool"),
        LakeColumn("session", "name", "session it was made in"),
        LakeColumn("by_agent", "name", "sub-agent that made it"),
        LakeColumn("status", "name", "ok, error, denied, interrupted, running or missing"),
        LakeColumn("called_at", "time", "when it was asked for"),
        LakeColumn("answered_at", "time", "when its result was written"),
        LakeColumn("elapsed_ms", "float", "duration: recorded, else the time between the two"),
        LakeColumn("in_background", "bool", "whether it ran in the background"),
        LakeColumn("input", "text", "its input as JSON"),
        LakeColumn("result", "text", "the text it gave back"),
        *_PLACE,
    ),
)
SESSIONS = LakeTable(
    "sessions",
    "One row for each session that is there, on the day it began. Money and tokens include its sub-agents.",
    "first_at",
    ("path",),
    (
        LakeColumn("id", "name", "session"),
        LakeColumn("title", "text", "title, as `recollect list` shows it"),
        LakeColumn("project", "name", "directory it worked in"),
        LakeColumn("branch", "name", "git branch"),
        LakeColumn("first_at", "time", "time of its first entry"),
        LakeColumn("last_at", "time", "time of its last entry"),
        LakeColumn("bytes", "int", "size of its log"),
        LakeColumn("agents", "int", "sub-agents"),
        LakeColumn("responses", "int", "responses that count for it"),
        *_tokens(),
        *_MONEY,
        LakeColumn("unpriced_responses", "int", "responses without a price, which are not in the sum"),
        LakeColumn("path", "name", "its log"),
        LakeColumn(
            "client",
            "name",
            "whose session it is: `claude`, `codex` …, as `agent` of `recollect list --json`",
        ),
    ),
)
TABLES = {table.name: table for table in (RESPONSES, MESSAGES, TOOL_CALLS, SESSIONS)}


def pyarrow(what: str) -> Any:
    """The package; ``MissingExtra`` says what needs it."""
    try:
        return import_module("pyarrow")
    except ImportError as cause:
        raise MissingExtra(what, "pyarrow", "analytics") from cause


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
