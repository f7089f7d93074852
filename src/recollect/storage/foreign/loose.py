"""Records of clients whose next version is not known.

Each dialect says which type the fields it uses have (a *shape*). A field of another type is taken out before the record is
translated, so that translators meet the expected type or nothing; what was taken out is named beside the record, where
``check`` counts it. Fields that no shape names are left alone: they are kept with the record's bytes.

Nearly every record fits. A decoder made of its shape tells that several times as fast as looking at each field, and reads the
fields that the shape names in the same pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple, TypeAlias, TypedDict, Union

import msgspec

from recollect.model.json.text import deeper_than, loose_value, may_be_deep, openings
from recollect.storage.foreign.lines import LineFields, Voice, key_of, record

Fields = dict[str, Any]
# Only dicts: every field of every record is asked, and a check for any mapping takes longer.
Shape: TypeAlias = "type | range | re.Pattern[str] | tuple[Shape, ...] | list[Shape] | dict[str, Shape]"

# Tokens, turns and places in a file: beyond this, JSON does not carry them exactly.
COUNT = range(1 << 53)
ANY = object
NUMBER: Shape = (COUNT, float)
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
# A line of ours adds a few levels to what it holds, and readers of logs refuse more than 64.
_DEPTH = 48
_NO_FIT = object()
# What code that expects another shape raises. Failures of the machine (OSError, MemoryError) are not among them.
UNEXPECTED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


class Whole(dict[str, Any]):
    """The shape of an object that is also used beyond the fields it names."""


class FittedRecord(NamedTuple):
    """The fields of a record that are as expected, and the places of those that are not."""

    fields: Fields
    odd: list[str]


def parsed(raw: bytes) -> object:
    """A record as plain values; None where it is no JSON, or nested too deep for any reader."""
    return None if is_too_deep(raw) else loose_value(raw)


class ShapedRecords:
    """Records of one shape, as they are stored."""

    def __init__(self, shape: dict[str, Shape], is_all: Callable[[Fields], bool] = lambda _: True) -> None:
        """``is_all`` tells of what fits whether anything else of the record is used."""
        self.shape, self._is_all = shape, is_all
        # A decoder takes several times as long for a pattern as this does.
        self._texts = [(name, one) for name, one in shape.items() if isinstance(one, re.Pattern)]
        self._decoder: msgspec.json.Decoder[Fields] | None = None

    def read(self, raw: bytes | str, value: object) -> FittedRecord:
        """``value``, which these bytes were parsed to, in the expected shape."""
        if isinstance(value, dict) and self.decoded(raw) is not None:
            return FittedRecord(value, [])
        return fitted(value, self.shape)

    def named(self, raw: bytes) -> FittedRecord:
        """A record in the expected shape. Where all of it fits, only the fields that the shape names are read."""
        found = self.quickly(raw)
        return fitted(parsed(raw), self.shape) if found is None else FittedRecord(found, [])

    def quickly(self, raw: bytes) -> Fields | None:
        """The fields that the shape names, where all of the record fits; None also where there are none of them."""
        found = None if is_too_deep(raw) else self.decoded(raw)
        return found if found and self._is_all(found) else None

    def decoded(self, raw: bytes | str | msgspec.Raw) -> Fields | None:
        """The fields that the shape names; None where one does not fit."""
        if self._decoder is None:  # most processes meet records of few shapes, or of none
            self._decoder = msgspec.json.Decoder(_object_of(self.shape, self._texts))
        try:
            found = self._decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return None
        for name, pattern in self._texts:
            text = found.get(name)
            if text is not None and pattern.match(text) is None:
                return None
        return found


def is_too_deep(raw: bytes) -> bool:
    """Whether a record is nested too deep for any reader."""
    # The first is the first step of the second, too: nearly every record ends there, and there are very many.
    return openings(raw) > _DEPTH and may_be_deep(raw, _DEPTH) and deeper_than(raw, _DEPTH)


def _object_of(shape: dict[str, Shape], texts: Iterable[tuple[str, object]] = ()) -> Any:
    """A type that takes no object that does not fit. A field may be null. ``texts`` are looked at elsewhere."""
    own = shape | dict.fromkeys((name for name, _ in texts), str)
    fields = {name: Union[_type_of(one), None] for name, one in own.items()}  # noqa: UP007 - of a variable
    return TypedDict("Shaped", fields, total=False)  # type: ignore[operator]


def _type_of(shape: Shape) -> Any:
    """A type that takes nothing that does not fit. An item of a list may not be null."""
    if isinstance(shape, tuple):
        found: Any = Union[tuple(_type_of(one) for one in shape)]  # noqa: UP007 - of a tuple
    elif isinstance(shape, Whole):
        found = None  # only fitting it field by field keeps the others
    elif isinstance(shape, dict):
        found = _object_of(shape) if shape else dict
    elif isinstance(shape, list):
        found = list[_type_of(shape[0])] if shape else list  # type: ignore[misc]
    elif isinstance(shape, range):
        found = Annotated[int, msgspec.Meta(ge=shape.start, lt=shape.stop)]
    elif isinstance(shape, re.Pattern):
        found = Annotated[str, msgspec.Meta(pattern=rf"\A(?:{shape.pattern})")]
    else:
        found = shape
    return found


def fitted(value: object, shape: dict[str, Shape]) -> FittedRecord:
    """A record in the shape a dialect expects; empty where it is no object."""
    odd: list[str] = []
    return FittedRecord(_fit_object(value, shape, "", odd) if isinstance(value, dict) else {}, odd)


def whole_number(value: object) -> int:
    """A count; 0 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value in COUNT else 0


def translated(
    agent: str, voice: Voice, odd: list[str], translate: Callable[[], list[LineFields]]
) -> list[LineFields]:
    """The lines of a record; a remark for what was not as expected, also where translating it failed."""
    leaf = voice.leaf
    try:
        found = translate()
    except UNEXPECTED as problem:
        voice.leaf = leaf
        return [unexpected(agent, voice, [*odd, f"({type(problem).__name__})"])]
    return [*found, unexpected(agent, voice, odd)] if odd else found


def unexpected(agent: str, voice: Voice, odd: list[str]) -> LineFields:
    """A line of a type that ``check`` counts as unknown: which fields were not understood.

    ``about`` is the same where the same is said again.
    """
    places = sorted(set(odd))
    return record(voice, f"{agent}:unexpected", fields=places, about=key_of(agent, voice.leaf, places))


def _fit(value: object, shape: Shape, where: str, odd: list[str]) -> object:
    if isinstance(shape, tuple):
        shape = next((one for one in shape if _is_of(value, one)), shape[0])
    if not _is_of(value, shape):
        odd.append(where)
        return _NO_FIT
    if isinstance(shape, dict) and isinstance(value, dict):
        return _fit_object(value, shape, where, odd)
    if isinstance(shape, list) and isinstance(value, list):
        if not shape:
            return value  # a list of anything
        kept = [_fit(one, shape[0], f"{where}[]", odd) for one in value]
        return [one for one in kept if one is not _NO_FIT]
    return value


def _fit_object(value: Fields, shape: dict[str, Shape], where: str, odd: list[str]) -> Fields:
    found = value
    for name, given in value.items():
        inner = shape.get(name)
        if inner is None or given is None or (inner is str and type(given) is str):
            continue
        if inner is NUMBER and type(given) is int and given in COUNT:
            continue
        fit = _fit(given, inner, f"{where}.{name}" if where else name, odd)
        if fit is given:
            continue
        found = dict(found) if found is value else found
        if fit is _NO_FIT:
            del found[name]
        else:
            found[name] = fit
    return found


def _is_of(value: object, shape: Shape) -> bool:
    if shape is ANY:
        return True
    if isinstance(shape, type):
        return isinstance(value, shape) and (shape is bool or type(value) is not bool)
    if isinstance(shape, dict):
        return isinstance(value, dict)
    if isinstance(shape, list):
        return isinstance(value, list)
    if isinstance(shape, range):
        return type(value) is int and value in shape
    return isinstance(shape, re.Pattern) and isinstance(value, str) and shape.match(value) is not None
