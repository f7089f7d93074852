"""What is left of every budget: of this machine by the index, of persons by the team server."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from recollect.ask.budget.quick import budget_states
from recollect.ask.cost.local_day import day_span, week_span
from recollect.index.access import OpenIndex
from recollect.model.budget import PERSON, BudgetSettings, BudgetState
from recollect.model.cost.money import exact
from recollect.store import turns
from recollect.store.own_settings import price_list


class BudgetStateDocument(Struct, frozen=True, kw_only=True):
    """A budget. Amounts are exact; what ``unpriced`` models used is not in them."""

    budget: str
    scope: str
    name: str
    period: str
    span: str
    limit_usd: str
    spent_usd: str
    percent: int
    unpriced: list[str]


class BudgetWarningDocument(Struct, frozen=True, kw_only=True):
    """A warning that was given."""

    kind: str
    budget: str
    span: str
    threshold_percent: int | None
    percent: int
    spent_usd: str
    limit_usd: str
    text: str


class RateLimitDocument(Struct, frozen=True, kw_only=True):
    """A rate limit as a client reported it; times are UTC, ``resets_at`` seconds since 1970."""

    window: str
    used_percentage: int
    resets_at: int | None
    at: str


QUARTER_SECONDS = 900
# By person: pico-dollars, and the models without a price.
PersonCosts = Callable[[dt.datetime, dt.datetime], dict[str, tuple[int, list[str]]]]


def reported_states(
    opened: OpenIndex, settings: BudgetSettings, now: float, persons: PersonCosts | None = None
) -> list[BudgetState]:
    """The state of every budget; those of persons only where ``persons`` asks the team server."""
    states = budget_states(opened.database.connection, settings, price_list(), now)
    spans = {"day": day_span(now), "week": week_span(now)}
    for rule in settings.rules:
        if rule.scope == PERSON and persons is not None:
            first, end, name = spans[rule.period]
            since, until = (dt.datetime.fromtimestamp(at * QUARTER_SECONDS, dt.UTC) for at in (first, end))
            spent, unpriced = persons(since, until).get(rule.name, (0, []))
            states.append(BudgetState(rule, spent, unpriced, name))
    return sorted(states, key=lambda state: settings.rules.index(state.rule))


def state_document(state: BudgetState) -> BudgetStateDocument:
    rule = state.rule
    return BudgetStateDocument(
        budget=rule.label,
        scope=rule.scope,
        name=rule.name,
        period=rule.period,
        span=state.span,
        limit_usd=exact(rule.limit),
        spent_usd=exact(state.spent),
        percent=state.percent,
        unpriced=state.unpriced,
    )


def given_warnings(data: str) -> list[BudgetWarningDocument]:
    """Warnings that were given, each once, oldest first."""
    found: dict[str, BudgetWarningDocument] = {}
    for key in turns.marks(data):
        try:
            one = msgspec.json.decode(
                Path(turns.mark_path(data, key)).read_bytes(), type=BudgetWarningDocument
            )
        except (OSError, msgspec.DecodeError):
            continue  # being written, or removed
        found[one.text] = one  # a lower threshold that was skipped holds the warning that replaced it
    return list(found.values())


def seen_limits(data: str) -> list[RateLimitDocument]:
    """Every change of a rate limit that a client reported."""
    found = []
    for line in turns.recorded_limits(data):
        try:
            found.append(msgspec.json.decode(line, type=RateLimitDocument))
        except msgspec.DecodeError:
            continue  # a line that was cut by a full disk
    return found
