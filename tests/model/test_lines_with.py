"""Lines with a word are found by the scan engine and without it, in the same places."""

from __future__ import annotations

import itertools
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.lines_with import LinesWith

WORD = b'"usage"'
ALSO = (rb"\\u", rb"[\xc3-\xc9]")
texts = st.lists(
    st.sampled_from([WORD, b'"', b"usage", b'"USAGE"', b"\\u", b"\xc4", b"\n", b"x" * 70, b"\0", b"\xff"])
).map(b"".join)


@pytest.mark.parametrize("has_engine", [True, False])
@pytest.mark.parametrize("is_wide", [True, False])
def test_every_line_is_found_once(has_engine: bool, is_wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the engine and without it, search after search."""
    if not has_engine:
        monkeypatch.setitem(sys.modules, "hyperscan", None)
    search = LinesWith(WORD, in_any_case=is_wide, also=ALSO if is_wide else ())

    def fits(line: bytes) -> bool:
        if is_wide:
            return WORD in line.lower() or re.search(b"|".join(ALSO), line) is not None
        return WORD in line

    @given(texts)
    def same(data: bytes) -> None:
        lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", data)
        ends = itertools.accumulate(map(len, lines))
        assert [end for line, end in zip(lines, ends, strict=True) if fits(line)] == search.ends(data)

    same()
    assert has_engine is (search._scan is not None)


def test_signs_of_an_expression_are_plain_in_a_word() -> None:
    """A word is no expression."""
    assert [8] == LinesWith(b"a.*").ends(b"abx\na.*\nabc")
