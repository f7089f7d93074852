"""Quote the logs: the text around a match.

The index holds no text, so quotes are read from the log at answer time. If the log has changed by
then, the quote is left out: never guessed, never an error. Each log is opened once per answer, and
the number of open files is limited.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from recollect.errors import NotFound, StorageError
from recollect.model.line_views.facts import LineFacts, facts_of
from recollect.model.search.snippet import snippet
from recollect.services.search.question import MessageFinder, fields_of, windows_of
from recollect.storage.logs.reader import OpenLog

_OPEN_AT_ONCE = 32
# Characters of a long text that are cleaned, and how many at a cut are not shown.
_CLEANED, _MARGIN = 64_000, 16_000


class MessagePlace(Struct, frozen=True):
    """Where a message is. ``uuid`` is the id its line must have, None if it has none.

    ``seen`` is the size and time of the log when it was indexed; None if it was just read.
    """

    path: str
    offset: int
    length: int
    uuid: str | None = None
    is_tool_output: bool = False
    seen: tuple[int, int] | None = None


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

    def facts(self, place: MessagePlace) -> LineFacts | None:
        """The facts of the line; None if another line is there now."""
        with contextlib.suppress(StorageError):
            return self._facts(place)
        return None

    def _facts(self, place: MessagePlace) -> LineFacts | None:
        data = self._line(place.path, place.offset, place.length)
        facts = None if data is None else facts_of(data)
        return facts if facts is not None and facts.uuid == place.uuid else None

    def quote(
        self, place: MessagePlace, finder: MessageFinder, kinds: Sequence[str], width: int
    ) -> Quote | None:
        """The best window of the matching text; None if the match no longer exists."""
        with contextlib.suppress(StorageError):
            return self._quote(place, finder, kinds, width)
        return None

    def _quote(
        self, place: MessagePlace, finder: MessageFinder, kinds: Sequence[str], width: int
    ) -> Quote | None:
        # Tokenizing takes longer than quoting, so only a text that may have changed is matched again.
        is_known = self._is_unchanged(place)
        for fields, branch in self._texts(place, kinds):
            if is_known or finder.matches(fields):
                if self._clean is not None:
                    fields = {kind: self._cleaned(text, finder) for kind, text in fields.items()}  # noqa: PLW2901
                cut = _cut(fields, finder, width)
                if cut is not None:
                    cut.branch = branch
                    return cut
        return None

    def _texts(
        self, place: MessagePlace, kinds: Sequence[str]
    ) -> Iterator[tuple[dict[str, str], str | None]]:
        """The texts of a message with its branch; of a side file, one window after the other."""
        if place.is_tool_output:
            log = self._log(place.path)
            yield from (() if log is None else (({"tool_result": text}, None) for text in windows_of(log)))
            return
        facts = self._facts(place)
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

    def _is_unchanged(self, place: MessagePlace) -> bool:
        log = self._log(place.path)
        if log is None or place.seen is None:
            return True
        now = log.stat()
        return place.seen == (now.st_size, now.st_mtime_ns)

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
