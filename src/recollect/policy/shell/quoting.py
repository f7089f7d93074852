"""One word while it is being read: its value, and which characters the shell still acts on.

Beside the value there is a *skeleton* of the same length, in which every quoted or expanded character
is an ``x``. Globs, braces, tildes and zsh's ``=`` are searched only in the skeleton, so quoting can
neither hide nor fake them.
"""

from __future__ import annotations

import re

from recollect.policy.analysis import Word
from recollect.policy.shell.characters import QUOTE_LOOKALIKES

_GLOB = re.compile(r"[*?\[]")
_HISTORY = re.compile(r"!(?!=|\Z)")
_ASSIGNED_TILDE = re.compile(r"[A-Za-z_]\w*\+?=(?:.*:)?~")
_ANSI = re.compile(
    r"\\(?:(?P<oct>[0-7]{1,3})|x(?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{1,4})|U(?P<big>[0-9A-Fa-f]{1,8})"
    r"|c(?P<control>.)|(?P<one>[abeEfnrtv\\'\"?]))",
    re.DOTALL,
)
_NAMED = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


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
