"""Whether two globs have a path in common.

``cat .e*`` may read ``.env``; a rule that denies ``.env`` must match it without listing a directory. A
character class counts as "any one character", and ``**`` as zero or more components, so the answer may
be yes too often, never too rarely.
"""

from __future__ import annotations

from functools import lru_cache

_DEEP = "**"
_STAR, _ONE = "\0star", "\0one"


def globs_meet(left: str, right: str) -> bool:
    """Whether some path matches both; the right one is the shell's. Only ``**`` crosses slashes."""
    first, second = left.split("/"), right.split("/")
    reached = {(0, 0)}
    seen = set(reached)
    while reached:
        i, j = reached.pop()
        if i == len(first) and j == len(second):
            return True
        for pair in _next(first, second, i, j):
            if pair not in seen:
                seen.add(pair)
                reached.add(pair)
    return False


def _next(first: list[str], second: list[str], i: int, j: int) -> list[tuple[int, int]]:
    a = first[i] if i < len(first) else None
    b = second[j] if j < len(second) else None
    steps = []
    if a == _DEEP:
        steps.append((i + 1, j))
        if b is not None:
            steps.append((i, j + 1))
    if b == _DEEP:
        steps.append((i, j + 1))
        if a is not None:
            steps.append((i + 1, j))
    if a not in (None, _DEEP) and b not in (None, _DEEP) and parts_meet(str(a), str(b)):
        steps.append((i + 1, j + 1))
    return steps


def parts_meet(left: str, right: str) -> bool:
    """The same for single components."""
    left_start, left_end, left_plain = ends(left)
    right_start, right_end, right_plain = ends(right)
    if left_plain and right_plain:
        return left_start == right_start
    # A shell's star at the start of a name does not match hidden files.
    if left_start.startswith(".") and not right_start and not right_plain:
        return False
    if not agree(left_start, right_start) or not agree(left_end[::-1], right_end[::-1]):
        return False
    return _wild_parts_meet(left, right)


@lru_cache(maxsize=8192)
def ends(part: str) -> tuple[str, str, bool]:
    """The certain start and end of a component, and whether that is all of it."""
    taken = letters(part)
    wild = [position for position, letter in enumerate(taken) if letter in (_STAR, _ONE)]
    if not wild:
        return "".join(taken), "".join(taken), True
    return "".join(taken[: wild[0]]), "".join(taken[wild[-1] + 1 :]), False


def agree(one: str, other: str) -> bool:
    """Whether one is a prefix of the other."""
    return one.startswith(other) or other.startswith(one)


@lru_cache(maxsize=4096)
def _wild_parts_meet(left: str, right: str) -> bool:
    first, second = letters(left), letters(right)
    row = _over_stars(first, second, {(0, 0)})
    while row:
        if (len(first), len(second)) in row:
            return True
        row = _over_stars(first, second, {pair for i, j in row for pair in _letter(first, second, i, j)})
    return False


def _over_stars(first: list[str], second: list[str], pairs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Add the pairs reached when a star matches nothing."""
    todo, seen = list(pairs), set(pairs)
    while todo:
        i, j = todo.pop()
        for pair, star in (((i + 1, j), first[i : i + 1]), ((i, j + 1), second[j : j + 1])):
            if star == [_STAR] and pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return seen


def _letter(first: list[str], second: list[str], i: int, j: int) -> list[tuple[int, int]]:
    """The pairs after one shared letter; of two open stars ``_over_stars`` has already left one."""
    if i == len(first) or j == len(second):
        return []
    a, b = first[i], second[j]
    if (a == _STAR and b == _STAR) or not (a == b or {a, b} & {_STAR, _ONE}):
        return []
    return [(i if a == _STAR else i + 1, j if b == _STAR else j + 1)]


@lru_cache(maxsize=4096)
def letters(glob: str) -> list[str]:
    """One component as letters, stars, and wildcards for one letter."""
    out: list[str] = []
    position = 0
    while position < len(glob):
        char = glob[position]
        if char == "\\" and position + 1 < len(glob):
            out.append(glob[position + 1])
            position += 2
            continue
        end = glob.find("]", position + 2) if char == "[" else -1
        if end > 0:
            out.append(_ONE)
            position = end + 1
            continue
        out.append({"*": _STAR, "?": _ONE}.get(char, char))
        position += 1
    return out
