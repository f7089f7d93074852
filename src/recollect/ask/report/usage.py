"""Priced usage and tool calls of the index, for statistics: read once, added up in many ways.

The sums are those of ``cost``: the same table, the same prices, each response once. Where a sum holds tokens
of a class that has no price, it is taken apart as there.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from msgspec import structs

from recollect.ask.cost.report import logs_of, with_repositories
from recollect.ask.sessions.projects import ProjectFilter
from recollect.errors import RecollectError
from recollect.index import cost_queries, stat_queries
from recollect.index.access import OpenIndex
from recollect.index.calls import FAILED, OK
from recollect.index.cost_queries import UsageQuery, UsageTables, unrecorded_logs
from recollect.index.database import IndexDatabase
from recollect.index.frame import call_key
from recollect.index.stat_queries import AgentLogRow, CallSum, StartingCall
from recollect.model.conversation.agents import AgentMeta, read_meta
from recollect.model.cost.calendar import NO_TIME, QUARTER_MS, Offset, day_name, local_day
from recollect.model.cost.money import NO_MODEL
from recollect.model.cost.prices import UNCERTAIN, Price, PriceList
from recollect.model.cost.report import MAIN_AGENT, UsageGroup, UsageLog
from recollect.model.files.reports import EDITING_TOOLS
from recollect.model.views.tool_calls import AGENT_TOOLS
from recollect.store.own_settings import price_list
from recollect.system.paths import CLAUDE
from recollect.system.peek import open_regular

_LONGEST = 1 << 20


class ForeignAgent(NamedTuple):
    """One of them. ``call`` is the key of the call that started it, None where no call did."""

    log: UsageLog
    row: AgentLogRow
    type: str | None
    call: int | None

    def may_be_within(self, since: int | None, until: int | None) -> bool:
        """Whether it may have worked between two times in milliseconds."""
        first, last = self.row.first_at, self.row.last_at
        is_over = since is not None and last is not None and last < since
        return not is_over and (until is None or first is None or first < until)


class AgentStart(NamedTuple):
    """How an agent was started; ``call`` is None where no call did, or its log is not there."""

    agent: ForeignAgent
    call: StartingCall | None


def agents_of_others(database: IndexDatabase, logs: Mapping[int, UsageLog]) -> list[ForeignAgent]:
    """The sub-agents of other agents among some logs."""
    return [_agent(logs[row.file], row) for row in stat_queries.mirrored_agents(database) if row.file in logs]


def starts(
    database: IndexDatabase, agents: Sequence[ForeignAgent], logs: Mapping[int, UsageLog]
) -> Iterator[AgentStart]:
    """Each agent with its call: the first of that id in the logs of its session, which may number calls as others do."""
    keys = {one.call for one in agents if one.call is not None}
    calls: dict[tuple[str, int], StartingCall] = {}
    for call in stat_queries.calls_named(database, keys) if keys else ():
        if call.file in logs:
            calls.setdefault((logs[call.file].session, call.key), call)
    for agent in agents:
        yield AgentStart(agent, None if agent.call is None else calls.get((agent.log.session, agent.call)))


def _agent(log: UsageLog, row: AgentLogRow) -> ForeignAgent:
    meta = AgentMeta()
    with (
        contextlib.suppress(OSError, RecollectError),
        open_regular(Path(log.path).with_suffix(".meta.json")) as file,
    ):
        meta = read_meta(file.read(_LONGEST))
    return ForeignAgent(
        log, row, meta.agent_type, None if meta.tool_use_id is None else call_key(meta.tool_use_id)
    )


_QUARTERS_AN_HOUR = 4
_QUARTERS_A_DAY = 96


class PricedUsage(NamedTuple):
    """Usage of one log, model and way of serving within a quarter of an hour."""

    quarter: int
    log: UsageLog
    model: str
    is_uncertain: bool
    responses: int
    counts: tuple[int, ...]  # input, output, cache writes of 5 minutes and of an hour, cache reads, searches
    pico_usd: int | None  # without the tokens that have no price
    price: Price | None

    @property
    def is_unpriced(self) -> bool:
        """Whether some of the tokens have no price."""
        return self.price is None or any(self.price.missing(self.counts))

    @property
    def tokens(self) -> int:
        """All tokens."""
        return sum(self.counts[:5])


class PlacedCalls(NamedTuple):
    """Calls of one log and tool with one outcome; ``quarter`` is set where it was asked for."""

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


class QuarterWork(NamedTuple):
    """The calls of a quarter of an hour with one outcome."""

    quarter: int
    calls: int
    is_failed: bool
    is_edit: bool
    is_commit: bool


Timed = TypeVar("Timed", PricedUsage, QuarterWork)


class UsageTable:
    """What statistics are made of, in the order of time; good until the index changes."""

    def __init__(self, opened: OpenIndex, project: str | None = None) -> None:
        database = opened.database
        rows = cost_queries.logs(database)
        logs = with_repositories(logs_of(rows), rows)
        if project is not None:
            wanted = ProjectFilter(project)
            logs = {number: log for number, log in logs.items() if wanted.fits(log.project)}
        self._is_all = project is None
        self._logs, self._names = logs, cost_queries.names(database)
        self._edit_tools = {number for number, name in self._names.items() if name in EDITING_TOOLS}
        self.used = self._used(database)
        self._unrecorded = unrecorded_logs(database, None if self._is_all else logs)
        self.work = self._worked(database)
        self._agents = agents_of_others(database, logs)

    def unrecorded(self, since: int | None, until: int | None) -> int:
        """How many sessions between two quarters have an unknown cost, since their client recorded no usage."""
        first, end = (None if quarter is None else quarter * QUARTER_MS for quarter in (since, until))
        return sum(log.may_be_within(first, end) for log in self._unrecorded)

    def _used(self, database: IndexDatabase) -> list[PricedUsage]:
        tables, prices = UsageTables(database), price_list()
        query = UsageQuery(columns=frozenset(["file"]))
        used = _priced(tables.sums(query), self._logs, prices)
        if used is None:
            fine = tables.sums(structs.replace(query, is_granular=True))
            used = _priced(fine, self._logs, prices, is_final=True) or []
        return sorted(used, key=_quarter)

    def _worked(self, database: IndexDatabase) -> list[QuarterWork]:
        found = stat_queries.worked(database, self._edit_tools, by_file=not self._is_all)
        return [
            QuarterWork(
                one.quarter,
                one.calls,
                one.state == FAILED,
                bool(one.is_edit),
                one.state == OK and bool(one.is_commit),
            )
            for one in found
            if self._is_all or one.file in self._logs
        ]

    def called(
        self, opened: OpenIndex, since: int | None, until: int | None, *, by_quarter: bool = False
    ) -> list[PlacedCalls]:
        """The calls between two quarters."""
        rows = stat_queries.called(opened.database, self._edit_tools, since, until, by_quarter=by_quarter)
        return [_placed(one, self._logs[one.file], self._names) for one in rows if one.file in self._logs]

    def started(
        self, opened: OpenIndex, called: Iterable[PlacedCalls], since: int | None, until: int | None
    ) -> list[PlacedCalls]:
        """What started sub-agents between two quarters: of the calls between them Claude's, and other agents' as their files tell."""
        own = [one for one in called if one.tool in AGENT_TOOLS and one.log.client == CLAUDE]
        others = (
            _start(one, self._logs, self._names) for one in starts(opened.database, self._agents, self._logs)
        )
        return own + [one for one in others if _is_within(one.quarter, since, until)]

    def idle_agents(self, since: int | None, until: int | None) -> int:
        """How many sub-agents of other agents between two quarters have no usage of their own: their session has it."""
        used = {one.log.path for one in self.used}
        first, end = (None if quarter is None else quarter * QUARTER_MS for quarter in (since, until))
        return sum(one.log.path not in used and one.may_be_within(first, end) for one in self._agents)


def within(rows: Sequence[Timed], since: int | None, until: int | None) -> Sequence[Timed]:
    """Those from a quarter on and before another; what has no time is in neither."""
    if since is None and until is None:
        return rows
    first = 0 if since is None else bisect_left(rows, since, key=_quarter)
    end = len(rows) if until is None else bisect_left(rows, until, key=_quarter)
    part = rows[first:end]
    # The first quarter of 1970 stands for no time at all.
    return part if since is not None and since > NO_TIME else [one for one in part if one.quarter != NO_TIME]


def _quarter(row: PricedUsage | QuarterWork) -> int:
    return row.quarter


def _priced(
    groups: Iterable[UsageGroup], logs: Mapping[int, UsageLog], prices: PriceList, *, is_final: bool = False
) -> list[PricedUsage] | None:
    """None where a sum has to be taken apart to be priced."""
    priced: list[PricedUsage] = []
    for group in groups:
        log = logs.get(cast("int", group.log))
        if log is None or not group.responses:
            continue
        price = prices.find(group.model or "", max(group.quarter, 0), group.variant)
        pico = None if price is None else price.cost(*group.counts)
        if price is not None and not is_final and any(price.missing(group.counts)):
            return None
        is_uncertain = bool(group.variant & UNCERTAIN)
        model = group.model or NO_MODEL
        priced.append(
            PricedUsage(group.quarter, log, model, is_uncertain, group.responses, group.counts, pico, price)
        )
    return priced


def _placed(one: CallSum, log: UsageLog, names: dict[int, str]) -> PlacedCalls:
    tool = names.get(one.tool, "")
    is_done = one.state == OK
    return PlacedCalls(
        one.quarter or NO_TIME,
        log,
        tool,
        None if one.kind is None else names.get(one.kind),
        one.calls,
        one.state == FAILED,
        bool(one.is_retry),
        is_done and bool(one.is_commit),
        bool(one.is_edit),
        one.took or 0,
        one.timed,
    )


def _start(one: AgentStart, logs: Mapping[int, UsageLog], names: Mapping[int, str]) -> PlacedCalls:
    call, agent = one.call, one.agent
    at = agent.row.first_at if call is None else call.at
    return PlacedCalls(
        NO_TIME if at is None else at // QUARTER_MS,
        agent.log if call is None else logs[call.file],
        "" if call is None else names.get(call.tool, ""),
        agent.type,
        1,
        call is not None and call.state == FAILED,
        call is not None and bool(call.is_retry),
        False,
        False,
        0 if call is None else call.took or 0,
        int(call is not None and call.took is not None),
    )


def _is_within(quarter: int, since: int | None, until: int | None) -> bool:
    if since is None and until is None:
        return True
    return quarter != NO_TIME and (since is None or since <= quarter) and (until is None or quarter < until)


class LocalTime:
    """Days and hours of a time zone; each quarter is looked at once."""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        self._days: dict[int, tuple[str, int, int] | None] = {}

    def of(self, quarter: int) -> tuple[str, int, int] | None:
        """The name of the day, its weekday (Monday is 0) and the hour; None for what has no time."""
        if quarter not in self._days:
            self._days[quarter] = self._looked_up(quarter)
        return self._days[quarter]

    def _looked_up(self, quarter: int) -> tuple[str, int, int] | None:
        if quarter == NO_TIME:
            return None
        day = local_day(quarter, self._offset)
        hour = (quarter + self._offset(quarter * 900) // 900) % _QUARTERS_A_DAY // _QUARTERS_AN_HOUR
        return day_name(day), (day + 3) % 7, hour


def is_agent(log: UsageLog) -> bool:
    """Whether a log is a sub-agent's."""
    return log.agent != MAIN_AGENT


def quarter_at(moment: dt.datetime | None) -> int | None:
    """The quarter of an hour that begins at a moment, or holds it."""
    if moment is None:
        return None
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=QUARTER_MS)
