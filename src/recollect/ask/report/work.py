"""What was done in a time and what it cost, on one page: by project, with the sessions that did it."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from recollect.ask.report.usage import PlacedCalls, PricedUsage, SessionNames, UsageTable, quarter_at, within
from recollect.index.access import OpenIndex
from recollect.model.cost.calendar import NO_TIME, UNKNOWN
from recollect.model.cost.money import Usd, usd

_QUARTER_MINUTES = 15


class SessionWork(Struct, frozen=True, kw_only=True, rename={"usd": "cost_usd"}):
    """A session's share. ``usd`` is None where nothing it used has a price, or nothing says what it used; ``minutes`` are quarters of an hour with an answer."""

    id: str
    title: str
    agent: str
    usd: Usd | None
    minutes: int
    edits: int
    commits: int
    failures: int
    is_deleted: bool = False


class ProjectWork(Struct, frozen=True, kw_only=True, rename={"usd": "cost_usd"}):
    """A project with its sessions, the dearest first."""

    project: str
    usd: Usd | None
    minutes: int
    edits: int
    commits: int
    failures: int
    sessions: list[SessionWork]


class WorkReport(Struct, frozen=True, kw_only=True, rename={"usd": "cost_usd"}):
    """All of it. ``failed_tools`` are the tools whose calls failed, the most first. ``unpriced`` names models without a price;
    of ``unrecorded_sessions`` their agents wrote down no usage.
    """

    since: dt.datetime | None
    until: dt.datetime | None
    usd: Usd | None
    sessions: int
    minutes: int
    edits: int
    commits: int
    failures: int
    failed_tools: list[tuple[str, int]]
    unpriced: list[str]
    unrecorded_sessions: int
    projects: list[ProjectWork]


def report_work(
    opened: OpenIndex,
    *,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    project: str | None = None,
) -> WorkReport:
    """The work between two moments; of one project, or of all."""
    table, first, end = UsageTable(opened, project), quarter_at(since), quarter_at(until)
    used, called = within(table.used, first, end), table.called(first, end)
    names = SessionNames(opened)
    by_session: defaultdict[tuple[str, str], list[PricedUsage]] = defaultdict(list)
    calls: defaultdict[tuple[str, str], list[PlacedCalls]] = defaultdict(list)
    for row in used:
        by_session[row.log.project, row.log.session].append(row)
    for call in called:
        calls[call.log.project, call.log.session].append(call)
    projects: defaultdict[str, list[SessionWork]] = defaultdict(list)
    for key in {**by_session, **calls}:
        projects[key[0]].append(_session(key[1], by_session[key], calls[key], names))
    done = [_project(name, sessions) for name, sessions in projects.items()]
    done.sort(key=lambda one: (-(one.usd or 0), one.project))
    failed = Counter[str]()
    for call in called:
        failed[call.tool] += call.calls if call.is_failed else 0
    return WorkReport(
        since=since,
        until=until,
        usd=None if not used and table.unrecorded(first, end) else _usd(used),
        sessions=len({session for _, session in {**by_session, **calls}}),
        minutes=sum(one.minutes for one in done),
        edits=sum(one.edits for one in done),
        commits=sum(one.commits for one in done),
        failures=sum(one.failures for one in done),
        failed_tools=[(tool, count) for tool, count in failed.most_common() if count],
        unpriced=sorted({row.model for row in used if row.is_unpriced}),
        unrecorded_sessions=table.unrecorded(first, end),
        projects=done,
    )


def _session(
    session: str, used: Sequence[PricedUsage], calls: Sequence[PlacedCalls], names: SessionNames
) -> SessionWork:
    log = (used or calls)[0].log
    return SessionWork(
        id=session,
        title="" if session == UNKNOWN else names.title(session),
        agent=log.client,
        usd=_usd(used) if used else None,  # it did something, and nothing says what that used
        minutes=_QUARTER_MINUTES * len({row.quarter for row in used if row.quarter != NO_TIME}),
        edits=sum(call.calls for call in calls if call.is_edit),
        commits=sum(call.calls for call in calls if call.is_commit),
        failures=sum(call.calls for call in calls if call.is_failed),
        is_deleted=names.is_deleted(session),
    )


def _project(project: str, sessions: list[SessionWork]) -> ProjectWork:
    sessions.sort(key=lambda one: (-(one.usd or 0), one.id))
    known = [session.usd for session in sessions if session.usd is not None]
    return ProjectWork(
        project=project,
        usd=Usd(sum(known)) if known else None,
        minutes=sum(session.minutes for session in sessions),
        edits=sum(session.edits for session in sessions),
        commits=sum(session.commits for session in sessions),
        failures=sum(session.failures for session in sessions),
        sessions=sessions,
    )


def _usd(used: Iterable[PricedUsage]) -> Usd | None:
    """Exact dollars; None where something was used and nothing of it has a price."""
    rows = list(used)
    if rows and all(row.pico_usd is None for row in rows):
        return None
    return usd(sum(row.pico_usd or 0 for row in rows))
