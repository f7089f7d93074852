"""Budgets: what may be spent in a day or a week, and which warnings are due. Amounts are pico-dollars.

Plain classes and next to no imports: the status line and a hook of the client load this module at every turn.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see recollect/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PICO = 10**12
_CENT = PICO // 100


def dollars(pico_usd: int) -> str:
    """Cents, rounded half up, here and nowhere else."""
    cents = (abs(pico_usd) + _CENT // 2) // _CENT
    sign = "-" if pico_usd < 0 and cents else ""
    return f"{sign}${cents // 100:,}.{cents % 100:02d}"


def fine_dollars(pico_usd: int) -> str:
    """The same for the amount of one turn or message: below ten cents with four places."""
    if not 0 < pico_usd < PICO // 10:
        return dollars(pico_usd)
    return f"$0.{(pico_usd + _CENT // 200) // (_CENT // 100):04d}"


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

    __slots__ = ("burn", "burn_hours", "rules", "thresholds")

    def __init__(self) -> None:
        self.rules: list[BudgetRule] = []
        self.thresholds: tuple[int, ...] = DEFAULT_THRESHOLDS
        self.burn: int | None = None
        self.burn_hours = DEFAULT_BURN_HOURS


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


QUARTERS_AN_HOUR = 4
BLOCK_QUARTERS = 5 * QUARTERS_AN_HOUR
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_QUARTER_MS = 15 * _MINUTE_MS


def blocks(quarters: list[int]) -> list[tuple[int, int]]:
    """Start and end of every block, given the quarters with a response in rising order."""
    found: list[tuple[int, int]] = []
    for quarter in quarters:
        if not found or quarter >= found[-1][1]:
            start = quarter - quarter % QUARTERS_AN_HOUR
            found.append((start, start + BLOCK_QUARTERS))
    return found


class BurnRate:
    """How fast a running block fills, over the time since its first response (at least a minute)."""

    __slots__ = (
        "minutes_left",
        "pico_usd_per_hour",
        "projected_pico_usd",
        "projected_tokens",
        "tokens_per_minute",
    )

    def __init__(self, tokens: int, pico_usd: int, first_at: int, now: int, end: int) -> None:
        elapsed = max(now - first_at, _MINUTE_MS)
        left = max(end * _QUARTER_MS - now, 0)
        self.tokens_per_minute = tokens * _MINUTE_MS // elapsed
        self.pico_usd_per_hour = pico_usd * _HOUR_MS // elapsed
        self.projected_tokens = tokens + tokens * left // elapsed
        self.projected_pico_usd = pico_usd + pico_usd * left // elapsed
        self.minutes_left = left // _MINUTE_MS
