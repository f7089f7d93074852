"""A short excerpt of a text that shows why it was found.

A text may be a line or 20 MB of tool output. Only the first matches are considered, and only their
surroundings are copied, so the cost is little more than the search itself. The excerpt is the earliest window
with the most different terms; it is cut between words if possible, white space becomes one blank, and an
ellipsis marks omitted text.

Characters are passed on unchanged, including control characters and halves of surrogate pairs: the output
code decides what a terminal may receive.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from msgspec import Struct

from recollect.model.lines.damage import brief_repr
from recollect.model.text.query import merged

_ELLIPSIS = "…"
_MOST_PLACES = 200
# How far a cut may move to fall between two words, and how much white space a window may absorb.
_LONGEST_STEP, _MORE_THAN_SHOWN = 20, 8


class PlaceFinder(Protocol):
    """A ``WordQuery``, ``Substring`` or ``Pattern`` of ``query.py``."""

    def places(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Start, end and term number, from left to right."""


class Snippet(Struct, frozen=True):
    """A part of a text; ``marks`` are the matches in ``text``, in order, without overlaps."""

    text: str
    marks: list[tuple[int, int]]

    __repr__ = brief_repr


def snippet(text: str, finder: PlaceFinder, width: int = 160) -> Snippet:
    """At most ``width`` characters of ``text``, with an ellipsis on each side that was cut."""
    places = list(islice(finder.places(text), _MOST_PLACES))
    first, last = _best(places, width)
    around = max(0, first - width * _MORE_THAN_SHOWN)
    raw = text[around : last + width * _MORE_THAN_SHOWN]
    borders = [first, last, *(border for mark in merged(places) for border in mark)]
    flat, (first, last, *edges) = _flattened(raw, [border - around for border in borders])
    found = list(zip(edges[::2], edges[1::2], strict=True))
    begin, end = _window(flat, first, last, width, found)
    before = _ELLIPSIS if around or flat[:begin].strip() else ""
    after = _ELLIPSIS if around + len(raw) < len(text) or flat[end:].strip() else ""
    moved = len(before) - begin
    marks = [(max(start, begin) + moved, min(stop, end) + moved) for start, stop in found]
    return Snippet(before + flat[begin:end] + after, [mark for mark in marks if mark[0] < mark[1]])


def _best(places: list[tuple[int, int, int]], width: int) -> tuple[int, int]:
    """The first window of at most ``width`` characters with the most terms; it starts at a match."""
    best, most, terms = (0, 0), 0, len({term for _, _, term in places})
    for number, (start, _, _) in enumerate(places):
        seen, last = set[int](), start
        for place, end, term in places[number:]:
            if place >= start + width:
                break
            if term not in seen and (end <= start + width or not seen):
                seen.add(term)
                last = max(last, end)
        if len(seen) > most:
            best, most = (start, min(last, start + width)), len(seen)
        if most == terms:
            break
    return best


def _flattened(raw: str, borders: list[int]) -> tuple[str, list[int]]:
    """``raw`` with white space collapsed, and the new positions of the borders."""
    flat, moved, done = "", dict[int, int](), 0
    for border in sorted({min(max(border, 0), len(raw)) for border in borders} | {len(raw)}):
        piece = re.sub(r"\s+", " ", raw[done:border])
        flat += piece[1:] if flat.endswith(" ") and piece.startswith(" ") else piece
        moved[border], done = len(flat), border
    return flat, [moved[min(max(border, 0), len(raw))] for border in borders]


def _window(flat: str, first: int, last: int, width: int, found: list[tuple[int, int]]) -> tuple[int, int]:
    """Where to cut: around the match, a third of the space before it, the rest after."""
    room = max(0, width - (last - first))
    begin = max(0, min(first - room // 3, len(flat) - width))
    end = min(len(flat), begin + width)
    if begin and flat[begin - 1] != " ":
        step = flat.find(" ", begin, min(first, begin + _LONGEST_STEP))
        begin = begin if step < 0 else step + 1
    if end < len(flat) and flat[end] != " ":
        step = flat.rfind(" ", max(last, end - _LONGEST_STEP), end)
        end = end if step < 0 else step
    for start, stop in found:  # other matches are shown whole or not at all
        begin = stop if start < begin < stop <= first else begin
        end = start if last <= start < end < stop else end
    return begin + (flat[begin : begin + 1] == " "), end - (flat[end - 1 : end] == " " and end > begin)


_KEPT = frozenset("\t\n")
_UNUSUAL = re.compile(r"[^\t\n\x20-\x7e]+")
# Joins the parts of emoji and of several scripts; it reorders and hides nothing.
_JOINERS = frozenset("\u200c\u200d")


def plain(text: str, most: int) -> str:
    """At most ``most`` characters, each of them visible."""
    cut = text[:most]
    if not (cut.isascii() and cut.isprintable()):
        cut = _UNUSUAL.sub(lambda run: "".join(map(_shown, run[0])), cut.replace("\r\n", "\n"))
    return cut if len(text) <= most else f"{cut}\n[cut by recollect: {len(text):,} characters]"


def _shown(character: str) -> str:
    if character in _KEPT or character in _JOINERS:
        return character
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
