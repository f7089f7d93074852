"""How much an index holds, for `recollect index status`."""

from __future__ import annotations

from typing import NamedTuple, cast

from recollect.index.database import IndexDatabase
from recollect.index.schema import AGENT, SESSION, TOOL_OUTPUT

# Table -> where its rows are counted; the full-text table has no rows of its own.
_TABLES = {
    "files": "files",
    "messages": "messages",
    "texts": "texts_docsize",
    "responses": "responses",
    "usage": "usage",
    "rollup": "rollup",
    "cost_states": "cost_states",
    "names": "names",
    "spans": "spans",
    "catalogue": "catalogue",
    "damage": "damage",
    "typed": "typed_docsize",
    "recall": "recall_docsize",
}


class IndexFigures(NamedTuple):
    """Row counts. ``segments``: parts of the full-text table that a search has to read."""

    is_complete: bool
    rows: dict[str, int]
    sessions: int
    agents: int
    tool_outputs: int
    gone_sessions: int
    segments: int


def figures(index: IndexDatabase) -> IndexFigures:
    """All counts at one moment."""
    with index.reading():
        sessions, agents, outputs = (
            _count(index, f"SELECT count(*) FROM files WHERE NOT gone AND role = {role}")  # noqa: S608 - numbers from the schema
            for role in (SESSION, AGENT, TOOL_OUTPUT)
        )
        return IndexFigures(
            index.meta("complete") is not None,
            {name: _count(index, f"SELECT count(*) FROM {table}") for name, table in _TABLES.items()},  # noqa: S608 - names from above
            sessions,
            agents,
            outputs,
            _count(
                index,
                f"SELECT count(*) FROM files WHERE gone AND role = {SESSION}"  # noqa: S608 - a number from the schema
                " AND EXISTS (SELECT 1 FROM usage WHERE file = files.id)",
            ),
            _count(index, "SELECT count(DISTINCT segid) FROM texts_idx"),
        )


def _count(index: IndexDatabase, sql: str) -> int:
    return cast("int", index.value(sql))
