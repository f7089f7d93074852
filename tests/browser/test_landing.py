"""From a hit to its place: the word is on the screen and marked, wherever it was folded away."""

from __future__ import annotations

import os

import pytest

from tests.browser.chromium import Chromium
from tests.browser.home import FOUND, RICH, WINDOWS, WORDS
from tests.small_home import uuid_of

ON_A_PHONE = list(WORDS)[:: 1 if os.environ.get("RECOLLECT_TORTURE") else 5]


@pytest.mark.parametrize(("width", "words"), [(1440, list(WORDS)), (390, ON_A_PHONE)])
def test_every_hit_is_on_the_screen_and_marked(page: Chromium, width: int, words: list[str]) -> None:
    """25 of 25 over prose, thinking, calls and results; the first and the last are clicked, the others are links."""
    page.do("size", width=width, height=900)
    missed = []
    for place, word in enumerate(words):
        page.do("go", hash=f"#/sessions?q={word}", wait=f'[data-hit]:has-text("{word}")')
        if place in (0, len(words) - 1):
            page.do("click", selector="[data-hit]", text=word)
        else:
            page.do("go", hash=page.do("attribute", selector="[data-hit]", name="href"))
        if not page.do("isMarked", word=word):
            missed.append((word, WORDS[word]))
    assert missed == []
    assert (page.do("told")["problems"], page.do("count", selector=".notice")) == ([], 0)
    assert f"#/s/{FOUND}?" in page.do("hash")


def test_what_no_conversation_shows_is_no_hit_and_said_in_words(page: Chromium) -> None:
    """A line that only repeats a text for the client is not offered; who has its address is told so."""
    word = next(iter(WORDS))
    page.do("go", hash=f"#/s/{WINDOWS}?q={word}", wait=".sought")
    assert page.do("wait", selector=".sought span") == f"Nothing here has “{word}”"
    page.do("go", hash=f"#/s/{WINDOWS}?m={uuid_of(6)}", wait=".notice")
    assert (
        page.do("wait", selector=".notice span") == "That line of the log is not shown in the conversation."
    )


def test_text_with_punctuation_is_found_and_marked(page: Chromium) -> None:
    """In names, commands and phrases, in the results and in the conversation."""
    page.do("wait", selector="[data-search]")
    for question, marked in (("test_basket.py", "test_basket"), ('"Round the totals"', "totals")):
        page.do("fill", selector="[data-search]", text=question)
        page.do("wait", selector="[data-hit] mark", text=marked)
    page.do("go", hash=f"#/s/{RICH}?q=pytest+-q&how=substring", wait=".sought")
    page.do("press", keys=["n"])
    assert page.do("isMarked", word="pytest -q")
    assert page.do("told")["problems"] == []


def test_a_call_that_was_folded_by_hand_unfolds_for_its_hit(page: Chromium) -> None:
    page.do("go", hash=f"#/s/{FOUND}?q=snapdragon", wait=".sought")
    page.do("press", keys=["n"])
    page.do("wait", selector='[data-call="f9"] .detail')
    page.do("click", selector='[data-call="f9"] .fold', direct=True)
    page.do("wait", selector='[data-call="f9"] .fold[aria-expanded="false"]')
    page.do("go", hash="#/sessions?q=snapdragon", wait="[data-hit]")
    page.do("click", selector="[data-hit]")
    assert page.do("isMarked", word="snapdragon")


def test_a_session_that_was_left_asks_for_nothing_more(page: Chromium) -> None:
    """Its head may come after the reader is elsewhere: no request for a session without a name, no title of its own."""
    head = f"/api/sessions/{FOUND}"
    page.do("hold", path=head)
    try:
        page.do("go", hash=f"#/s/{FOUND}/todos", wait=".talk .tabs")
        page.do("go", hash="#/sessions", wait="[data-search]")
        page.do("release", path=head)
        page.do("settle", ms=1_100)
    finally:
        page.do("honest")
    told = page.do("told")
    assert (told["problems"], [url for url in told["requests"] if "/sessions//" in url]) == ([], [])
    assert page.do("title") == "Sessions · recollect"


def test_matches_are_walked_and_the_way_back_leads_to_the_results(page: Chromium) -> None:
    """``n`` and ``N`` go from match to match, ticks show them; Back shows the results with filters and place."""
    page.do("go", hash="#/sessions?q=compute&kinds=tool_result&since=2026-01-01", wait="[data-hit]")
    page.do("click", selector="[data-hit]")
    assert page.do("isMarked", word="compute")
    page.do("go", hash=f"#/s/{FOUND}?q=value", wait='.sought:has-text("value")')
    assert page.do("count", selector=".ticks button") >= 3
    page.do("press", keys=["n"])
    assert "1 of" in page.do("wait", selector=".sought", text="1 of")
    assert page.do("isMarked", word="value")
    total = len(page.do("texts", selector=".ticks button"))
    page.do("wait", selector=".sought", text="match 1 of 60")
    page.do("press", keys=["n"])
    page.do("wait", selector=".sought", text="match 2 of 60")
    # Before the first match is the last one of the last message, and after that the first again.
    page.do("press", keys=["N", "N"])
    page.do("wait", selector=".sought", text=f"{total} of {total} messages")
    page.do("wait", selector=".sought", text="match 60 of 60")
    assert page.do("isMarked", word="value")
    page.do("press", keys=["n"])
    page.do("wait", selector=".sought", text="1 of")
    page.do("back")
    page.do("back")
    page.do("wait", selector="[data-hit]", text="compute")
    assert page.do("value", selector='select[aria-label="Where"]') == "tool_result"
    assert page.do("value", selector='select[aria-label="Time"]') == "2026-01-01"


def test_filters_stay_while_one_types(page: Chromium) -> None:
    """A project is chosen, then another word is typed: the project is still chosen and still filters."""
    page.do("go", hash="#/sessions?q=Plan", wait="[data-hit]")
    page.do("wait", selector='select[aria-label="Any project"] option[value="/srv/shop"]', hidden=True)
    page.do("choose", selector='select[aria-label="Any project"]', value="/srv/shop")
    page.do("fill", selector="[data-search]", text="Done")
    page.do("wait", selector=".group h2", text="shop")
    assert page.do("value", selector='select[aria-label="Any project"]') == "/srv/shop"
    assert {text.split(" · ")[0].split()[-1] for text in page.do("texts", selector=".group h2")} == {"shop"}
    assert "q=Done" in page.do("attribute", selector=".group h2 a", name="href")
    # A filter without a field of its own is said, and can be taken out.
    page.do("go", hash="#/sessions?q=Done&until=2020-01-01&tag=keep", wait=".found .waiting strong")
    assert page.do("texts", selector=".unshown") == ["until 2020-01-01 ×", "tag keep ×"]
    page.do("click", selector=".unshown", text="until")
    page.do("wait", selector=".found .waiting strong")  # nothing has that tag
    page.do("click", selector=".unshown", text="tag")
    page.do("wait", selector="[data-hit]")
    # The list has every filter of the search, with a field of its own.
    page.do("go", hash="#/sessions?repository=/srv/shop", wait='select[aria-label="Repository"]')
    assert page.do("value", selector='select[aria-label="Repository"]') == "/srv/shop"
    page.do("wait", selector=".list .row", text="shop")
    assert page.do("count", selector=".list .row:not(:has-text('shop'))") == 0


def test_words_are_marked_in_titles(page: Chromium) -> None:
    """Those of sessions whose title has them, and those above the hits."""
    page.do("go", hash="#/sessions?q=basket", wait=".found .row mark")
    assert [set(page.do("texts", selector=one)) for one in (".found .row mark", ".group h2 mark")] == [
        {"basket"}
    ] * 2
