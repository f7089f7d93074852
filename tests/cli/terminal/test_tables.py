"""Tables of figures in a terminal of a given width."""

from __future__ import annotations

from recollect.cli.terminal.tables import fitted_table

HEADS = ["project", "responses", "cache read", "cost"]
ROWS = [
    HEADS,
    ["/home/sam/projects/shop", "1,234", "98,765,432,109", "$1,443.10"],
    ["/srv/app", "7", "12", "$0.02"],
]


def test_a_table_that_fits_stays_as_it_is() -> None:
    assert ROWS == fitted_table(ROWS, 1, None, ["cache read"])
    assert ROWS == fitted_table(ROWS, 1, 200, ["cache read"])


def test_names_are_shortened_before_figures() -> None:
    table = fitted_table(ROWS, 1, 55, ["cache read"])

    assert table[1][0] == "/home/…jects/shop"
    assert ["1,234", "98,765,432,109", "$1,443.10"] == table[1][1:]
    assert 55 == sum(max(len(row[at]) for row in table) for at in range(4)) + 6


def test_figures_lose_digits_before_columns_are_left_out() -> None:
    """And what is left out goes for all rows, so that figures stay under their heads."""
    assert ["1.2k", "98.8G", "$1.4k"] == fitted_table(ROWS, 1, 46, ["cache read"])[1][1:]
    narrow = fitted_table(ROWS, 1, 36, ["cache read"])

    assert ["project", "responses", "cost"] == narrow[0]
    assert ["7", "$0.02"] == narrow[2][1:]
