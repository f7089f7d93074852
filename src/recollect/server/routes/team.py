"""Queries of a team over HTTP: cost, search, and the caller's own token."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from recollect.errors import UsageError
from recollect.model.line_views.facts import facts_of
from recollect.model.search.query import WordQuery
from recollect.model.search.snippet import snippet
from recollect.server.database.records import LineMatch
from recollect.server.facts import lines_of
from recollect.server.refusals import RequestRefused, invalid
from recollect.server.service import ServerRequest, answer
from recollect.server.team import ALIASES, KEYS, as_csv, as_parquet, cost_report
from recollect.sync.wire import LineHit, LineHits, WhoAmI

_MOST_HITS = 200
_WIDTH = 160


async def cost(ask: ServerRequest) -> Response:
    """GET /v1/cost."""
    ask.only("by", "since", "until", "format")
    by = _keys(ask)
    kind = ask.one("format") or "json"
    if kind not in ("json", "csv", "parquet"):
        raise invalid("format: write json, csv or parquet")
    sums = await ask.service.database.usage(ask.org, *ask.bounds())
    report = await asyncio.to_thread(cost_report, sums, by, ask.service.prices)
    if kind == "csv":
        return Response(as_csv(report), media_type="text/csv")
    if kind == "json":
        return answer(report)
    try:
        table = await asyncio.to_thread(as_parquet, report)
    except ImportError:
        raise RequestRefused(
            406,
            "format",
            "this server cannot write Parquet",
            "ask for csv or json, or install pyarrow on the server",
        ) from None
    return Response(table, media_type="application/vnd.apache.parquet")


def _keys(ask: ServerRequest) -> list[str]:
    text = ask.one("by")
    asked = ["person"] if text is None else text.split(",")
    by = [ALIASES.get(name, name) for name in asked]
    if len(set(by)) != len(by) or not set(by) <= set(KEYS):
        raise invalid("by: not valid", f"write one or more of {', '.join(KEYS)}, separated by commas")
    return by


async def search(ask: ServerRequest) -> Response:
    """GET /v1/search."""
    ask.only("q", "limit", "since", "until", "session", "project")
    try:
        query = WordQuery.parse(ask.one("q") or "")
    except UsageError as problem:
        raise invalid(problem.message, problem.hint) from None
    limit = ask.number("limit", 50, 1, _MOST_HITS)
    since, until = ask.bounds()
    found = await ask.service.database.search(
        ask.org,
        query,
        session=ask.one("session"),
        project=ask.one("project"),
        since=since,
        until=until,
        limit=limit + 1,
    )
    hits = [await _hit(ask, one, query) for one in found[:limit]]
    return answer(LineHits([hit for hit in hits if hit is not None], len(found) > limit))


async def _hit(ask: ServerRequest, found: LineMatch, query: WordQuery) -> LineHit | None:
    """A match with the words around it, from the line itself; None where it was removed meanwhile."""
    line = None
    index = found.line - 1
    async with ask.service.budget.fetching:
        async for segment in ask.service.database.segments(
            ask.org, found.session, found.key, index, found.line
        ):
            for number, data in enumerate(lines_of(segment.data), segment.first_line):
                if number == index:
                    line = data
                    break
    if line is None:
        return None
    facts = facts_of(line)
    text = "\n".join(part for part in (facts.texts if facts and facts.texts else ()) if part)
    shown = snippet(text, query, _WIDTH).text
    return LineHit(found.session, found.key, found.line, found.at, found.type, shown)


async def whoami(ask: ServerRequest) -> Response:
    """GET /v1/whoami."""
    ask.only()
    caller = ask.caller
    return answer(
        WhoAmI(
            caller.org.id,
            caller.org.name,
            caller.user.id,
            caller.user.name,
            caller.user.role,
            sorted(caller.scopes),
            caller.token.machine,
            caller.token.expires,
            ask.service.limits.for_clients(),
        )
    )
