"""The state of the budgets from the index as it is, in a few milliseconds: for the status line and the client's hook.

Sums and prices are those of the status line (``index.glimpse``), so they are the cost report's. A warning is given by
the process that makes its mark. Few imports, because a client waits.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from recollect.ask.cost.local_day import day_span, week_span
from recollect.index import glimpse
from recollect.model.budget import (
    ALL,
    BURN,
    DAY,
    MODEL,
    PERSON,
    PROJECT,
    BudgetState,
    BudgetWarning,
    burning,
    due,
)
from recollect.model.cost.money import exact
from recollect.store import turns
from recollect.system import paths

if TYPE_CHECKING:
    import apsw

    from recollect.model.budget import BudgetRule, BudgetSettings
    from recollect.model.cost.prices import PriceList


_QUARTER = 900
_QUARTERS_AN_HOUR = 4


def budget_states(
    index: apsw.Connection, settings: BudgetSettings, prices: PriceList, now: float
) -> list[BudgetState]:
    """What was spent of every budget of this machine; those of persons are the team server's."""
    spans = {"day": day_span(now), "week": week_span(now)}
    found = []
    for rule in settings.rules:
        if rule.scope != PERSON:
            first, end, name = spans[rule.period]
            spent, unpriced = glimpse.priced(_usage(index, rule, first, end), prices)
            found.append(BudgetState(rule, spent, unpriced, name))
    return found


def _usage(index: apsw.Connection, rule: BudgetRule, first: int, end: int) -> list[glimpse.GlimpsedUsage]:
    if rule.scope == PROJECT:
        from recollect.ask.sessions.projects import ProjectFilter

        wanted = ProjectFilter(rule.name)
        return [row[1:] for row in glimpse.project_usage_between(index, first, end) if wanted.fits(row[0])]
    usage = glimpse.usage_between(index, first, end)
    if rule.scope == MODEL:
        if glimpse.is_used_model(index, rule.name):
            return [row for row in usage if row[0] == rule.name]
        return [row for row in usage if rule.name.casefold() in row[0].casefold()]
    return usage


def burn_warnings(
    index: apsw.Connection, settings: BudgetSettings, prices: PriceList, now: float
) -> list[BudgetWarning]:
    """Whether each of the last hours cost too much. Hours end with the quarter that is over."""
    if settings.burn is None:
        return []
    last, hours = int(now) // _QUARTER, []
    unpriced: set[str] = set()
    for back in range(settings.burn_hours):
        end = last - back * _QUARTERS_AN_HOUR
        spent, without = glimpse.priced(glimpse.usage_between(index, end - _QUARTERS_AN_HOUR, end), prices)
        hours.append(spent)
        unpriced |= without
    return burning(hours, unpriced, settings, day_span(now)[2])


def give(warnings: list[BudgetWarning], data: str) -> list[BudgetWarning]:
    """Mark the warnings that were not given yet; returns those that this process has to show."""
    given = []
    for one in warnings:
        content = json.dumps(document(one)).encode()
        if not turns.is_marked(data, one.key) and turns.mark(data, one.key, content):
            for lower in one.covers:
                turns.mark(data, lower, content)
            given.append(one)
    if given:
        turns.forget_old(data, time.time())
    return given


def warned(
    index: apsw.Connection, settings: BudgetSettings, prices: PriceList, now: float, data: str
) -> tuple[list[BudgetState], list[BudgetWarning]]:
    """The state of the budgets, and the warnings that this call gave. ``data``: our directory."""
    states = budget_states(index, settings, prices, now)
    warnings = due(states, settings.thresholds) + burn_warnings(index, settings, prices, now)
    return states, give(warnings, data)


def document(one: BudgetWarning) -> dict[str, object]:
    """A warning as its mark keeps it. Amounts are exact."""
    return {
        "kind": one.kind,
        "budget": one.label,
        "span": one.span,
        "threshold_percent": None if one.kind == BURN else one.threshold,
        "percent": one.percent,
        "spent_usd": exact(one.spent),
        "limit_usd": exact(one.limit),
        "text": one.text,
    }


def tightest(states: list[BudgetState], lowest: int) -> BudgetState | None:
    """The budget that is nearest to its end, once it has reached the first threshold."""
    reached = [one for one in states if one.percent >= lowest]
    return max(
        reached, key=lambda one: (one.percent, one.rule.scope == ALL, one.rule.period == DAY), default=None
    )


def config_and_data(data: str | None) -> tuple[str, str]:
    """The settings file, and recollect's own directory."""
    environ = {**os.environ, "RECOLLECT_DATA": data} if data else os.environ
    return paths.config_file(os.environ), paths.data_dir(environ)
