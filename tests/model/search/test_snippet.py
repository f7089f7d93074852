"""What is shown of a text that was found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.search.query import Pattern, Substring, WordQuery
from recollect.model.search.snippet import Snippet, snippet

texts = st.lists(
    st.sampled_from(["alpha ", "beta", "  \n", "quasarLedger ", "量子", "\ud800", "\0", "x" * 30]),
    max_size=40,
)


class Endless:
    """A finder that never stops finding, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def places(self, text: str) -> Iterator[tuple[int, int, int]]:
        for start in count():
            self.asked += 1
            yield start % len(text), start % len(text) + 1, 0


def marked(found: Snippet) -> list[str]:
    return [found.text[start:end] for start, end in found.marks]


def test_a_short_text_is_shown_whole() -> None:
    """Without an ellipsis, with every mark."""
    text = "the index, and the Index again"

    assert Snippet(text, [(4, 9), (19, 24)]) == snippet(text, WordQuery.parse("index"))


def test_a_long_text_is_cut_around_what_was_found() -> None:
    """Between words, with an ellipsis on both sides; the mark counts from the shown text."""
    text = "aaa " * 50 + "quasar " + "bbb " * 50

    shown = snippet(text, WordQuery.parse("quasar"), width=30)

    # 24 of the 30 characters are left beside the word; a third of them, 8, stand before it.
    assert Snippet("…aaa aaa quasar bbb bbb bbb bbb…", [(9, 15)]) == shown


def test_a_cut_moves_to_the_next_blank() -> None:
    """Rather a few characters less than a piece of a word: of the 8 before it, 3 are left of a word."""
    text = "aaaa " * 40 + "quasar " + "bbb " * 50

    shown = snippet(text, WordQuery.parse("quasar"), width=30)

    assert Snippet("…aaaa quasar bbb bbb bbb bbb…", [(6, 12)]) == shown


def test_a_mark_may_begin_amid_white_space() -> None:
    """The blank that stands for all of it belongs to what is before."""
    assert Snippet("a b", [(2, 3)]) == snippet("a  \n  b", Pattern(r"\n  b"))


def test_an_ellipsis_also_stands_for_what_was_never_looked_at() -> None:
    """Text beyond thousands of blanks is left out, and that is shown."""
    far = " " * 2000

    assert Snippet("…quasar…", [(1, 7)]) == snippet(f"start{far}quasar{far}end", WordQuery.parse("quasar"))


def test_white_space_becomes_one_blank() -> None:
    """Line ends and indentation do not use up the room, and marks move along."""
    text = "\n\n  def   find(\n\t\tquasar,\r\n        ledger):\n"

    assert Snippet("def find( quasar, ledger):", [(10, 24)]) == snippet(
        text, WordQuery.parse('"quasar ledger"')
    )


@given(st.text(st.sampled_from("ab \t\n\r\x0b\x1c\x85\xa0\u2003\u2028\u3000é"), max_size=12))
def test_white_space_is_what_a_pattern_takes_for_it(text: str) -> None:
    """Every kind of it, before a mark, between two, behind them and elsewhere."""
    whole = f"start{text}quasar{text}ledger{text}end"

    assert re.sub(r"\s+", " ", whole) == snippet(whole, WordQuery.parse("quasar ledger")).text


def test_the_window_with_the_most_terms_is_shown() -> None:
    """Not the first match, if both words stand together later."""
    text = "quasar " + "x " * 200 + "the ledger of the quasar " + "y " * 200

    assert ["ledger", "quasar"] == marked(snippet(text, WordQuery.parse("quasar ledger"), width=60))


def test_of_equal_windows_the_first_is_shown() -> None:
    """Many matches of one term are worth no more than one."""
    text = "one quasar " + "x " * 100 + "quasar quasar quasar"

    assert "one quasar x x x x x…" == snippet(text, WordQuery.parse("quasar"), width=20).text


def test_a_text_without_a_match_is_shown_from_its_start() -> None:
    """As when the match was in another field."""
    assert Snippet("alpha beta…", []) == snippet("alpha beta gamma", WordQuery.parse("quasar"), width=12)


def test_a_match_wider_than_the_window_is_cut() -> None:
    """It fills the window, all of it marked."""
    assert Snippet("…" + "x" * 20 + "…", [(1, 21)]) == snippet("a " + "x" * 50, Pattern("x+"), width=20)


def test_a_second_match_is_shown_whole_or_not_at_all() -> None:
    """The window ends before a match that it has no room for."""
    shown = snippet("quasarLedgerXquasarLedger", Pattern("quasarLedger"), width=20)

    assert Snippet("quasarLedgerX…", [(0, 12)]) == shown


def test_an_earlier_match_is_shown_whole_or_not_at_all() -> None:
    """The window of 30 would begin with the last letter of the first match, and begins behind it."""
    shown = snippet("quasar-quasar-aaaaaaaaaa-ledger-" + "b" * 50, WordQuery.parse("quasar ledger"), width=30)

    assert Snippet("…-quasar-aaaaaaaaaa-ledger-bbb…", [(2, 8), (20, 26)]) == shown


def test_text_without_blanks_is_cut_where_it_must_be() -> None:
    """Chinese has no blanks; 3 of the 9 characters that are left stand before the word, 6 behind it."""
    shown = snippet("设计" * 40 + "缓存" + "方案" * 40, WordQuery.parse("缓存"), width=11)

    assert Snippet("…计设计缓存方案方案方案…", [(4, 6)]) == shown


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


def test_a_substring_is_marked() -> None:
    """The other finders serve as well."""
    assert ["TTP"] == marked(snippet("parseHTTPHeader", Substring("ttp")))


def test_only_the_first_places_are_weighed() -> None:
    """A finder that never ends is asked two hundred times, so a huge text with a match in every word is cheap."""
    finder = Endless()

    snippet("a" * 1000, finder)

    assert finder.asked == 200


def test_an_expression_that_matches_nothing_everywhere_is_given_up() -> None:
    """After a hundred thousand empty matches; else 20 MB would mean 20 million of them."""
    assert [] == snippet("a" * 100_000 + "x", Pattern("x*")).marks
