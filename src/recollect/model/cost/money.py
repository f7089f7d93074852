"""Tokens and money together, exact until they are shown.

Money is a whole number of pico-dollars. It is added as such, and rounded once, half up, by
``cents.dollars``, for people; ``exact`` and ``Spending.usd`` are for everything else. What has no price is not in the sum:
``unpriced`` names the models, and their tokens are counted all the same (laws 6 and 11).

This module knows no prices; it asks the list it is given.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from msgspec import Struct

from recollect.model.budget import PICO
from recollect.model.cost.prices import QUARTER_SECONDS, PriceList, variant
from recollect.model.lines.blocks import Tokens, Usage

NO_MODEL = "(no model)"


class Spending(Struct, frozen=True):
    """Tokens and money together. ``unpriced`` names the models of which some tokens are not in ``pico_usd``.

    ``is_unknown``: a client of another agent wrote down no usage at all, so nothing here says what it cost.
    """

    tokens: Tokens = Tokens()
    pico_usd: int = 0
    unpriced: frozenset[str] = frozenset()
    is_unknown: bool = False

    def __add__(self, other: Spending) -> Spending:
        tokens, pico_usd = self.tokens + other.tokens, self.pico_usd + other.pico_usd
        unpriced = self.unpriced | other.unpriced
        is_known = bool(tokens.total or pico_usd or unpriced)
        return Spending(
            tokens, pico_usd, unpriced, is_unknown=not is_known and (self.is_unknown or other.is_unknown)
        )

    @property
    def usd(self) -> Decimal:
        """Dollars, exact, without zeros at the end."""
        return usd(self.pico_usd)


def variant_of(usage: Usage) -> int:
    """How the response with this usage was served, as far as it bears on the price."""
    tokens = usage.tokens()
    context = tokens.input + tokens.cache_write_5m + tokens.cache_write_1h + tokens.cache_read
    return variant(context, usage.speed, usage.inference_geo, usage.service_tier)


def priced(tokens: Tokens, model: str | None, quarter: int, kind: int, prices: PriceList) -> Spending:
    """What tokens of one model, quarter of an hour and variant cost: of one response, or summed up."""
    price = prices.find(model or "", quarter, kind)
    cost = None if price is None else price.cost(*tokens.counts)
    if price is None or any(price.missing(tokens.counts)):
        return Spending(tokens, cost or 0, frozenset([model or NO_MODEL]))
    return Spending(tokens, cost or 0)


def spending(usage: Usage, model: str | None, at: int, prices: PriceList) -> Spending:
    """What one response cost. ``at``: its time in milliseconds since 1970; 0 gets a model's first price."""
    quarter = at // (QUARTER_SECONDS * 1000)
    return priced(usage.tokens(), model, quarter, variant_of(usage), prices)


def usd(pico_usd: int) -> Decimal:
    """Dollars, exact, without zeros at the end."""
    return Decimal(exact(pico_usd))


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
    def usd(self) -> Decimal | None:
        """Dollars, exact; None where the model has no price."""
        return None if self.pico_usd is None else usd(self.pico_usd)
