"""Redaction: the functions that export, sync and the web page share.

Each secret is replaced by ``[redacted:<kind>:<fingerprint>]``. The mark is plain ASCII without quotes or
backslashes, so it is safe in JSON, in JSON within JSON and in a shell command. It contains nothing that looks
like a secret, so redacting twice changes nothing.

``redacted`` works on text, ``redacted_line`` on the bytes of one line of a log or one JSON document; only the
secrets change. All take a function that computes the fingerprint of a secret, which is called only if there
is one, and the allow list: secrets on it stay.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterable
from typing import AnyStr, Generic, NamedTuple

import msgspec
from msgspec import Raw

from recollect.model.lines.json_text import without_lone_surrogates
from recollect.model.secrets.documents import SecretHit, hits_in_fragment, hits_in_json, hits_in_text
from recollect.model.secrets.views import TextSpan

# Removing one secret may make the rest look like another. That settles at once; the limit stops texts crafted
# to continue for ever.
_ROUNDS = 8

Fingerprint = Callable[[str], str]


class Redaction(NamedTuple):
    """One replaced secret: its kind, its fingerprint, and its field."""

    kind: str
    fingerprint: str
    field: str = ""


class Redacted(NamedTuple, Generic[AnyStr]):
    """A text or bytes without secrets, and what was replaced."""

    data: AnyStr
    found: list[Redaction]


def mark(kind: str, digits: str) -> str:
    """The replacement of a secret."""
    return f"[redacted:{kind}:{digits}]"


def redacted(text: str, fingerprint: Fingerprint, keep: Collection[str] = ()) -> Redacted[str]:
    """A text without its secrets; ``keep`` holds ``kind:fingerprint`` of those that stay."""
    # Half a surrogate pair must come out unchanged.
    data, found = _without(text.encode("utf-8", "surrogatepass"), fingerprint, keep, hits_in_text)
    return Redacted(data.decode("utf-8", "surrogatepass"), found)


def redacted_line(data: bytes, fingerprint: Fingerprint, keep: Collection[str] = ()) -> Redacted[bytes]:
    """A line of a log, or a JSON document, without its secrets; anything that is not JSON is treated as text."""
    return _without(data, fingerprint, keep, hits_in_json)


def redacted_fragment(data: bytes, fingerprint: Fingerprint, keep: Collection[str] = ()) -> Redacted[bytes]:
    """A part of a JSON text, cut between two strings; only its strings are changed."""
    return _without(data, fingerprint, keep, hits_in_fragment)


def redacted_bytes(data: bytes, fingerprint: Fingerprint, keep: Collection[str] = ()) -> Redacted[bytes]:
    """A plain text in any encoding."""
    return _without(data, fingerprint, keep, hits_in_text)


def _without(
    data: bytes, fingerprint: Fingerprint, keep: Collection[str], look: Callable[[bytes], list[SecretHit]]
) -> Redacted[bytes]:
    found: list[Redaction] = []
    for _ in range(_ROUNDS):
        named = [(hit, fingerprint(hit.secret)) for hit in look(data)]
        hits = [(hit, digits) for hit, digits in named if f"{hit.kind}:{digits}" not in keep]
        if not hits:
            break
        found += (Redaction(hit.kind, digits, hit.field) for hit, digits in hits)
        marks = ((span, mark(hit.kind, digits).encode()) for hit, digits in hits for span in hit.spans)
        data = _cut(data, marks)
    return Redacted(data, found)


def _cut(data: bytes, cuts: Iterable[tuple[TextSpan, bytes]]) -> bytes:
    pieces, end = [], 0
    for span, text in sorted(cuts):
        start, stop = _whole_characters(data, span)
        pieces += [data[end:start], text]
        end = stop
    return b"".join([*pieces, data[end:]])


def _whole_characters(data: bytes, span: TextSpan) -> TextSpan:
    """The span widened to whole UTF-8 characters."""
    start, end = span
    while 0 < start < len(data) and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return TextSpan(start, end)


def fingerprint(secret: str, key: bytes) -> str:
    """Eight hex digits of HMAC-SHA-256."""
    return hmac.new(key, secret.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:8]


_FIELD = re.compile(r"message\.content\[([0-9]{1,6})\]\.thinking")
_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def with_plain_thoughts(line: bytes, changed: Iterable[str]) -> bytes:
    """A line whose ``changed`` fields are named by path; everything else stays, byte for byte."""
    numbers = {int(match[1]) for field in changed if (match := _FIELD.fullmatch(field))}
    if not numbers:
        return line
    # The parser refuses half a surrogate pair; the replacement has the same length, so offsets stay valid.
    readable = without_lone_surrogates(line)
    try:
        fields = msgspec.json.decode(readable, type=dict[str, Raw])
        message = msgspec.json.decode(fields["message"], type=dict[str, Raw])
        blocks = msgspec.json.decode(message["content"], type=list[Raw])
        signed = [bytes(blocks[number]) for number in sorted(numbers, reverse=True) if number < len(blocks)]
        for block in signed:
            # Signatures are unique, so the bytes of a signed block occur once in a line.
            start = readable.index(block)
            end = start + len(block)
            line = line[:start] + _plain(line[start:end], block) + line[end:]
    except (*_NOT_JSON, KeyError):
        return line
    return line


def _plain(written: bytes, block: bytes) -> bytes:
    """A thinking block as plain text; ``written`` has its original bytes, ``block`` those the parser accepts."""
    parts = msgspec.json.decode(block, type=dict[str, Raw])
    if bytes(parts.get("signature", b'""')) == b'""' or "thinking" not in parts:
        return written
    thought = bytes(parts["thinking"])
    start = block.index(thought)
    return b'{"type":"text","text":' + written[start : start + len(thought)] + b"}"
