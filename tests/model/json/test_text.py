"""JSON as hostile text: how deep it goes is known before anything parses it."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.model.lines.json_text import deeper_than, is_plainly_sound, may_be_deep


@pytest.mark.parametrize(
    ("line", "is_deep"),
    [
        (b"[" * 10_000_000, True),
        (b"[]" * 5_000_000, False),
        (b'"' + b"[" * 10_000_000 + b'"', False),
        (b'"\\"' + b"[" * 100_000 + b'"', False),
        (b'"\\\\"' + b"[" * 600, True),
        ((b"[" * 512 + b"]" * 512) * 1_000, False),
        (b'["",' * 513, True),
        (b"[" * 400 + b'"' + b"x" * 70_000 + b'"' + b"{" * 112, False),
        (b"[" * 400 + b'"' + b"x" * 70_000 + b'"' + b"{" * 113, True),
        (b"]" * 600 + b"[" * 600, True),
        (b"[" * 300 + b"]" * 70_000 + b"[" * 512, False),
        (b"[" * 300 + b"]" * 70_000 + b"[" * 513, True),
        *((b'"' + b"x" * 65_530 + b"\\" * run + b'"' + b"[" * 600, run % 2 == 0) for run in range(9)),
    ],
)
def test_depth_is_counted_outside_strings(line: bytes, is_deep: bool) -> None:
    """However long the line is, and wherever its strings begin and end."""
    assert deeper_than(line, 512) is is_deep


@given(
    st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b'"x"', b'"[\\""', b'"\\\\"', b","])), st.integers(0, 5)
)
def test_depth_is_what_counting_one_by_one_finds(tokens: list[bytes], most: int) -> None:
    """The same answer as a walk over the brackets that never goes below the ground."""
    depth = deepest = 0
    for token in tokens:
        depth = max(depth + (1 if token in (b"[", b"{") else -1 if token in (b"]", b"}") else 0), 0)
        deepest = max(deepest, depth)
    assert deeper_than(b"".join(tokens), most) is (deepest > most)


VALUES = st.recursive(
    st.sampled_from(["", "{", "a[0] = { b }", '{"c": [', "{\t[", "\n[[{", "\n", '"', "\\", 1, None]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "{ ["]), inner, max_size=2)
    ),
    max_leaves=12,
)


@example(["\n", ["\n", ["\n", [1]]]], 3, (",", ":"), False)
@given(VALUES, st.integers(0, 6), st.sampled_from([(",", ":"), (", ", ": "), ("\t, ", ":\t")]), st.booleans())
def test_valid_json_is_sound_unless_it_is_too_deep(
    value: object, most: int, separators: tuple[str, str], is_indented: bool
) -> None:
    """Brackets in strings do not count, however the value is laid out; those of values all do."""
    line = json.dumps(value, separators=separators, indent=1 if is_indented else None).encode()

    assert is_plainly_sound(line, most) is not deeper_than(line, most)


def test_brackets_of_code_do_not_make_a_line_deep() -> None:
    """So that its levels need not be counted; a hundred that follow each other are left to the counting."""
    code = "\n".join(f"\tx[{number}][i] = map[string][]int{{}}" for number in range(100))

    assert not may_be_deep(json.dumps({"text": code}).encode(), 64)
    assert may_be_deep(json.dumps({"text": "[" * 100}).encode(), 64)
    assert is_plainly_sound(json.dumps({"text": "[" * 100}).encode(), 64)
