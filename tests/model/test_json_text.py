"""JSON as hostile text: how deep it goes is known before anything parses it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.json_text import deeper_than


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
