"""A cost report as JSON, the same for ``cost --json`` and the page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs

from recollect.ask.cost.report import costs
from recollect.index.access import OpenIndex
from recollect.model.cost.money import Spending, exact
from recollect.model.cost.report import MODES, CostExplanation, CostReport, CostRow
from recollect.model.lines.blocks import Tokens


class TokensDocument(Struct, frozen=True, kw_only=True):
    """Tokens by kind."""

    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int


class SpendingDocument(TokensDocument, frozen=True, kw_only=True):
    """Tokens and exact dollars; no amount if a model has no price. ``known_cost_usd``: the models that have one."""

    cost_usd: str | None
    known_cost_usd: str
    unpriced: list[str]


class AmountDocument(Struct, frozen=True):
    """Exact dollars; no amount if a model has no price or the index does not know it yet."""

    cost_usd: str | None
    unpriced: list[str]
    known_cost_usd: str | None = None


def counts(tokens: Tokens) -> dict[str, Any]:
    """Tokens as members of a document."""
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_write_5m_tokens": tokens.cache_write_5m,
        "cache_write_1h_tokens": tokens.cache_write_1h,
        "cache_read_tokens": tokens.cache_read,
        "web_searches": tokens.web_searches,
    }


def spending_members(spending: Spending) -> dict[str, Any]:
    """The cost of some responses, as members of a document."""
    cost = None if spending.unpriced else exact(spending.pico_usd)
    known = exact(spending.pico_usd)
    return {
        "cost_usd": cost,
        "known_cost_usd": known,
        "unpriced": sorted(spending.unpriced),
        **counts(spending.tokens),
    }


def spending_document(spending: Spending) -> SpendingDocument:
    return SpendingDocument(**spending_members(spending))


class CostExplanationDocument(Struct, frozen=True, kw_only=True):
    """Where the figures of a row come from."""

    logs: int
    paths: tuple[str, ...]
    copies_dropped: int
    prices: tuple[str, ...]
    uncertain_responses: int
    recorded_cost_usd: str
    unrecorded_responses: int
    difference_usd: str


class CostRowDocument(Struct, frozen=True, kw_only=True):
    """One row, with the requested keys, ``person`` and ``machine`` on a team's page. A block has a start and an end, the current one a projection.

    ``cost_usd`` leaves out the tokens without a price of ``unpriced_responses`` and what ``unrecorded_responses`` count, and is null if they are all
    there is, or no usage was recorded. ``messages`` is the number of ``responses`` under its former name, which other programs rely on.
    ``is_unlogged`` is there where the row is what a client recorded and its log lacks (mode auto).
    """

    day: str | UnsetType = UNSET
    week: str | UnsetType = UNSET
    month: str | UnsetType = UNSET
    session: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    project: str | UnsetType = UNSET
    client: str | UnsetType = UNSET
    repo: str | UnsetType = UNSET
    model: str | UnsetType = UNSET
    branch: str | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    tool: str | UnsetType = UNSET
    prompt: str | UnsetType = UNSET
    typed: str | UnsetType = UNSET
    block: str | UnsetType = UNSET
    person: str | UnsetType = UNSET
    machine: str | UnsetType = UNSET
    responses: int
    messages: int
    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int
    cost_usd: str | None
    unpriced_responses: int
    unrecorded_responses: int | UnsetType = UNSET
    start: str | UnsetType = UNSET
    end: str | UnsetType = UNSET
    is_active: bool | UnsetType = UNSET
    minutes_left: int | UnsetType | None = UNSET
    tokens_per_minute: int | UnsetType | None = UNSET
    cost_usd_per_hour: str | UnsetType = UNSET
    projected_tokens: int | UnsetType | None = UNSET
    projected_cost_usd: str | UnsetType = UNSET
    timed_responses: int | UnsetType = UNSET
    duration_ms: int | UnsetType = UNSET
    tokens_per_second: float | UnsetType | None = UNSET
    tokens_per_dollar: float | UnsetType | None = UNSET
    explain: CostExplanationDocument | UnsetType = UNSET
    is_unlogged: bool | UnsetType = UNSET


class UnpricedModelDocument(TokensDocument, frozen=True, kw_only=True):
    """A model without a price, and its tokens."""

    model: str
    responses: int


class UncertainModelDocument(Struct, frozen=True):
    """A model whose client did not record the final output."""

    model: str
    responses: int
    output_tokens: int
    cost_usd: str
    versions: tuple[str, ...] | UnsetType = UNSET


class CostDocument(Struct, frozen=True, kw_only=True):
    """A cost report. ``gone`` counts sessions that were deleted and are still in the totals."""

    by: tuple[str, ...]
    mode: str
    timezone: str
    rows: list[CostRowDocument]
    totals: CostRowDocument
    unpriced: list[UnpricedModelDocument]
    uncertain: list[UncertainModelDocument]
    gone: int
    notes: tuple[str, ...]
    unrecorded_sessions: int | UnsetType = UNSET


def cost_document(report: CostReport, rows: Sequence[CostRow], timezone: str | None) -> CostDocument:
    """A report, or some of its rows with the totals of all."""
    totals = _row(report.totals, report.mode)
    return CostDocument(
        by=report.by,
        mode=report.mode,
        timezone=timezone or "local",
        rows=[_row(row, report.mode, report.titles) for row in rows],
        totals=structs.replace(totals, cost_usd=None) if report.is_unknown else totals,
        unpriced=[
            UnpricedModelDocument(model=one.model, responses=one.responses, **counts(one.tokens))
            for one in report.unpriced
        ],
        uncertain=[
            UncertainModelDocument(
                one.model, one.responses, one.output_tokens, exact(one.pico_usd), one.versions or UNSET
            )
            for one in report.uncertain
        ],
        gone=report.gone,
        notes=report.notes,
        unrecorded_sessions=report.unrecorded_sessions or UNSET,
    )


def _row(row: CostRow, mode: str, titles: Mapping[str, str] = MappingProxyType({})) -> CostRowDocument:
    more: dict[str, Any] = {**row.keys, **_block(row)}
    for key, member in (("session", "title"), ("prompt", "typed")):
        if row.keys.get(key) in titles:
            more[member] = titles[row.keys[key]]
    if mode != MODES[0]:
        more["unrecorded_responses"] = row.unrecorded_responses
    speed = row.performance
    if speed is not None:
        more |= {
            "timed_responses": speed.responses,
            "duration_ms": speed.duration_ms,
            "tokens_per_second": speed.tokens_per_second,
            "tokens_per_dollar": speed.tokens_per_dollar,
        }
    if row.is_unlogged:
        more["is_unlogged"] = True
    if row.explanation is not None:
        more["explain"] = _explanation(row.explanation)
    return CostRowDocument(
        responses=row.responses,
        messages=row.responses,
        **counts(row.tokens),
        cost_usd=None if row.is_unknown else exact(row.pico_usd),
        unpriced_responses=row.unpriced_responses,
        **more,
    )


def _block(row: CostRow) -> dict[str, object]:
    block = row.block
    if block is None:
        return {}
    members: dict[str, object] = {"start": block.start, "end": block.end, "is_active": block.is_active}
    if block.is_active:
        members |= {
            "minutes_left": block.minutes_left,
            "tokens_per_minute": block.tokens_per_minute,
            "projected_tokens": block.projected_tokens,
        }
        if not row.is_unknown:
            members["cost_usd_per_hour"] = exact(block.pico_usd_per_hour or 0)
            members["projected_cost_usd"] = exact(block.projected_pico_usd or 0)
    return members


def _explanation(why: CostExplanation) -> CostExplanationDocument:
    return CostExplanationDocument(
        logs=why.logs,
        paths=why.paths,
        copies_dropped=why.copies_dropped,
        prices=why.prices,
        uncertain_responses=why.uncertain_responses,
        recorded_cost_usd=exact(why.recorded_pico_usd),
        unrecorded_responses=why.unrecorded_responses,
        difference_usd=exact(why.difference_pico_usd),
    )


RECENT_DAYS = 30


class RecentCosts(Struct, frozen=True):
    """Pico-dollars. What ``unpriced`` models used is in none of them."""

    today: int
    last_7_days: int
    last_30_days: int
    all_time: int | None  # not known while old logs are read for the first time
    unpriced: tuple[str, ...] = ()
    uncertain: int = 0
    notes: tuple[str, ...] = ()
    unrecorded_sessions: int = 0  # of other agents, in all: what they cost is unknown
    is_unknown: bool = False  # there is nothing but those


def recent_costs(opened: OpenIndex, now: dt.datetime) -> RecentCosts:
    """Add up the last thirty days."""
    today = now.astimezone().date()
    first = dt.datetime.combine(today - dt.timedelta(days=RECENT_DAYS - 1), dt.time.min).astimezone()
    report = costs(["day"], opened=opened, since=first, now=now)
    spent = {row.keys["day"]: row.pico_usd for row in report.rows}

    def since(days: int) -> int:
        start = (today - dt.timedelta(days=days - 1)).isoformat()
        return sum(amount for day, amount in spent.items() if start <= day <= today.isoformat())

    whole = costs([], opened=opened, now=now)
    return RecentCosts(
        since(1),
        since(7),
        since(RECENT_DAYS),
        None if opened.coverage else whole.totals.pico_usd,
        tuple(one.model for one in report.unpriced),
        sum(one.responses for one in report.uncertain),
        tuple(opened.notes),
        whole.unrecorded_sessions,
        whole.is_unknown,
    )
