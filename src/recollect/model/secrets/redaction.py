"""Text without its secrets: the one function that export, sync and the web page share.

Each secret is replaced by ``[redacted:<kind>:<fingerprint>]``. The mark is plain ASCII without quotes or backslashes,
so it stands in JSON, in JSON within JSON and in a shell command without breaking them, and it holds
nothing that looks like a secret, so what was redacted once comes out the same again.

``redacted`` works on text, ``redacted_line`` on the bytes of one line of a log or one JSON document,
of which it changes nothing but the secrets. All take the function that gives a secret its fingerprint, which is
not called where there is no secret, and the allow list: what is on it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from recollect.model.secrets.documents import SecretHit, hits_in_fragment, hits_in_json, hits_in_text
from recollect.model.secrets.views import TextSpan

# What is left of a text may read as a secret only because of what was cut out of it. That settles at once;
# the limit is for texts that somebody made to go on for ever.
_ROUNDS = 8

Fingerprint = Callable[[str], str]


class Redaction(NamedTuple):
    """One secret that was replaced: what it was, which one, and the field it stood in."""

    kind: str
    fingerprint: str
    field: str = ""


class RedactedText(NamedTuple):
    """A text without its secrets, and what was replaced."""

    text: str
    found: list[Redaction]


class RedactedBytes(NamedTuple):
    """Bytes without their secrets, and what was replaced."""

    data: bytes
    found: list[Redaction]


def mark(kind: str, digits: str) -> str:
    """What stands in the place of a secret."""
    return f"[redacted:{kind}:{digits}]"


def redacted(text: str, fingerprint: Fingerprint, keep: Collection[str] = ()) -> RedactedText:
    """A text without its secrets; ``keep`` holds ``kind:fingerprint`` of those that may stay."""
    # Surrogates pass: half a pair must come out as it went in.
    data, found = _without(text.encode("utf-8", "surrogatepass"), fingerprint, keep, hits_in_text)
    return RedactedText(data.decode("utf-8", "surrogatepass"), found)


def redacted_line(data: bytes, fingerprint: Fingerprint, keep: Collection[str] = ()) -> RedactedBytes:
    """A line of a log, or a JSON document, without its secrets; whatever is not JSON is text."""
    return _without(data, fingerprint, keep, hits_in_json)


def redacted_fragment(data: bytes, fingerprint: Fingerprint, keep: Collection[str] = ()) -> RedactedBytes:
    """A piece of a JSON text, cut between two strings; only its strings are changed."""
    return _without(data, fingerprint, keep, hits_in_fragment)


def redacted_bytes(data: bytes, fingerprint: Fingerprint, keep: Collection[str] = ()) -> RedactedBytes:
    """A plain text in bytes of whatever encoding."""
    return _without(data, fingerprint, keep, hits_in_text)


def _without(
    data: bytes, fingerprint: Fingerprint, keep: Collection[str], look: Callable[[bytes], list[SecretHit]]
) -> RedactedBytes:
    found: list[Redaction] = []
    for _ in range(_ROUNDS):
        named = [(hit, fingerprint(hit.secret)) for hit in look(data)]
        hits = [(hit, digits) for hit, digits in named if f"{hit.kind}:{digits}" not in keep]
        if not hits:
            break
        found += (Redaction(hit.kind, digits, hit.field) for hit, digits in hits)
        marks = ((span, mark(hit.kind, digits).encode()) for hit, digits in hits for span in hit.spans)
        data = _cut(data, marks)
    return RedactedBytes(data, found)


def _cut(data: bytes, cuts: Iterable[tuple[TextSpan, bytes]]) -> bytes:
    pieces, end = [], 0
    for span, text in sorted(cuts):
        start, stop = _whole_characters(data, span)
        pieces += [data[end:start], text]
        end = stop
    return b"".join([*pieces, data[end:]])


def _whole_characters(data: bytes, span: TextSpan) -> TextSpan:
    """A place that cuts no character of UTF-8 in two."""
    start, end = span
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return TextSpan(start, end)
