"""The document of ``budget --json``."""

from __future__ import annotations

from msgspec import Struct


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
    """A warning that was given, and what became of it by each way."""

    kind: str
    budget: str
    span: str
    threshold_percent: int | None
    percent: int
    spent_usd: str
    limit_usd: str
    text: str
    delivered: dict[str, str] = {}


class RateLimitDocument(Struct, frozen=True, kw_only=True):
    """A rate limit as a client reported it; times are UTC, ``resets_at`` seconds since 1970."""

    window: str
    used_percentage: int
    resets_at: int | None
    at: str


class BudgetDocument(Struct, frozen=True, kw_only=True):
    """Budgets, warnings and rate limits, oldest first."""

    config: str
    thresholds: list[int]
    budgets: list[BudgetStateDocument]
    warnings: list[BudgetWarningDocument]
    rate_limits: list[RateLimitDocument]
    notes: list[str]
