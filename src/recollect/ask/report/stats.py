"""The document of ``recollect report`` and of the page's home screen."""

from __future__ import annotations

import datetime as dt
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from recollect.ask.budget.budget import RateLimitDocument, seen_limits
from recollect.ask.cost.report import costs, offset_of, zone_of
from recollect.ask.report.usage import (
    LocalTime,
    PlacedCalls,
    PricedUsage,
    SessionNames,
    UsageTable,
    is_agent,
    quarter_at,
    within,
)
from recollect.index.access import OpenIndex
from recollect.model.cost.calendar import UNKNOWN
from recollect.model.cost.money import exact
from recollect.model.cost.report import CostRow
from recollect.model.lines.damage import brief_repr
from recollect.model.text import timespan
from recollect.store.own_settings import price_list

Row = TypeVar("Row")
Key = TypeVar("Key")
_TOP = 10
_QUARTER_MINUTES = 15
_BLOCK_DAYS = 14
_FIVE_HOURS = "five_hour"  # the client's name of that window


class PeriodDocument(Struct, frozen=True, kw_only=True):
    """One stretch of time: what ``cost --since SINCE --until UNTIL`` says, and the work in it."""

    name: str
    since: dt.datetime | None
    until: dt.datetime | None
    cost_usd: str | None
    responses: int
    unpriced_responses: int
    tokens: int
    sessions: int
    calls: int
    edits: int
    commits: int


class StatDayDocument(Struct, frozen=True, kw_only=True):
    """A local day. ``models`` are dollars by model."""

    day: str
    cost_usd: str | None
    responses: int
    unpriced_responses: int
    models: dict[str, str | None]
    calls: int
    failures: int
    edits: int
    commits: int


class StatHourDocument(Struct, frozen=True):
    """An hour of the week, Monday is 0."""

    weekday: int
    hour: int
    responses: int
    cost_usd: str | None


class StatGroupDocument(Struct, frozen=True, kw_only=True):
    """A model, project or repository."""

    name: str
    sessions: int
    responses: int
    unpriced_responses: int
    cost_usd: str | None
    directories: list[str] | None = None


class StatSessionDocument(Struct, frozen=True, kw_only=True):
    """A session. ``active_minutes``: quarters of an hour in which an answer came. ``is_deleted``: only its usage is left."""

    id: str
    title: str
    project: str
    cost_usd: str | None
    unpriced_responses: int
    responses: int
    messages: int | None
    active_minutes: int
    is_deleted: bool


class TopSessionsDocument(Struct, frozen=True):
    """The first ten by each measure."""

    by_cost: list[StatSessionDocument]
    by_length: list[StatSessionDocument]
    by_messages: list[StatSessionDocument]


class StatToolDocument(Struct, frozen=True, kw_only=True):
    """A tool, or a type of sub-agent. A retry follows a failed call of the same tool; time runs from call to result."""

    name: str
    calls: int
    failures: int
    retries: int
    duration_ms: int
    timed_calls: int
    sessions: int


class StatAgentsDocument(Struct, frozen=True, kw_only=True):
    """Sub-agents: those with usage of their own, or of agents whose sessions have all of it; what they cost; and the calls that started
    them, by type.
    """

    agents: int
    responses: int
    cost_usd: str | None
    types: list[StatToolDocument]


class CacheSavingsDocument(Struct, frozen=True, kw_only=True):
    """What caching saved: reads at the price of input, less what writing cost more than input."""

    saved_usd: str | None
    read_tokens: int
    written_tokens: int
    uncached_usd: str | None


class StatBlocksDocument(Struct, frozen=True):
    """Five-hour blocks, the newest last, as ``cost --by block`` has them, and the most that one block held.

    ``limits``: the limit as clients reported it to `recollect limits statusline`, one for each window, the newest last.
    """

    rows: list[CostRow]
    most_tokens: int
    most_cost_usd: str | None
    limits: list[RateLimitDocument]


class UncertaintyDocument(Struct, frozen=True, kw_only=True):
    """What the total does not know, said once. ``uncertain_usd`` is a lower bound, part of the total.

    ``deleted_usd``: of sessions whose logs are gone; it is in the total, and in no list of sessions.
    ``unrecorded_sessions``: of other agents, without any usage; what they cost is unknown and in no amount.
    """

    uncertain_responses: int
    uncertain_usd: str
    unpriced_responses: int
    unpriced: list[str]
    deleted_sessions: int
    deleted_usd: str
    unrecorded_sessions: int


class StatsDocument(Struct, frozen=True, kw_only=True):
    """What was done and what it cost. Periods are always those of now; the rest is from ``since`` to ``until``.

    Amounts leave out what ``unpriced_responses`` count, and are null if that is all there is, or if sessions of that time
    recorded no usage and no other did.
    """

    now: dt.datetime
    timezone: str
    since: dt.datetime | None
    until: dt.datetime | None
    project: str | None
    periods: list[PeriodDocument]
    total_cost_usd: str | None
    uncertainty: UncertaintyDocument
    days: list[StatDayDocument]
    hours: list[StatHourDocument]
    models: list[StatGroupDocument]
    projects: list[StatGroupDocument]
    repositories: list[StatGroupDocument]
    top: TopSessionsDocument
    tools: list[StatToolDocument]
    agents: StatAgentsDocument
    cache: CacheSavingsDocument
    blocks: StatBlocksDocument

    __repr__ = brief_repr


def stats(
    opened: OpenIndex,
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    project: str | None = None,
    timezone: str | None = None,
    now: dt.datetime | None = None,
    data: Path | None = None,
) -> StatsDocument:
    """What was done and what it cost. ``since`` and ``until`` count by whole quarters of an hour.

    ``data`` is our own directory, for the limits that were seen.
    """
    now = now or dt.datetime.now(dt.UTC)
    table, first, end = UsageTable(opened, project), quarter_at(since), quarter_at(until)
    used, work = within(table.used, first, end), within(table.work, first, end)
    called, unrecorded = table.called(first, end), table.unrecorded(first, end)
    clock, names = LocalTime(offset_of(timezone)), SessionNames(opened)
    return StatsDocument(
        now=now,
        timezone=timezone or "local",
        since=since,
        until=until,
        project=project,
        periods=[_period(name, table, *span) for name, span in _spans(now, timezone).items()],
        blocks=_blocks(opened, project, timezone, now=now, data=data),
        total_cost_usd=_usd(used, unrecorded),
        uncertainty=_uncertainty(used, names, unrecorded),
        days=_days(used, work, clock, table),
        hours=_hours(used, clock),
        models=_groups(used, lambda one: one.model),
        projects=_groups(used, lambda one: one.log.project),
        repositories=_repositories(used),
        top=_top(used, names),
        tools=_tools(called, lambda one: one.tool),
        agents=_agents(used, table.started(called, first, end), table.idle_agents(first, end), unrecorded),
        cache=_savings(used, is_unknown=_usd(used, unrecorded) is None),
    )


def _spans(
    now: dt.datetime, timezone: str | None
) -> dict[str, tuple[dt.datetime | None, dt.datetime | None]]:
    zone = zone_of(timezone)
    today, yesterday, monday, before = (
        timespan.since(words, now, zone).astimezone(dt.UTC)
        for words in ("today", "yesterday", "this week", "last week")
    )
    so_far = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0)
    return {
        "today": (today, None),
        "yesterday": (yesterday, today),
        "this_week": (monday, None),
        "last_week": (before, monday),
        "last_week_so_far": (before, so_far - dt.timedelta(days=7)),
        "all_time": (None, None),
    }


def _period(
    name: str, table: UsageTable, since: dt.datetime | None, until: dt.datetime | None
) -> PeriodDocument:
    first, end = quarter_at(since), quarter_at(until)
    used, work = within(table.used, first, end), within(table.work, first, end)
    return PeriodDocument(
        name=name,
        since=since,
        until=until,
        cost_usd=_usd(used, table.unrecorded(first, end)),
        responses=sum(one.responses for one in used),
        unpriced_responses=_unpriced(used),
        tokens=sum(one.tokens for one in used),
        sessions=len({one.log.session for one in used}),
        calls=sum(one.calls for one in work),
        edits=sum(one.calls for one in work if one.is_edit),
        commits=sum(one.calls for one in work if one.is_commit),
    )


def _pico(used: Iterable[PricedUsage]) -> int:
    return sum(one.pico_usd or 0 for one in used)


def _usd(used: Sequence[PricedUsage], unrecorded: int = 0) -> str | None:
    """Exact dollars; None where nothing that was used has a price, or a record: unknown is not 0."""
    is_unknown = all(one.pico_usd is None for one in used) if used else bool(unrecorded)
    return None if is_unknown else exact(_pico(used))


def _unpriced(used: Iterable[PricedUsage]) -> int:
    return sum(one.responses for one in used if one.is_unpriced)


def _grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    found: defaultdict[Key, list[Row]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return dict(found)


def _uncertainty(used: Sequence[PricedUsage], names: SessionNames, unrecorded: int) -> UncertaintyDocument:
    uncertain = [one for one in used if one.is_uncertain]
    deleted = [one for one in used if names.is_deleted(one.log.session)]
    return UncertaintyDocument(
        uncertain_responses=sum(one.responses for one in uncertain),
        uncertain_usd=exact(_pico(uncertain)),
        unpriced_responses=_unpriced(used),
        unpriced=sorted({one.model for one in used if one.is_unpriced}),
        deleted_sessions=len({one.log.session for one in deleted}),
        deleted_usd=exact(_pico(deleted)),
        unrecorded_sessions=unrecorded,
    )


def _days(
    used: Sequence[PricedUsage], work: Sequence[PlacedCalls], clock: LocalTime, table: UsageTable
) -> list[StatDayDocument]:
    spent = _grouped(used, lambda one: (clock.of(one.quarter) or (UNKNOWN,))[0])
    done = _grouped(work, lambda one: (clock.of(one.quarter) or (UNKNOWN,))[0])
    return [_day(day, spent.get(day, ()), done.get(day, ()), table) for day in sorted({*spent, *done})]


def _day(
    day: str, used: Sequence[PricedUsage], called: Sequence[PlacedCalls], table: UsageTable
) -> StatDayDocument:
    worked = [one.quarter for one in called]
    unrecorded = table.unrecorded(min(worked), max(worked) + 1) if worked and not used else 0
    models = _grouped(used, lambda one: one.model)
    return StatDayDocument(
        day=day,
        cost_usd=_usd(used, unrecorded),
        responses=sum(one.responses for one in used),
        unpriced_responses=_unpriced(used),
        models={model: _usd(own) for model, own in sorted(models.items())},
        calls=sum(one.calls for one in called),
        failures=sum(one.calls for one in called if one.is_failed),
        edits=sum(one.calls for one in called if one.is_edit),
        commits=sum(one.calls for one in called if one.is_commit),
    )


def _hours(used: Iterable[PricedUsage], clock: LocalTime) -> list[StatHourDocument]:
    hours: defaultdict[tuple[int, int], list[PricedUsage]] = defaultdict(list)
    for one in used:
        at = clock.of(one.quarter)
        if at is not None:
            hours[at[1], at[2]].append(one)
    return [
        StatHourDocument(weekday, hour, sum(one.responses for one in own), _usd(own))
        for (weekday, hour), own in sorted(hours.items())
    ]


def _groups(used: Iterable[PricedUsage], key: Callable[[PricedUsage], str]) -> list[StatGroupDocument]:
    found = _grouped(used, key)
    ordered = sorted(found.items(), key=lambda pair: (-_pico(pair[1]), pair[0]))
    return [_group(name, own) for name, own in ordered]


def _group(name: str, own: Sequence[PricedUsage], directories: list[str] | None = None) -> StatGroupDocument:
    return StatGroupDocument(
        name=name,
        sessions=len({one.log.session for one in own}),
        responses=sum(one.responses for one in own),
        unpriced_responses=_unpriced(own),
        cost_usd=_usd(own),
        directories=directories,
    )


def _repositories(used: Iterable[PricedUsage]) -> list[StatGroupDocument]:
    found = _grouped(used, lambda one: one.log.repo)
    ordered = sorted(found.items(), key=lambda pair: (-_pico(pair[1]), pair[0]))
    return [_group(name, own, sorted({one.log.project for one in own})) for name, own in ordered]


def _top(used: Iterable[PricedUsage], names: SessionNames) -> TopSessionsDocument:
    found = _grouped(used, lambda one: one.log.session)
    found.pop(UNKNOWN, None)
    spent = {session: _pico(own) for session, own in found.items()}
    active = {session: len({one.quarter for one in own}) for session, own in found.items()}
    messages = {session: number for session, number in names.messages().items() if session in found}

    def first(measure: Mapping[str, int]) -> list[StatSessionDocument]:
        ordered = heapq.nsmallest(_TOP, measure, key=lambda session: (-measure[session], session))
        return [
            _session(session, found[session], names, messages.get(session))
            for session in ordered
            if measure[session]
        ]

    return TopSessionsDocument(first(spent), first(active), first(messages))


def _session(
    session: str, own: Sequence[PricedUsage], names: SessionNames, messages: int | None
) -> StatSessionDocument:
    return StatSessionDocument(
        id=session,
        title=names.title(session),
        project=own[0].log.project,
        cost_usd=_usd(own),
        unpriced_responses=_unpriced(own),
        responses=sum(one.responses for one in own),
        messages=messages,
        active_minutes=_QUARTER_MINUTES * len({one.quarter for one in own}),
        is_deleted=names.is_deleted(session),
    )


def _tools(called: Iterable[PlacedCalls], key: Callable[[PlacedCalls], str]) -> list[StatToolDocument]:
    found = _grouped(called, key)
    counted = [
        StatToolDocument(
            name=name,
            calls=sum(one.calls for one in own),
            failures=sum(one.calls for one in own if one.is_failed),
            retries=sum(one.calls for one in own if one.is_retry),
            duration_ms=sum(one.took for one in own),
            timed_calls=sum(one.timed for one in own),
            sessions=len({one.log.session for one in own}),
        )
        for name, own in found.items()
    ]
    return sorted(counted, key=lambda one: (-one.calls, one.name))


def _agents(
    used: Sequence[PricedUsage], started: Iterable[PlacedCalls], idle: int, unrecorded: int
) -> StatAgentsDocument:
    own = [one for one in used if is_agent(one.log)]
    return StatAgentsDocument(
        agents=len({one.log.path for one in own}) + idle,
        responses=sum(one.responses for one in own),
        cost_usd=_usd(own, 0 if used else unrecorded),
        types=_tools(started, lambda one: one.kind or UNKNOWN),
    )


def _savings(used: Iterable[PricedUsage], *, is_unknown: bool) -> CacheSavingsDocument:
    saved = read = written = spent = 0
    prices = price_list()
    for one in used:
        read += one.counts[4]
        written += one.counts[2] + one.counts[3]
        spent += one.pico_usd or 0
        price = None if one.pico_usd is None else prices.find(one.model, one.quarter, one.variant)
        if price is None or price.input is None:
            continue
        rates = (price.cache_write_5m, price.cache_write_1h, price.cache_read)
        for count, rate in zip(one.counts[2:5], rates, strict=True):
            if rate is not None:
                saved += count * (price.input - rate)
    return CacheSavingsDocument(
        saved_usd=None if is_unknown else exact(saved),
        read_tokens=read,
        written_tokens=written,
        uncached_usd=None if is_unknown else exact(spent + saved),
    )


def _blocks(
    opened: OpenIndex,
    project: str | None,
    timezone: str | None,
    *,
    now: dt.datetime,
    data: Path | None,
) -> StatBlocksDocument:
    report = costs(["block"], opened=opened, project=project, timezone=timezone, now=now)
    most = max(report.rows, key=lambda row: row.tokens.total, default=None)
    dearest = max((row.pico_usd for row in report.rows if row.usd is not None), default=None)
    is_known = not (report.rows or report.is_unknown)  # nothing was used: nothing was paid
    edge = (now - dt.timedelta(days=_BLOCK_DAYS)).strftime("%Y-%m-%dT%H:%M:%SZ")
    recent = [row for row in report.rows if row.end and row.end >= edge]
    limits = [] if data is None else _seen_limits(data, edge)
    return StatBlocksDocument(
        recent,
        0 if most is None else most.tokens.total,
        exact(dearest or 0) if is_known or dearest is not None else None,
        limits,
    )


def _seen_limits(data: Path, edge: str) -> list[RateLimitDocument]:
    """The most that was reported of each five-hour window since ``edge``."""
    most: dict[int | None, RateLimitDocument] = {}
    for one in seen_limits(str(data)):
        known = most.get(one.resets_at)
        is_more = known is None or one.used_percentage >= known.used_percentage
        if one.window == _FIVE_HOURS and one.at >= edge and is_more:
            most[one.resets_at] = one
    return sorted(most.values(), key=lambda one: one.at)
