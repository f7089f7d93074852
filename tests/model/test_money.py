"""Money is exact until it is shown."""

from __future__ import annotations

from decimal import Decimal

from recollect.model.money import Spending, dollars, price_of, spending
from recollect.model.usage import CacheCreation, Tokens, Usage


def test_the_worked_example_of_the_storage_design() -> None:
    """15,000 in, 2,150 out and 8,000 written to the cache on Sonnet 4.5 are $0.10725, shown as $0.11."""
    spent = spending(Tokens(input=15_000, output=2_150, cache_write_5m=8_000), "claude-sonnet-4-5-20250929")

    assert Decimal("0.10725") == spent.usd
    assert dollars(spent.nano_usd) == "$0.11"


def test_prices_of_the_storage_design() -> None:
    """Dollars per million tokens of its three models."""
    assert price_of("claude-sonnet-4-5-20250929") == price_of("claude-3-5-sonnet-20241022")
    for model, per_million in {
        "claude-sonnet-4-5-20250929": ("3.00", "15.00", "3.75", "0.30"),
        "claude-opus-4-1-20250805": ("15.00", "75.00", "18.75", "1.50"),
    }.items():
        price = price_of(model)
        assert price is not None
        assert tuple(int(Decimal(text) * 1000) for text in per_million) == (
            price.input,
            price.output,
            price.cache_write_5m,
            price.cache_read,
        )


def test_a_thousand_small_messages_add_up() -> None:
    """Rounding each message to a cent would make four dollars vanish."""
    one = spending(Tokens(input=800, output=160), "claude-haiku-4-5-20251001")
    total = sum((one for _ in range(2_500)), Spending())

    assert dollars(one.nano_usd) == "$0.00"
    assert Decimal("4") == total.usd


def test_cache_classes_have_their_own_price() -> None:
    """An hour costs 2 x input, five minutes 1.25 x; without a split all counts as five minutes."""
    split = Usage(cache_creation_input_tokens=300, cache_creation=CacheCreation(100, 200))
    unsplit = Usage(cache_creation_input_tokens=300)

    assert 100 * 3_750 + 200 * 6_000 == spending(split.tokens(), "claude-sonnet-4-5").nano_usd
    assert 300 * 3_750 == spending(unsplit.tokens(), "claude-sonnet-4-5").nano_usd


def test_an_unknown_model_is_unpriced_not_free() -> None:
    """Its tokens are counted, its money is said to be missing."""
    total = spending(Tokens(input=10), "claude-nightly-20261101") + spending(
        Tokens(input=10), "claude-opus-4-6"
    )

    assert (20, 50_000, frozenset(["claude-nightly-20261101"])) == (
        total.tokens.input,
        total.nano_usd,
        total.unpriced,
    )


def test_the_clients_own_fillers_cost_nothing() -> None:
    """They were never sent to anyone, so they are not unpriced either."""
    assert Spending(Tokens(output=5)) == spending(Tokens(output=5), "<synthetic>")
