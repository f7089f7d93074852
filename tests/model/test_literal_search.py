"""Words in bytes are found by the scan engine and without it, in the same places."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.literal_search import LiteralSearch

WORD = b'"usage"'
texts = st.lists(st.sampled_from([WORD, b'"', b"usage", b"\n", b"x" * 70, b"\0", b"\xff"])).map(b"".join)


def ends(data: bytes) -> list[int]:
    """Where the word ends, words that share a quote included."""
    return [found.start() + len(WORD) for found in re.finditer(b"(?=" + WORD + b")", data)]


@pytest.mark.parametrize("has_engine", [True, False])
def test_every_place_is_found(has_engine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the engine and without it, search after search."""
    if not has_engine:
        monkeypatch.setitem(sys.modules, "hyperscan", None)
    search = LiteralSearch(WORD)

    @given(texts)
    def same(data: bytes) -> None:
        assert ends(data) == search.ends(data)

    same()
    assert has_engine is (search._scan is not None)


def test_signs_of_an_expression_are_plain_in_a_word() -> None:
    """A word is no expression."""
    assert [6] == LiteralSearch(b"a.*").ends(b"abxa.*")
