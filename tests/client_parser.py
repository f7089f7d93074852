"""The client's way of reading a log, spelled out: what our reader is compared with.

One JSON value from where it stands, the rest of that line ignored; on an error on to the next newline. Slow, and
without any of the shortcuts of ``model.lines.damage``. ``tests/oracle/test_broken_lines.py`` compares it with
what the client did.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BLANKS = b" \t\r\n"
_STRING = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"')
_HALF_STRING = re.compile(
    rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*(?:\\(?:u[0-9a-fA-F]{0,3})?)?'
)
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS = (b"true", b"false", b"null")


class Broken(Exception):
    """No JSON, whatever comes."""


class Unfinished(Exception):
    """More bytes could make it JSON."""


class ClientLine(NamedTuple):
    """A line of the log. ``value_end`` is None where it is blank or not JSON."""

    start: int
    end: int
    value_end: int | None
    is_object: bool


def client_lines(data: bytes, limit: int = 1 << 60) -> tuple[list[ClientLine], int]:
    """The lines of a log, and where its pending rest begins. Values over several lines obey the limit as well."""
    lines: list[ClientLine] = []
    position = 0
    while position < len(data):
        newline = data.find(b"\n", position)
        first = data[position:] if newline < 0 else data[position : newline + 1]
        at = _begin(data, position, first)
        try:
            end = None if at is None or len(first.removesuffix(b"\n")) > limit else _value(data, at)
        except Unfinished:
            if newline < 0 or len(data) - position <= limit:
                return lines, position
            end = None
        except Broken:
            end = None
        if end is not None:
            after = data.find(b"\n", end)
            if after >= 0 and (after - position <= limit or after == newline):
                newline = after
            elif after >= 0 or (len(data) - position > limit and newline >= 0):
                end = None
            else:
                newline = -1
        if newline < 0:
            if end is None or at is None or data[at : at + 1] != b"{" or len(data) - position > limit:
                return lines, position
            lines.append(ClientLine(position, end, end, True))
            return lines, end
        lines.append(ClientLine(position, newline + 1, end, at is not None and data[at : at + 1] == b"{"))
        position = newline + 1
    return lines, position


def _begin(data: bytes, position: int, first: bytes) -> int | None:
    if not position and first.startswith(b"\xef\xbb\xbf"):
        first = first[3:]
        position = 3
    text = first.lstrip(_BLANKS)
    return position + len(first) - len(text) if text else None


def _skip(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _BLANKS:
        at += 1
    if at == len(data):
        raise Unfinished
    return at


def _value(data: bytes, at: int) -> int:
    at = _skip(data, at)
    sign = data[at : at + 1]
    if sign in (b"{", b"["):
        return _members(data, at, is_object=sign == b"{")
    if sign == b'"':
        return _string(data, at)
    for word in _WORDS:
        if data.startswith(word, at):
            return at + len(word)
        if word.startswith(data[at : at + len(word) + 1]):
            raise Unfinished
    number = _NUMBER.match(data, at)
    if number is None:
        raise Unfinished if data[at : at + 2] == b"-" else Broken
    rest = data[number.end() : number.end() + 3]  # what decides; a log has megabytes after it
    if not rest or re.fullmatch(rb"[.eE][+-]?", rest):
        raise Unfinished
    if re.match(rb"[0-9.eE]", rest):
        raise Broken
    return number.end()


def _string(data: bytes, at: int) -> int:
    match = _STRING.match(data, at)
    if match is not None:
        return match.end()
    half = _HALF_STRING.match(data, at)
    if half is not None and half.end() == len(data):
        raise Unfinished
    raise Broken


def _members(data: bytes, at: int, *, is_object: bool) -> int:
    close = b"}" if is_object else b"]"
    at = _skip(data, at + 1)
    if data[at : at + 1] == close:
        return at + 1
    while True:
        at = _skip(data, at)
        if is_object:
            if data[at : at + 1] != b'"':
                raise Broken
            at = _skip(data, _string(data, at))
            if data[at : at + 1] != b":":
                raise Broken
            at += 1
        at = _skip(data, _value(data, at))
        sign = data[at : at + 1]
        if sign == close:
            return at + 1
        if sign != b",":
            raise Broken
        at += 1
