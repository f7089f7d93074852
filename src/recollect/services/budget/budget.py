"""What is left of every budget, by the cost report; what persons spent, by the team server's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from recollect.model.budget import MODEL, PERSON, PROJECT, BudgetRule, BudgetSettings, BudgetState
from recollect.model.cost.money import exact
from recollect.services.cost.local_day import day_span, week_span
from recollect.services.cost.report import costs
from recollect.services.documents.cost.budget import (
    BudgetStateDocument,
    BudgetWarningDocument,
    RateLimitDocument,
)
from recollect.services.indexing.access import OpenIndex
from recollect.storage import budget_marks

QUARTER_SECONDS = 900
# By person: pico-dollars, and the models without a price.
PersonCosts = Callable[[dt.datetime, dt.datetime], dict[str, tuple[int, list[str]]]]


def reported_states(
    homes: Sequence[Path],
    opened: OpenIndex,
    settings: BudgetSettings,
    now: float,
    persons: PersonCosts | None = None,
) -> list[BudgetState]:
    """The state of every budget; those of persons only where ``persons`` asks the team server."""
    spans = {"day": day_span(now), "week": week_span(now)}
    found = []
    for rule in settings.rules:
        first, end, name = spans[rule.period]
        since, until = (dt.datetime.fromtimestamp(at * QUARTER_SECONDS, dt.UTC) for at in (first, end))
        if rule.scope == PERSON:
            if persons is not None:
                spent, unpriced = persons(since, until).get(rule.name, (0, []))
                found.append(BudgetState(rule, spent, unpriced, name))
            continue
        report = costs(
            homes,
            (),
            opened=opened,
            since=since,
            until=until,
            project=_name(rule, PROJECT),
            model=_name(rule, MODEL),
        )
        found.append(BudgetState(rule, report.totals.pico_usd, [one.model for one in report.unpriced], name))
    return found


def _name(rule: BudgetRule, scope: str) -> str | None:
    return rule.name if rule.scope == scope else None


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
    for key in budget_marks.marks(data):
        try:
            one = msgspec.json.decode(
                Path(budget_marks.mark_path(data, key)).read_bytes(), type=BudgetWarningDocument
            )
        except (OSError, msgspec.DecodeError):
            continue  # being written, or removed
        # A lower threshold that was skipped holds the warning that replaced it.
        known = found.get(one.text)
        if known is None or one.delivered:
            found[one.text] = one
    return list(found.values())


def seen_limits(data: str) -> list[RateLimitDocument]:
    """Every change of a rate limit that a client reported."""
    found = []
    for line in budget_marks.recorded_limits(data):
        try:
            found.append(msgspec.json.decode(line, type=RateLimitDocument))
        except msgspec.DecodeError:
            continue  # a line that was cut by a full disk
    return found
