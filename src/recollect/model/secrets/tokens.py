"""Tokens with a provider's mark: one search for all prefixes, then the kinds with that prefix."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from recollect.model.secrets.found import SecretMatch
from recollect.model.secrets.patterns import TOKENS, TokenPattern
from recollect.model.secrets.plausible import is_invented

_LETTER = "[0-9A-Za-z]"
_WORD_LETTER = "[0-9A-Za-z_-]"


class CompiledToken(NamedTuple):
    """The expressions of a kind: with its edges, without them, and its alphabet."""

    token: TokenPattern
    strict: re.Pattern[str]
    loose: re.Pattern[str]
    edge: re.Pattern[str]
    has_one_length: bool


@functools.cache
def compiled(token: TokenPattern) -> CompiledToken:
    """Compiled on first use: there are many kinds, and a command meets few."""
    start = "|".join(map(re.escape, token.starts))
    core = f"(?:{start})(?:{token.body})"
    letter = _WORD_LETTER if "_-]" in token.body else _LETTER
    return CompiledToken(
        token,
        re.compile(f"(?<!{_LETTER}){core}(?!{letter})", re.ASCII),
        re.compile(core, re.ASCII),
        re.compile(letter, re.ASCII),
        re.search(r"\{\d+,\d*\}", token.body.replace("={0,", "=")) is None,
    )


@functools.cache
def beginnings() -> tuple[re.Pattern[str], dict[str, list[TokenPattern]]]:
    """One expression for all prefixes, and the tokens that may follow each."""
    starts = sorted({start for token in TOKENS for start in token.starts}, key=lambda one: (-len(one), one))
    rows = {
        start: [token for token in TOKENS if token.starts and start.startswith(token.starts)]
        for start in starts
    }
    return re.compile(_trie(starts), re.ASCII), rows


def _trie(words: Iterable[str]) -> str:
    """An expression for any of the words that tries each first letter once; the longest wins."""
    tails: dict[str, list[str]] = {}
    for word in words:
        tails.setdefault(word[:1], []).append(word[1:])
    has_end = tails.pop("", None) is not None
    branches = [re.escape(letter) + _trie(rest) for letter, rest in sorted(tails.items())]
    if not branches:
        return ""
    inner = f"(?:{'|'.join(branches)})" if len(branches) > 1 else branches[0]
    return f"(?:{inner})?" if has_end else inner


def tokens(text: str) -> Iterator[SecretMatch]:
    """Every unbroken token in a text."""
    expression, rows = beginnings()
    for beginning in expression.finditer(text):
        for token in rows[beginning.group()]:
            match = compiled(token).strict.match(text, beginning.start())
            if match is not None and not is_invented(match.group()):
                yield SecretMatch(token.kind, *match.span(), match.group())
    for token in marked_inside():
        if token.inside in text:
            for match in compiled(token).strict.finditer(text):
                if not is_invented(match.group()):
                    yield SecretMatch(token.kind, *match.span(), match.group())


@functools.cache
def marked_inside() -> tuple[TokenPattern, ...]:
    """The kinds without a prefix of their own."""
    return tuple(token for token in TOKENS if token.inside)
