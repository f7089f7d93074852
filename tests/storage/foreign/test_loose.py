"""Records in the shape that a dialect expects: the fast way and the thorough one say the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.storage.foreign import codex_shapes, gemini, qwen
from recollect.storage.foreign.loose import ANY, COUNT, MOMENT, Shape, ShapedRecords, Whole, fitted
from recollect.storage.foreign.opencode_store import store as opencode_store

SHAPES: dict[str, dict[str, Shape]] = {
    "gemini": gemini._RECORDS.shape,
    "qwen": qwen._LINES.shape,
    **{f"codex {kind}": one.shape for kind, one in codex_shapes._ENVELOPES.items()},
    "codex bare": codex_shapes._BARE_ITEM.shape,
    **{f"opencode {table}": shape for table, shape in opencode_store._SHAPES.items()},
}
ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1 << 53,
        1.0,
        1.5,
        "",
        "x",
        "2026-11-16T09:00",
        " 2026-11-16T09:00",
        [],
        [None],
        {},
        {"a": 1},
    ]
)


def values(shape: Shape) -> st.SearchStrategy[object]:
    """Mostly what fits a shape, and what does not."""
    if isinstance(shape, tuple):
        fit = st.one_of(*map(values, shape))
    elif isinstance(shape, dict):
        fit = st.fixed_dictionaries({}, optional={name: values(inner) for name, inner in shape.items()})
    elif isinstance(shape, list):
        fit = st.lists(values(shape[0]) if shape else ODD, max_size=3)
    elif shape is COUNT:
        fit = st.sampled_from([0, 7, 7, 7, -1, (1 << 53) - 1, 1 << 53, 7.0])
    elif shape is ANY:
        fit = ODD
    elif shape is MOMENT:
        fit = st.just("2026-11-16T09:00:00.000Z")
    else:
        plain = {str: st.text(), bool: st.booleans(), float: st.floats(allow_nan=False, allow_infinity=False)}
        assert isinstance(shape, type)
        fit = plain[shape]
    return st.one_of(*[fit] * 9, ODD)


def _only(value: object, shape: Shape) -> object:
    """What a shape names of a value."""
    if isinstance(shape, tuple):
        shape = next((one for one in shape if type(one) is type(value)), str)
    if isinstance(value, dict) and isinstance(shape, dict) and shape and not isinstance(shape, Whole):
        return {name: _only(inner, shape[name]) for name, inner in value.items() if name in shape}
    if isinstance(value, list) and isinstance(shape, list) and shape:
        return [_only(one, shape[0]) for one in value]
    return value


@pytest.mark.parametrize("name", SHAPES)
def test_a_record_that_passes_quickly_has_nothing_unexpected(name: str) -> None:
    records = ShapedRecords(SHAPES[name])
    passed = 0

    @given(values(SHAPES[name]).filter(lambda value: isinstance(value, dict)))
    def same(value: object) -> None:
        nonlocal passed
        raw = json.dumps(value)
        expected = fitted(value, records.shape)
        passed += records.decoded(raw) is not None
        assert records.read(raw, value) == expected
        named = records.named(raw.encode())
        assert named.odd == expected.odd
        assert _only(named.fields, records.shape) == _only(expected.fields, records.shape)

    same()
    assert passed


def test_a_list_of_anything_may_hold_anything() -> None:
    said = {"resultDisplay": [1, {"a": None}]}
    assert fitted(said, {"resultDisplay": (str, {}, [])}) == (said, [])
