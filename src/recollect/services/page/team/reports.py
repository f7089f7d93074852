"""Search and cost of a team's page: the server's own answers, as the documents of the page.

Days are those of UTC, as in `recollect team cost`. What the server does not know is refused, and never shown as nothing.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from recollect.errors import UsageError
from recollect.model import timespan
from recollect.model.cost.calendar import month_name, week_name
from recollect.model.cost.money import exact
from recollect.model.cost.report import MODES, CostRow, ranks_of
from recollect.model.cost.usage import Tokens
from recollect.model.search.query import WordQuery
from recollect.services.documents.cost.report import CostDocument, CostRowDocument, UnpricedModelDocument
from recollect.services.documents.cost.spending import counts
from recollect.services.documents.search import PageHitDocument, PageSearchDocument, SessionHitsDocument
from recollect.services.page.team.listing import unknown_to_the_server
from recollect.services.page.team.source import (
    FoundLine,
    FoundLines,
    LineQuestion,
    TeamCost,
    TeamList,
    TeamView,
)
from recollect.services.projects import ProjectFilter
from recollect.services.search.question import WORDS
from recollect.services.search.search import milliseconds
from recollect.sync.keys import names_of
from recollect.sync.wire import RemoteSession

_UTC = "UTC"
# What the page calls a key of a report, and what the server does. Weeks and months are days put together.
_KEYS = {
    "day": "day",
    "week": "day",
    "month": "day",
    "session": "session",
    "project": "project",
    "repo": "repository",
    "model": "model",
    "branch": "branch",
    "person": "person",
    "machine": "machine",
}
_AGENT = "agent-"
_MOST_AT_ONCE, _MOST_QUESTIONS = 200, 10
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_NOTE = "Days are those of UTC. Which outputs a client did not record to their end is known from the transcripts only."


# ---- search ----------------------------------------------------------------------------------------------


class TeamSearch(Struct, frozen=True, kw_only=True):
    """A search as the page asks for it."""

    text: str
    how: str = WORDS
    kinds: str | None = None
    # Only these; None: all.
    among: frozenset[str] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    rank: bool = False
    limit: int = 50
    width: int = 160


def search_document(view: TeamView, asked: TeamSearch, resume: Callable[[str], str]) -> PageSearchDocument:
    """The lines that `recollect team search` finds, by session."""
    if asked.how != WORDS:
        raise unknown_to_the_server(f"search by {asked.how}")
    for name in ("kinds", "rank"):
        if getattr(asked, name):
            raise unknown_to_the_server(f"search with {name}")
    started = time.perf_counter()
    found, is_more, searched_to = _found(view, asked)
    listed = view.listed(any_age=True)
    groups: dict[str, list[FoundLine]] = {}
    for one in found:
        groups.setdefault(one.session, []).append(one)
    return PageSearchDocument(
        query=asked.text,
        groups=[_group(name, lines, listed, resume(name)) for name, lines in groups.items()],
        total=len(found),
        total_is_exact=not is_more,
        is_loose=False,
        is_weak=False,
        shown=len(found),
        took_ms=round((time.perf_counter() - started) * 1000, 3),
        notes=[] if searched_to is None else [_ended_early(searched_to)],
    )


def _ended_early(searched_to: int) -> str:
    return (
        f"the words are in too many lines: only those after {_moment(searched_to)} were all looked at;"
        " choose an earlier span or rarer words"
    )


def _found(view: TeamView, asked: TeamSearch) -> FoundLines:
    """The newest lines. Where only some sessions are asked for, the server is asked for older ones until there are enough."""
    among, until = asked.among, milliseconds(asked.until)
    question = LineQuestion(
        WordQuery.parse(asked.text),
        asked.limit if among is None else _MOST_AT_ONCE,
        asked.width,
        milliseconds(asked.since),
        until,
    )
    found: dict[tuple[str, str, int], FoundLine] = {}
    for _ in range(_MOST_QUESTIONS):
        lines, is_more, searched_to = view.source.search(question)
        found.update({one[:3]: one for one in lines if among is None or one.session in among})
        oldest = searched_to if searched_to is not None else lines[-1].at if lines else None
        if among is None or not is_more or len(found) >= asked.limit or oldest is None:
            break
        if question.until == oldest + 1:
            break
        question = question._replace(until=oldest + 1)  # others of that moment may be missing
    is_full = len(found) >= asked.limit
    return FoundLines(
        list(found.values())[: asked.limit],
        is_more or len(found) > asked.limit,
        None if is_full else searched_to,
    )


def _group(name: str, lines: Sequence[FoundLine], listed: TeamList, resume: str) -> SessionHitsDocument:
    remote = listed.sessions.get(name)
    return SessionHitsDocument(
        session=name,
        title=None if remote is None else remote.title,
        project=None if remote is None else remote.cwd or remote.project,
        branch=None if remote is None else remote.branch,
        resume=resume,
        count=len(lines),
        hits=[
            PageHitDocument(
                uuid=None,
                agent=_agent(one.key),
                kind=one.type,
                at=None if one.at is None else _moment(one.at),
                offset=None,
                snippet=one.snippet,
                line=one.line,
            )
            for one in lines
        ],
    )


def _moment(milliseconds: int) -> str:
    moment = _EPOCH + dt.timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _agent(key: str) -> str | None:
    """The sub-agent whose log this is."""
    names = names_of(key) if key else [""]
    return names[-1].removeprefix(_AGENT) if names[-1].startswith(_AGENT) else None


# ---- cost ------------------------------------------------------------------------------------------------


class _Spent:
    """Rows put together: what they used, and how much of it has no price."""

    def __init__(self) -> None:
        self.responses = self.pico_usd = self.unpriced = 0
        self.tokens = Tokens()

    def add(self, row: TeamCost) -> None:
        self.responses += row.responses
        self.tokens += row.tokens
        self.pico_usd += row.pico_usd
        self.unpriced += row.responses if row.unpriced else 0

    def document(self, keys: dict[str, Any]) -> CostRowDocument:
        row = CostRow(keys, self.responses, self.tokens, self.pico_usd, self.unpriced)
        return CostRowDocument(
            responses=self.responses,
            messages=self.responses,
            **counts(self.tokens),
            cost_usd=None if row.is_unknown else exact(self.pico_usd),
            unpriced_responses=self.unpriced,
            **keys,
        )


class TeamCostQuery(Struct, frozen=True, kw_only=True):
    """A cost report as the page asks for it."""

    by: tuple[str, ...]
    since: str | None = None
    until: str | None = None
    timezone: str | None = None
    project: str | None = None
    model: str | None = None
    session: str | None = None
    mode: str = MODES[0]
    explain: bool = False


def cost_document(view: TeamView, asked: TeamCostQuery) -> CostDocument:
    """What `recollect team cost` reports, by the keys and with the filters of the page."""
    _check_cost(asked)
    first, end = timespan.bounds(asked.since, asked.until, dt.datetime.now(dt.UTC), dt.UTC)
    filters = [*(["project", "session"] if asked.project else []), *(["session"] if asked.session else [])]
    # By model too: a row then has a price, or it has none.
    keys = dict.fromkeys([*(_KEYS[name] for name in asked.by), *filters, "model"])
    report = view.source.cost(tuple(keys), milliseconds(first), milliseconds(end))
    sessions = view.listed(any_age=True).sessions
    in_project = _in_project(asked.project, sessions) if asked.project else None
    rows = [row for row in report.rows if (in_project is None or in_project(row)) and _fits(row, asked)]
    total, groups, unpriced = _Spent(), dict[tuple[str, ...], _Spent](), dict[str, _Spent]()
    for row in rows:
        total.add(row)
        groups.setdefault(tuple(_value(name, row) for name in asked.by), _Spent()).add(row)
        for model in row.unpriced:
            unpriced.setdefault(model, _Spent()).add(row)
    ranks = ranks_of(asked.by, [(key, one.pico_usd, one.tokens.total) for key, one in groups.items()])
    return CostDocument(
        by=asked.by,
        mode=asked.mode,
        timezone=_UTC,
        rows=[groups[key].document(_keys(asked.by, key, sessions)) for key in sorted(groups, key=ranks)],
        totals=total.document({}),
        unpriced=[
            UnpricedModelDocument(model=model, responses=spent.responses, **counts(spent.tokens))
            for model, spent in sorted(unpriced.items())
        ],
        uncertain=[],
        gone=0,
        notes=(_NOTE,),
    )


def _keys(by: Sequence[str], key: Sequence[str], sessions: Mapping[str, RemoteSession]) -> dict[str, str]:
    """The keys of a row, and the title of its session."""
    named = dict(zip(by, key, strict=True))
    remote = sessions.get(named.get("session", ""))
    return named if remote is None or not remote.title else {**named, "title": remote.title}


def _check_cost(asked: TeamCostQuery) -> None:
    for name in asked.by:
        if name not in _KEYS:
            raise unknown_to_the_server(f"cost by {name[:40]}")
    if len(set(asked.by)) != len(asked.by):
        raise UsageError("by: a key is given twice", hint="give each key once")
    if asked.mode != MODES[0] or asked.explain:
        raise unknown_to_the_server("cost as clients recorded it")
    if asked.timezone not in (None, "", _UTC):
        raise UsageError(
            f"timezone {asked.timezone[:64]!a}: a team's days are those of UTC", hint="leave it out"
        )


def _in_project(project: str, sessions: Mapping[str, RemoteSession]) -> Callable[[TeamCost], bool]:
    """Whether a row belongs to a project: by the directory its session is listed under; by what its client called the
    project where it is not listed any more."""
    fits = ProjectFilter(project).fits

    def belongs(row: TeamCost) -> bool:
        remote = sessions.get(row.keys["session"])
        return fits(row.keys["project"] if remote is None else remote.cwd or remote.project)

    return belongs


def _fits(row: TeamCost, asked: TeamCostQuery) -> bool:
    if asked.session and row.keys["session"] != asked.session:
        return False
    return not asked.model or asked.model.casefold() in row.keys["model"].casefold()


def _value(name: str, row: TeamCost) -> str:
    value = row.keys[_KEYS[name]]
    if name not in ("week", "month") or not value[:1].isdigit():
        return value
    day = dt.date.fromisoformat(value).toordinal() - _EPOCH.toordinal()
    return month_name(day) if name == "month" else week_name(day)
