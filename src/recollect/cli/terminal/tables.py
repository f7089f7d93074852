"""Tables of names and figures that fit the terminal.

Where the room is short, figures lose digits (12.3M), then columns that can be missed are left out, then names
are shortened: paths in the middle, others at the end. Figures stay right-aligned. A pipe gets everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from recollect.cli.terminal.layout import shares
from recollect.cli.terminal.text import shortened, shortened_path, width

_LONG_FIGURE = re.compile(r"(\$?)(\d{1,3}(?:,\d{3})+)(\.\d+)?")
_UNITS = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_LEAST_NAME = 8
_GAP = 2


def fitted_table(
    rows: Sequence[Sequence[str]], names: int, room: int | None, can_be_missed: Sequence[str]
) -> list[list[str]]:
    """The rows, heads first, of which the first ``names`` cells are names. ``can_be_missed``: heads, the first to go first."""
    table = [list(row) for row in rows]
    if room is None or _width(table) <= room:
        return table
    if _least_width(table, names) > room:
        table = [table[0], *([*row[:names], *map(_compact, row[names:])] for row in table[1:])]
    for head in can_be_missed:
        if _least_width(table, names) > room and head in table[0][names:]:
            at = table[0].index(head, names)
            table = [row[:at] + row[at + 1 :] for row in table]
    columns = _widths(table)
    figures = sum(columns[names:]) + _GAP * (len(columns) - 1)
    given = shares(room - figures, columns[:names], [min(_LEAST_NAME, one) for one in columns[:names]])
    return [[*map(_short, row[:names], given), *row[names:]] for row in table]


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, cells)) for cells in zip(*table, strict=True)]


def _width(table: Sequence[Sequence[str]]) -> int:
    columns = _widths(table)
    return sum(columns) + _GAP * (len(columns) - 1)


def _least_width(table: Sequence[Sequence[str]], names: int) -> int:
    """What the table takes if its names are as short as a reader can bear."""
    columns = _widths(table)
    spare = sum(max(one - 2 * _LEAST_NAME, 0) for one in columns[:names])
    return _width(table) - spare


def _short(name: str, columns: int) -> str:
    return shortened_path(name, columns) if "/" in name else shortened(name, columns)


def _compact(figure: str) -> str:
    """``12,345,678`` as ``12.3M``; what is not such a number stays."""
    found = _LONG_FIGURE.fullmatch(figure)
    if found is None:
        return figure
    number = int(found[2].replace(",", ""))
    size, unit = next((size, unit) for size, unit in _UNITS if number >= size)
    amount = number / size
    return f"{found[1]}{amount:.1f}{unit}" if amount < 99.95 else f"{found[1]}{amount:.0f}{unit}"
