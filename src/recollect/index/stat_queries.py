"""Usage by quarter of an hour and tool calls, as plain rows for statistics. Only reads; knows no prices or zones."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, cast

from recollect.index.calls import OK
from recollect.index.cost_queries import QUARTER
from recollect.index.database import IndexDatabase
from recollect.index.frame import CALLS_A_LINE
from recollect.index.schema import AGENT, MIRRORED, QUARTER_MS, SESSION, TITLE_COLUMNS
from recollect.model.text.titles import title_in


class CallSum(NamedTuple):
    """Calls that are alike. ``file``, ``tool`` and ``kind`` are numbers; what they are not told apart by is None."""

    file: int | None
    tool: int | None
    kind: int | None
    state: int
    is_retry: bool | None
    is_commit: bool
    is_edit: bool
    quarter: int | None
    calls: int
    took: int | None
    timed: int


class CallPlace(NamedTuple):
    """Where a call stands in a log; ``agent`` is set in the log of a sub-agent.

    ``answer``: where the line of its result starts. ``changes``: how many changes that lists; none where the tool tells that it edits.
    """

    file: int
    place: int
    key: int
    tool: int
    changes: int
    answer: int | None
    agent: str | None

    @property
    def offset(self) -> int:
        """The byte its line starts at."""
        return self.place // CALLS_A_LINE


def called(
    database: IndexDatabase,
    tools: Collection[int],
    columns: Collection[str],
    since: int | None = None,
    until: int | None = None,
) -> list[CallSum]:
    """Counted calls between two quarters, by outcome and ``columns`` (file, tool, kind, is_retry, quarter), in the order of time.

    ``tools``: those that edit.
    """
    bounds = ["counted"]
    bounds += [] if since is None else [f"at >= {since * QUARTER_MS}"]
    bounds += [] if until is None else [f"at < {until * QUARTER_MS}"]
    file, tool, kind, is_retry = (
        name if name in columns else "NULL" for name in ("file", "tool", "kind", "is_retry")
    )
    quarter = QUARTER if "quarter" in columns else "NULL"
    found = database.rows(
        f"SELECT {file}, {tool}, {kind}, state, {is_retry}, is_commit, {_edits(tools)}, {quarter}, count(*), sum(took), count(took)"  # noqa: S608 - whole numbers and constants
        f" FROM calls WHERE {' AND '.join(bounds)} GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 8"
    )
    return [CallSum(*row) for row in found]  # type: ignore[arg-type]


def newest_edits(database: IndexDatabase, tools: Collection[int]) -> list[CallPlace]:
    """Counted calls that are edits, the newest first; those without a time come last. ``tools``: those that edit."""
    return [
        CallPlace(*row)  # type: ignore[arg-type]
        for row in database.rows(
            "SELECT file, place, key, tool, changes, answer, iif(role = 1, files.agent, NULL) FROM calls"  # noqa: S608 - whole numbers and constants
            f" JOIN files ON files.id = file WHERE counted AND {_edits(tools)} AND NOT gone ORDER BY calls.at DESC, path, place DESC"
        )
    ]


def mirrored_agents(database: IndexDatabase) -> list[tuple[int, int | None, int | None]]:
    """The logs of sub-agents of other agents, with their first and last time in milliseconds."""
    return database.rows(  # type: ignore[return-value]
        f"SELECT id, first_at, last_at FROM files WHERE role = {AGENT} AND NOT gone AND traits & {MIRRORED}"  # noqa: S608 - numbers of the schema
    )


def calls_named(database: IndexDatabase, keys: Collection[int]) -> Iterator[tuple[int, CallSum]]:
    """The calls with these keys; of each log the copies come after those it made itself."""
    named = ",".join(str(int(one)) for one in sorted(keys))
    for key, *row in database.rows(
        f"SELECT key, file, tool, kind, state, is_retry, 0, 0, {QUARTER}, 1, took, took NOT NULL FROM calls"  # noqa: S608 - whole numbers and constants
        f" WHERE key IN ({named}) ORDER BY forked, at, file"
    ):
        yield cast("int", key), CallSum(*row)  # type: ignore[arg-type]


def _edits(tools: Collection[int]) -> str:
    """The condition that a call is an edit (``model/files/reports.py``), of Claude's tools one that went well."""
    names = ",".join(str(int(one)) for one in sorted(tools)) or "0"
    return f"(changes > 0 OR state = {OK} AND tool IN ({names}))"


_TYPED = f"""
SELECT session, messages.at, uuid, path, offset, length
  FROM typed JOIN messages ON messages.id = typed.rowid JOIN files ON files.id = file
 WHERE role = {SESSION} AND session IS NOT NULL AND messages.at IS NOT NULL AND uuid IS NOT NULL
 ORDER BY messages.at, messages.id
"""  # noqa: S608 - a number of the schema
_TITLES = f"""
SELECT session, {TITLE_COLUMNS}
  FROM files JOIN catalogue ON catalogue.file = files.id WHERE role = {SESSION} AND session IS NOT NULL
"""  # noqa: S608 - a number of the schema


class TypedPromptRow(NamedTuple):
    """A prompt: when it was typed, in milliseconds, and where its line is."""

    session: str
    at: int
    uuid: bytes | str
    path: str
    offset: int
    length: int


def typed_prompts(database: IndexDatabase) -> Iterator[TypedPromptRow]:
    """All prompts in the order of time."""
    for row in database.connection.execute(_TYPED):
        yield TypedPromptRow(*row)


def session_titles(database: IndexDatabase) -> dict[str, str]:
    """The titles of all sessions by id; a session without one is left out."""
    found = ((cast("str", session), title_in(parts)) for session, *parts in database.rows(_TITLES))
    return {session: title for session, title in found if title}
