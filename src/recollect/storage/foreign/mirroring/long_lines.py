"""Lines of a mirror that would be longer than our own readers take.

Beside what was made of it, a line holds the bytes of its record: that can be twice as long as what the client wrote. Bytes that do
not fit are kept in pieces, each a ``foreign-record`` marked as ``partial``, before the line whose record they are. What was made of
the record is shown as a whole where it fits; where it does not by itself, as much of it as does, and a line of the type
``<agent>:unreadable`` says so.
"""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.damage import DEFAULT_LIMITS, TOO_LONG, UNREADABLE
from recollect.storage.foreign.lines import PLACE, RECORD, LineFields, encode, keep_original, original_of

LONGEST = DEFAULT_LIMITS.line_bytes
PARTIAL = "partial"
# In JSON a byte takes six at most, so that a piece always fits.
_SHARE = 8
# Where a record is cut: a secret that stands in two pieces would not be found. The first is between two fields.
_CUTS, _WINDOW = (b'",', b" "), 1 << 16
# What the last line of a record that is a file, or a row, of its own has to say.
_OF_WHOLE = ("whole", "source", "mark")
_PLAIN = range(1, 1 << 12)
_SHOWN = (1 << 20, 1 << 14, 1 << 8)
_CUT_OFF = " [cut off: too long for one line of recollect]"


def fitting(line: LineFields, agent: str) -> list[bytes]:
    """A line, encoded; several where readers would not take it as one."""
    encoded = encode(line)
    if len(encoded) <= LONGEST:
        return [encoded]
    del encoded
    data = original_of(line)
    place, whole = _plain(line, PLACE), _plain(line, _OF_WHOLE)
    found = [_record(place | {PARTIAL: True}, piece) for piece in _pieces(data or b"")]
    made = {key: value for key, value in line.items() if not key.startswith("original")}
    kept = {} if data is None else {"original": ""}
    shown = encode(made | kept)
    if len(shown) <= LONGEST:
        return [*found, shown]
    told = {"type": f"{agent}{UNREADABLE}", **place, TOO_LONG: len(shown if data is None else data)}
    cut = _cut_off(made | kept) or ([_record(place | whole, b"")] if kept else [])
    return [*found, *cut, encode(told)]


def _plain(line: LineFields, names: tuple[str, ...]) -> LineFields:
    """Fields of a line, unless one is too long itself."""
    return {name: line[name] for name in names if len(str(line.get(name, ""))) in _PLAIN}


def _record(place: LineFields, data: bytes) -> bytes:
    line = {"type": RECORD, **place}
    keep_original(line, data)
    return encode(line)


def _pieces(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = start + LONGEST // _SHARE
        end = _cut(data, start, end) if end < len(data) else len(data)
        yield data[start:end]
        start = end


def _cut(data: bytes, start: int, end: int) -> int:
    for mark in _CUTS:
        found = data.rfind(mark, max(start, end - _WINDOW), end)
        if found >= 0:
            return found + len(mark)
    # A character takes four bytes at most.
    return next((one for one in range(end, end - 4, -1) if data[one] & 0xC0 != 0x80), end)


def _cut_off(line: LineFields) -> list[bytes]:
    """A line as far as it fits; none where nothing of it does."""
    tried = (encode(_shortened(line, most)) for most in _SHOWN)
    fit = next((one for one in tried if len(one) <= LONGEST), None)
    return [] if fit is None else [fit]


def _shortened(value: object, most: int) -> object:
    if isinstance(value, str):
        return value if len(value) <= most else value[:most] + _CUT_OFF
    if isinstance(value, dict):
        return {key: _shortened(one, most) for key, one in list(value.items())[:most]}
    if isinstance(value, list | tuple):
        return [_shortened(one, most) for one in value[:most]]
    return value
