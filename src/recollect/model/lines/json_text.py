"""JSON as hostile text: depth before parsing, fixes, and values that parsers refuse.

The typed decoders are strict on purpose. What they refuse but the client reads (lone surrogates, numbers out
of range) is handled here, off the fast path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from operator import sub
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from recollect.errors import UsageError

# An object as plain values, to be changed.
Json = dict[str, Any]

# Brackets become steps up and down, quotes stay, the rest is removed.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_STRUCTURE = bytes(sorted(set(range(256)) - set(b'"[]{}')))
_NOT_OPENING = bytes(sorted(set(range(256)) - set(b'{["\\')))
# Compiled where it is needed, as few lines need it and every command would wait.
_ESCAPE = (
    rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)"
)
_HUGE_INTEGER_DIGITS = 4000
# Brackets of a line of code that are left out one after the other, before the levels of the whole text are counted.
_MOST_IN_A_ROW = 8
_PIECE = 64 * 1024


def is_plainly_sound(line: bytes, depth: int) -> bool:
    """Whether a line accepted by a narrow decoder is valid as a whole, including the parts it skipped."""
    if b"\0" in line or (may_be_deep(line, depth) and deeper_than(line, depth)):
        return False
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


def openings(text: bytes) -> int:
    """How many brackets open, in strings or not. Removing a rare byte is several times as fast as counting it."""
    return 2 * len(text) - len(text.replace(b"{", b"")) - len(text.replace(b"[", b""))


def may_be_deep(line: bytes, depth: int) -> bool:
    """False where valid JSON is certainly not so deep: most of its braces are those of code inside strings.

    Outside of strings a key follows every brace; only an empty object, at the bottom, has none. Inside of strings
    a quote has a backslash before it, and what follows a backslash up to the next quote is inside too: code has one
    at the end of each of its lines.
    """
    if openings(line) <= depth:
        return False
    marks = line.translate(None, _NOT_OPENING)
    for _ in range(_MOST_IN_A_ROW):
        if 1 + marks.count(b'{"') + marks.count(b"[") <= depth:
            return False
        marks = marks.replace(b"\\[", b"\\").replace(b"\\{", b"\\")
    return True


def deeper_than(text: bytes, limit: int) -> bool:
    """Whether brackets outside strings nest more than ``limit`` deep; unmatched closing brackets are ignored.

    Time depends only on the length and memory is small, because the text may come from strangers.
    """
    if openings(text) <= limit:
        return False
    depth, in_string = 0, False
    for piece in _whole_escapes(text):
        marks = piece.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_STEPS, _NOT_STRUCTURE)
        parts = marks.split(b'"')
        steps = b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        up = steps.count(1)
        if depth + up <= limit and len(steps) - up <= depth:
            depth += 2 * up - len(steps)
        else:
            deepest, depth = _walked(steps, depth)
            if deepest > limit:
                return True
    return False


def _walked(steps: bytes, depth: int) -> tuple[int, int]:
    """The greatest and the final depth of the steps."""
    depths = list(accumulate(memoryview(steps).cast("b"), initial=depth))
    if min(depths) >= 0:
        return max(depths), depths[-1]
    floors = list(accumulate(depths, min, initial=0))[1:]
    return max(map(sub, depths, floors)), depths[-1] - floors[-1]


def _whole_escapes(text: bytes) -> Iterator[bytes]:
    """Split a text between escapes; processing it as a whole would copy it several times."""
    start = 0
    while start < len(text):
        end = start + _PIECE
        while text[end - 1 : end] == b"\\":
            end += 1
        yield text[start:end]
        start = end


def without_lone_surrogates(text: bytes) -> bytes:
    """The same JSON with each escaped half of a surrogate pair replaced by U+FFFD, as the client reads it."""

    def mended(match: re.Match[bytes]) -> bytes:
        escape = match.group()
        lone = len(escape) == 6 and escape[1:2] == b"u"
        return rb"\ufffd" if lone else escape

    return re.sub(_ESCAPE, mended, text)


def valid_utf8(text: bytes) -> bytes:
    """The same text with every byte that is not UTF-8 replaced by U+FFFD."""
    return text.decode("utf-8", "replace").encode()


def loose_value(raw: bytes | msgspec.Raw) -> object:
    """Well-formed JSON as plain values; numbers out of range become floats or stay text."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = without_lone_surrogates(valid_utf8(bytes(raw)))
    try:
        return json.loads(
            text.lstrip(b"\xef\xbb\xbf"),
            parse_int=lambda digits: int(digits) if len(digits) < _HUGE_INTEGER_DIGITS else digits,
        )
    except (ValueError, RecursionError):
        return None


def loose_object(raw: bytes) -> Mapping[str, object]:
    """A line's fields as plain values; empty where the line is not an object."""
    value = loose_value(raw)
    return value if isinstance(value, dict) else {}


def content_of(fields: Mapping[str, object]) -> object:
    """The content of a line, from its message or from the line itself."""
    message = fields.get("message")
    return message.get("content") if isinstance(message, dict) else fields.get("content")


def json_of(what: str, value: object) -> Raw:
    """Any plain value as compact JSON. Refuses NaN, which the typed encoder would silently write as null."""
    if isinstance(value, Raw):
        return value
    try:
        written = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return Raw(written.encode())
    except UnicodeEncodeError as problem:
        raise _not_utf8(problem) from None
    except (TypeError, ValueError, RecursionError) as problem:
        raise refusal(f"{what}: {problem}", "use text, finite numbers, lists and mappings") from None


def encoded(value: Any) -> bytes:
    """Our own types as compact JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as problem:
        raise _not_utf8(problem) from None
    except ValueError as problem:
        raise refusal(f"number: {problem}", "no count is that large; leave it out") from None


def given(of: Struct) -> dict[str, Any]:
    """The fields that have a value, by their names on disk."""
    pairs = zip(of.__struct_encode_fields__, of.__struct_fields__, strict=True)
    values = {written: getattr(of, name) for written, name in pairs}
    return {
        name: given(value) if isinstance(value, Struct) else value
        for name, value in values.items()
        if value is not None and value is not UNSET
    }


def refusal(message: str, hint: str) -> UsageError:
    return UsageError(message, hint=hint)


def _not_utf8(problem: UnicodeEncodeError) -> UsageError:
    return refusal(
        f"text: character {problem.start} is half of a surrogate pair",
        "replace it, for example with U+FFFD; it cannot be written as UTF-8",
    )


def encode_json(document: object) -> bytes:
    """A document as JSON. Text that UTF-8 cannot encode (half a surrogate pair) is escaped."""
    try:
        return msgspec.json.encode(document, enc_hook=str)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document, enc_hook=_plain, str_keys=True)).encode()


def _plain(value: object) -> object:
    return msgspec.json.decode(value) if isinstance(value, Raw) else str(value)
