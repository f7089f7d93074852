"""Tokens and money together, exact until they are shown.

Money is a whole number of pico-dollars. It is added as such, and rounded once, half up, by
``model.budget.dollars``, for people; ``exact`` and ``Usd`` are for everything else. What has no price is not in the sum:
``unpriced`` names the models, and their tokens are counted all the same (laws 6 and 11).

This module knows no prices; it asks the list it is given.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from msgspec import Struct

from recollect.model.budget import PICO
from recollect.model.cost.prices import QUARTER_SECONDS, PriceList, variant
from recollect.model.lines.blocks import Tokens, Usage

NO_MODEL = "(no model)"


class Spending(Struct, frozen=True):
    """Tokens and money together. ``unpriced`` names the models of which some tokens are not in ``pico_usd``.

    ``is_unknown``: a client of another agent wrote down no usage at all, so nothing here says what it cost.
    ``responses`` and ``models`` are known of what the index adds up.
    """

    tokens: Tokens = Tokens()
    pico_usd: int = 0
    unpriced: frozenset[str] = frozenset()
    is_unknown: bool = False
    responses: int = 0
    models: frozenset[str] = frozenset()

    def __add__(self, other: Spending) -> Spending:
        tokens, pico_usd = self.tokens + other.tokens, self.pico_usd + other.pico_usd
        unpriced = self.unpriced | other.unpriced
        is_known = bool(tokens.total or pico_usd or unpriced)
        return Spending(
            tokens,
            pico_usd,
            unpriced,
            not is_known and (self.is_unknown or other.is_unknown),
            self.responses + other.responses,
            self.models | other.models,
        )

    @property
    def usd(self) -> Usd:
        """Dollars, exact, without zeros at the end."""
        return usd(self.pico_usd)


class TokenMembers(Struct, frozen=True, kw_only=True):
    """Tokens by kind, as members of JSON."""

    input_tokens: int
    output_tokens: int
    cache_write_5m_tokens: int
    cache_write_1h_tokens: int
    cache_read_tokens: int
    web_searches: int

    @property
    def tokens(self) -> Tokens:
        return tokens_of(self)


_MEMBERS = TokenMembers.__struct_fields__


def members_of(tokens: Tokens) -> dict[str, Any]:
    """Tokens as members of a document."""
    return dict(zip(_MEMBERS, tokens.counts, strict=True))


def tokens_of(members: object) -> Tokens:
    """The tokens of a document with such members."""
    return Tokens(*(getattr(members, name) for name in _MEMBERS))


class AmountDocument(Struct, frozen=True):
    """Exact dollars; no amount if a model has no price or the index does not know it yet."""

    cost_usd: str | None
    unpriced: list[str]
    known_cost_usd: str | None = None


class SpendingDocument(TokenMembers, frozen=True, kw_only=True):
    """Tokens and exact dollars; no amount if a model has no price. ``known_cost_usd``: the models that have one."""

    cost_usd: str | None
    known_cost_usd: str
    unpriced: list[str]

    @staticmethod
    def members(spent: Spending | None) -> dict[str, Any]:
        """What some responses cost; None where that is not known."""
        known = spent or Spending()
        return {
            "cost_usd": None if spent is None or spent.unpriced else exact(spent.pico_usd),
            "known_cost_usd": exact(known.pico_usd),
            "unpriced": sorted(known.unpriced),
            **members_of(known.tokens),
        }


def variant_of(usage: Usage) -> int:
    """How the response with this usage was served, as far as it bears on the price."""
    tokens = usage.tokens()
    context = tokens.input + tokens.cache_write_5m + tokens.cache_write_1h + tokens.cache_read
    return variant(context, usage.speed, usage.inference_geo, usage.service_tier)


def priced(tokens: Tokens, model: str | None, quarter: int, kind: int, prices: PriceList) -> Spending:
    """What tokens of one model, quarter of an hour and variant cost: of one response, or summed up."""
    pico_usd, missing = prices.cost(model or "", quarter, kind, tokens.counts)
    return Spending(tokens, pico_usd, frozenset() if missing is None else frozenset([model or NO_MODEL]))


def spending(usage: Usage, model: str | None, at: int, prices: PriceList) -> Spending:
    """What one response cost. ``at``: its time in milliseconds since 1970; 0 gets a model's first price."""
    quarter = at // (QUARTER_SECONDS * 1000)
    return priced(usage.tokens(), model, quarter, variant_of(usage), prices)


class Usd(Decimal):
    """Dollars, exact. As text, and so in JSON: every digit, no exponent."""

    __slots__ = ()

    def __str__(self) -> str:
        return format(self, "f")

    @property
    def pico(self) -> int:
        """The same in pico-dollars."""
        numerator, denominator = self.as_integer_ratio()
        return numerator * PICO // denominator


def usd(pico_usd: int) -> Usd:
    """Dollars, exact, without zeros at the end."""
    return Usd(exact(pico_usd))


def exact(pico_usd: int) -> str:
    """Dollars as a plain decimal number: every digit, no exponent, no zeros at the end."""
    whole, fraction = divmod(abs(pico_usd), PICO)
    text = f"{whole}.{fraction:012d}".rstrip("0").rstrip(".")
    return f"-{text}" if pico_usd < 0 else text


class PricedResponse(Struct, frozen=True, gc=False):
    """One response, counted once over all logs that speak of it, where it belongs and what it cost.

    ``pico_usd`` is what has a price; None where nothing has. ``agent`` is None in a session's own conversation.
    ``tool`` is the first tool it called. ``is_uncertain``: the log may hold too low a count.
    ``is_deleted``: the log is gone from its home; the index still knows what it said.
    ``is_counted``: false for a copy, which a walk over all copies gives too; it has no cost of its own.
    """

    message_id: str | None
    request_id: str
    session: str | None
    agent: str | None
    project: str | None
    branch: str | None
    model: str | None
    tool: str | None
    at: dt.datetime | None
    tokens: Tokens
    pico_usd: int | None
    is_uncertain: bool = False
    is_deleted: bool = False
    path: str = ""
    is_counted: bool = True

    @property
    def usd(self) -> Usd | None:
        """Dollars, exact; None where the model has no price."""
        return None if self.pico_usd is None else usd(self.pico_usd)
