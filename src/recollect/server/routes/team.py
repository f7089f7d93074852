"""Queries of a team over HTTP: cost, search, and the caller's own token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from starlette.responses import Response

from recollect.errors import UsageError
from recollect.model.search.query import WordQuery
from recollect.model.search.snippet import snippet
from recollect.server.database.records import LineMatch, LineSearch
from recollect.server.facts import texts_of
from recollect.server.refusals import RequestRefused, invalid
from recollect.server.service import ServerRequest, answer
from recollect.server.team import ALIASES, KEYS, TeamCostReport, as_csv, as_parquet, cost_report
from recollect.server.tenancy import COST, end_of
from recollect.sync.wire import LineHit, LineHits, WhoAmI

_MOST_HITS = 200
_FORMATS: dict[str, Callable[[TeamCostReport], bytes]] = {
    "json": msgspec.json.encode,
    "csv": lambda report: as_csv(report).encode(),
    "parquet": as_parquet,
}
_MEDIA_TYPES = {"json": "application/json", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_WIDTH = 160


async def cost(ask: ServerRequest) -> Response:
    """GET /v1/cost."""
    ask.only("by", "since", "until", "format")
    by = _keys(ask)
    kind = ask.one("format") or "json"
    if kind not in _FORMATS:
        raise invalid("format: write json, csv or parquet")
    prices = ask.service.prices
    caller = ask.caller
    # Without the scope for all, a caller's own usage.
    person = None if COST in caller.scopes else caller.user.id
    sums = await ask.service.database.usage(
        ask.org, *ask.bounds(), by=by, changes=prices.changes(), reader=caller.reader, person=person
    )
    # A report by session may have many thousand rows: no part of it is built on the event loop.
    try:
        body = await asyncio.to_thread(lambda: _FORMATS[kind](cost_report(sums, by, prices)))
    except ImportError:
        raise RequestRefused(
            406,
            "format",
            "this server cannot write Parquet",
            "ask for csv or json, or install pyarrow on the server",
        ) from None
    return Response(body, media_type=_MEDIA_TYPES[kind])


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
    wanted = LineSearch(
        query, limit + 1, ask.one("session"), ask.one("project"), since, until, ask.caller.reader
    )
    found = await ask.service.database.search(ask.org, wanted)
    hits = [await _hit(ask, one, query) for one in found[:limit]]
    return answer(LineHits([hit for hit in hits if hit is not None], len(found) > limit))


async def _hit(ask: ServerRequest, found: LineMatch, query: WordQuery) -> LineHit | None:
    """A match with the words around it; None where it was removed meanwhile."""
    text = found.text if found.text is not None else await _read_text(ask, found)
    if text is None:
        return None
    return LineHit(*found[:5], snippet(text, query, _WIDTH).text)


async def _read_text(ask: ServerRequest, found: LineMatch) -> str | None:
    """The text of a line, from the line itself."""
    place = range(found.line, found.line + 1)
    async with ask.service.budget.fetching:
        async for segment in ask.service.database.segments(
            ask.org, found.session, found.key, found.line - 1, found.line
        ):
            for row in texts_of(segment.data, segment.first_line, place):
                return row.text
    return None


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
            caller.own_scopes,
            caller.token.machine,
            end_of(caller.token),
            ask.service.limits.for_clients(),
        )
    )
