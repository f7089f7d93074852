"""What tokens cost, exactly: integer nano-dollars, rounded once, when shown.

A price is nano-dollars per token, so $3.00 per million tokens is 3,000 and no
fraction ever arises. A model that is not in the table is *unpriced*: a total
then says which models it leaves out, instead of counting them as nothing.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

from recollect.model.usage import Tokens

NANO = 1_000_000_000
# The client's own fillers and error notes: made on this machine, billed by nobody.
SYNTHETIC_MODEL = "<synthetic>"
_DATE = re.compile(r"-\d{8}\Z")


class Price(Struct, frozen=True):
    """Nano-dollars per token of each class, and per web search."""

    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    web_search: int = 10_000_000

    def of(self, tokens: Tokens) -> int:
        """Nano-dollars for these counts."""
        return (
            tokens.input * self.input
            + tokens.output * self.output
            + tokens.cache_write_5m * self.cache_write_5m
            + tokens.cache_write_1h * self.cache_write_1h
            + tokens.cache_read * self.cache_read
            + tokens.web_searches * self.web_search
        )


_OPUS_4 = Price(15_000, 75_000, 18_750, 30_000, 1_500)
_OPUS_4_5 = Price(5_000, 25_000, 6_250, 10_000, 500)
_SONNET = Price(3_000, 15_000, 3_750, 6_000, 300)
_HAIKU_4_5 = Price(1_000, 5_000, 1_250, 2_000, 100)

# List prices by model name without its release date.
PRICES: dict[str, Price] = {
    "claude-opus-4": _OPUS_4,
    "claude-opus-4-1": _OPUS_4,
    "claude-opus-4-5": _OPUS_4_5,
    "claude-opus-4-6": _OPUS_4_5,
    "claude-3-5-sonnet": _SONNET,
    "claude-3-7-sonnet": _SONNET,
    "claude-sonnet-4": _SONNET,
    "claude-sonnet-4-5": _SONNET,
    "claude-sonnet-4-6": _SONNET,
    "claude-haiku-4-5": _HAIKU_4_5,
}


def price_of(model: str) -> Price | None:
    """The price of a model, or None where we know none."""
    return PRICES.get(model) or PRICES.get(_DATE.sub("", model))


class Spending(Struct, frozen=True):
    """Tokens and money together. ``unpriced`` names the models whose tokens are not in ``nano_usd``."""

    tokens: Tokens = Tokens()
    nano_usd: int = 0
    unpriced: frozenset[str] = frozenset()

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.tokens + other.tokens, self.nano_usd + other.nano_usd, self.unpriced | other.unpriced
        )

    @property
    def usd(self) -> Decimal:
        """Dollars, exact."""
        return Decimal(self.nano_usd) / NANO


def spending(tokens: Tokens, model: str | None) -> Spending:
    """What one response cost."""
    if model == SYNTHETIC_MODEL:
        return Spending(tokens)
    price = price_of(model or "")
    if price is None:
        return Spending(tokens, unpriced=frozenset([model or "(no model)"]))
    return Spending(tokens, price.of(tokens))


def dollars(nano_usd: int) -> str:
    """Money for people: cents, rounded half up, here and nowhere else."""
    cents = (Decimal(nano_usd) / NANO).quantize(Decimal("0.01"), ROUND_HALF_UP)
    return f"${cents:,}"
