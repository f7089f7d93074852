"""The strings of a JSON text, each with its byte position and its path.

Removing a secret without touching any other byte needs the position of each string, which parsers do not
report. Keys are strings too. Neighbouring strings of a list are returned together: tools store the lines of a
file that way, and a private key covers many of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

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
