"""Search and cost of a team's page: the server's own answers, as the documents of the page.

Days are those of UTC, as in `recollect team cost`. What the server does not know is refused, and never shown as nothing.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence

from recollect.ask.search.hits import SearchHit, SessionHits
from recollect.ask.search.question import WORDS
from recollect.ask.search.search import milliseconds
from recollect.ask.sessions.projects import ProjectFilter
from recollect.errors import UsageError
from recollect.model.cost.aggregator import ranks_of
from recollect.model.cost.calendar import month_name, week_name
from recollect.model.cost.money import members_of
from recollect.model.cost.report import MODES, CostReport, CostRow, UnpricedModel
from recollect.model.lines.blocks import Tokens
from recollect.model.text import timespan
from recollect.model.text.query import WordQuery
from recollect.model.text.snippet import snippet
from recollect.server.database.records import LineSearch
from recollect.server.page.listing import TeamList, TeamView, unknown_to_the_server
from recollect.share.sync.wire import LineHit, LineHits, RemoteSession, TeamCostRow, names_of
from recollect.web.parameters import CostQuery, SearchQuery
from recollect.web.search import PageSearchDocument

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
_EARLY = "the words are in too many lines: only those after {} were all looked at; choose an earlier span or rarer words"
_NOTE = "Days are those of UTC. Which outputs a client did not record to their end is known from the transcripts only."


# ---- search ----------------------------------------------------------------------------------------------


def search_document(
    view: TeamView, query: SearchQuery, among: frozenset[str] | None, resume: Callable[[str], str | None]
) -> PageSearchDocument:
    """The lines that `recollect team search` finds, by session. ``among``: only in these."""
    if query.how != WORDS:
        raise unknown_to_the_server(f"search by {query.how}")
    for name in ("kinds", "rank"):
        if getattr(query, name):
            raise unknown_to_the_server(f"search with {name}")
    started = time.perf_counter()
    since, until = timespan.bounds(query.since or None, query.until or None, dt.datetime.now(dt.UTC))
    words = WordQuery.parse(query.q)
    wanted = LineSearch(words, query.limit, since=milliseconds(since), until=milliseconds(until))
    matches = _matches(view, wanted, among)
    listed = view.listed(any_age=True)
    groups: dict[str, list[LineHit]] = {}
    for line in matches.hits:
        groups.setdefault(line.session, []).append(line)
    early = matches.searched_to
    return PageSearchDocument(
        query=query.q,
        groups=[
            _group(name, [_hit(line, words, query.width) for line in lines], listed, resume(name))
            for name, lines in groups.items()
        ],
        total=len(matches.hits),
        total_is_exact=not matches.more,
        is_loose=False,
        is_weak=False,
        shown=len(matches.hits),
        took_ms=round((time.perf_counter() - started) * 1000, 3),
        notes=[] if early is None else [_EARLY.format(_moment(early))],
    )


def _matches(view: TeamView, wanted: LineSearch, among: frozenset[str] | None) -> LineHits:
    """The newest lines. Where only some sessions are asked for, the server is asked for older ones until there are enough."""
    if among is None:
        return view.source.search(wanted)
    limit, question = wanted.limit, wanted._replace(limit=_MOST_AT_ONCE)
    known: dict[tuple[str, str, int], LineHit] = {}
    for _ in range(_MOST_QUESTIONS):
        found = view.source.search(question)
        known |= {(line.session, line.key, line.line): line for line in found.hits if line.session in among}
        oldest = (
            found.searched_to if found.searched_to is not None else found.hits[-1].at if found.hits else None
        )
        if not found.more or len(known) >= limit or oldest is None or question.until == oldest + 1:
            break
        question = question._replace(until=oldest + 1)  # others of that moment may be missing
    searched_to = None if len(known) >= limit else found.searched_to
    return LineHits(list(known.values())[:limit], found.more or len(known) > limit, searched_to)


def _group(name: str, hits: list[SearchHit], listed: TeamList, resume: str | None) -> SessionHits:
    remote = listed.sessions.get(name)
    return SessionHits(
        session=name,
        title=None if remote is None else remote.title,
        project=None if remote is None else remote.cwd or remote.project,
        branch=None if remote is None else remote.branch,
        resume=resume,
        count=len(hits),
        hits=hits,
    )


def _hit(line: LineHit, words: WordQuery, width: int) -> SearchHit:
    return SearchHit(
        session=line.session,
        agent=_agent(line.key),
        kind=line.type,
        at=None if line.at is None else _moment(line.at),
        snippet=snippet(line.snippet, words, width),
        line=line.line,
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

    def add(self, row: TeamCostRow) -> None:
        self.responses += row.responses
        self.tokens += row.tokens
        self.pico_usd += row.pico_usd
        self.unpriced += row.responses if row.unpriced else 0

    def row(self, keys: Mapping[str, str]) -> CostRow:
        return CostRow.of(keys, self.responses, self.tokens, self.pico_usd, self.unpriced)


def cost_report(view: TeamView, query: CostQuery) -> CostReport:
    """What `recollect team cost` reports, by the keys and with the filters of the page."""
    by = tuple(key for key in query.by.split(",") if key)
    _check_cost(query, by)
    first, end = timespan.bounds(query.since, query.until, dt.datetime.now(dt.UTC), dt.UTC)
    filters = [*(["project", "session"] if query.project else []), *(["session"] if query.session else [])]
    # By model too: a row then has a price, or it has none.
    keys = dict.fromkeys([*(_KEYS[name] for name in by), *filters, "model"])
    report = view.source.cost(tuple(keys), milliseconds(first), milliseconds(end))
    sessions = view.listed(any_age=True).sessions
    in_project = _in_project(query.project, sessions) if query.project else None
    rows = [row for row in report.rows if (in_project is None or in_project(row)) and _fits(row, query)]
    total, groups, unpriced = _Spent(), dict[tuple[str, ...], _Spent](), dict[str, _Spent]()
    for row in rows:
        total.add(row)
        groups.setdefault(tuple(_value(name, row) for name in by), _Spent()).add(row)
        for model in row.unpriced:
            unpriced.setdefault(model, _Spent()).add(row)
    ranks = ranks_of(by, [(key, spent.pico_usd, spent.tokens.total) for key, spent in groups.items()])
    return CostReport(
        by=by,
        mode=query.mode,
        timezone=_UTC,
        rows=tuple(groups[key].row(_keys(by, key, sessions)) for key in sorted(groups, key=ranks)),
        totals=total.row({}),
        unpriced=tuple(
            UnpricedModel(model=model, responses=spent.responses, **members_of(spent.tokens))
            for model, spent in sorted(unpriced.items())
        ),
        notes=(_NOTE,),
    )


def _keys(by: Sequence[str], key: Sequence[str], sessions: Mapping[str, RemoteSession]) -> dict[str, str]:
    """The keys of a row, and the title of its session."""
    named = dict(zip(by, key, strict=True))
    remote = sessions.get(named.get("session", ""))
    return named if remote is None or not remote.title else {**named, "title": remote.title}


def _check_cost(query: CostQuery, by: Sequence[str]) -> None:
    for name in by:
        if name not in _KEYS:
            raise unknown_to_the_server(f"cost by {name[:40]}")
    if len(set(by)) != len(by):
        raise UsageError("by: a key is given twice", hint="give each key once")
    if query.mode != MODES[0] or query.explain:
        raise unknown_to_the_server("cost as clients recorded it")
    if query.timezone not in (None, "", _UTC):
        raise UsageError(
            f"timezone {query.timezone[:64]!a}: a team's days are those of UTC", hint="leave it out"
        )


def _in_project(project: str, sessions: Mapping[str, RemoteSession]) -> Callable[[TeamCostRow], bool]:
    """Whether a row belongs to a project: by the directory its session is listed under; by what its client called the
    project where it is not listed any more."""
    fits = ProjectFilter(project).fits

    def belongs(row: TeamCostRow) -> bool:
        remote = sessions.get(row.keys["session"])
        return fits(row.keys["project"] if remote is None else remote.cwd or remote.project)

    return belongs


def _fits(row: TeamCostRow, query: CostQuery) -> bool:
    if query.session and row.keys["session"] != query.session:
        return False
    return not query.model or query.model.casefold() in row.keys["model"].casefold()


def _value(name: str, row: TeamCostRow) -> str:
    value = row.keys[_KEYS[name]]
    if name not in ("week", "month") or not value[:1].isdigit():
        return value
    day = dt.date.fromisoformat(value).toordinal() - _EPOCH.toordinal()
    return month_name(day) if name == "month" else week_name(day)
