"""A query as plain values that can be sent to another process, and the texts of a line it applies to."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from msgspec import Struct

from recollect.errors import NotFound, StorageError
from recollect.index.schema import TOOL_OUTPUT, id_text
from recollect.index.text_queries import MessageCopy, TextLogRow
from recollect.model.text.query import AllOf, AnyOf, Pattern, Substring, WordQuery
from recollect.model.text.snippet import PlaceFinder, snippet
from recollect.model.text.terms import Term
from recollect.model.views.facts import TEXT_KINDS, LineFacts, facts_of
from recollect.store.logs.reader import OpenLog

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


class MessageFinder(PlaceFinder, Protocol):
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


_OPEN_AT_ONCE = 32
# Characters of a long text that are cleaned, and how many at a cut are not shown.
_CLEANED, _MARGIN = 64_000, 16_000


FoundMessage = tuple[TextLogRow, MessageCopy]
"""A message and the log it is shown in."""


class Quote(Struct):
    """A quote: its kind of text, the window, the positions to mark, the branch of the line."""

    kind: str
    text: str
    marks: list[tuple[int, int]]
    branch: str | None = None


class QuoteReader:
    """Reads the quotes of one answer. ``clean`` changes each text before it is cut, such as by removing secrets."""

    def __init__(self, clean: Callable[[str], str] | None = None) -> None:
        self._open: dict[str, OpenLog] = {}
        self._clean = clean

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def facts(self, found: FoundMessage) -> LineFacts | None:
        """The facts of the line; None if another line is there now, or the log cannot be read."""
        log, copy = found
        try:
            data = self._line(log.path, copy.offset, copy.length)
        except StorageError:
            return None
        facts = None if data is None else facts_of(data)
        return facts if facts is not None and facts.uuid == id_text(copy.uuid) else None

    def quote(
        self, found: FoundMessage, finder: MessageFinder, kinds: Sequence[str], width: int
    ) -> Quote | None:
        """The best window of the matching text; None if the match no longer exists, or cannot be read."""
        with contextlib.suppress(StorageError):
            return self._quote(found, finder, kinds, width)
        return None

    def _quote(
        self, found: FoundMessage, finder: MessageFinder, kinds: Sequence[str], width: int
    ) -> Quote | None:
        # Tokenizing takes longer than quoting, so only a text that may have changed is matched again.
        is_known = self._is_unchanged(found[0])
        for fields, branch in self._texts(found, kinds):
            if is_known or finder.matches(fields):
                if self._clean is not None:
                    fields = {kind: self._cleaned(text, finder) for kind, text in fields.items()}  # noqa: PLW2901
                cut = _cut(fields, finder, width)
                if cut is not None:
                    cut.branch = branch
                    return cut
        return None

    def _texts(
        self, found: FoundMessage, kinds: Sequence[str]
    ) -> Iterator[tuple[dict[str, str], str | None]]:
        """The texts of a message with its branch; of a side file, one window after the other."""
        if found[0].role == TOOL_OUTPUT:
            log = self._log(found[0].path)
            yield from (() if log is None else (({"tool_result": text}, None) for text in windows_of(log)))
            return
        facts = self.facts(found)
        if facts is not None:
            yield fields_of(facts, kinds), facts.branch

    def _cleaned(self, text: str, finder: MessageFinder) -> str:
        """The text, or of a very long one the part around the first match, cleaned.

        What is cut off after cleaning is longer than any secret, so none is shown in part.
        """
        assert self._clean is not None  # noqa: S101 - for the type checker: the caller checks it
        if len(text) <= _CLEANED:
            return self._clean(text)
        first = next((start for start, _, _ in finder.places(text)), 0)
        start, end = max(0, first - _CLEANED // 2), first + _CLEANED // 2
        clean = self._clean(text[start:end])
        return clean[_MARGIN if start else 0 : len(clean) - (_MARGIN if end < len(text) else 0)]

    def _is_unchanged(self, seen: TextLogRow) -> bool:
        log = self._log(seen.path)
        if log is None:
            return True
        now = log.stat()
        return (seen.size, seen.mtime) == (now.st_size, now.st_mtime_ns)

    def _line(self, path: str, offset: int, length: int) -> bytes | None:
        log = self._log(path)
        if log is None:
            return None
        data = log.read_all(length, offset)
        is_line = len(data) == length and (not offset or log.read(1, offset - 1) == b"\n")
        return data.removesuffix(b"\n") if is_line else None

    def _log(self, path: str) -> OpenLog | None:
        log = self._open.get(path)
        if log is None:
            if len(self._open) >= _OPEN_AT_ONCE:
                self._open.pop(next(iter(self._open))).close()
            try:
                log = self._open[path] = OpenLog(Path(path))
            except (NotFound, StorageError):
                return None
        return log


def _cut(fields: dict[str, str], finder: MessageFinder, width: int) -> Quote | None:
    """From the first kind of text that matches alone, else from the first that has part of the match."""
    partly = None
    for kind, text in fields.items():
        piece = snippet(text, finder, width)
        quote = Quote(kind, piece.text, piece.marks)
        if (len(fields) == 1 and piece.marks) or finder.matches({kind: text}):
            return quote
        if piece.marks:
            partly = partly or quote
    return partly
