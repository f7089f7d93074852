"""Records of clients whose next version is not known.

Each dialect says which type the fields it uses have (a *shape*). A field of another type is taken out before the record is
translated, so that translators meet the expected type or nothing; what was taken out is named beside the record, where
``doctor`` counts it. Fields that no shape names are left alone: they are kept with the record's bytes.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from recollect.agents.lines import LineFields, Voice, key_of, record
from recollect.model.lines.json_text import deeper_than, loose_value, may_be_deep, openings

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


@cache
def known_types(agent: str) -> dict[str, frozenset[str]]:
    """Types of an agent's records, and parts of its store, that are known although nothing is made of them."""
    known = tomllib.loads(Path(__file__).with_name("known_types.toml").read_text("utf-8"))
    return {kind: frozenset(names) for kind, names in known[agent].items()}


class Whole(dict[str, Any]):
    """The shape of an object that is also used beyond the fields it names."""


class FittedRecord(NamedTuple):
    """The fields of a record that are as expected, and the places of those that are not."""

    fields: Fields
    odd: list[str]


def parsed(raw: bytes) -> object:
    """A record as plain values; None where it is no JSON, or nested too deep for any reader."""
    return None if is_too_deep(raw) else loose_value(raw)


def is_too_deep(raw: bytes) -> bool:
    """Whether a record is nested too deep for any reader."""
    # The first is the first step of the second, too: nearly every record ends there, and there are very many.
    return openings(raw) > _DEPTH and may_be_deep(raw, _DEPTH) and deeper_than(raw, _DEPTH)


def fitted(value: object, shape: dict[str, Shape]) -> FittedRecord:
    """A record in the shape a dialect expects; empty where it is no object."""
    odd: list[str] = []
    return FittedRecord(_fit_object(value, shape, "", odd) if isinstance(value, dict) else {}, odd)


def translated(
    agent: str, voice: Voice, odd: list[str], translate: Callable[[], Iterable[LineFields]]
) -> list[LineFields]:
    """The lines of a record; a remark for what was not as expected, also where translating it failed."""
    leaf = voice.leaf
    try:
        result = list(translate())
    except UNEXPECTED as problem:
        voice.leaf = leaf
        return [unexpected(agent, voice, [*odd, f"({type(problem).__name__})"])]
    return [*result, unexpected(agent, voice, odd)] if odd else result


def unexpected(agent: str, voice: Voice, odd: list[str]) -> LineFields:
    """A line of a type that ``doctor`` counts as unknown: which fields were not understood.

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
    result = value
    for name, given in value.items():
        inner = shape.get(name)
        if inner is None or given is None or (inner is str and type(given) is str):
            continue
        fit = _fit(given, inner, f"{where}.{name}" if where else name, odd)
        if fit is given:
            continue
        result = dict(result) if result is value else result
        if fit is _NO_FIT:
            del result[name]
        else:
            result[name] = fit
    return result


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
