"""The rule of every narrow view of a line.

A view is a struct with the few fields one reader needs. Its decoder skips everything else, several times faster
than the codec. A line that the decoder refuses (another type, half a surrogate pair, bad UTF-8) is read by the
codec, and the view is made from its entry; what could be saved of a damaged line counts. None: the line is blank,
or not even the codec can read it.

A line that is accepted says the same either way: ``tests/model/line_views/test_views.py`` compares the two for
every view. Depth is not looked at: a line deeper than the codec allows is damage to the reader, and may still
have a view.

The codec is imported when a line is refused: making its decoders takes longer than reading many lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from msgspec import Raw

if TYPE_CHECKING:
    from recollect.model.entry import Entry

REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
Shape = TypeVar("Shape", bound=msgspec.Struct)


class LineView(Generic[Shape]):
    """Reads lines as one struct. ``of_entry`` makes the struct from what the codec says."""

    __slots__ = ("_decode", "_of_entry")

    def __init__(self, shape: type[Shape], of_entry: Callable[[Entry], Shape]) -> None:
        self._decode: Callable[[bytes], Shape] = msgspec.json.Decoder(shape).decode
        self._of_entry = of_entry

    def __call__(self, data: bytes) -> Shape | None:
        """What a line says; by the codec where it is odd."""
        try:
            return self._decode(data)
        except REFUSED:
            return self.by_codec(data)

    def narrowly(self, data: bytes) -> Shape | None:
        """What a line says, byte for byte; None where the decoder refuses it."""
        try:
            return self._decode(data)
        except REFUSED:
            return None

    def sound(self, data: bytes) -> Shape | None:
        """What a line says; None where it is damaged."""
        try:
            return self._decode(data)
        except REFUSED:
            return self.by_codec(data, with_damage=False)

    def by_codec(self, data: bytes, *, with_damage: bool = True) -> Shape | None:
        """What a line says according to the codec."""
        entry = readable_entry(data, with_damage=with_damage)
        return None if entry is None else self._of_entry(entry)


class SessionView(LineView[Shape]):
    """A view with a ``session_id``, which other dialects write elsewhere: there the codec is asked."""

    __slots__ = ()

    def __call__(self, data: bytes) -> Shape | None:
        """What a line says; by the codec where it is odd or of another dialect."""
        seen = self.narrowly(data)
        if seen is None or (seen.session_id is None and is_of_other_dialect(data)):  # type: ignore[attr-defined]
            return self.by_codec(data)
        return seen


def is_of_other_dialect(data: bytes) -> bool:
    """Whether a line without ``sessionId`` may name its session in another place."""
    return b'"session_id"' in data or b'"metadata"' in data


def readable_entry(data: bytes, *, with_damage: bool = True) -> Entry | None:
    """A line as the codec reads it, or what could be saved of it."""
    from recollect.model.codec import decode
    from recollect.model.damage import Damage, Line

    item = decode(Line(data))
    if isinstance(item, Damage):
        return item.readable if with_damage else None
    return item


def raw_of(value: object) -> Raw:
    """A plain value as JSON again, numbers beyond 64 bits included."""
    try:
        return Raw(msgspec.json.encode(value))
    except OverflowError:
        import json  # only odd lines get here

        return Raw(json.dumps(value).encode())


def text_of(fields: Any, name: str) -> str | None:
    """A field that is text, of something that may not even be an object."""
    value = fields.get(name) if isinstance(fields, dict) else None
    return value if isinstance(value, str) else None
