"""For denies: the words that a text which is not understood might bring into command position.

Structure is ignored. Quotes and backslashes are removed, ANSI strings decoded, braces expanded,
variables replaced by every value the text assigns to them, and every piece between blanks and operators
counts. Linear in the length of the text, without a cap, because a cap could turn a deny into a question
(A03).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from recollect.policy.analysis import Command, Word
from recollect.policy.shell.quoting import ansi_value

_OPERATORS = re.compile(r"[;|&\n()`]+")
_BLANKS = re.compile(r"[\s;|&()<>`]+")
_PIECES = re.compile(r"[^\s;|&()<>`{}$,=\"'\\]+")
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.){0,1000})'", re.DOTALL)
_QUOTES = re.compile(r"[\"'\\]|\$(?=[\"'])")
_CLOSED = re.compile(r"[<>]&[0-9]{0,9}-")
_ASSIGNED = re.compile(r"(?:^|[\s;|&()`\"'])([A-Za-z_]\w{0,99})\+?=([^\s;|&()<>`]*)")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,99})[^}]{0,100}\}|([A-Za-z_]\w{0,99}))")
_DEFAULT = re.compile(r"\$\{[^}:+=?-]{0,100}:?[-+=?]([^}]{0,200})\}")
_BRACE = re.compile(r"([^{}]*)\{([^{}]*,[^{}]*)\}(.*)", re.DOTALL)
_KEYWORDS = frozenset(
    {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "}", "time", "in", "case"}
)
_MOST = 256
_LONGEST_MADE = 400
"""Combinations tried for one word with braces or variables; longer words name no program."""


def plain(text: str) -> str:
    """The text with all quoting removed."""
    joined = text.replace("\\\r\n", "").replace("\\\n", "")
    decoded = _ANSI.sub(lambda match: ansi_value(match[1]) or match[1], joined)
    return _CLOSED.sub(" ", _QUOTES.sub("", decoded))


def tokens(text: str) -> frozenset[str]:
    """Every word of the text, in every known reading."""
    bare = plain(text)
    values = _assignments(bare)
    found: set[str] = set()
    for source in {text, bare}:
        found.update(_PIECES.findall(source))
        for token in set(_BLANKS.split(source)):
            found.update(_readings(token, values))
    found.update(piece for match in _DEFAULT.finditer(bare) for piece in match[1].split())
    found.discard("")
    found |= {word.lower() for word in found}
    return frozenset(found) | _base_names(found)


def _base_names(found: Iterable[str]) -> frozenset[str]:
    return frozenset(word.rstrip("/").rsplit("/", 1)[-1] for word in found if "/" in word) - {""}


def _assignments(bare: str) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in dict.fromkeys(_ASSIGNED.findall(bare)):
        if len(value) <= _LONGEST_MADE:
            values.setdefault(name, []).append(value)
    return values


def _readings(token: str, values: dict[str, list[str]]) -> Iterator[str]:
    yield token
    if len(token) > _LONGEST_MADE:
        return
    if "{" in token and "," in token:
        yield from islice(_expanded(token), _MOST)
    if "$" in token and values:
        yield from islice(_replaced(token, values), _MOST)


def _expanded(token: str) -> Iterator[str]:
    """Brace expansion, one pair at a time; a stack instead of recursion."""
    waiting = [token]
    for _ in range(_MOST * 8):
        if not waiting:
            return
        word = waiting.pop()
        match = _BRACE.fullmatch(word)
        if match is None:
            yield word
            continue
        before, inside, after = match.groups()
        waiting.extend(before + piece + after for piece in reversed(inside.split(",")[:_MOST]))


def _replaced(token: str, values: dict[str, list[str]]) -> Iterator[str]:
    waiting = [(token, 0)]
    for _ in range(_MOST * 8):
        if not waiting:
            return
        word, depth = waiting.pop()
        match = _VARIABLE.search(word)
        if match is None or depth > 8:
            yield word
            continue
        before, after = word[: match.start()], word[match.end() :]
        choices = values.get(match[1] or match[2], [""])[:_MOST]
        waiting.extend((before + value + after, depth + 1) for value in choices)


def commands(text: str) -> tuple[Command, ...]:
    """One command per piece between operators, as bare words. For denies only."""
    found = []
    for piece in _OPERATORS.split(plain(text)):
        words = [word for word in piece.split() if word]
        while words and words[0] in _KEYWORDS:
            words.pop(0)
        if words:
            found.append(Command(piece.strip(), tuple(Word(word, word) for word in words), nested=True))
    return tuple(found)
