"""Tokens and dollars under the member names that all documents use."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from recollect.model.cost.money import Spending, exact
from recollect.model.cost.usage import Tokens


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
