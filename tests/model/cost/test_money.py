"""Money is exact until it is shown."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.cost.cents import PICO, dollars
from recollect.model.cost.money import Spending, exact, priced, spending, variant_of
from recollect.model.cost.prices import BATCH, FAST, US_ONLY, PriceList
from recollect.model.cost.usage import CacheCreation, ServerToolUse, Tokens, Usage

PRICES = PriceList()
NOW = 1_794_700_000_000  # 2026-11-14, in milliseconds
EARLY_MARCH = 1_772_400_000_000  # 2026-03-01T21:20Z


def spent(usage: Usage, model: str | None, at: int = NOW) -> Spending:
    """By the list."""
    return spending(usage, model, at, PRICES)


def test_the_worked_example_of_the_storage_design() -> None:
    """15,000 in, 2,150 out and 8,000 written to the cache on Sonnet 4.5 are $0.10725, shown as $0.11."""
    usage = Usage(
        input_tokens=15_000,
        output_tokens=2_150,
        cache_creation_input_tokens=8_000,
        cache_read_input_tokens=0,
    )
    cost = spent(usage, "claude-sonnet-4-5-20250929")

    assert ("0.10725", "0.10725", "$0.11") == (str(cost.usd), exact(cost.pico_usd), dollars(cost.pico_usd))


def test_a_thousand_small_messages_add_up() -> None:
    """Rounding each message to a cent would make four dollars vanish."""
    one = spent(Usage(input_tokens=800, output_tokens=160), "claude-haiku-4-5-20251001")
    total = sum((one for _ in range(2_500)), Spending())

    assert dollars(one.pico_usd) == "$0.00"
    assert (Decimal(4), "$4.00") == (total.usd, dollars(total.pico_usd))


def test_cache_classes_have_their_own_price() -> None:
    """An hour costs 2 x input, five minutes 1.25 x; without a split all counts as five minutes."""
    split = Usage(cache_creation_input_tokens=300, cache_creation=CacheCreation(100, 200))
    unsplit = Usage(cache_creation_input_tokens=300)

    assert 100 * 3_750_000 + 200 * 6_000_000 == spent(split, "claude-sonnet-4-5").pico_usd
    assert 300 * 3_750_000 == spent(unsplit, "claude-sonnet-4-5").pico_usd


def test_searches_are_paid_by_the_piece() -> None:
    """Ten dollars for a thousand."""
    usage = Usage(server_tool_use=ServerToolUse(web_search_requests=3))

    assert "0.03" == exact(spent(usage, "claude-opus-5").pico_usd)


def test_everything_in_the_context_makes_it_long() -> None:
    """1 + 100,000 + 100,000 tokens, cached or not, are above 200,000 on Sonnet 4.6 of early March: twice the price."""
    usage = Usage(input_tokens=1, cache_read_input_tokens=100_000, cache_creation_input_tokens=100_000)
    tokens = 1 * 6_000_000 + 100_000 * 600_000 + 100_000 * 7_500_000

    assert tokens == spent(usage, "claude-sonnet-4-6", EARLY_MARCH).pico_usd


def test_the_price_is_that_of_the_day() -> None:
    """300,000 tokens on Opus 4.6: $10 per million on 2026-03-01, $5 since 2026-03-13."""
    usage = Usage(input_tokens=300_000)
    costs = [spent(usage, "claude-opus-4-6", at).usd for at in (EARLY_MARCH, NOW)]

    assert [Decimal(3), Decimal("1.5")] == costs


def test_how_it_was_served_decides_the_price() -> None:
    """What the usage says of speed, place and tier is the variant."""
    fast = Usage(input_tokens=1_000_000, speed="fast", inference_geo="us", service_tier="standard")

    assert 3 | FAST | US_ONLY == variant_of(fast)
    assert Decimal(11) == spent(fast, "claude-opus-5").usd
    assert BATCH == variant_of(Usage(service_tier="batch"))


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


def test_tokens_of_a_class_without_a_price_are_unpriced_too() -> None:
    """Claude 2 had no cache prices, so a response that claims cached tokens has none at all."""
    cost = spent(Usage(input_tokens=10, cache_read_input_tokens=1), "claude-2.1")

    assert Spending(Tokens(input=10, cache_read=1), 0, frozenset(["claude-2.1"])) == cost


def test_the_clients_own_fillers_cost_nothing() -> None:
    """They were never sent to anyone, so they are not unpriced either."""
    assert Spending(Tokens(output=5)) == spent(Usage(output_tokens=5), "<synthetic>")


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
