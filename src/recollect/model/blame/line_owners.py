"""Carry the owners of lines from one text of a file to the next.

A line that stands once in both texts is the same line, wherever it stands: moving it does not change who wrote
it. Lines that stand several times, or say too little, are matched between those fixed points. Often more than one matching is as good
as the best: one of two equal lines is old and the other new, and nothing says which. Then both are
``UNCERTAIN``, unless every matching gives the same owner. So an owner is never a guess.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

UNKNOWN = -1  # written by no change that is known: a person, or a program
UNCERTAIN = -2  # written by one of several
NEW = -3  # not in the text before
# Lines between two fixed points, old times new, above which matching takes too long.
_MOST_PAIRS = 250_000
_FEW_LETTERS = 8
_FEW_LINES = 5


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def carried(old: Sequence[str], owners: Sequence[int], new: Sequence[str], author: int) -> list[int]:
    """The owners of ``new``, which ``author`` made out of ``old``."""
    before = {line: at for at, line in enumerate(old)}
    once = {line for line, count in Counter(old).items() if count == 1 and not is_trivial(line)}
    once &= {line for line, count in Counter(new).items() if count == 1}
    found = [owners[before[line]] if line in once else author for line in new]
    fixed = [(before[line], at) for at, line in enumerate(new) if line in once]
    for (i, end_i), (j, end_j) in _gaps(_in_order(fixed), len(old), len(new)):
        rows = [at for at in range(i, end_i) if old[at] not in once]
        places = [at for at in range(j, end_j) if new[at] not in once]
        for at, possible in zip(places, _partners(old, rows, new, places), strict=True):
            known = {author if one is None else owners[one] for one in possible}
            is_sure = None in possible or any(
                _is_recognised(old, one, new, at) for one in possible if one is not None
            )
            found[at] = next(iter(known)) if len(known) == 1 and is_sure else UNCERTAIN
    return found


def is_trivial(line: str) -> bool:
    """Whether a line says too little to be recognised by itself, as a bracket or ``else:``."""
    return sum(map(str.isalnum, line)) < _FEW_LETTERS


def _is_recognised(old: Sequence[str], i: int, new: Sequence[str], j: int) -> bool:
    """Whether a new line can be an old one: a trivial line is recognised by the lines around it."""
    return not is_trivial(new[j]) or _is_known(old, i, new, j, 1) or _is_known(old, i, new, j, -1)


def _is_known(old: Sequence[str], i: int, new: Sequence[str], j: int, step: int) -> bool:
    """Whether the next line that says something is the same in both texts."""
    for _ in range(_FEW_LINES):
        i, j = i + step, j + step
        if not (0 <= i < len(old) and 0 <= j < len(new)) or old[i] != new[j]:
            return False
        if not is_trivial(new[j]):
            return True
    return False


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, given by their second number, in which both numbers grow."""
    tails: list[int] = []
    ends: list[int] = []
    links: list[int] = []
    for number, (old, _) in enumerate(pairs):
        place = bisect.bisect_left(tails, old)
        tails[place : place + 1] = [old]
        ends[place : place + 1] = [number]
        links.append(ends[place - 1] if place else -1)
    chosen: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = links[number]
    return chosen[::-1]


def _gaps(
    fixed: Iterable[tuple[int, int]], old: int, new: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    i = j = 0
    for at_old, at_new in (*fixed, (old, new)):
        if j < at_new:
            yield (i, at_old), (j, at_new)
        i, j = at_old + 1, at_new + 1


def _partners(
    old: Sequence[str], rows: Sequence[int], new: Sequence[str], places: Sequence[int]
) -> list[set[int | None]]:
    """For each new line the old ones that it may be by a longest common subsequence; None: it may be none of them."""
    texts, lines = [old[at] for at in rows], [new[at] for at in places]
    if texts == lines:
        return [{at} for at in rows]
    if not rows or not places:
        return [{None} for _ in places]
    if len(rows) * len(places) > _MOST_PAIRS:
        return [{None, *(at for at in rows if old[at] == line)} for line in lines]
    ahead, behind = _lengths(texts, lines), _lengths(texts[::-1], lines[::-1])
    n, m = len(texts), len(lines)
    found: list[set[int | None]] = []
    for j, line in enumerate(lines):
        possible: set[int | None] = {
            rows[i]
            for i, text in enumerate(texts)
            if text == line and ahead[i][j] + 1 + behind[n - i - 1][m - j - 1] == ahead[n][m]
        }
        if any(ahead[i][j] + behind[n - i][m - j - 1] == ahead[n][m] for i in range(n + 1)):
            possible.add(None)
        found.append(possible)
    return found


def _lengths(old: Sequence[str], new: Sequence[str]) -> list[list[int]]:
    """Lengths of the longest common subsequence for every pair of beginnings."""
    table = [[0] * (len(new) + 1)]
    for line in old:
        above, row = table[-1], [0]
        for j, other in enumerate(new):
            row.append(above[j] + 1 if line == other else max(above[j + 1], row[j]))
        table.append(row)
    return table
