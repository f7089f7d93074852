"""Usage in the index: the SQL of cost reports.

Two tables answer. ``rollup`` holds counted usage by quarter of an hour and is small: it is used whenever
possible, grouped as coarsely as the report allows. ``copies`` has a row for every log that mentions a
response, counted or not: it is used for tools, copies, durations, recorded costs and parts of a quarter.

Only reads; knows nothing of prices or time zones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from recollect.agents.homes import agent_of_log, copied_only
from recollect.index.database import IndexDatabase
from recollect.index.schema import AGENT, ANSWERED, COPIED, QUARTER_MS, SESSION, TOOL_OUTPUT, same_uuid
from recollect.model.cost.calendar import NO_TIME, QUARTERS_A_DAY, UNKNOWN, QuarterSpan, Timeline
from recollect.model.cost.line_usage import ResponseCopy
from recollect.model.cost.prices import UNCERTAIN
from recollect.model.cost.reconcile import LoggedCopy, RecordedCost, TokenCounts
from recollect.model.cost.report import MAIN_AGENT, UsageGroup, UsageLog
from recollect.system.locations import agent_of
from recollect.system.paths import CLAUDE

_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
# Python's floor division, also for times before 1970: SQLite rounds towards zero.
_SHIFT = 10_000_000
QUARTER = f"((coalesce(at, 0) + {_SHIFT * QUARTER_MS}) / {QUARTER_MS} - {_SHIFT})"
_FEW = 12
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


class UsageQuery(Struct, frozen=True):
    """Which usage is meant. Times are milliseconds, ``since`` included and ``until`` not; None means all.

    ``timeline``: its spans are summed as a whole; without one each quarter of an hour is for itself.
    ``columns``: what sums are told apart by besides time, model and variant (file, branch, tool).
    ``is_granular``: sums of responses that use the same classes of tokens and are all recorded or all not.
    ``with_copies``: also what was not counted, which has lines but no responses or tokens.
    """

    timeline: Timeline | None = None
    columns: frozenset[str] = frozenset()
    files: Collection[int] | None = None
    models: Collection[str] | None = None
    since: int | None = None
    until: int | None = None
    is_granular: bool = False
    with_copies: bool = False
    with_durations: bool = False


class ResponseRow(UsageGroup, frozen=True, kw_only=True, gc=False):
    """A response by itself. ``at`` is in milliseconds since 1970."""

    message: str | None
    request: str
    at: int | None
    is_counted: bool


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


def quarter_of(at: int | None) -> int:
    """The quarter of a time in milliseconds."""
    return NO_TIME if at is None else at // QUARTER_MS


class UsageTables:
    """The usage in one index, with names in the place of numbers."""

    def __init__(self, database: IndexDatabase) -> None:
        self.database = database
        self._names = names(database)

    def models(self) -> set[str]:
        """The models of all counted usage."""
        found = _numbers(self.database, "SELECT DISTINCT model FROM rollup")
        return {self._names[number] for number in found if number in self._names}

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        """Sums of usage, from the table that is just fine enough."""
        if query.is_granular or query.with_copies or query.with_durations or "tool" in query.columns:
            return self._by_response(query)
        since, until = query.since, query.until
        found = self._by_quarter(query)
        for quarter in sorted(
            {bound // QUARTER_MS for bound in (since, until) if bound is not None and bound % QUARTER_MS}
        ):
            found += self._by_response(query, quarter)
        return found

    def _by_quarter(self, query: UsageQuery) -> list[UsageGroup]:
        """Whole quarters, from the sums that are kept. Recorded costs are not in them."""
        first = None if query.since is None else -(-query.since // QUARTER_MS)
        end = None if query.until is None else query.until // QUARTER_MS
        file, branch = (_selected(name, query) for name in ("file", "branch"))
        sums = ", ".join(f"sum({name})" for name in ("messages", *_COUNTS))
        span, start = "", "quarter"
        if query.timeline is not None:
            spans = query.timeline.spans(first, end)
            if not spans:
                return []
            values = ",".join(f"({low},{stop})" for low, stop in spans)
            span, start = f"WITH span(first, stop) AS (VALUES {values})", "first"
        return self._groups(
            f"{span} SELECT {start}, {file}, model, {branch}, NULL, variant, {sums} FROM"  # noqa: S608 - whole numbers and constants
            f" {'span JOIN rollup ON quarter >= first AND quarter < stop' if span else 'rollup'}"
            f" WHERE {self._limits(query)} GROUP BY {start}, model, variant{_group(query, ('file', 'branch'))}"
        )

    def _by_response(self, query: UsageQuery, quarter: int | None = None) -> list[UsageGroup]:
        """Usage row by row; with a ``quarter`` only what is in it, so that few logs have to be read."""
        since, until = query.since, query.until
        spans: Sequence[QuarterSpan] = ()
        conditions = [self._limits(query), *([] if query.with_copies else ["counted"])]
        if quarter is None:
            self.database.map_file()
            spans = () if query.timeline is None else query.timeline.spans()
        else:
            start, stop = quarter * QUARTER_MS, (quarter + 1) * QUARTER_MS
            since = start if since is None else max(start, since)
            until = stop if until is None else min(stop, until)
            conditions.append(f"file IN (SELECT file FROM rollup WHERE quarter = {quarter})")  # noqa: S608 - a whole number
        conditions += [f"at >= {since}"] * (since is not None) + [f"at < {until}"] * (until is not None)
        # A row without a time is neither before nor after anything.
        conditions += [f"{QUARTER} <> 0"] * (since is not None or until is not None)
        duration = f"coalesce(duration, at - {_ASKED_AT})" if query.with_durations else "NULL"
        counts = ", ".join(
            f"sum({name} * counted)" if query.with_copies else f"sum({name})" for name in _COUNTS
        )
        fine = f", recorded IS NULL, {_CLASSES}" if query.is_granular else ""
        columns = [_selected(name, query) for name in ("file", "branch", "tool")]
        return self._groups(
            "WITH one AS (SELECT *, "  # noqa: S608 - whole numbers and constants
            f"{_start(spans)} AS quarter, {duration} AS took FROM copies WHERE {' AND '.join(conditions)})"
            f" SELECT quarter, {columns[0]}, model, {columns[1]}, {columns[2]}, variant, sum(counted), {counts},"
            " sum(coalesce(recorded, 0) * counted), sum((recorded IS NULL) * counted), sum(lines),"
            " sum((took > 0) * counted), sum(CASE WHEN took > 0 THEN took * counted ELSE 0 END),"
            " sum(CASE WHEN took > 0 THEN output * counted ELSE 0 END)"
            f" FROM one GROUP BY quarter, model, variant{', counted' if query.with_copies else ''}{fine}"
            f"{_group(query, ('file', 'branch', 'tool'))}"
        )

    def _groups(self, sql: str) -> list[UsageGroup]:
        name = self._names.get
        rows = cast("Iterable[Any]", self.database.connection.execute(sql))
        return [
            UsageGroup(quarter, file, name(model), name(branch), name(tool), *rest)
            for quarter, file, model, branch, tool, *rest in rows
        ]

    def responses(self, query: UsageQuery) -> Iterator[ResponseRow]:
        """Every response that counts, one at a time, in the order of time."""
        limits = [self._limits(query), *([] if query.with_copies else ["counted"])]
        limits += [f"at >= {int(query.since)}"] if query.since is not None else []
        limits += [f"at < {int(query.until)}"] if query.until is not None else []
        if query.since is not None or query.until is not None:
            # A response without a time, stored as the first quarter of 1970, is neither before nor after anything.
            limits.append(f"NOT at BETWEEN 0 AND {QUARTER_MS - 1}")
        self.database.map_file()
        name = self._names.get
        rows = self.database.connection.execute(
            "SELECT message, request, file, at, model, branch, tool, variant, input, output,"  # noqa: S608 - whole numbers and constants
            " cache_write_5m, cache_write_1h, cache_read, web_searches, counted"
            " FROM copies JOIN responses ON responses.id = response"
            f" WHERE {' AND '.join(limits)} ORDER BY at, copies.id"
        )
        for message, request, file, at, model, branch, tool, variant, *counts, counted in cast(
            "Iterable[Any]", rows
        ):
            yield ResponseRow(
                quarter_of(at),
                file,
                name(model),
                name(branch),
                name(tool),
                variant,
                1,
                *counts,
                message=message,
                request=request,
                at=at,
                is_counted=bool(counted),
            )

    def records(self) -> list[tuple[int | None, RecordedCost]]:
        """The clients' own running totals, each with its time."""
        rows = self.database.connection.execute(
            f"SELECT file, coalesce(cost_states.at, last_at), started, model, recorded, {', '.join(_COUNTS)}"  # noqa: S608 - constants
            " FROM cost_states JOIN files ON files.id = file",
        )
        return [
            (
                at,
                RecordedCost(
                    quarter_of(at),
                    log,
                    self._names.get(model),
                    pico,
                    counts=cast("TokenCounts", tuple(counts)),
                    started=started,
                ),
            )
            for log, at, started, model, pico, *counts in cast("Iterable[Any]", rows)
        ]

    def copies(self, logs: Mapping[int, str]) -> list[LoggedCopy]:
        """What some logs say of responses, counted or not. ``logs``: their paths by number."""
        rows = self.database.connection.execute(
            "SELECT file, message, request, speaker, output, has_stop, coalesce(at, 0), forked, model, variant,"  # noqa: S608 - whole numbers and constants
            f" {', '.join(_COUNTS)} FROM usage JOIN responses ON responses.id = response WHERE file IN ({_listed(logs)})"
        )
        return [
            LoggedCopy(
                log,
                message,
                ResponseCopy(request, speaker, output, bool(stop), at, bool(forked), logs[log]),
                self._names.get(model),
                variant,
                cast("TokenCounts", tuple(counts)),
            )
            for log, message, request, speaker, output, stop, at, forked, model, variant, *counts in (
                cast("Iterable[Any]", rows)
            )
        ]

    def uncertain_versions(self) -> Mapping[str | None, tuple[str, ...]]:
        """By model, the client versions whose counts are uncertain."""
        rows = self.database.rows(
            "SELECT DISTINCT model, version FROM usage WHERE counted & 2 AND variant & ?", UNCERTAIN
        )
        found: dict[str | None, set[str]] = {}
        for model, version in cast("list[tuple[int, int]]", rows):
            found.setdefault(self._names.get(model), set()).add(self._names.get(version, "(none)"))
        return {model: tuple(sorted(versions)) for model, versions in found.items()}

    def _limits(self, query: UsageQuery) -> str:
        limits = [] if query.files is None else [f"file IN ({_listed(query.files)})"]
        if query.models is not None:
            models = [number for number, name in self._names.items() if name in query.models]
            limits.append(f"model IN ({_listed(models)})")
        return " AND ".join(limits) or "1"


def days(database: IndexDatabase) -> set[int]:
    """The UTC days (numbered since 1970) with counted usage."""
    return {quarter // QUARTERS_A_DAY for quarter in quarters(database)}


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


def logs(database: IndexDatabase) -> dict[int, UsageLog]:
    """All logs that can mention responses, by number, with their projects: an agent works where its session does."""
    rows = cast(
        "list[tuple[int, str, str, int, str | None, str | None, str | None, int, str]]",
        database.rows(
            "SELECT files.id, path, home, role = ?, session, agent, text, gone, coalesce(origins, '')"
            " FROM files LEFT JOIN names ON names.id = files.cwd WHERE role <> ? ORDER BY path",
            AGENT,
            TOOL_OUTPUT,
        ),
    )
    directories: dict[tuple[str, str], str] = {}
    for _, _, home, is_agent, session, _, cwd, *_ in rows:
        if not is_agent and cwd and session:
            directories.setdefault((home, session), cwd)
            directories.setdefault(("", session), cwd)
    found = {}
    for number, path, home, is_agent, session, agent, cwd, is_gone, origins in rows:
        of_session = directories.get((home, session or "")) or directories.get(("", session or ""))
        project = (of_session if is_agent else None) or cwd or UNKNOWN
        name = (agent or UNKNOWN) if is_agent else MAIN_AGENT
        found[number] = UsageLog(
            path, session or UNKNOWN, name, project, bool(is_gone), agent_of(home), home=home, origins=origins
        )
    return found


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


def _unused_logs(database: IndexDatabase, files: Collection[int] | None = None) -> list[UnusedLog]:
    """The own logs of sessions without any response, copies included; ``files`` are those to look at.

    A session's own log is asked first: nearly all have one.
    """
    chosen = "1" if files is None else f"id IN ({_listed(files)})"
    found = database.rows(
        f"SELECT id, home, path, session, first_at, last_at, {_ONLY_COPIED} FROM files"  # noqa: S608 - whole numbers and constants
        " WHERE role = ? AND NOT gone AND session NOT NULL AND NOT (consumed = 0 AND mtime < 0)"
        f" AND {chosen}"
        " AND NOT EXISTS (SELECT 1 FROM usage WHERE usage.file = files.id)"
        " AND NOT EXISTS (SELECT 1 FROM files AS one JOIN usage ON usage.file = one.id"
        " WHERE one.session = files.session)",
        SESSION,
    )
    return [UnusedLog(*row) for row in found]  # type: ignore[arg-type]


def unrecorded_logs(database: IndexDatabase, files: Collection[int] | None = None) -> list[UnusedLog]:
    """Sessions without usage, copies included, whose cost is unknown and not 0: those of other agents, one log of each."""
    sessions: dict[str, list[UnusedLog]] = {}
    for log in _unused_logs(database, files):
        if agent_of_log(log.home, log.path) != CLAUDE:
            sessions.setdefault(log.session, []).append(log)
    return [logs[0] for logs in sessions.values() if not _are_copied(logs)]


def _are_copied(logs: Sequence[UnusedLog]) -> bool:
    states = [log.is_copied for log in logs]
    return copied_only(log.path for log in logs) if None in states else all(states)


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


def _numbers(database: IndexDatabase, sql: str) -> list[int]:
    return [cast("int", row[0]) for row in database.rows(sql)]


def _start(spans: Sequence[QuarterSpan]) -> str:
    if not spans or len(spans) > _FEW:
        return QUARTER
    return f"CASE {' '.join(f'WHEN {QUARTER} < {end} THEN {start}' for start, end in spans)} END"


def _selected(column: str, query: UsageQuery) -> str:
    return column if column in query.columns else "NULL"


def _group(query: UsageQuery, columns: Iterable[str]) -> str:
    return "".join(f", {name}" for name in columns if name in query.columns)


def _listed(numbers: Collection[int]) -> str:
    return ",".join(str(int(number)) for number in sorted(numbers))
