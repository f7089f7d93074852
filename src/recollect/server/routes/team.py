"""Queries of a team over HTTP: cost, search, and the caller's own token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

from starlette.responses import Response, StreamingResponse

from recollect.errors import UsageError
from recollect.model.search.query import WordQuery
from recollect.model.search.snippet import Snippet, snippet
from recollect.server.database.records import LineMatch, LineSearch, SessionReader
from recollect.server.facts import texts_of
from recollect.server.refusals import RequestRefused, invalid
from recollect.server.service import ServerRequest, Service, answer
from recollect.server.team import ALIASES, KEYS, TeamCosts, as_csv, as_json, as_parquet
from recollect.server.tenancy import COST, end_of
from recollect.sync.wire import LineHit, LineHits, WhoAmI

_MOST_HITS = 200
_FORMATS: dict[str, Callable[[TeamCosts], Iterator[bytes]]] = {
    "json": as_json,
    "csv": as_csv,
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
    # Without the scope for all, a caller's own usage.
    person = None if COST in ask.caller.scopes else ask.caller.user.id
    costs = await team_costs(ask.service, ask.org, by, ask.bounds(), reader=ask.caller.reader, person=person)

    # A report by session may have many thousand rows: no part of it is built on the event loop, and none before it is sent.
    pieces = _FORMATS[kind](costs)
    try:
        first = await asyncio.to_thread(next, pieces, b"")
    except ImportError:
        raise RequestRefused(
            406,
            "format",
            "this server cannot write Parquet",
            "ask for csv or json, or install pyarrow on the server",
        ) from None
    return StreamingResponse(_from(first, pieces), media_type=_MEDIA_TYPES[kind])


async def _from(piece: bytes, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """This piece, and each of the others when the one before it was sent."""
    while piece:
        yield piece
        piece = await asyncio.to_thread(next, pieces, b"")


async def team_costs(
    service: Service,
    org: str,
    by: Sequence[str],
    span: tuple[int | None, int | None],
    *,
    reader: SessionReader,
    person: str | None = None,
) -> TeamCosts:
    """What the reader may know of, priced.

    Prices of Claude models hardly change, those of all others often, and then days are read where else weeks would do. Whether
    an organisation uses others is seen in its sums, which are then asked for again, and remembered. Where a price has a gap, what it does
    not cover is told apart from what it does, as in the library: by the responses.
    """
    prices = service.prices
    claude = prices.changes()
    usage = partial(service.database.usage, org, *span, by=by, changes=claude, reader=reader, person=person)
    others = prices.other_changes if org in service.other_models else ()
    costs = TeamCosts(by, prices)
    await usage(other_changes=others, into=costs)
    if not others and await asyncio.to_thread(prices.changes, costs.models) != claude:
        service.other_models.add(org)
        others = prices.other_changes
        await usage(other_changes=others, into=costs)
    if not costs.unclear:
        return costs
    unclear = sorted(costs.unclear)
    costs, apart = TeamCosts(by, prices, without=unclear), TeamCosts(by, prices)
    await usage(other_changes=others, into=costs)
    await usage(other_changes=others, models=unclear, into=apart)
    await asyncio.to_thread(costs.add, apart)
    return costs


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
    wanted = LineSearch(query, limit, ask.one("session"), ask.one("project"), since, until, ask.caller.reader)
    found, more, searched_to = await found_lines(ask.service, ask.org, wanted, _WIDTH)
    return answer(LineHits([LineHit(*one[:5], shown.text) for one, shown in found], more, searched_to))


async def found_lines(
    service: Service, org: str, wanted: LineSearch, width: int
) -> tuple[list[tuple[LineMatch, Snippet]], bool, int | None]:
    """The lines that match, each with the words around; whether there are or may be more; and where the search ended
    early, up to when it came."""
    found, searched_to = await service.database.search(org, wanted._replace(limit=wanted.limit + 1))
    lines = []
    for one in found[: wanted.limit]:
        text = one.text if one.text is not None else await _read_text(service, org, one)
        if text is not None:  # else it was removed meanwhile
            lines.append((one, snippet(text, wanted.query, width)))
    return lines, len(found) > wanted.limit or searched_to is not None, searched_to


async def _read_text(service: Service, org: str, found: LineMatch) -> str | None:
    """The text of a line, from the line itself."""
    place = range(found.line, found.line + 1)
    async with service.budget.fetching:
        async for segment in service.database.segments(
            org, found.session, found.key, found.line - 1, found.line
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
