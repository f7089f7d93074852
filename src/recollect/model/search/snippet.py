"""The few words of a text that show why it was found.

A text may be a line or 20 MB of tool output. Only the first places the finder
names are weighed, and only their surroundings are ever copied, so the work is
the finder's search and little more. The window shown is the earliest of those
with the most different terms; it is cut between words where that costs little,
white space counts as one blank, and an ellipsis stands where text was left out.

Characters are passed on as they are, control characters and halves of surrogate
pairs too: what a terminal may be sent is decided where it is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from msgspec import Struct

from recollect.model.brief_repr import brief_repr
from recollect.model.search.query import merged

_ELLIPSIS = "…"
_MOST_PLACES = 200
# How far a cut may move to fall between two words, and how much white space a window is prepared to swallow.
_LONGEST_STEP, _MORE_THAN_SHOWN = 20, 8
_BLANKS = re.compile(r"\s+")


class PlaceFinder(Protocol):
    """A ``WordQuery``, ``Substring`` or ``Pattern`` of ``query.py``."""

    def places(self, text: str) -> Iterator[tuple[int, int, int]]:
        """Start, end and which term, from left to right."""


class Snippet(Struct, frozen=True):
    """A piece of a text; ``marks`` are the places in ``text`` that were found, in order, without overlaps."""

    text: str
    marks: list[tuple[int, int]]

    __repr__ = brief_repr


def snippet(text: str, finder: PlaceFinder, width: int = 160) -> Snippet:
    """At most ``width`` characters of ``text``, and an ellipsis on each side that was cut."""
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
    """The first ``width`` characters or fewer that show as many of the terms as any do; from the first mark on."""
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
    """``raw`` with one blank for white space, and where the borders are in that."""
    flat, moved, done = "", dict[int, int](), 0
    for border in sorted({min(max(border, 0), len(raw)) for border in borders} | {len(raw)}):
        piece = _BLANKS.sub(" ", raw[done:border])
        flat += piece[1:] if flat.endswith(" ") and piece.startswith(" ") else piece
        moved[border], done = len(flat), border
    return flat, [moved[min(max(border, 0), len(raw))] for border in borders]


def _window(flat: str, first: int, last: int, width: int, found: list[tuple[int, int]]) -> tuple[int, int]:
    """Where to cut: around what is to be shown, a third of the room before it, the rest after."""
    room = max(0, width - (last - first))
    begin = max(0, min(first - room // 3, len(flat) - width))
    end = min(len(flat), begin + width)
    if begin and flat[begin - 1] != " ":
        step = flat.find(" ", begin, min(first, begin + _LONGEST_STEP))
        begin = begin if step < 0 else step + 1
    if end < len(flat) and flat[end] != " ":
        step = flat.rfind(" ", max(last, end - _LONGEST_STEP), end)
        end = end if step < 0 else step
    for start, stop in found:  # what else was found is shown whole or not at all
        begin = stop if start < begin < stop <= first else begin
        end = start if last <= start < end < stop else end
    return begin + (flat[begin : begin + 1] == " "), end - (flat[end - 1 : end] == " " and end > begin)
