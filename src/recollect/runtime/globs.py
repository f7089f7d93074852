"""A pattern of the Glob tool as a test of paths, with ripgrep's meaning.

A pattern without a slash matches at any depth, one with a slash from the directory on. ``*`` and ``?``
stay inside a component, ``**`` crosses them, ``{a,b}`` is either, a backslash makes a character
literal, and a leading ``!`` negates. Patterns come from a model, so a test takes time in proportion to
the path, for any pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

_MOST_CHARACTERS, _MOST_READINGS, _MOST_DEEP = 1_000, 64, 8
_SPECIAL = re.compile(r"[*?\[{\\!]")


class BadGlob(ValueError):
    """The pattern is invalid or too complex."""


def split(pattern: str) -> tuple[str, str]:
    """For an absolute pattern: the directory before its first wildcard, and the rest."""
    found = _SPECIAL.search(pattern)
    end = pattern.rfind("/", 0, found.start() if found else len(pattern))
    return pattern[:end] or "/", pattern[end + 1 :]


def matcher(pattern: str) -> Callable[[str], bool]:
    """A test for paths relative to the directory."""
    negated = pattern.startswith("!")
    body = pattern[1:] if negated else pattern
    if len(body) > _MOST_CHARACTERS:
        raise BadGlob(f"the pattern has more than {_MOST_CHARACTERS} characters")
    readings = list(_readings(body))
    test = re.compile("|".join(f"(?:{_expression(reading)})" for reading in readings), re.DOTALL)
    return lambda path: (test.fullmatch(path) is None) is negated


def _readings(pattern: str) -> Iterator[str]:
    """The pattern with every choice of ``{a,b}``."""
    waiting, count = [pattern], 0
    while waiting:
        text = waiting.pop()
        braces = _braces(text)
        if braces is None:
            count += 1
            yield text
        else:
            start, end, choices = braces
            waiting += [text[:start] + choice + text[end:] for choice in reversed(choices)]
        if count + len(waiting) > _MOST_READINGS:
            raise BadGlob(f"the pattern has more than {_MOST_READINGS} alternatives")


def _braces(text: str) -> tuple[int, int, list[str]] | None:
    """The first ``{…}``: where it starts and ends, and its choices."""
    depth, start, cuts, position = 0, -1, [], 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
        elif char == "{":
            depth += 1
            if depth == 1:
                start, cuts = position, [position]
        elif char == "," and depth == 1:
            cuts.append(position)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                cuts.append(position)
                choices = [text[a + 1 : b] for a, b in pairwise(cuts)]
                return start, position + 1, choices
        position += 1
    if depth:
        raise BadGlob("a { is never closed")
    return None


def _expression(pattern: str) -> str:
    anchored = "/" in pattern.rstrip("/")
    parts = pattern.lstrip("/").split("/")
    if parts.count("**") > _MOST_DEEP:
        raise BadGlob(f"the pattern has ** more than {_MOST_DEEP} times")
    out = "" if anchored else "(?:[^/]+/)*"
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            out += ".+" if last else "(?:[^/]+/)*"
        else:
            out += _component(part) + ("" if last else "/")
    return out


def _component(part: str) -> str:
    """Pieces between stars are matched in order without backtracking, so no pattern is slow."""
    first, *rest = list(_pieces(part))
    if not rest:
        return first
    middle = "".join(f"(?>[^/]*?{piece})" for piece in rest[:-1] if piece)
    return f"{first}{middle}[^/]*{rest[-1]}"


def _pieces(part: str) -> Iterator[str]:
    """The pieces between stars; each is an expression of fixed length."""
    piece, position = "", 0
    while position < len(part):
        char = part[position]
        position += 1
        if char == "*":
            yield piece
            piece = ""
        elif char == "?":
            piece += "[^/]"
        elif char == "[":
            found = re.compile(r"([!^]?)(\]?[^\]/]*)\]").match(part, position)
            if found is None:
                raise BadGlob("a [ is never closed")
            members = re.sub(r"([\[\]\\&~|^])", r"\\\1", found[2])
            piece += f"(?!/)[{'^' if found[1] else ''}{members}]"
            position = found.end()
        elif char == "\\" and position < len(part):
            piece += re.escape(part[position])
            position += 1
        else:
            piece += re.escape(char)
    yield piece
