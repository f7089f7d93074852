"""What a benchmark says: one row per figure, with its budget and what a peer took beside it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bench.measured import Taken

VERDICTS = {True: "ok", False: "MISSED", None: ""}


class Row(NamedTuple):
    """One measured figure."""

    what: str
    measured: str
    budget: str
    met: bool | None  # None: no budget, a figure to compare with
    taken: Taken | None = None  # the process behind the figure, where it is one
    beside: str = ""  # what a peer took for the same work in the same run


def part(share: float) -> str:
    """A share as one over something, where it is less than the whole."""
    return f"1/{1 / share:.1f}" if share < 1 else f"{share:.2f}"


def table(title: str, rows: Iterable[Row]) -> str:
    """Rows for people."""
    lines = [title]
    for row in rows:
        figures = f"{row.what:<58} {row.measured:>22}   {row.budget:<34} {VERDICTS[row.met]:<7}"
        lines.append(f"  {figures} {row.beside}".rstrip())
    return "\n".join(lines)


def markdown(title: str, rows: Iterable[Row]) -> str:
    """Rows for the document; a column that nobody filled is left out."""
    head = ("what", "measured", "budget", "", "wall", "CPU", "memory", "beside it")
    cells = [_cells(row) for row in rows]
    kept = [at for at in range(len(head)) if any(row[at] for row in cells)]
    lines = [head, tuple("---" for _ in head), *cells]
    drawn = ["| " + " | ".join(line[at] for at in kept) + " |" for line in lines]
    return "\n".join([f"### {title}", "", *drawn])


def _cells(row: Row) -> tuple[str, ...]:
    process = ("", "", "")
    if row.taken is not None:
        process = (row.taken.wall_text, row.taken.cpu_text, f"{row.taken.memory / 1e6:.0f} MB")
    what = f"– {row.what.strip()}" if row.what.startswith(" ") else row.what
    texts = (what, row.measured, row.budget, VERDICTS[row.met], *process, row.beside)
    return tuple(text.replace("|", "\\|") for text in texts)
