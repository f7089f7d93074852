"""Search one log for a text, line by line.

It searches what the index would hold: the texts of a message by kind, without repetitions. A quick
look at the raw bytes avoids decoding most lines, and even splitting them; it is only used if JSON and case folding
allow a single spelling of what is searched.

``services.search.text_scan`` runs it as a job of the pool.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from recollect.errors import NotFound, StorageError
from recollect.model.damage import Line
from recollect.model.line_split import NEWLINE
from recollect.model.line_views.facts import LineFacts, facts_of
from recollect.model.lines_with import LinesWith
from recollect.model.search.query import Pattern, WordQuery
from recollect.services.search.question import (
    REGEX,
    SUBSTRING,
    WORDS,
    MessageFinder,
    SearchQuery,
    fields_of,
    finder_of,
    windows_of,
)
from recollect.services.search.quotes import MessagePlace, QuoteReader
from recollect.storage.logs.chunks import chunks
from recollect.storage.logs.reader import OpenLog
from recollect.system.pool import Run


class TextScanTask(NamedTuple):
    """A log to search: the lines at some offsets, or all."""

    path: str
    size: int
    is_tool_output: bool = False
    places: tuple[int, ...] | None = None


class SpottedLine(NamedTuple):
    """A matching line. ``session`` and ``agent`` are from the line; ``digest`` tells lines with irregular ids apart.

    ``in_prose``: what people read of it matches by itself.
    """

    offset: int
    length: int
    uuid: str | None = None
    at: int | None = None
    is_forked: bool = False
    session: str | None = None
    agent: str | None = None
    digest: bytes | None = None
    in_prose: bool = False


# --- one log -----------------------------------------------------------------------------------------------


def spotted(
    task: TextScanTask, question: SearchQuery, finder: MessageFinder, hint: RawHint
) -> Iterator[SpottedLine | None]:
    """The matching lines; None now and then, as a chance to stop. A log that cannot be opened has none."""
    try:
        with OpenLog(Path(task.path)) as log:
            if task.is_tool_output:
                if _output_fits(log, question, finder):
                    yield SpottedLine(0, task.size, at=None)
                return
            for line in hint.lines(log) if task.places is None else _lines_at(log, task.places):
                yield None if line is None else _fitting(line, question, finder)
    except (NotFound, StorageError):
        return


def _lines_at(log: OpenLog, places: Iterable[int]) -> Iterator[Line]:
    for place in places:
        line = next(log.lines(place), None)
        if isinstance(line, Line) and line.offset == place:
            yield line


def _fitting(line: Line, question: SearchQuery, finder: MessageFinder) -> SpottedLine | None:
    facts = facts_of(line.data)
    if facts is None or facts.texts is None or not question.fits_time(facts.at):
        return None
    fields = fields_of(facts, question.kinds)
    if not fields or not finder.matches(fields):
        return None
    return SpottedLine(
        line.offset,
        line.end - line.offset,
        facts.uuid,
        facts.at,
        facts.is_forked,
        facts.session,
        facts.agent,
        None if facts.uuid is None or is_uuid(facts.uuid) else _digest(facts),
        "prose" in fields and (len(fields) == 1 or finder.matches({"prose": fields["prose"]})),
    )


def is_uuid(text: str) -> bool:
    """Whether an id is unique to one message."""
    return re.fullmatch(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def _digest(facts: LineFacts) -> bytes:
    import hashlib

    return hashlib.blake2b(repr(facts.texts).encode("utf-8", "backslashreplace"), digest_size=16).digest()


def _output_fits(log: OpenLog, question: SearchQuery, finder: MessageFinder) -> bool:
    if "tool_result" not in question.kinds or not question.fits_time(None):
        return False
    # Words are searched in as much of it as the index holds.
    windows = itertools.islice(windows_of(log), 1 if question.how == WORDS else None)
    return any(finder.matches({"tool_result": text}) for text in windows)


# --- check of raw bytes ------------------------------------------------------------------------------------

# Letters that fold into ASCII and marks that are dropped, by one byte that each has in UTF-8: the first, or the
# last if the first is also that of every arrow.
_FOLDED = rb"[\xc3-\xc9\xcc\xe1\xaa\xab\xef]"
# A line may spell a letter in another way if it has an escape or one of these.
_OTHER_SPELLINGS = (rb"\\u", _FOLDED)
_LINES_AT_ONCE = 64


@cache
def _plain() -> re.Pattern[str]:
    """Text with only one spelling, except for case and JSON escapes: ASCII words and CJK characters."""
    # Not at import: compiling such a large class takes longer than loading the module.
    return re.compile("[0-9A-Za-z]+|[\u3041-\u9fff\uac00-\ud7a3]+")


class RawHint:
    """Pieces of text that every matching line contains, unless it spells one of them in another way."""

    def __init__(self, pieces: Iterable[str]) -> None:
        # The longest first: it is the rarest, and the one that is searched.
        self._pieces = sorted({piece.lower().encode() for piece in pieces}, key=len, reverse=True)
        self._search: LinesWith | None = None

    def lines(self, log: OpenLog) -> Iterator[Line | None]:
        """The lines of a log that may match; None now and then, as a chance to stop."""
        if not self._pieces:
            for number, item in enumerate(log.lines()):
                if isinstance(item, Line):
                    yield item
                if number % _LINES_AT_ONCE == 0:
                    yield None
            return
        if self._search is None:
            self._search = LinesWith(self._pieces[0], in_any_case=True, also=_OTHER_SPELLINGS)
        for chunk in chunks(log):
            yield None
            for start, stop in chunk.spans(self._search.ends(chunk.data)):
                line = chunk.data[start:stop]
                if self._may_match(line):
                    yield Line(line, chunk.offset + start, chunk.data.startswith(NEWLINE, stop))

    def _may_match(self, line: bytes) -> bool:
        """Whether it has the other pieces, too, or may spell one of them in another way."""
        others = self._pieces[1:]
        if not others:
            return True
        small = line.lower()
        return (
            all(piece in small for piece in others) or b"\\u" in small or re.search(_FOLDED, line) is not None
        )


def hint_of(question: SearchQuery) -> RawHint:
    """What the bytes of every matching line must contain."""
    if question.how == SUBSTRING:
        return RawHint(_plain().findall(question.text))
    if question.how == REGEX:
        needed = Pattern(question.text).required_words()
    else:
        query = WordQuery.parse(question.text)
        query = query.loosened() if question.is_loose else query
        # If there is no alternative, every word is required.
        needed = [] if " OR " in query.fts() else [word for term in query.terms for word in term.words]
    return RawHint(word for word in needed if _plain().fullmatch(word))


# --- as jobs of the pool -----------------------------------------------------------------------------------


def search_job(plain: tuple[Any, ...]) -> Run:
    """A job of ``system.pool``: the matching lines of some logs, each with the number of its log."""
    question = SearchQuery(*plain)
    finder, hint = finder_of(question), hint_of(question)

    def run(bundle: list[tuple[int, tuple[Any, ...]]]) -> Iterator[tuple[int, tuple[Any, ...]] | None]:
        for number, task in bundle:
            for found in spotted(TextScanTask(*task), question, finder, hint):
                yield None if found is None else (number, tuple(found))

    return run


def quotes_job(plain: tuple[Any, ...]) -> Run:
    """A job of ``system.pool``: the quotes at some positions, each with its number."""
    question = SearchQuery(*plain)
    finder = finder_of(question)

    def run(task: tuple[list[tuple[Any, ...]], int]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        places, width = task
        with QuoteReader() as quotes:
            for number, place in enumerate(places):
                quote = quotes.quote(MessagePlace(*place), finder, question.kinds, width)
                if quote is not None:
                    yield number, structs.astuple(quote)

    return run
