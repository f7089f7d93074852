"""What is shown of a text that was found."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.text.query import Pattern, WordQuery
from recollect.model.text.snippet import Snippet, snippet

texts = st.lists(
    st.sampled_from(["alpha ", "beta", "  \n", "quasarLedger ", "量子", "\ud800", "\0", "x" * 30]),
    max_size=40,
)


def marked(found: Snippet) -> list[str]:
    return [found.text[start:end] for start, end in found.marks]


def test_a_long_text_is_cut_around_what_was_found() -> None:
    """Between words, with an ellipsis on both sides; the mark counts from the shown text."""
    text = "aaa " * 50 + "quasar " + "bbb " * 50

    shown = snippet(text, WordQuery.parse("quasar"), width=30)

    # 24 of the 30 characters are left beside the word; a third of them, 8, stand before it.
    assert Snippet("…aaa aaa quasar bbb bbb bbb bbb…", [(9, 15)]) == shown


def test_white_space_becomes_one_blank() -> None:
    """Line ends and indentation do not use up the room, and marks move along."""
    text = "\n\n  def   find(\n\t\tquasar,\r\n        ledger):\n"

    assert Snippet("def find( quasar, ledger):", [(10, 24)]) == snippet(
        text, WordQuery.parse('"quasar ledger"')
    )


def test_the_window_with_the_most_terms_is_shown() -> None:
    """Not the first match, if both words stand together later."""
    text = "quasar " + "x " * 200 + "the ledger of the quasar " + "y " * 200

    assert ["ledger", "quasar"] == marked(snippet(text, WordQuery.parse("quasar ledger"), width=60))


def test_a_match_wider_than_the_window_is_cut() -> None:
    """It fills the window, all of it marked."""
    assert Snippet("…" + "x" * 20 + "…", [(1, 21)]) == snippet("a " + "x" * 50, Pattern("x+"), width=20)


def test_a_second_match_is_shown_whole_or_not_at_all() -> None:
    """The window ends before a match that it has no room for."""
    shown = snippet("quasarLedgerXquasarLedger", Pattern("quasarLedger"), width=20)

    assert Snippet("quasarLedgerX…", [(0, 12)]) == shown


@pytest.mark.parametrize("text", ["", " ", "\ud800", "\0", "quasar", "quasar\ud800\0"])
@pytest.mark.parametrize("width", [0, 1, 160])
def test_odd_texts_and_widths_are_taken(text: str, width: int) -> None:
    """Nothing to show is an empty snippet, not an error."""
    shown = snippet(text, WordQuery.parse("quasar"), width)

    assert len(shown.text.strip("…")) <= width


@given(
    parts=texts,
    asked=st.sampled_from(["beta", "quasar", "量子 alpha", "ledger OR al*"]),
    width=st.integers(0, 80),
)
def test_a_snippet_keeps_its_promises(parts: list[str], asked: str, width: int) -> None:
    """At most ``width`` characters and two ellipses, all of them from the text; marks inside and in order."""
    text = "".join(parts)

    shown = snippet(text, WordQuery.parse(asked), width)

    inner = shown.text.removeprefix("…").removesuffix("…")
    flat = " ".join(text.split())
    borders = [border for mark in shown.marks for border in mark]
    assert (True, True, True, True) == (
        len(inner) <= width,
        " ".join(inner.split()) in flat,
        all(before <= after for before, after in pairwise(borders)),
        all(0 <= border <= len(shown.text) for border in borders),
    )


@given(parts=texts, asked=st.sampled_from(["beta", "quasar", "子", '"quasar ledger"']))
def test_what_is_marked_is_what_was_asked_for(parts: list[str], asked: str) -> None:
    """A text with a match shows at least one, and marks nothing else."""
    query = WordQuery.parse(asked)
    text = "".join(parts)

    shown = snippet(text, query, width=160)

    others = {piece.lower() for piece in marked(shown)} - {"beta", "quasar", "子", "quasarledger"}
    assert (any(query.places(text)), set()) == (bool(shown.marks), others)
