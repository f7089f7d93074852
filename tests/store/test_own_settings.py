"""The user's own settings: prices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recollect.errors import StorageError, UsageError
from recollect.model.cost.prices import PriceList
from recollect.store.own_settings import price_list, price_overrides
from recollect.system import locations


def write(text: str | bytes) -> Path:
    """config.toml of this test's user."""
    file = locations.config_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def rates(model: str, prices: PriceList) -> tuple[int | None, ...] | None:
    """Pico-dollars of each class, or None."""
    price = prices.find(model, 0, 0)
    return None if price is None else tuple(price)


def test_prices_are_text_or_numbers_and_exact() -> None:
    """$0.1 as a number is a tenth, not the nearest binary fraction."""
    write(
        '[prices."claude-nightly"]\ninput = "3.00"\noutput = 15\ncache_write_5m = 3.75\n'
        'cache_write_1h = 6.0\ncache_read = 0.1\nweb_search = "12.5"\n'
    )

    assert (3_000_000, 15_000_000, 3_750_000, 6_000_000, 100_000, 12_500_000_000) == rates(
        "claude-nightly-20261101", price_list()
    )


def test_classes_left_out_follow_from_input() -> None:
    """1.25 times, twice and a tenth of it; a search costs a cent."""
    write('[prices."claude-nightly"]\ninput = 2e0\noutput = "10"\n')

    assert {"claude-nightly": {"input": "2", "output": "10"}} == price_overrides()
    assert (2_000_000, 10_000_000, 2_500_000, 4_000_000, 200_000, 10_000_000_000) == rates(
        "claude-nightly", price_list()
    )


def test_the_list_is_made_anew_when_the_file_changes() -> None:
    """And only then."""
    before = price_list()
    file = write('[prices."m"]\ninput = 1\noutput = 1\n')
    first, same = price_list(), price_list()
    write('[prices."m"]\ninput = 2\noutput = 2\n')
    os.utime(file, ns=(1, 1))
    changed = price_list()
    file.unlink()

    assert first is same
    assert [None, 1_000_000, 2_000_000, None] == [
        price and price.input
        for price in (one.find("m", 0, 0) for one in (before, first, changed, price_list()))
    ]


@pytest.mark.parametrize(
    ("text", "key", "next_step"),
    [
        ('[prices."m"]\ninput = 1\n', 'prices."m".output is missing', "dollars per million"),
        ('[prices."m"]\noutput = 1\n', 'prices."m".input is missing', "dollars per million"),
        (
            '[prices."m"]\ninput = 1\nouput = 1\n',
            'prices."m".ouput is not a price',
            "input, output, cache_write_5m",
        ),
        ('[prices."m"]\ninput = "three"\noutput = 1\n', "prices.\"m\".input 'three' is not a number", "3.00"),
        ('[prices."m"]\ninput = true\noutput = 1\n', 'prices."m".input is a bool, not a price', "3.00"),
        ('[prices."m"]\ninput = [1]\noutput = 1\n', 'prices."m".input is a list, not a price', "3.00"),
        ('[prices."m"]\ninput = -1\noutput = 1\n', 'prices."m".input -1 is not a price', "3.00"),
        ('[prices."m"]\ninput = nan\noutput = 1\n', 'prices."m".input NaN is not a price', "3.00"),
        ('[prices."m"]\ninput = inf\noutput = 1\n', 'prices."m".input Infinity is not a price', "3.00"),
        ('[prices."m"]\ninput = 1e99\noutput = 1\n', 'prices."m".input 1e+99 is not a price', "3.00"),
        ('[prices."m"]\ninput = 0.0000001\noutput = 1\n', "more than six decimals", "at most six"),
        (
            '[prices."m"]\ninput = 0.000001\noutput = 1\n',
            "does not follow exactly",
            "give cache_write_5m itself",
        ),
        ("[prices]\nm = 3\n", 'prices."m" is not a section', '[prices."m"]'),
        ("prices = 3\n", "prices is not a section", "write [prices]"),
        ('[prices."*"]\ninput = 1\noutput = 1\n', "names no model", "name of the model"),
        ("[prices.claude-opus-4.6]\ninput = 1\noutput = 1\n", "section inside", '[prices."claude-opus-4.6"]'),
        ("[prices\n", "not a TOML file", "correct it"),
        (f'[prices."m"]\ninput = {"9" * 5_000}\noutput = 1\n', "not a TOML file", "correct it"),
        (f'[prices."m"]\ninput = 0x{"f" * 5_000}\noutput = 1\n', "is not a price", "3.00"),
    ],
)
def test_what_is_wrong_is_said_with_file_key_and_next_step(text: str, key: str, next_step: str) -> None:
    """A price that was meant must not be missing quietly."""
    file = write(text)

    with pytest.raises(UsageError) as refused:
        price_overrides()
    assert str(file) in refused.value.message
    assert key in refused.value.message
    assert next_step in refused.value.hint


def test_a_file_that_cannot_be_read_is_an_error_of_storage() -> None:
    """A directory stands in its place."""
    locations.config_file().mkdir(parents=True)

    with pytest.raises(StorageError) as refused:
        price_overrides()
    assert "move it away" in refused.value.hint
