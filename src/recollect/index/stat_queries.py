"""Usage by quarter of an hour and tool calls, as plain rows for statistics. Only reads; knows no prices or zones."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, cast

from recollect.index.calls import OK
from recollect.index.cost_queries import UsageSumRow
from recollect.index.database import IndexDatabase
from recollect.index.frame import CALLS_A_LINE
from recollect.index.schema import QUARTER_MS

_USED = (
    "SELECT quarter, file, model, NULL, NULL, variant, sum(messages), sum(input), sum(output), sum(cache_write_5m),"
    " sum(cache_write_1h), sum(cache_read), sum(web_searches) FROM rollup"
)
# Python's floor division, also for times before 1970: SQLite rounds towards zero.
_QUARTER = "(coalesce(at, 0) + 900000 * 10000000) / 900000 - 10000000"


class CallSum(NamedTuple):
    """Calls of one log that are alike. ``tool`` and ``kind`` are numbers of names."""

    file: int
    tool: int
    kind: int | None
    state: int
    is_retry: bool
    is_commit: bool
    quarter: int | None
    calls: int
    took: int | None
    timed: int


class WorkSum(NamedTuple):
    """Calls of all logs that are alike, within a quarter of an hour."""

    quarter: int
    file: int | None
    tool: int
    state: int
    is_commit: bool
    calls: int


class CallPlace(NamedTuple):
    """Where a call stands in a log; ``agent`` is set in the log of a sub-agent.

    ``changes``: how many changes its result lists, in the line that starts at ``answer``; none where the tool tells that it edits.
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


def used(database: IndexDatabase) -> list[UsageSumRow]:
    """Counted usage by quarter, log, model and variant, in that order and in the shape of ``cost_queries.rolled``."""
    return cast("list[UsageSumRow]", database.rows(f"{_USED} GROUP BY quarter, file, model, variant"))


def called(
    database: IndexDatabase, since: int | None = None, until: int | None = None, *, by_quarter: bool = False
) -> list[CallSum]:
    """Counted calls between two quarters, by log, tool, kind and outcome, and by quarter if that is asked."""
    bounds = ["counted"]
    bounds += [] if since is None else [f"at >= {since * QUARTER_MS}"]
    bounds += [] if until is None else [f"at < {until * QUARTER_MS}"]
    quarter = _QUARTER if by_quarter else "NULL"
    return [
        CallSum(*row)  # type: ignore[arg-type]
        for row in database.rows(
            f"SELECT file, tool, kind, state, is_retry, is_commit, {quarter}, count(*), sum(took), count(took)"  # noqa: S608 - whole numbers and constants
            f" FROM calls WHERE {' AND '.join(bounds)} GROUP BY 1, 2, 3, 4, 5, 6, 7"
        )
    ]


def worked(database: IndexDatabase, tools: Collection[int], *, by_file: bool) -> list[WorkSum]:
    """Counted calls by quarter and outcome, in the order of time; ``tools`` are those told apart from all others (0)."""
    names = ",".join(str(int(one)) for one in sorted(tools)) or "0"
    file = "file" if by_file else "NULL"
    return [
        WorkSum(*row)  # type: ignore[arg-type]
        for row in database.rows(
            f"SELECT {_QUARTER}, {file}, iif(tool IN ({names}), tool, 0), state, is_commit, count(*)"  # noqa: S608 - whole numbers and constants
            " FROM calls WHERE counted GROUP BY 1, 2, 3, 4, 5 ORDER BY 1"
        )
    ]


def newest_edits(database: IndexDatabase, tools: Collection[int]) -> list[CallPlace]:
    """Counted calls of these tools that went well and all whose results list changes, the newest first; those without a time come last.

    Of the latter all but copies in forks: other agents may number the calls of each session alike.
    """
    names = ",".join(str(int(one)) for one in sorted(tools)) or "0"
    of_tools = f"counted AND state = {OK} AND tool IN ({names}) AND NOT changes"
    where = f"({of_tools} OR changes AND NOT calls.forked) AND NOT gone"
    return [
        CallPlace(*row)  # type: ignore[arg-type]
        for row in database.rows(
            "SELECT file, place, key, tool, changes, answer, iif(role = 1, files.agent, NULL) FROM calls"  # noqa: S608 - whole numbers and constants
            f" JOIN files ON files.id = file WHERE {where} ORDER BY calls.at DESC, path, place DESC"
        )
    ]
