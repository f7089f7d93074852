"""Five-hour windows: where they start, and how fast the running one fills."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from recollect.model.budget import BLOCK_QUARTERS, BurnRate, blocks

HOUR = 3_600_000
DOLLAR = 10**12


def test_a_block_starts_at_the_full_hour_of_its_first_response() -> None:
    """A response at 10:45 (quarter 43 of the day) opens the window from 10:00 to 15:00."""
    assert [(40, 60)] == blocks([43])


@given(st.lists(st.integers(0, 5_000), max_size=60))
def test_every_response_is_in_exactly_one_block(quarters: list[int]) -> None:
    """Windows last five hours, start on full hours, do not overlap, and leave no response out."""
    found = blocks(sorted(quarters))

    assert all(end - start == BLOCK_QUARTERS and start % 4 == 0 for start, end in found)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(found))
    assert all(sum(start <= quarter < end for start, end in found) == 1 for quarter in quarters)


def test_burn_is_taken_over_the_time_since_the_first_response() -> None:
    """6,000 tokens and $2 in two hours are 50 tokens a minute and $1 an hour; with three hours left, $5."""
    first_at = 40 * 900_000
    burn = BurnRate(6_000, 2 * DOLLAR, first_at, first_at + 2 * HOUR, 60)

    assert (50, DOLLAR, 15_000, 5 * DOLLAR, 180) == (
        burn.tokens_per_minute,
        burn.pico_usd_per_hour,
        burn.projected_tokens,
        burn.projected_pico_usd,
        burn.minutes_left,
    )


def test_the_first_moment_of_a_block_counts_as_a_minute() -> None:
    """A response of this very moment does not burn infinitely fast."""
    burn = BurnRate(600, 0, 36_000_000, 36_000_000, 60)

    assert 600 == burn.tokens_per_minute
