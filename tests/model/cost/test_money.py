"""Money is exact until it is shown."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.budget import PICO, dollars
from recollect.model.cost.money import Spending, exact, priced, spending
from recollect.model.cost.prices import PriceList
from recollect.model.lines.blocks import Tokens, Usage

PRICES = PriceList()
NOW = 1_794_700_000_000  # 2026-11-14, in milliseconds
EARLY_MARCH = 1_772_400_000_000  # 2026-03-01T21:20Z


def spent(usage: Usage, model: str | None, at: int = NOW) -> Spending:
    """By the list."""
    return spending(usage, model, at, PRICES)


def test_a_thousand_small_messages_add_up() -> None:
    """Rounding each message to a cent would make four dollars vanish."""
    one = spent(Usage(input_tokens=800, output_tokens=160), "claude-haiku-4-5-20251001")
    total = sum((one for _ in range(2_500)), Spending())

    assert dollars(one.pico_usd) == "$0.00"
    assert (Decimal(4), "$4.00") == (total.usd, dollars(total.pico_usd))


def test_everything_in_the_context_makes_it_long() -> None:
    """1 + 100,000 + 100,000 tokens, cached or not, are above 200,000 on Sonnet 4.6 of early March: twice the price."""
    usage = Usage(input_tokens=1, cache_read_input_tokens=100_000, cache_creation_input_tokens=100_000)
    tokens = 1 * 6_000_000 + 100_000 * 600_000 + 100_000 * 7_500_000

    assert tokens == spent(usage, "claude-sonnet-4-6", EARLY_MARCH).pico_usd


def test_sums_of_one_price_are_priced_at_once() -> None:
    """The tokens of many responses of one model, time and variant."""
    tokens = Tokens(input=600_000, output=1_000_000)

    assert Decimal("16.2") == priced(tokens, "claude-haiku-4-5", 0, 0, PRICES).usd + Decimal("10.6")


def test_an_unknown_model_is_unpriced_not_free() -> None:
    """Its tokens are counted, its money is said to be missing."""
    usage = Usage(input_tokens=10)
    total = spent(usage, "claude-nightly-20261101") + spent(usage, "claude-opus-4-6") + spent(usage, None)

    assert (30, 50_000_000, frozenset(["claude-nightly-20261101", "(no model)"])) == (
        total.tokens.input,
        total.pico_usd,
        total.unpriced,
    )


def test_tokens_of_a_class_without_a_price_are_unpriced_and_the_others_are_not() -> None:
    """Claude 2 had no cache prices."""
    cost = spent(Usage(input_tokens=10, cache_read_input_tokens=1), "claude-2.1")

    assert Spending(Tokens(input=10, cache_read=1), 80_000_000, frozenset(["claude-2.1"])) == cost


@pytest.mark.parametrize(
    ("pico", "shown"),
    [
        (0, "$0.00"),
        (4_999_999_999, "$0.00"),
        (5_000_000_000, "$0.01"),
        (15_000_000_000, "$0.02"),
        (25_000_000_000, "$0.03"),
        (1_234_565_000_000_000, "$1,234.57"),
        (10**12 * 10**9, "$1,000,000,000.00"),
        (-5_000_000_000, "-$0.01"),
        (-1, "$0.00"),
    ],
)
def test_money_is_shown_in_cents_rounded_half_up(pico: int, shown: str) -> None:
    """Half a cent always goes away from zero, not to the even neighbour."""
    assert shown == dollars(pico)


@pytest.mark.parametrize(
    ("pico", "text"),
    [
        (0, "0"),
        (1, "0.000000000001"),
        (107_250_000_000, "0.10725"),
        (10 * PICO, "10"),
        (100 * PICO + 500_000_000_000, "100.5"),
        (-1_500_000_000_000, "-1.5"),
    ],
)
def test_exact_money_is_a_plain_decimal(pico: int, text: str) -> None:
    """Every digit, no exponent, no zeros at the end."""
    assert text == exact(pico)


@given(st.integers(-(10**40), 10**40))
def test_dollars_lose_no_digit(pico: int) -> None:
    """Whatever the amount, beyond the digits decimal arithmetic keeps by default."""
    numerator, denominator = Spending(pico_usd=pico).usd.as_integer_ratio()

    assert pico * denominator == numerator * PICO
