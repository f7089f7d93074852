"""A query as plain values that can be sent to another process, and the texts of a line it applies to."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from recollect.model.line_views.facts import TEXT_KINDS, LineFacts
from recollect.model.search import snippet
from recollect.model.search.query import AllOf, AnyOf, Pattern, Substring, WordQuery
from recollect.model.search.terms import Term
from recollect.storage.logs.reader import OpenLog

WORDS, SUBSTRING, REGEX, BEST = "words", "substring", "regex", "best"
HOW = (WORDS, SUBSTRING, REGEX, BEST)
# The index holds this much of a side file; a reader of the file goes on in overlapping windows.
OUTPUT_WINDOW = 32 << 20
_OVERLAP = 1 << 20


class SearchQuery(Struct, frozen=True):
    """A query. Times are milliseconds since 1970; a message without a time matches no time."""

    how: str
    text: str
    is_case_exact: bool = False
    kinds: tuple[str, ...] = TEXT_KINDS
    since: int | None = None
    until: int | None = None
    is_loose: bool = False  # any of the words instead of all

    def fits_time(self, at: int | None) -> bool:
        if at is None:
            return self.since is None and self.until is None
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


class MessageFinder(snippet.PlaceFinder, Protocol):
    """The common interface of ``WordQuery``, ``Substring`` and ``Pattern``."""

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether a message with these texts matches."""


AnyFinder = WordQuery | Substring | Pattern
_FLAGS = r"\(\?([aLmsux]+)\)"
_DOTLESS = "\u0131"  # equals i in a case-insensitive pattern, but is another letter to the index
_MOST_SPELLINGS, _MOST_NEEDED = 8, 4


def finder_of(question: SearchQuery) -> AnyFinder:
    """The finder for a query; UsageError if the query is invalid."""
    if question.how == SUBSTRING:
        return Substring(question.text, case_sensitive=question.is_case_exact)
    if question.how == REGEX:
        pattern = Pattern(question.text)
        return pattern if question.is_case_exact else Pattern(_in_any_case(question.text))
    query = WordQuery.parse(question.text)
    return query.loosened() if question.is_loose else query


def _in_any_case(regex: str) -> str:
    flags = re.match(_FLAGS, regex)
    return f"(?i{flags[1]}){regex[flags.end() :]}" if flags else f"(?i){regex}"


def narrowing(question: SearchQuery) -> WordQuery | None:
    """A word query that finds every message which may match a substring or pattern; None if there is none."""
    if question.how == SUBSTRING:
        needed = Substring(question.text, case_sensitive=question.is_case_exact).required_words()
    else:
        needed = Pattern(question.text).required_words()
    is_plain = question.how == SUBSTRING or question.is_case_exact
    spellings = [[word] for word in needed] if is_plain else list(_spellings(needed))
    # The longest words are the rarest; a few of them suffice.
    chosen = sorted(spellings, key=lambda words: (len(words), -len(words[0])))[:_MOST_NEEDED]
    # Not built from text: these are index words already, and some cannot be typed.
    parts = tuple(AnyOf(tuple(Term((word,)) for word in words)) for words in chosen)
    return WordQuery(question.text, AllOf(parts)) if parts else None


def _spellings(words: Iterable[str]) -> Iterator[list[str]]:
    """Each word in all spellings that a case-insensitive pattern matches."""
    for word in words:
        letters = [("i", _DOTLESS) if letter == "i" else (letter,) for letter in word]
        if word.isascii() and 2 ** word.count("i") <= _MOST_SPELLINGS:
            yield ["".join(spelled) for spelled in itertools.product(*letters)]


def fields_of(facts: LineFacts, kinds: Iterable[str]) -> dict[str, str]:
    """The texts of a line, by kind."""
    texts = dict(zip(TEXT_KINDS, facts.texts or (), strict=False))
    return {kind: text for kind in kinds if (text := texts.get(kind))}


def windows_of(output: OpenLog) -> Iterator[str]:
    """The text of a side file in windows that overlap."""
    size, start = output.stat().st_size, 0
    while start == 0 or start < size - _OVERLAP:
        yield output.read_all(OUTPUT_WINDOW, start).decode("utf-8", "replace")
        start += OUTPUT_WINDOW - _OVERLAP
