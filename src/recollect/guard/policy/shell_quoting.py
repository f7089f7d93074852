"""Quotes of a shell text: what hides from a person, a word being read, and every word of a text nobody understands.

A person must be shown what the shell is given: a text with a carriage return, a zero-width space or a long run of
blanks is not analysed. While a word is read, beside its value there is a *skeleton* of the same length, in which every
quoted or expanded character is an ``x``: globs, braces and tildes are searched only there, so quoting can neither hide
nor fake them. ``tokens`` serves denies: linear in the length of the text, without a cap (A03).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from recollect.guard.policy.terms import Command, Word

LONGEST = 10_000
"""Characters. Longer texts are still searched for denied words, never allowed (A04)."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_BLANK_LOOKALIKE = re.compile("[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_HIDING = re.compile(r"[ \t]{100,}|(?:[ \t]*\n){30,}")
_UNPAIRED = re.compile("[\ud800-\udfff]")

QUOTE_LOOKALIKES = frozenset("\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\uff02\uff07\u00b4")
"""Harmless inside quotes; outside them a person sees quotes where the shell reads a word."""


def character_doubts(text: str) -> list[str]:
    """Why this text is not analysed; empty when it may be."""
    found = []
    if len(text) > LONGEST:
        found.append(f"longer than {LONGEST:,} characters")
    if _CONTROL.search(text):
        found.append("control character")
    if _HIDING.search(text):
        found.append("long run of blanks that can hide the rest")
    if not text.isascii():
        if _INVISIBLE.search(text):
            found.append("invisible or direction-changing character")
        if _BLANK_LOOKALIKE.search(text):
            found.append("character that looks like a blank but is not one")
        if _UNPAIRED.search(text):
            found.append("unpaired surrogate")
    return found


_GLOB = re.compile(r"[*?\[]")
_HISTORY = re.compile(r"!(?!=|\Z)")
_ASSIGNED_TILDE = re.compile(r"[A-Za-z_]\w*\+?=(?:.*:)?~")
_ANSI = re.compile(
    r"\\(?:(?P<oct>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})|U(?P<big>[0-9A-Fa-f]{1,8})"
    r"|c(?P<control>.)|(?P<one>[abeEfnrtv\\'\"?]))",
    re.DOTALL,
)
_NAMED = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


_MOST_GUESSES = 64


def _has_braces(shape: str) -> bool:
    # Not a regular expression: `{,{,{,` would make one backtrack for minutes.
    first, last = shape.find("{"), shape.rfind("}")
    return 0 <= first < last and ("," in shape[first:last] or ".." in shape[first:last])


def ansi_value(body: str) -> str | None:
    """The value of ``$'body'``; None when it has a NUL or bytes that are not one character."""
    sound = True

    def one(match: re.Match[str]) -> str:
        nonlocal sound
        if (letter := match["one"]) is not None:
            return _NAMED.get(letter, letter)
        if match["control"] is not None:
            sound = False
            return ""
        number = int(match["oct"], 8) if match["oct"] else int(match["hex"] or match["u"] or match["big"], 16)
        if not 0 < number < 0x80:
            sound = False
            return ""
        return chr(number)

    value = _ANSI.sub(one, body)
    return value if sound else None


class WordBuilder:
    """Collects the pieces of one word from ``start`` on."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.value: list[str] = []
        self.skeleton: list[str] = []
        self.likely: list[tuple[str, ...]] = []
        self.known = True
        self.process = False
        """It contains a process substitution."""

    def plain(self, text: str) -> None:
        self.value.append(text)
        self.skeleton.append(text)

    def quoted(self, text: str) -> None:
        """Characters the shell takes literally; empty quotes still make a word."""
        self.value.append(text)
        self.skeleton.append("x" * max(len(text), 1))

    def unknown(self, *likely: str) -> None:
        """A part of unknown value, with its possible values as far as the text shows them."""
        self.likely.append(("".join(self.value),))
        self.value = []
        self.likely.append(likely)
        self.known = False
        self.skeleton.append("x")

    @property
    def empty(self) -> bool:
        return not self.skeleton

    def doubts(self) -> list[str]:
        """What the shell would act on in this word and we do not follow."""
        shape = "".join(self.skeleton)
        found = []
        if _has_braces(shape):
            found.append("brace expansion")
        if "!" in shape and shape != "!" and _HISTORY.search(shape):
            found.append("history expansion")
        if shape.startswith("~") and shape[1:2] not in {"", "/"}:
            found.append("tilde of another user")
        if shape.startswith("=") and shape.strip("="):
            found.append("zsh expands = at the start of a word")
        if not shape.isascii() and QUOTE_LOOKALIKES.intersection(shape):
            found.append("look-alike quotation mark outside quotes")
        return found

    def word(self, raw: str) -> Word:
        shape = "".join(self.skeleton)
        globs = shape not in ("[", "[[") and _GLOB.search(shape) is not None
        known = self.known and not _ASSIGNED_TILDE.match(shape) and not _has_braces(shape)
        return Word(raw, "".join(self.value) if known else None, globs, self._guesses())

    def _guesses(self) -> tuple[str, ...]:
        if self.known:
            return ()
        guesses = [""]
        for values in [*self.likely, ("".join(self.value),)]:
            if not values:
                return ()
            most = max(1, _MOST_GUESSES // len(values))
            guesses = [before + value for before in guesses[:most] for value in values[:_MOST_GUESSES]]
            if len(guesses[0]) > 1_000:
                return ()
        return tuple(dict.fromkeys(guesses))


_OPERATORS = re.compile(r"[;|&\n()`]+")
_BLANKS = re.compile(r"[\s;|&()<>`]+")
_PIECES = re.compile(r"[^\s;|&()<>`{}$,=\"'\\]+")
_ANSI_STRING = re.compile(r"\$'((?:[^'\\]|\\.){0,1000})'", re.DOTALL)
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
    decoded = _ANSI_STRING.sub(lambda match: ansi_value(match[1]) or match[1], joined)
    return _CLOSED.sub(" ", _QUOTES.sub("", decoded))


def tokens(text: str) -> frozenset[str]:
    """Every word of the text, in every known reading."""
    bare = plain(text)
    values: dict[str, list[str]] = {}
    for name, value in dict.fromkeys(_ASSIGNED.findall(bare)):
        if len(value) <= _LONGEST_MADE:
            values.setdefault(name, []).append(value)
    found: set[str] = set()
    for source in {text, bare}:
        found.update(_PIECES.findall(source))
        for token in set(_BLANKS.split(source)):
            found.update(_readings(token, values))
    found.update(piece for match in _DEFAULT.finditer(bare) for piece in match[1].split())
    found.discard("")
    found |= {word.lower() for word in found}
    return frozenset(found) | (
        frozenset(word.rstrip("/").rsplit("/", 1)[-1] for word in found if "/" in word) - {""}
    )


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


def pieces(text: str) -> tuple[Command, ...]:
    """One command per piece between operators, as bare words. For denies only."""
    found = []
    for piece in _OPERATORS.split(plain(text)):
        words = [word for word in piece.split() if word]
        while words and words[0] in _KEYWORDS:
            words.pop(0)
        if words:
            found.append(Command(piece.strip(), tuple(Word(word, word) for word in words), nested=True))
    return tuple(found)
