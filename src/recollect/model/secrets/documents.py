"""Secrets in the bytes of a line, a JSON document or a plain text, with their positions.

A line of a log is JSON: its strings are searched one by one, decoded, each with its key. Anything that is not
JSON, such as a damaged line or tool output, is searched as text. Positions are always byte offsets into the
input, so a replacement leaves every other byte alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.secrets.finder import find
from recollect.model.secrets.json_strings import JsonString, fragment_strings, json_strings
from recollect.model.secrets.prefilter import regions
from recollect.model.secrets.views import TextSpan

_LONGEST_FIELD = 200


class SecretHit:
    """A secret in some bytes. It has several ``spans`` where it covers several strings of a list.

    ``field`` is the path of the first of them, empty in plain text.
    """

    __slots__ = ("field", "kind", "secret", "spans")

    def __init__(self, kind: str, secret: str, spans: tuple[TextSpan, ...], field: str = "") -> None:
        self.kind, self.secret = kind, secret
        self.spans, self.field = spans, field

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
