"""Budgets: what may be spent in a day or a week, and which warnings are due. Amounts are pico-dollars.

Plain classes and next to no imports: the status line and a hook of the client load this module at every turn.
"""

from __future__ import annotations

from recollect.model.cost.cents import dollars

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ALL, PROJECT, MODEL, PERSON = "all", "project", "model", "person"
SCOPES = {"projects": PROJECT, "models": MODEL, "persons": PERSON}
DAY, WEEK = "day", "week"
PERIODS = (DAY, WEEK)
BURN = "burn"
DEFAULT_THRESHOLDS = (80, 100)
DEFAULT_BURN_HOURS = 3


class BudgetRule:
    """What may be spent by everything, a project, a model or a person, in a day or a week."""

    __slots__ = ("limit", "name", "period", "scope")

    def __init__(self, scope: str, name: str, period: str, limit: int) -> None:
        self.scope, self.name, self.period, self.limit = scope, name, period, limit

    @property
    def label(self) -> str:
        """What people call it: ``day``, ``week of project shop``."""
        return self.period if self.scope == ALL else f"{self.period} of {self.scope} {self.name}"


class BudgetSettings:
    """The section ``[budget]``. ``burn``: pico-dollars an hour that are too much for ``burn_hours`` hours on end."""

    __slots__ = ("burn", "burn_hours", "command", "desktop", "rules", "thresholds", "webhook")

    def __init__(self) -> None:
        self.rules: list[BudgetRule] = []
        self.thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS
        self.burn: int | None = None
        self.burn_hours = DEFAULT_BURN_HOURS
        self.command: tuple[str, ...] = ()
        self.desktop = False
        self.webhook: str | None = None


class BudgetState:
    """What was spent of a budget. ``unpriced``: models that are not in ``spent``. ``span``: the day or week it is about."""

    __slots__ = ("rule", "span", "spent", "unpriced")

    def __init__(self, rule: BudgetRule, spent: int, unpriced: Iterable[str], span: str) -> None:
        self.rule, self.spent, self.unpriced, self.span = rule, spent, sorted(unpriced), span

    @property
    def percent(self) -> int:
        """Whole per cent, rounded down: 100 is reached, not nearly."""
        return self.spent * 100 // self.rule.limit


class BudgetWarning:
    """A warning that is due. ``key`` names it for good: it is given once. ``covers`` are lower ones it replaces."""

    __slots__ = ("covers", "key", "kind", "label", "limit", "percent", "span", "spent", "text", "threshold")

    def __init__(
        self, state: BudgetState, threshold: int, covers: Sequence[str], kind: str = "threshold"
    ) -> None:
        self.kind, self.threshold, self.covers = kind, threshold, covers
        self.key = _key(state, threshold if kind == "threshold" else BURN)
        self.label, self.span = state.rule.label, state.span
        self.spent, self.limit, self.percent = state.spent, state.rule.limit, state.percent
        plus = " and more without a price" if state.unpriced else ""
        if kind == BURN:
            self.text = f"burning {dollars(self.spent)} an hour{plus} for {threshold} hours on end, limit {dollars(self.limit)}"
        else:
            self.text = f"budget of the {self.label}: {self.percent}% spent, {dollars(self.spent)}{plus} of {dollars(self.limit)}"


def due(states: Iterable[BudgetState], thresholds: Sequence[int]) -> list[BudgetWarning]:
    """The warnings that the states ask for: of each budget the highest threshold that was reached."""
    found = []
    for state in states:
        reached = [one for one in thresholds if state.spent * 100 >= one * state.rule.limit]
        if reached:
            lower = [_key(state, one) for one in reached[:-1]]
            found.append(BudgetWarning(state, reached[-1], lower))
    return found


def burning(
    hours: Sequence[int], unpriced: Iterable[str], settings: BudgetSettings, span: str
) -> list[BudgetWarning]:
    """A warning where each of the last hours cost too much; the least of them is named. Once a day."""
    if settings.burn is None or len(hours) < settings.burn_hours or min(hours) < settings.burn:
        return []
    state = BudgetState(BudgetRule(ALL, "", "hour", settings.burn), min(hours), unpriced, span)
    return [BudgetWarning(state, settings.burn_hours, (), BURN)]


def _key(state: BudgetState, what: int | str) -> str:
    """A file name. The limit is part of it: a budget that was raised warns again."""
    rule = state.rule
    name = "".join(one if one.isascii() and one.isalnum() else f"_{ord(one):x}" for one in rule.name)
    return f"{state.span}-{rule.period}-{rule.scope}-{name[:120]}-{rule.limit}-{what}"
