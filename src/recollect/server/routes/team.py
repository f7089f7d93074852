"""Queries of a team over HTTP: cost, as sums grouped by the requested keys and priced by the local code, and search."""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import io
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, Literal, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from starlette.responses import Response

from recollect.index.schema import QUARTER_MS
from recollect.model.cost.money import NO_MODEL, exact
from recollect.model.cost.prices import PriceList
from recollect.model.lines.blocks import Tokens
from recollect.model.text.query import WordQuery
from recollect.model.text.snippet import snippet
from recollect.server.database.records import LineSearch, SessionReader, UsageQuestion, UsageSum
from recollect.server.facts import texts_of
from recollect.server.refusals import invalid
from recollect.server.service import ServerRequest, Service, Text, Time, bounds
from recollect.server.tenancy import COST
from recollect.share.sync.wire import LineHit, LineHits, TeamCostReport, TeamCostRow
from recollect.share.typed_http import Media

KEYS = ("person", "repository", "branch", "model", "project", "machine", "session", "day")
ALIASES = {"repo": "repository", "user": "person"}
_NOT_SAID = "(none)"
_FIRST_COUNT, _EPOCH = UsageSum._fields.index("input"), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COUNTS = ("input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches")
# A spreadsheet would treat such a cell as a formula, and branch names are untrusted.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class TeamCosts:
    """Sums by the keys of a report, priced.

    ``models``: those that were seen. ``unclear``: those with a price that lacks a class of tokens of a sum: some of its responses may
    have one all the same.
    """

    def __init__(self, by: Sequence[str], prices: PriceList) -> None:
        self.by, self._prices = list(by), prices
        self.models: set[str] = set()
        self.unclear: set[str] = set()
        self._tallies: dict[tuple[str, ...], list[int]] = {}
        self._unpriced: dict[tuple[str, ...], set[str]] = {}

    def add(self, sums: Iterable[UsageSum], without: Collection[str] = ()) -> Self:
        """By the rule of ``model.cost.money.priced``; sums of ``without`` are passed over."""
        for row in sums:
            if row.model in without:
                continue
            key = tuple(self._name(row, name) for name in self.by)
            if row.model:
                self.models.add(row.model)
            counts: Any = row[_FIRST_COUNT:]
            spent, missing = self._prices.cost(row.model or "", row.quarter, row.variant, counts)
            if missing is not None:
                self._unpriced.setdefault(key, set()).add(row.model or NO_MODEL)
                if row.model and missing is not counts:
                    self.unclear.add(row.model)
            known = self._tallies.setdefault(key, [0] * 8)
            for place, amount in enumerate((spent, row.messages, *counts)):
                known[place] += amount
        return self

    @staticmethod
    def _name(row: UsageSum, name: str) -> str:
        if name == "day":
            moment = _EPOCH + dt.timedelta(milliseconds=row.quarter * QUARTER_MS)
            return moment.date().isoformat() if row.quarter else _NOT_SAID
        return getattr(row, name) or (NO_MODEL if name == "model" else _NOT_SAID)

    def report(self) -> TeamCostReport:
        """Rows, the most expensive first, and the total."""
        ordered = sorted(self._tallies.items(), key=lambda row: (-row[1][0], -sum(row[1][2:7]), row[0]))
        rows = [
            _row(dict(zip(self.by, key, strict=True)), tally, self._unpriced.get(key, ()))
            for key, tally in ordered
        ]
        total = [sum(column) for column in zip([0] * 8, *self._tallies.values(), strict=True)]
        return TeamCostReport(self.by, rows, _row({}, total, set().union(*self._unpriced.values())))


def _row(keys: dict[str, str], tally: Sequence[int], unpriced: Collection[str]) -> TeamCostRow:
    pico_usd, responses, *counts = tally
    usd = None if unpriced and not pico_usd else exact(pico_usd)
    return TeamCostRow(keys, responses, Tokens(*counts), pico_usd, usd, sorted(unpriced))


def as_csv(report: TeamCostReport) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*report.by, "responses", *_COUNTS, "usd", "unpriced"])
    for row in report.rows:
        counts = [getattr(row.tokens, name) for name in _COUNTS]
        names = [_harmless(name) for name in row.keys.values()]
        writer.writerow([*names, row.responses, *counts, row.usd, _harmless(" ".join(row.unpriced))])
    return text.getvalue().encode()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


# --- the routes --------------------------------------------------------------------------------------------

_WORDS = "^[a-z0-9]{1,30}( [a-z0-9]{1,30}){0,4}$"  # for programs that make requests up
_FORMATS: dict[str, Callable[[TeamCostReport], bytes]] = {
    "json": msgspec.json.encode,
    "csv": as_csv,
}
_MEDIA_TYPES = {"json": "application/json", "csv": "text/csv"}
_WIDTH = 160


async def cost(
    ask: ServerRequest,
    by: Annotated[str, Meta(extra_json_schema={"pattern": f"^({'|'.join(KEYS)})$"})] = "person",
    since: Time = None,
    until: Time = None,
    format_: Literal["json", "csv"] = "json",
) -> Annotated[
    Response,
    Media("application/json", TeamCostReport),
    Media("text/csv", {"type": "string"}),
]:
    """The cost report."""
    keys = [ALIASES.get(name, name) for name in by.split(",")]
    if len(set(keys)) != len(keys) or not set(keys) <= set(KEYS):
        raise invalid("by: not valid", f"write one or more of {', '.join(KEYS)}, separated by commas")
    # Without the scope for all, a caller's own usage.
    person = None if COST in ask.caller.scopes else ask.caller.user.id
    report = await team_report(
        ask.service, ask.org, keys, bounds(since, until), reader=ask.caller.reader, person=person
    )
    data = await asyncio.to_thread(_FORMATS[format_], report)
    return Response(data, media_type=_MEDIA_TYPES[format_])


async def team_report(
    service: Service,
    org: str,
    by: Sequence[str],
    span: tuple[int | None, int | None],
    *,
    reader: SessionReader,
    person: str | None = None,
) -> TeamCostReport:
    """What the reader may know of, priced. No part of it is built on the event loop: it may have many thousand rows.

    Prices of Claude models hardly change, those of all others often. Whether an organisation uses others is seen in its sums, which
    are then asked for again, divided at those changes too. Where a price has a gap, what it does not cover is told apart from what it
    does, as in the library: by the responses.
    """
    prices, ask = service.prices, service.database.usage
    claude = prices.changes()
    question = UsageQuestion(span, by, claude, reader=reader, person=person)
    sums = await ask(org, question)
    if await asyncio.to_thread(prices.changes, {row.model for row in sums if row.model}) != claude:
        question = question._replace(other_changes=prices.other_changes)
        sums = await ask(org, question)
    costs = await asyncio.to_thread(TeamCosts(by, prices).add, sums)
    if costs.unclear:
        unclear = sorted(costs.unclear)
        apart = await ask(org, question._replace(models=unclear))
        costs = await asyncio.to_thread(TeamCosts(by, prices).add, sums, unclear)
        await asyncio.to_thread(costs.add, apart)
    return await asyncio.to_thread(costs.report)


async def search(
    ask: ServerRequest,
    *,
    q: Annotated[str, Meta(max_length=4_096, extra_json_schema={"pattern": _WORDS})],
    limit: Annotated[int, Meta(ge=1, le=200)] = 50,
    since: Time = None,
    until: Time = None,
    session: Text | None = None,
    project: Text | None = None,
) -> LineHits:
    """Lines that match a search."""
    query = WordQuery.parse(q)
    wanted = LineSearch(query, limit, session, project, *bounds(since, until), ask.caller.reader)
    found = await found_lines(ask.service, ask.org, wanted)
    return replace(
        found, hits=[replace(hit, snippet=snippet(hit.snippet, query, _WIDTH).text) for hit in found.hits]
    )


async def found_lines(service: Service, org: str, wanted: LineSearch) -> LineHits:
    """The lines that match, each with all its words."""
    found = await service.database.search(org, wanted._replace(limit=wanted.limit + 1))
    lines = []
    for line in found.hits[: wanted.limit]:
        text = line.snippet or await _read_text(service, org, line)
        if text is not None:  # else it was removed meanwhile
            lines.append(replace(line, snippet=text))
    return LineHits(lines, len(found.hits) > wanted.limit or found.searched_to is not None, found.searched_to)


async def _read_text(service: Service, org: str, line: LineHit) -> str | None:
    """The text of a line, from the line itself."""
    place = range(line.line, line.line + 1)
    async with service.budget.fetching:
        async for segment in service.database.segments(org, line.session, line.key, line.line - 1, line.line):
            for row in texts_of(segment.data, segment.first_line, place):
                return row.text
    return None
