"""A text without escapes, line breaks or base64, with a mapping back to every original position.

A secret is rarely written plainly in a transcript. It is in JSON inside JSON, has colours around it, was
wrapped at column 80, or was printed by ``base64``. Each view undoes one of these and remembers where its
characters came from, so that a match in a view is replaced in the text itself. A position is never inside an
escape: spans begin and end between whole characters of the source.

Texts are ASCII or bytes read as Latin-1; a position is an index into them. Nothing here knows what a secret
is.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Colours and other commands to a terminal, such as links: as programs print them, written as an escape, and what
# is left where a log shows the escape as ^[ or has lost it.
_ESC = r"(?:\\+(?:u001[bB]|x1[bB]|e|033)|\x1b)"
TERMINAL_CODE = (
    rf"(?:{_ESC}[ -/][0-~])?(?:{_ESC}|\^\[)\[[0-?]*[ -/]*[@-~]|{_ESC}[ -/][0-~]"
    rf"|{_ESC}\][0-9]{{1,4}};[ !#-\[\]-~]{{0,2000}}?(?:\\+(?:u0007|x07|a|007)|\x07|{_ESC}\\+)"
    r"|\[[0-9]{1,3}(?:[;:][0-9]{1,3}){0,8}m"
)
_ESCAPE = re.compile(
    rf"(?=[\\\x1b^\[%])(?:{TERMINAL_CODE}"  # dropped
    r"|\\(?:u([0-9A-Fa-f]{4})|([\"'\\/`]|[bfnrtv0e]))"  # of JSON, shells and similar languages
    r"|%([2-7][0-9A-Fa-f]))"  # of addresses
)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0", "e": "\x1b"}
# What tools print before a line: indentation and line numbers; then marks of a patch or a quotation.
_MARGIN = re.compile(r"[ \t]*(?:[0-9]{1,6}(?:\u2192|\xe2\x86\x92|[ ]?[|:\t][ \t]?)[ \t]*)?")
_MARK = re.compile(r"(?:[>+|-]|\u2502|\xe2\x94\x82)[ ]?")
_END_OF_LINE = re.compile(r"[ \t\r]*\\?[ \t\r]*\Z")
_BASE64 = re.compile(r"[0-9A-Za-z+/]{27,}={0,2}")
_BASE64_LINE = re.compile(r"[0-9A-Za-z+/]+={0,2}")
_SHORTEST_WRAPPED = 40


class TextSpan(NamedTuple):
    """A part of a text; ``end`` is exclusive."""

    start: int
    end: int


class TextView:
    """A text made of parts of another. ``breaks`` are the starts of joined lines, in order."""

    def __init__(
        self, text: str, starts: list[int], places: list[TextSpan], breaks: tuple[int, ...] = ()
    ) -> None:
        self.text = text
        self.breaks = breaks
        # Part n begins at starts[n] and came from places[n]. It has one character, or as many as its source.
        self._starts, self._places = starts, places

    def source(self, span: TextSpan) -> TextSpan:
        """The source of a span of this view."""
        first = bisect_right(self._starts, span.start) - 1
        last = bisect_right(self._starts, span.end - 1) - 1
        start = self._places[first].start + (span.start - self._starts[first])
        place, inside = self._places[last], span.end - self._starts[last]
        whole = self._length(last) == place.end - place.start
        return TextSpan(start, place.start + inside if whole else place.end)

    def lines(self) -> Iterator[TextSpan]:
        """The lines it was joined from, as spans of this view."""
        for start, end in zip(self.breaks, [*self.breaks[1:], len(self.text)], strict=True):
            yield TextSpan(start, end)

    def is_break(self, place: int) -> bool:
        """Whether a line begins here."""
        at = bisect_left(self.breaks, place)
        return at < len(self.breaks) and self.breaks[at] == place

    def breaks_inside(self, start: int, end: int) -> tuple[int, ...]:
        """The line starts after ``start`` and before ``end``."""
        return self.breaks[bisect_right(self.breaks, start) : bisect_left(self.breaks, end)]

    def _length(self, piece: int) -> int:
        after = self._starts[piece + 1] if piece + 1 < len(self._starts) else len(self.text)
        return after - self._starts[piece]


def _assembled(parts: Iterable[tuple[str, TextSpan]], *, with_breaks: bool = False) -> TextView | None:
    """A view of some texts and where they came from; None where all are empty. ``with_breaks``: each is a line."""
    pieces: list[str] = []
    starts: list[int] = []
    places: list[TextSpan] = []
    length = 0
    for piece, place in parts:
        if piece:
            pieces.append(piece)
            starts.append(length)
            places.append(place)
            length += len(piece)
    return TextView("".join(pieces), starts, places, tuple(starts) if with_breaks else ()) if pieces else None


def unescaped(text: str) -> TextView | None:
    """The text with escapes decoded and colours removed; None where there are none."""
    return _assembled(_decoded(text)) if _ESCAPE.search(text) else None


def _decoded(text: str) -> Iterator[tuple[str, TextSpan]]:
    end = 0
    for escape in _ESCAPE.finditer(text):
        yield text[end : escape.start()], TextSpan(end, escape.start())
        yield _meaning(escape), TextSpan(*escape.span())
        end = escape.end()
    yield text[end:], TextSpan(end, len(text))


def _meaning(escape: re.Match[str]) -> str:
    code, letter, percent = escape.groups()
    if code:
        # No pattern looks beyond ASCII; any one character will do.
        return chr(int(code, 16)) if int(code, 16) < 0x80 else "\x80"
    if letter:
        return _LETTERS.get(letter, letter)
    return chr(int(percent, 16)) if percent else ""


def joined(text: str, *, is_marked: bool = False) -> TextView | None:
    """The text as one line, without line breaks and what tools print around lines; None without any.

    With ``is_marked`` the marks of a patch or a quotation are dropped; otherwise they count as letters.
    """
    if "\n" not in text:
        return None
    lines = _lines(text, is_marked)
    return _assembled(((text[line.start : line.end], line) for line in lines), with_breaks=True)


def _lines(text: str, is_marked: bool) -> Iterator[TextSpan]:
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        first = _behind_margin(text, start, end, is_marked)
        tail = _END_OF_LINE.search(text, max(first, end - 80), end)
        yield TextSpan(first, end if tail is None else tail.start())
        start = end + 1


def _behind_margin(text: str, start: int, end: int, is_marked: bool) -> int:
    margin = _MARGIN.match(text, start, end)
    first = start if margin is None else margin.end()
    mark = _MARK.match(text, first, end) if is_marked else None
    return first if mark is None else mark.end()


def base64_stretches(text: str) -> Iterator[tuple[TextSpan, str]]:
    """Every run of base64, and its letters without what separates its lines; wrapped lines are one run."""
    end = 0
    for run in _BASE64.finditer(text):
        if run.start() < end:
            continue
        # A plus at the start of a line may be a letter or the mark of a patch: then the next line has one too.
        start = run.start()
        is_marked = (
            text[start] == "+" and text[start - 1 : start] in ("", "\n") and text.startswith("\n+", run.end())
        )
        letters, end = _wrapped(text, TextSpan(start + is_marked, run.end()), is_marked)
        yield TextSpan(start + is_marked, end), letters


def _wrapped(text: str, run: TextSpan, is_marked: bool) -> tuple[str, int]:
    parts, end = [text[run.start : run.end]], run.end
    while len(parts[-1]) >= _SHORTEST_WRAPPED and not parts[-1].endswith("="):
        line = _next_line(text, end, is_marked)
        if line is None or line.end - line.start > len(parts[-1]):
            break
        parts.append(text[line.start : line.end])
        end = line.end
    return "".join(parts), end


def _next_line(text: str, end: int, is_marked: bool) -> TextSpan | None:
    """The line after ``end``, if ``end`` is the end of a line and that line is all base64."""
    newline = text.find("\n", end, end + 4)
    if newline < 0 or text[end:newline].strip(" \t\r"):
        return None
    start = _behind_margin(text, newline + 1, len(text), is_marked)
    found = _BASE64_LINE.match(text, start)
    if found is None:
        return None
    behind = text[found.end() : found.end() + 1]
    return TextSpan(*found.span()) if behind in ("", "\n", "\r", " ", '"', "'") else None
