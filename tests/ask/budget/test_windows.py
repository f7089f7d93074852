"""The windows of a plan: what an agent said is believed, everything else is an estimate that says so."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from recollect.ask.budget.windows import Window, windows
from recollect.index.access import open_index
from recollect.store.turns import record_limits
from tests.ask.budget.test_budget import answer
from tests.small_home import ONE, prompt, put

NOW = dt.datetime(2026, 11, 15, 12, 0, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def asked(
    tmp_path: Path,
    answered: Sequence[dt.timedelta],
    limits: Sequence[tuple[str, int, dt.timedelta, dt.timedelta]] = (),
) -> list[Window]:
    """Answers of 0.30 dollars so long ago; limits: window, percent, when it begins anew, how long ago that was said."""
    home, data = tmp_path / "home", tmp_path / "data"
    talk = [answer(2 * n, (NOW - ago).timestamp()) for n, ago in enumerate(answered, 1)]
    put(home, ONE, [prompt(1, None, "Q"), *talk])
    for name, percent, resets_in, ago in limits:
        record_limits(str(data), [(name, percent, (NOW + resets_in).timestamp())], (NOW - ago).timestamp())
    with open_index([home], cache=tmp_path / "cache") as opened:
        return windows(opened, data, NOW)


def test_what_the_agent_said_counts_until_more_is_used(tmp_path: Path) -> None:
    """40 % after two hours of five: it ends before the reset, in three hours at that pace."""
    five, _ = asked(tmp_path, [2 * HOUR], [("five_hour", 40, 3 * HOUR, HOUR)])
    assert (five.used_percentage, five.left_percentage, five.is_estimated) == (40, 60, False)
    assert (five.since, five.resets_at, str(five.usd)) == (NOW - 2 * HOUR, NOW + 3 * HOUR, "0.3")
    assert five.basis == "the agent said 40 % at 2026-11-15 11:00 UTC"
    assert five.runs_out_at is None
    five, _ = asked(tmp_path, [2 * HOUR, HOUR / 2], [("five_hour", 40, 3 * HOUR, HOUR)])
    assert (five.used_percentage, five.is_estimated, five.runs_out_at) == (80, True, NOW + HOUR / 2)
    assert five.basis.endswith("and more was used since")


def test_a_window_that_is_over_says_what_a_whole_one_allows(tmp_path: Path) -> None:
    """Yesterday 0.30 dollars were 10 %, so 0.60 are 20 % today."""
    day = 24 * HOUR
    limits = [("five_hour", 10, 3 * HOUR - day, day - HOUR)]
    five, _ = asked(tmp_path, [day + HOUR, HOUR, HOUR / 2], limits)
    assert (five.used_percentage, five.is_estimated, five.resets_at) == (20, True, NOW + 4 * HOUR)
    assert five.basis == "estimated from past windows of which the agent said the share"


def test_without_a_word_of_the_agent_the_largest_past_window_is_the_measure(tmp_path: Path) -> None:
    day = 24 * HOUR
    five, seven = asked(tmp_path, [9 * day, 9 * day - HOUR, HOUR])
    assert (five.used_percentage, five.is_estimated) == (50, True)
    assert five.basis == "estimated beside your largest 5 hours of the last 60 days"
    assert (five.is_beside_past, five.runs_out_at) == (True, None)
    assert (seven.used_percentage, seven.name, seven.resets_at) == (50, "7 days", None)


def test_nothing_used_lately_opens_no_window(tmp_path: Path) -> None:
    five, seven = asked(tmp_path, [20 * 24 * HOUR])
    assert (five.since, five.used_percentage, five.basis) == (
        None,
        0,
        "no window is open: the next prompt begins one",
    )
    assert (seven.used_percentage, seven.runs_out_at) == (0, None)
