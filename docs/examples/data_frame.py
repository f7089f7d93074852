"""What was spent by model and week, as a pandas data frame. Needs the extra ``data``, and pandas.

    python data_frame.py                  # the homes of this machine
    python data_frame.py DIR

Each response is one row, counted once however many logs repeat it, so the sum of a column is the sum of
``recollect cost``. ``polars.from_arrow(table)`` and ``duckdb.from_arrow(table)`` take the same table.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any

import recollect


def responses(home: recollect.Home) -> Any:
    """One row for each response, with its time as the index. ``usd`` holds decimals: exact."""
    return home.responses().to_arrow().to_pandas().set_index("at").sort_index()


def dollars(pico_usd: int) -> Decimal:
    """Exact, without zeros at the end."""
    return Decimal(int(pico_usd)).scaleb(-12).normalize()


def by_week_and_model(frame: Any) -> Any:
    """Dollars, one row a week, one column a model."""
    # Whole pico-dollars are added as integers, and become dollars at the end.
    sums = frame.groupby([frame.index.to_period("W"), "model"])["pico_usd"].sum().unstack(fill_value=0)
    return sums.map(dollars)


def main() -> int:
    """Print the table, and the total beside that of the cost report."""
    home = recollect.Home(*sys.argv[1:])
    frame = responses(home)
    if frame.empty:
        print("nothing was spent")
        return 0
    # The weeks of a period have no time zone; these are weeks in UTC.
    frame.index = frame.index.tz_localize(None)
    print(by_week_and_model(frame).to_string())
    total = sum((one for one in frame["usd"] if one is not None), Decimal(0))
    report = home.costs().totals
    print(f"{len(frame)} responses, {total.normalize():f} dollars")
    return 0 if total == report.usd and len(frame) == report.responses else 1


if __name__ == "__main__":
    sys.exit(main())
