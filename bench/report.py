"""What a benchmark says: one row per figure, with its budget beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """One measured figure."""

    what: str
    measured: str
    budget: str
    met: bool | None  # None: no budget, a figure to compare with


def table(title: str, rows: Iterable[Row]) -> str:
    """Rows for people."""
    lines = [title]
    for row in rows:
        verdict = {True: "ok", False: "MISSED", None: ""}[row.met]
        lines.append(f"  {row.what:<58} {row.measured:>22}   {row.budget:<34} {verdict}".rstrip())
    return "\n".join(lines)
