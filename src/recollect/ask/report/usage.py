"""Priced usage and tool calls of the index, for statistics: read once, added up in many ways.

The sums are those of ``cost``: the same table, the same prices, each response once. Where a sum holds tokens
of a class that has no price, it is taken apart as there.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import structs

from recollect.ask.cost.report import with_repositories
from recollect.ask.sessions.projects import ProjectFilter
from recollect.errors import RecollectError
from recollect.index import catalogue, cost_queries, stat_queries
from recollect.index.access import OpenIndex
from recollect.index.calls import FAILED, OK
from recollect.index.catalogue import recounted
from recollect.index.cost_queries import UsageQuery, UsageTables, unrecorded_logs
from recollect.index.database import IndexDatabase
from recollect.index.frame import call_key
from recollect.index.stat_queries import CallSum, session_titles
from recollect.model.conversation.agents import AgentMeta, read_meta
from recollect.model.cost.calendar import NO_TIME, QUARTER_MS, Offset, day_name, local_day
from recollect.model.cost.money import NO_MODEL
from recollect.model.cost.prices import UNCERTAIN
from recollect.model.cost.report import MAIN_AGENT, UsageLog
from recollect.model.files.reports import EDITING_TOOLS
from recollect.model.views.fact_line import AGENT_TOOLS
from recollect.store.own_settings import price_list
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular

_LONGEST = 1 << 20
_QUARTERS_AN_HOUR = 4
_QUARTERS_A_DAY = 96


class PricedUsage(NamedTuple):
    """Usage of one log, model and way of serving within a quarter of an hour."""

    quarter: int
    log: UsageLog
    model: str
    variant: int
    responses: int
    counts: tuple[int, ...]  # input, output, cache writes of 5 minutes and of an hour, cache reads, searches
    pico_usd: int | None  # without the tokens that have no price
    is_unpriced: bool  # some of the tokens have no price

    @property
    def is_uncertain(self) -> bool:
        """Whether the log may hold too low a count."""
        return bool(self.variant & UNCERTAIN)

    @property
    def tokens(self) -> int:
        """All tokens."""
        return sum(self.counts[:5])


class PlacedCalls(NamedTuple):
    """Calls that are alike, of one log and tool where these were asked for, within a quarter of an hour where that was."""

    quarter: int
    log: UsageLog
    tool: str
    kind: str | None
    calls: int
    is_failed: bool
    is_retry: bool
    is_commit: bool
    is_edit: bool
    took: int
    timed: int


Timed = TypeVar("Timed", PricedUsage, PlacedCalls)
_ANY_LOG = UsageLog("")


class _ForeignAgent(NamedTuple):
    """A sub-agent of another agent; ``call`` is the key of the call that started it, None where no call did."""

    log: UsageLog
    first_at: int | None
    last_at: int | None
    type: str | None
    call: int | None


class UsageTable:
    """What statistics are made of, in the order of time; good until the index changes."""

    def __init__(self, opened: OpenIndex, project: str | None = None) -> None:
        self._database = database = opened.database
        logs = with_repositories(cost_queries.logs(database))
        if project is not None:
            wanted = ProjectFilter(project)
            logs = {number: log for number, log in logs.items() if wanted.fits(log.project)}
        self._is_all = project is None
        self._logs, self._names = logs, cost_queries.names(database)
        self._edit_tools = {number for number, name in self._names.items() if name in EDITING_TOOLS}
        self.used = self._used(database)
        self._unrecorded = unrecorded_logs(database, None if self._is_all else logs)
        self.work = self._calls(None, None, frozenset(["quarter"] if self._is_all else ["quarter", "file"]))
        self._agents = list(self._agents_of_others())

    def unrecorded(self, since: int | None, until: int | None) -> int:
        """How many sessions between two quarters have an unknown cost, since their client recorded no usage."""
        first, end = (None if quarter is None else quarter * QUARTER_MS for quarter in (since, until))
        return sum(log.may_be_within(first, end) for log in self._unrecorded)

    def _used(self, database: IndexDatabase) -> list[PricedUsage]:
        tables, query = UsageTables(database), UsageQuery(columns=frozenset(["file"]))
        used, has_gap = self._priced(tables, query)
        if has_gap:
            used, _ = self._priced(tables, structs.replace(query, is_granular=True))
        return sorted(used, key=_quarter)

    def _priced(self, tables: UsageTables, query: UsageQuery) -> tuple[list[PricedUsage], bool]:
        """The usage, and whether a sum has to be taken apart to be priced."""
        prices, used, has_gap = price_list(), [], False
        for group in tables.sums(query):
            log = self._logs.get(group.log or 0)
            if log is None or not group.responses:
                continue
            quarter, model, counts = group.quarter, group.model, group.counts
            pico, missing = prices.cost(model or "", quarter, group.variant, counts)
            has_gap = has_gap or (missing is not None and missing is not counts)
            known = pico if pico or missing is None else None
            used.append(
                PricedUsage(
                    quarter,
                    log,
                    model or NO_MODEL,
                    group.variant,
                    group.responses,
                    counts,
                    known,
                    missing is not None,
                )
            )
        return used, has_gap

    def called(self, since: int | None, until: int | None, *, by_quarter: bool = False) -> list[PlacedCalls]:
        """The calls between two quarters."""
        columns = {"file", "tool", "kind", "is_retry", *(["quarter"] if by_quarter else [])}
        return self._calls(since, until, frozenset(columns))

    def _calls(self, since: int | None, until: int | None, columns: frozenset[str]) -> list[PlacedCalls]:
        rows = stat_queries.called(self._database, self._edit_tools, columns, since, until)
        return [self._placed(one) for one in rows if one.file is None or one.file in self._logs]

    def _placed(self, one: CallSum) -> PlacedCalls:
        return PlacedCalls(
            one.quarter or NO_TIME,
            _ANY_LOG if one.file is None else self._logs[one.file],
            self._names.get(one.tool or 0, ""),
            self._names.get(one.kind or 0),
            one.calls,
            one.state == FAILED,
            bool(one.is_retry),
            one.state == OK and bool(one.is_commit),
            bool(one.is_edit),
            one.took or 0,
            one.timed,
        )

    # --- sub-agents of other agents -------------------------------------------------------------

    def started(
        self, called: Iterable[PlacedCalls], since: int | None, until: int | None
    ) -> list[PlacedCalls]:
        """What started sub-agents between two quarters: of the calls between them Claude's, and other agents' as their files tell."""
        own = [one for one in called if one.tool in AGENT_TOOLS and one.log.client == CLAUDE]
        return own + [one for one in self._starts() if _is_within(one.quarter, since, until)]

    def idle_agents(self, since: int | None, until: int | None) -> int:
        """How many sub-agents of other agents between two quarters have no usage of their own: their session has it."""
        used = {one.log.path for one in self.used}
        first, end = (None if quarter is None else quarter * QUARTER_MS for quarter in (since, until))
        return sum(
            (first is None or one.last_at is None or one.last_at >= first)
            and (end is None or one.first_at is None or one.first_at < end)
            for one in self._agents
            if one.log.path not in used
        )

    def _agents_of_others(self) -> Iterator[_ForeignAgent]:
        for file, first_at, last_at in stat_queries.mirrored_agents(self._database):
            log = self._logs.get(file)
            if log is not None:
                meta = AgentMeta()
                place = Path(log.path).with_suffix(".meta.json")
                with contextlib.suppress(OSError, RecollectError), open_regular(place) as data:
                    meta = read_meta(data.read(_LONGEST))
                key = None if meta.tool_use_id is None else call_key(meta.tool_use_id)
                yield _ForeignAgent(log, first_at, last_at, meta.agent_type, key)

    def _starts(self) -> Iterator[PlacedCalls]:
        """Each agent with its call: the first of that id in the logs of its session, which may number calls as others do."""
        keys = {one.call for one in self._agents if one.call is not None}
        calls: dict[tuple[str, int], PlacedCalls] = {}
        for key, call in stat_queries.calls_named(self._database, keys) if keys else ():
            if call.file in self._logs:
                calls.setdefault((self._logs[call.file].session, key), self._placed(call))
        for agent in self._agents:
            at = NO_TIME if agent.first_at is None else agent.first_at // QUARTER_MS
            nothing = PlacedCalls(at, agent.log, "", None, 1, False, False, False, False, 0, 0)
            start = nothing if agent.call is None else calls.get((agent.log.session, agent.call), nothing)
            yield start._replace(kind=agent.type, is_commit=False, is_edit=False)


def within(rows: Sequence[Timed], since: int | None, until: int | None) -> Sequence[Timed]:
    """Those from a quarter on and before another; what has no time is in neither."""
    if since is None and until is None:
        return rows
    first = 0 if since is None else bisect_left(rows, since, key=_quarter)
    end = len(rows) if until is None else bisect_left(rows, until, key=_quarter)
    part = rows[first:end]
    # The first quarter of 1970 stands for no time at all.
    return part if since is not None and since > NO_TIME else [one for one in part if one.quarter != NO_TIME]


def _quarter(row: PricedUsage | PlacedCalls) -> int:
    return row.quarter


def _is_within(quarter: int, since: int | None, until: int | None) -> bool:
    if since is None and until is None:
        return True
    return quarter != NO_TIME and (since is None or since <= quarter) and (until is None or quarter < until)


class SessionNames:
    """Titles and projects of sessions, and which are still there."""

    def __init__(self, opened: OpenIndex) -> None:
        database = opened.database
        self.rows = {row.id: row for row in catalogue.sessions(database) if row.id}
        self._opened = opened

    @functools.cached_property
    def _titles(self) -> dict[str, str]:
        return session_titles(self._opened.database)

    def title(self, session: str) -> str:
        known = self.rows.get(session)
        # Only a deleted session needs the titles of all.
        return self._titles.get(session, "") if known is None else known.title

    def messages(self) -> dict[str, int]:
        """How many messages each session has, as `list` counts them."""
        missing = recounted(self._opened)
        counted = ((session, row, missing.get(row.path)) for session, row in self.rows.items())
        return {
            session: row.messages or (0 if again is None else again.messages or 0)
            for session, row, again in counted
        }

    def is_deleted(self, session: str) -> bool:
        return session not in self.rows


class LocalTime:
    """Days and hours of a time zone; each quarter is looked at once."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        self._days: dict[int, tuple[str, int, int] | None] = {NO_TIME: None}

    def of(self, quarter: int) -> tuple[str, int, int] | None:
        """The name of the day, its weekday (Monday is 0) and the hour; None for what has no time."""
        if quarter not in self._days:
            day = local_day(quarter, self._offset)
            hour = (quarter + self._offset(quarter * 900) // 900) % _QUARTERS_A_DAY // _QUARTERS_AN_HOUR
            self._days[quarter] = day_name(day), (day + 3) % 7, hour
        return self._days[quarter]


def is_agent(log: UsageLog) -> bool:
    """Whether a log is a sub-agent's."""
    return log.agent != MAIN_AGENT


def quarter_at(moment: dt.datetime | None) -> int | None:
    """The quarter of an hour that begins at a moment, or holds it."""
    if moment is None:
        return None
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=QUARTER_MS)
