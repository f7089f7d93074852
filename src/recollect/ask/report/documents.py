"""What was done and what it cost, over all sessions: ``stats --json`` and the home screen of the page."""

from __future__ import annotations

import datetime as dt

from msgspec import Struct

from recollect.model.cost.report import CostRow
from recollect.model.lines.damage import brief_repr


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


class SeenLimitDocument(Struct, frozen=True, kw_only=True):
    """The most that a client reported as used of one five-hour window, and when."""

    used_percentage: int
    at: str
    resets_at: dt.datetime | None


class StatBlocksDocument(Struct, frozen=True):
    """Five-hour blocks, the newest last, as ``cost --by block`` has them, and the most that one block held.

    ``limits``: the limit as clients reported it to `recollect statusline`, one for each window, the newest last.
    """

    rows: list[CostRow]
    most_tokens: int
    most_cost_usd: str | None
    limits: list[SeenLimitDocument]


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


class StatSessionsDocument(Struct, frozen=True):
    """The sessions behind one figure, those with most of it first. ``count`` is how much of it each has."""

    sessions: list[StatShareDocument]
    total: int


class StatShareDocument(Struct, frozen=True, kw_only=True):
    """A session, and its part of a figure: calls, edits, commits, or responses and their cost."""

    id: str
    title: str
    project: str
    count: int
    cost_usd: str | None
    is_deleted: bool
