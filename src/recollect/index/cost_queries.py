"""Usage in the index as plain rows: the SQL of cost reports.

Two tables answer. ``rollup`` holds counted usage by quarter of an hour and is small: it is used whenever
possible, grouped as coarsely as the report allows. ``copies`` has a row for every log that mentions a
response, counted or not: it is used for tools, copies, durations, recorded costs and parts of a quarter.
Both return rows of the shape of ``model.accounts.Sum``, with numbers for names.

Only reads; knows nothing of prices or time zones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, cast

from msgspec import Struct

from recollect.index.database import IndexDatabase
from recollect.index.schema import AGENT, ANSWERED, COPIED, QUARTER_MS, SESSION, TOOL_OUTPUT, same_uuid
from recollect.model.cost.calendar import QuarterSpan

UsageSumRow = tuple[int, ...]

_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
# Python's floor division, also for times before 1970: SQLite rounds towards zero.
_SHIFT = 10_000_000
_QUARTER = f"((coalesce(at, 0) + {_SHIFT * QUARTER_MS}) / {QUARTER_MS} - {_SHIFT})"
_QUARTERS_A_DAY = 96
_FEW = 12
_DAY = f"((quarter + {_SHIFT * _QUARTERS_A_DAY}) / {_QUARTERS_A_DAY} - {_SHIFT})"
# Responses that use the same classes of tokens, so that a class without a price is not hidden in a sum.
_CLASSES = " + ".join(f"({name} > 0) * {1 << place}" for place, name in enumerate(_COUNTS))
# The plus keeps SQLite from scanning all lines of the log: few lines share an id.
_ASKED_AT = (
    f"(SELECT messages.at FROM messages WHERE {same_uuid('copies.asked')} AND +messages.file = copies.file"  # noqa: S608 - constants
    " ORDER BY messages.offset LIMIT 1)"
)


_ONLY_COPIED = (
    f"traits & {COPIED} AND NOT EXISTS"  # noqa: S608 - numbers of the schema
    f" (SELECT 1 FROM files AS one WHERE one.session = files.session AND one.traits & {ANSWERED})"
)
# A session that was restored, or is in the archive, has another log: it is not deleted.
_GONE = (
    "gone AND role = 0 AND NOT EXISTS"
    " (SELECT 1 FROM files AS other WHERE other.session = files.session AND other.role = 0 AND NOT other.gone)"
)


class UsageRowFilter(Struct, frozen=True):
    """Selects rows. ``files`` and ``models`` are numbers; None means all."""

    columns: frozenset[str] = frozenset()  # some of file, branch, tool: the columns to group by
    files: Collection[int] | None = None
    models: Collection[int] | None = None


def rolled(
    database: IndexDatabase, spans: Sequence[QuarterSpan], selected: UsageRowFilter
) -> list[UsageSumRow]:
    """Counted usage in spans of quarters, one row for each span, model, variant and selected column.

    Rows end with the counts; recorded costs come from ``spoken``.
    """
    if not spans:
        return []
    values = ",".join(f"({first},{end})" for first, end in spans)
    file, branch = _is_selected("file", selected), _is_selected("branch", selected)
    sums = ", ".join(f"sum({name})" for name in ("messages", *_COUNTS))
    return _rows(
        database,
        f"WITH span(first, stop) AS (VALUES {values})"  # noqa: S608 - whole numbers and constants
        f" SELECT first, {file}, model, {branch}, NULL, variant, {sums}"
        " FROM span JOIN rollup ON quarter >= first AND quarter < stop"
        f" WHERE {_limits(selected)} GROUP BY first, model, variant{_group(selected, ('file', 'branch'))}",
    )


def spoken(
    database: IndexDatabase,
    selected: UsageRowFilter,
    *,
    since: int | None = None,
    until: int | None = None,
    spans: Sequence[QuarterSpan] = (),
    is_granular: bool = True,
    with_copies: bool = False,
    with_durations: bool = False,
    within_quarter: int | None = None,
) -> list[UsageSumRow]:
    """Usage row by row, grouped by quarter, model, variant and selected column; times in milliseconds.

    ``spans``, if there are few, are summed as a whole instead of by quarter.
    ``is_granular``: also by the classes of tokens used, and by whether the client recorded a cost.
    ``with_copies`` adds rows for what was not counted: they have lines, but no messages or tokens.
    ``within_quarter`` says that everything is in one quarter, so that few logs have to be read.
    """
    if within_quarter is None:
        database.map_file()
    duration = f"coalesce(duration, at - {_ASKED_AT})" if with_durations else "NULL"
    conditions = [_limits(selected), *([] if with_copies else ["counted"])]
    if within_quarter is not None:
        conditions.append(f"file IN (SELECT file FROM rollup WHERE quarter = {within_quarter})")  # noqa: S608 - a whole number
    conditions += [f"at >= {since}"] * (since is not None) + [f"at < {until}"] * (until is not None)
    # A row without a time is neither before nor after anything.
    conditions += [f"{_QUARTER} <> 0"] * (since is not None or until is not None)
    counts = ", ".join(f"sum({name} * counted)" if with_copies else f"sum({name})" for name in _COUNTS)
    fine = f", recorded IS NULL, {_CLASSES}" if is_granular else ""
    columns = [_is_selected(name, selected) for name in ("file", "branch", "tool")]
    return _rows(
        database,
        "WITH one AS (SELECT *, "  # noqa: S608 - whole numbers and constants
        f"{_start(spans)} AS quarter, {duration} AS took FROM copies WHERE {' AND '.join(conditions)})"
        f" SELECT quarter, {columns[0]}, model, {columns[1]}, {columns[2]}, variant, sum(counted), {counts},"
        " sum(coalesce(recorded, 0) * counted), sum((recorded IS NULL) * counted), sum(lines),"
        " sum((took > 0) * counted), sum(CASE WHEN took > 0 THEN took * counted ELSE 0 END),"
        " sum(CASE WHEN took > 0 THEN output * counted ELSE 0 END)"
        f" FROM one GROUP BY quarter, model, variant{', counted' if with_copies else ''}{fine}"
        f"{_group(selected, ('file', 'branch', 'tool'))}",
    )


def days(database: IndexDatabase) -> list[int]:
    """The UTC days (numbered since 1970) with counted usage, found by skipping from one to the next."""
    next_day = f"({_DAY} + 1) * {_QUARTERS_A_DAY}"
    return _numbers(
        database,
        "WITH RECURSIVE found(quarter) AS (SELECT min(quarter) FROM rollup UNION ALL"  # noqa: S608 - constants
        f" SELECT (SELECT quarter FROM rollup WHERE quarter >= {next_day.replace('quarter', 'found.quarter')}"
        " ORDER BY quarter LIMIT 1) FROM found WHERE quarter NOT NULL)"
        f" SELECT {_DAY} FROM found WHERE quarter NOT NULL",
    )


def quarters(database: IndexDatabase) -> list[int]:
    """The quarters with counted usage, in order."""
    return _numbers(database, "SELECT DISTINCT quarter FROM rollup ORDER BY quarter")


def first_at(database: IndexDatabase, quarter: int) -> int | None:
    """The time of the first counted response in a quarter."""
    found = database.value(
        "SELECT min(at) FROM usage WHERE counted & 1 AND at >= ? AND at < ?"
        " AND file IN (SELECT file FROM rollup WHERE quarter = ?)",
        quarter * QUARTER_MS,
        (quarter + 1) * QUARTER_MS,
        quarter,
    )
    return cast("int | None", found)


class UsageLogRow(Struct, frozen=True, gc=False):
    """A log as the index knows it."""

    number: int
    path: str
    home: str
    is_agent: bool
    session: str | None
    agent: str | None
    cwd: str | None
    is_gone: bool
    origins: str | None = None  # where its worktrees were made from, a line each; None: not known


class UnusedLog(Struct, frozen=True):
    """A log of a session without any usage. Times are in milliseconds; None where none is known.

    ``is_copied``: the session has answers, and all of them are copies of another session's; None where its logs have to tell.
    """

    number: int
    home: str
    path: str
    session: str
    first_at: int | None = None
    last_at: int | None = None
    is_copied: bool | None = None

    def may_be_within(self, since: int | None, until: int | None) -> bool:
        """Whether it may have been used between two times."""
        is_over = since is not None and self.last_at is not None and self.last_at < since
        return not is_over and (until is None or self.first_at is None or self.first_at < until)


def logs(database: IndexDatabase) -> list[UsageLogRow]:
    """All logs that can mention responses."""
    found = database.rows(
        "SELECT files.id, path, home, role = ?, session, agent, text, gone, coalesce(origins, '')"
        " FROM files LEFT JOIN names ON names.id = files.cwd WHERE role <> ?",
        AGENT,
        TOOL_OUTPUT,
    )
    return [UsageLogRow(*row) for row in found]  # type: ignore[arg-type]


def names(database: IndexDatabase) -> dict[int, str]:
    return dict(cast("list[tuple[int, str]]", database.rows("SELECT id, text FROM names")))


def counted_in(database: IndexDatabase, log: str) -> dict[str, bool]:
    """The responses with an id that a log mentions, each with whether it counts there."""
    found = database.rows(
        "SELECT message, max(counted & 1) FROM usage JOIN responses ON responses.id = response"
        " WHERE file = (SELECT id FROM files WHERE path = ?) AND message NOT NULL GROUP BY message",
        log,
    )
    return {str(name): bool(is_counted) for name, is_counted in found}


def unused_logs(database: IndexDatabase, files: Collection[int] | None = None) -> list[UnusedLog]:
    """The own logs of sessions without any response, copies included; ``files`` are those to look at.

    A session's own log is asked first: nearly all have one.
    """
    chosen = "1" if files is None else f"id IN ({_listed(files)})"
    found = database.rows(
        f"SELECT id, home, path, session, first_at, last_at, {_ONLY_COPIED} FROM files"  # noqa: S608 - whole numbers and constants
        " WHERE role = ? AND NOT gone AND session NOT NULL"
        f" AND {chosen}"
        " AND NOT EXISTS (SELECT 1 FROM usage WHERE usage.file = files.id)"
        " AND NOT EXISTS (SELECT 1 FROM files AS one JOIN usage ON usage.file = one.id"
        " WHERE one.session = files.session)",
        SESSION,
    )
    return [UnusedLog(*row) for row in found]  # type: ignore[arg-type]


def models(database: IndexDatabase) -> list[int]:
    """The models of all counted usage."""
    return _numbers(database, "SELECT DISTINCT model FROM rollup")


def cost_states(database: IndexDatabase) -> list[tuple[int, ...]]:
    """The clients' own running totals: log, time, when the session began, model, pico-dollars, six counts."""
    return _rows(
        database,
        f"SELECT file, coalesce(cost_states.at, last_at), started, model, recorded, {', '.join(_COUNTS)}"  # noqa: S608 - constants
        " FROM cost_states JOIN files ON files.id = file",
    )


def logged_copies(database: IndexDatabase, files: Collection[int]) -> list[tuple[Any, ...]]:
    """What some logs say of responses, counted or not, with their own amounts."""
    return database.rows(
        "SELECT file, message, request, speaker, output, has_stop, coalesce(at, 0), forked, model, variant,"  # noqa: S608 - whole numbers and constants
        f" {', '.join(_COUNTS)} FROM usage JOIN responses ON responses.id = response WHERE file IN ({_listed(files)})"
    )


def gone_sessions(database: IndexDatabase, start: str) -> list[str]:
    """Deleted sessions whose id begins so, at most two."""
    found = database.rows(
        f"SELECT DISTINCT session FROM files WHERE {_GONE} AND substr(session, 1, ?) = ? LIMIT 2",  # noqa: S608 - a constant
        len(start),
        start,
    )
    return [cast("str", row[0]) for row in found]


def gone(database: IndexDatabase, files: Collection[int] | None, since: int | None, until: int | None) -> int:
    """How many deleted sessions have counted usage in a time."""
    limits = [] if files is None else [f"id IN ({_listed(files)})"]
    times = [f"at >= {since}"] * (since is not None) + [f"at < {until}"] * (until is not None)
    return cast(
        "int",
        database.value(
            "SELECT count(DISTINCT coalesce(session, path)) FROM files"  # noqa: S608 - whole numbers and constants
            f" WHERE {' AND '.join([_GONE, *limits])} AND EXISTS"
            f" (SELECT 1 FROM usage WHERE {' AND '.join(['file = files.id', 'counted & 1', *times])})"
        ),
    )


def uncertain_versions(database: IndexDatabase, bit: int) -> list[tuple[int, int]]:
    """Models and client versions of counted responses whose variant has this bit."""
    found = database.rows("SELECT DISTINCT model, version FROM usage WHERE counted & 2 AND variant & ?", bit)
    return cast("list[tuple[int, int]]", found)


def _rows(database: IndexDatabase, sql: str) -> list[UsageSumRow]:
    return cast("list[UsageSumRow]", database.rows(sql))


def _numbers(database: IndexDatabase, sql: str) -> list[int]:
    return [cast("int", row[0]) for row in database.rows(sql)]


def _start(spans: Sequence[QuarterSpan]) -> str:
    if not spans or len(spans) > _FEW:
        return _QUARTER
    return f"CASE {' '.join(f'WHEN {_QUARTER} < {end} THEN {start}' for start, end in spans)} END"


def _is_selected(column: str, selected: UsageRowFilter) -> str:
    return column if column in selected.columns else "NULL"


def _group(selected: UsageRowFilter, columns: Iterable[str]) -> str:
    return "".join(f", {name}" for name in columns if name in selected.columns)


def _limits(selected: UsageRowFilter) -> str:
    limits = [
        f"{name} IN ({_listed(numbers)})"
        for name, numbers in (("file", selected.files), ("model", selected.models))
        if numbers is not None
    ]
    return " AND ".join(limits) or "1"


def _listed(numbers: Collection[int]) -> str:
    return ",".join(str(int(number)) for number in sorted(numbers))
