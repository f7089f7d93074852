"""Secrets in the bytes of a line, a JSON document or a plain text, with their positions.

A line of a log is JSON: its strings are searched one by one, decoded, each with its key. Anything that is not
JSON, such as a damaged line or tool output, is searched as text. Positions are always byte offsets into the
input, so a replacement leaves every other byte alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct

from recollect.model.secrets.finder import find
from recollect.model.secrets.prefilter import regions
from recollect.model.secrets.views import TextSpan

_PIECE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_Path = tuple["_Path | None", "str | int"]


class JsonString(NamedTuple):
    """A string between its quotes. ``name`` is its key; empty in lists and for keys."""

    start: int
    end: int
    path: _Path | None
    name: str = ""

    @property
    def field(self) -> str:
        """Its path, such as ``message.content[0].text``."""
        parts: list[str] = []
        step = self.path
        while step is not None:
            above, part = step
            parts.append(f"[{part}]" if isinstance(part, int) else f".{part}")
            step = above
        return "".join(reversed(parts)).removeprefix(".")


def json_strings(data: bytes) -> Iterator[list[JsonString]] | None:
    """Every string, neighbours in a list together; None where the text is not JSON."""
    text = data.removeprefix(b"\xef\xbb\xbf")
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except _NOT_JSON:
        return fragment_strings(data) if _is_loose_json(text) else None
    return fragment_strings(data)


def _is_loose_json(data: bytes) -> bool:
    """Whether it is JSON except for halves of surrogate pairs, which transcripts contain and the strict
    parser refuses.
    """
    try:
        json.loads(data.decode("utf-8", "surrogatepass"), parse_int=len)
    except (ValueError, RecursionError):
        return False
    return True


class _Container:
    """An open object or list: its path, and what comes next in it."""

    __slots__ = ("index", "is_object", "is_value_next", "key", "path", "row")

    def __init__(self, is_object: bool, path: _Path | None) -> None:
        self.is_object, self.path = is_object, path
        self.index, self.key, self.is_value_next = 0, "", not is_object
        self.row: list[JsonString] = []

    def inner(self) -> _Path:
        """The path of the value that comes next."""
        return (self.path, self.key if self.is_object else self.index)


def fragment_strings(data: bytes) -> Iterator[list[JsonString]]:
    """The same for a part of a JSON text that was cut between two strings."""
    top = _Container(False, None)
    stack: list[_Container] = []
    current = top
    for piece in _PIECE.finditer(data):
        mark = data[piece.start()]
        if mark == 0x22:
            yield from _string(data, piece.start() + 1, piece.end() - 1, current, is_top=not stack)
        elif mark in b"{[":
            yield from _given_up(current)
            stack.append(current)
            path = None if current is top else current.inner()
            current = _Container(mark == 0x7B, path)
        elif mark in b"}]":
            yield from _given_up(current)
            current = stack.pop() if stack else top
        elif mark == 0x2C:
            current.index += 1
            current.is_value_next = not current.is_object
        else:
            current.is_value_next = True
    for left in (*stack, current):
        yield from _given_up(left)


def _string(
    data: bytes, start: int, end: int, current: _Container, *, is_top: bool
) -> Iterator[list[JsonString]]:
    if current.is_object and not current.is_value_next:
        current.key = data[start:end].decode("utf-8", "replace")
        yield [JsonString(start, end, (current.path, current.key))]
    elif current.is_object:
        yield [JsonString(start, end, current.inner(), current.key)]
    else:
        row = current.row
        # Only neighbours are lines of one text: a number between two strings ends it.
        if row and row[-1].path is not None and row[-1].path[1] != current.index - 1:
            yield from _given_up(current)
        current.row.append(JsonString(start, end, None if is_top else current.inner()))


def _given_up(current: _Container) -> Iterator[list[JsonString]]:
    """The row of strings that ends here."""
    if current.row:
        yield current.row
        current.row = []


_LONGEST_FIELD = 200


class SecretHit(Struct, frozen=True):
    """A secret in some bytes. It has several ``spans`` where it covers several strings of a list.

    ``field`` is the path of the first of them, empty in plain text.
    """

    kind: str
    secret: str
    spans: tuple[TextSpan, ...]
    field: str = ""

    def __repr__(self) -> str:
        return f"SecretHit({self.kind!r}, {self.field!r}, {self.spans!r})"


def hits_in_text(data: bytes) -> list[SecretHit]:
    hits: list[SecretHit] = []
    for start, end in regions(data):
        # Latin-1 maps each byte to one character, so positions in the text are byte offsets.
        hits += (
            SecretHit(found.kind, found.secret, (TextSpan(start + found.start, start + found.end),))
            for found in find(data[start:end].decode("latin-1"))
        )
    return hits


def hits_in_json(data: bytes) -> list[SecretHit]:
    """Secrets in a JSON text; a damaged one is searched as plain text."""
    strings = json_strings(data)
    if strings is None:
        return hits_in_text(data)
    return [hit for row in strings for hit in _hits_in_row(data, row)]


def hits_in_fragment(data: bytes) -> list[SecretHit]:
    """Secrets in the strings of a piece of JSON."""
    return [hit for row in fragment_strings(data) for hit in _hits_in_row(data, row)]


def _hits_in_row(data: bytes, row: list[JsonString]) -> Iterator[SecretHit]:
    """One string, or the strings of a list as the lines of one text."""
    inside = b"\n".join([data[one.start : one.end] for one in row])
    name = row[0].name
    # The key precedes the value as in the line, so that the value is searched together with its name.
    before = b'"%s":"' % name.encode("utf-8", "replace")
    for start, end in regions(before + inside + b'"'):
        first = max(start - len(before), 0)
        text = inside[first : max(end - len(before), 0)].decode("latin-1")
        for found in find(text, name="" if first else name, is_escaped=True):
            spans, one = _spread(row, TextSpan(first + found.start, first + found.end))
            yield SecretHit(found.kind, found.secret, spans, _safe(one.field))


def _safe(field: str) -> str:
    """A field path without secrets in its names."""
    for found in reversed(find(field)):
        field = f"{field[: found.start]}[{found.kind}]{field[found.end :]}"
    return field if len(field) <= _LONGEST_FIELD else f"{field[:_LONGEST_FIELD]}…"


def _spread(row: list[JsonString], found: TextSpan) -> tuple[tuple[TextSpan, ...], JsonString]:
    """The part of each string that a secret covers, and the first of these strings."""
    spans: list[TextSpan] = []
    first, offset = row[0], 0
    for one in row:
        length = one.end - one.start
        start, end = max(found.start - offset, 0), min(found.end - offset, length)
        if start < end:
            first = first if spans else one
            spans.append(TextSpan(one.start + start, one.start + end))
        offset += length + 1
    return tuple(spans), first
