"""One line of bytes, one entry: the only way in and out of the model.

``decode`` never raises. A line becomes an ``Entry``, a ``Damage`` with a stable code, or None (a blank line).
Limits are checked before any parser runs, and the cause of a parse failure is named, so that repair knows
what to do.

``encode`` returns an entry's own bytes. ``changed`` is the only way to get an entry with other contents: it
replaces single fields and leaves every other byte of the line as it was, including unknown fields and their
order.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

from recollect.model.lines import dialects, json_text
from recollect.model.lines.damage import (
    BOM,
    BROKEN,
    DEFAULT_LIMITS,
    Damage,
    DamageCode,
    Limits,
    Line,
    Notice,
    rest_damage,
    value_end,
)
from recollect.model.lines.entry import Entry, kind_of

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode(line: Line, limits: Limits = DEFAULT_LIMITS) -> Entry | Damage | None:
    """Decode one line; None for a blank one (rule L5)."""
    text = line.data
    if len(text) > limits.line_bytes:
        return _damage(line, DamageCode.OVERSIZE, f"{len(text)} bytes, limit {limits.line_bytes}", keep=False)
    notices: tuple[Notice, ...] = ()
    if text[:1] != b"{" or text[-1:] != b"}":
        text, notices = _trimmed(text)
        if not text:
            return None
    # Counting the levels takes as long as decoding. Valid JSON that cannot be so deep is decoded at once.
    may_be_deep = json_text.may_be_deep(text, limits.depth)
    if may_be_deep and (damage := _too_deep(line, text, notices, limits)) is not None:
        return damage
    try:
        if not text.isascii():
            text.decode()
    except UnicodeDecodeError as problem:
        too_deep = None if may_be_deep else _too_deep(line, text, notices, limits)
        return too_deep or _invalid_utf8(line, text, notices, limits, problem)
    try:
        return _entry(line, text, notices)
    except msgspec.ValidationError:
        return _damage(line, DamageCode.NOT_AN_OBJECT, f"JSON, but not an object: {_excerpt(text)}")
    except _NOT_JSON as problem:
        found = (None if may_be_deep else _too_deep(line, text, notices, limits)) or _mended(
            line, text, notices
        )
        return found or _with_rest(line, text, notices, limits) or _refused(line, text, str(problem))


def encode(entry: Entry) -> bytes:
    """The line to write: the entry's own bytes and a newline."""
    return entry.raw + b"\n"


def changed(entry: Entry, changes: Mapping[str, object]) -> Entry:
    """The same entry with some top-level fields replaced or added, by their JSON names.

    Every field that is not named keeps its exact JSON. Raises ``ValueError``
    where the line is not valid JSON to begin with.
    """
    try:
        fields: dict[str, object] = dict(msgspec.json.decode(_trimmed(entry.raw)[0], type=dict[str, Raw]))
    except _NOT_JSON as problem:
        raise ValueError(f"the line is not valid JSON: {problem}") from None
    fields.update(changes)
    result = decode(Line(msgspec.json.encode(fields), entry.offset))
    if not isinstance(result, Entry):
        raise ValueError("the changed line could not be read back")  # noqa: TRY004 - not about types
    return result


def _entry(line: Line, text: bytes, notices: tuple[Notice, ...]) -> Entry:
    body, more = dialects.decode(text)
    dialect, body = dialects.settled(text, body)
    return Entry(kind_of(body), body, line.data, dialect, line.offset, notices + more, line.ended)


def _trimmed(text: bytes) -> tuple[bytes, tuple[Notice, ...]]:
    notices: tuple[Notice, ...] = ()
    if text.startswith(BOM):
        text, notices = text[len(BOM) :], (Notice.BOM,)
    if text.endswith(b"\r"):
        notices += (Notice.CRLF,)
    return text.strip(b" \t\r\n"), notices


def _too_deep(line: Line, text: bytes, notices: tuple[Notice, ...], limits: Limits) -> Damage | None:
    if not json_text.deeper_than(text, limits.depth):
        return None
    detail = f"nested more than {limits.depth} levels"
    return _with_rest(line, text, notices, limits) or _damage(line, DamageCode.TOO_DEEP, detail)


def _with_rest(line: Line, text: bytes, notices: tuple[Notice, ...], limits: Limits) -> Damage | None:
    """A line that begins with a whole object: the client reads that and ignores the rest."""
    end = value_end(text) if text.startswith(b"{") else BROKEN
    if not 0 < end < len(text) or json_text.deeper_than(text[:end], limits.depth):
        return None
    start = line.data.find(text)
    own = Line(line.data[: start + end], line.offset, ended=False)
    rest = rest_damage(line.data[start + end :], line.offset + start + end)
    readable = _readable(own, json_text.valid_utf8(text[:end]), notices)
    return Damage(rest.code, line.offset, line.length, rest.detail, line.data, readable)


def _invalid_utf8(
    line: Line, text: bytes, notices: tuple[Notice, ...], limits: Limits, problem: UnicodeDecodeError
) -> Damage:
    """Damage with the readable rest: the client shows such a line with replacement characters."""
    with_rest = _with_rest(line, text, notices, limits)
    if with_rest is not None or b"\0" in text:
        return with_rest or _refused(line, text, "")
    readable = _readable(line, json_text.valid_utf8(text), notices)
    where = f"byte {line.offset + problem.start}: {problem.reason}"
    return Damage(DamageCode.INVALID_UTF8, line.offset, line.length, where, line.data, readable)


def _mended(line: Line, text: bytes, notices: tuple[Notice, ...]) -> Entry | None:
    """Read half a surrogate pair as U+FFFD: the client accepts it as JSON, our parser does not."""
    mended = json_text.without_lone_surrogates(text)
    return None if mended == text else _readable(line, mended, (*notices, Notice.LONE_SURROGATE))


def _readable(line: Line, text: bytes, notices: tuple[Notice, ...]) -> Entry | None:
    try:
        return _entry(line, json_text.without_lone_surrogates(text), notices)
    except _NOT_JSON:
        return None


def _refused(line: Line, text: bytes, problem: str) -> Damage:
    """Name the reason why ``text`` is not JSON."""
    if b"\0" in text:
        return _damage(line, DamageCode.NUL_RUN, f"{text.count(0)} NUL bytes")
    return _damage(line, DamageCode.INVALID_JSON, f"{problem}: {_excerpt(text)}")


def _damage(line: Line, code: DamageCode, detail: str, *, keep: bool = True) -> Damage:
    return Damage(code, line.offset, line.length, detail, line.data if keep else b"")


def _excerpt(text: bytes) -> str:
    """The start of a line, with control characters made visible: transcripts may be hostile."""
    return ascii(text[:40].decode("utf-8", "replace"))
