"""The sessions behind a figure of the statistics."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from recollect.ask.cost.report import offset_of
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

_MOST = 500


_Short = Annotated[str, Meta(max_length=200)]


class Figure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which figure: of calls if ``work`` is set, else of responses. All that is given must fit."""

    work: Literal["calls", "failures", "retries", "edits", "commits"] | None = None
    tool: _Short | None = None
    kind: Annotated[_Short, Meta(description="the type of a sub-agent")] | None = None
    agents: Annotated[bool, Meta(description="of sub-agents only")] = False
    model: _Short | None = None
    repo: Annotated[str, Meta(max_length=1_000)] | None = None
    day: Annotated[str, Meta(max_length=10, description="2026-01-31, a day of that time zone")] | None = None
    weekday: Annotated[int, Meta(ge=0, le=6, description="Monday is 0")] | None = None
    hour: Annotated[int, Meta(ge=0, le=23)] | None = None


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


def sessions_behind(
    opened: OpenIndex,
    figure: Figure,
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    project: str | None = None,
    timezone: str | None = None,
) -> StatSessionsDocument:
    """The sessions that make up a figure of ``report`` with the same bounds."""
    table = UsageTable(opened, project)
    first, end = quarter_at(since), quarter_at(until)
    clock = LocalTime(offset_of(timezone))
    counted: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    projects: dict[str, str] = {}
    rows: Iterable[PlacedCalls | PricedUsage] = within(table.used, first, end)
    if figure.work is not None:
        rows = table.called(first, end, by_quarter=True)
        if figure.kind is not None:
            rows = table.started(rows, first, end)
    for one in rows:
        if not _fits(one, figure, clock):
            continue
        session = one.log.session
        projects.setdefault(session, one.log.project)
        if isinstance(one, PlacedCalls):
            counted[session] += one.calls
        else:
            counted[session] += one.responses
            spent[session] += one.pico_usd or 0
    ordered = sorted(counted, key=lambda session: (-spent[session], -counted[session], session))
    names = SessionNames(opened)
    return StatSessionsDocument(
        [
            StatShareDocument(
                id=session,
                title=names.title(session),
                project=projects[session],
                count=counted[session],
                cost_usd=None if figure.work is not None else exact(spent[session]),
                is_deleted=names.is_deleted(session),
            )
            for session in ordered[:_MOST]
        ],
        len(ordered),
    )


def _fits(one: PlacedCalls | PricedUsage, figure: Figure, clock: LocalTime) -> bool:
    if isinstance(one, PlacedCalls):
        if not _is_work(one, figure):
            return False
    elif figure.model is not None and one.model != figure.model:
        return False
    if (figure.repo is not None and one.log.repo != figure.repo) or (figure.agents and not is_agent(one.log)):
        return False
    if figure.day is None and figure.weekday is None and figure.hour is None:
        return True
    at = clock.of(one.quarter)
    return at is not None and all(
        wanted is None or wanted == own
        for wanted, own in zip((figure.day, figure.weekday, figure.hour), at, strict=True)
    )


def _is_work(one: PlacedCalls, figure: Figure) -> bool:
    fits = {
        "calls": True,
        "failures": one.is_failed,
        "retries": one.is_retry,
        "edits": one.is_edit,
        "commits": one.is_commit,
    }
    if figure.kind is not None and (one.kind or UNKNOWN) != figure.kind:
        return False
    return fits[figure.work or "calls"] and (figure.tool is None or one.tool == figure.tool)
