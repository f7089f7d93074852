"""Views of a text, and the way back from them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.secrets.views import TERMINAL_CODE, TextSpan, base64_stretches, joined, unescaped


def test_escapes_are_read_and_found_again() -> None:
    """A place in the view is a place in the source, between whole escapes."""
    source = r"a\u0041\"b\n%43\\d"
    view = unescaped(source)

    assert view is not None
    assert 'aA"b\nC\\d' == view.text
    assert r"\u0041\"b" == source[slice(*view.source(TextSpan(1, 4)))]
    assert r"\n%43" == source[slice(*view.source(TextSpan(4, 6)))]
    assert source == source[slice(*view.source(TextSpan(0, len(view.text))))]


def test_a_text_without_escapes_has_no_such_view() -> None:
    """Nothing is built for nothing."""
    assert unescaped("plain text") is None


PRINTABLE = st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="%")


@given(st.text(PRINTABLE | st.sampled_from("\n\t\r")).filter(lambda text: not re.search(TERMINAL_CODE, text)))
def test_what_json_escapes_is_read_back(text: str) -> None:
    """The view of a JSON string is the string it stands for."""
    written = json.dumps(text)[1:-1]
    view = unescaped(written)

    assert text == (written if view is None else view.text)


@given(st.text(st.sampled_from('ab\\nu0041"%7\x1b[;m '), max_size=40), st.data())
def test_every_place_leads_back(text: str, data: st.DataObject) -> None:
    """Places grow with the view and stay in the source; the whole is the whole."""
    view = unescaped(text)
    if view is None or not view.text:
        return
    end = data.draw(st.integers(1, len(view.text)))
    start = data.draw(st.integers(0, end - 1))
    place = view.source(TextSpan(start, end))

    assert 0 <= place.start < place.end <= len(text)
    if start:
        assert view.source(TextSpan(start - 1, start)).end <= place.start


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ab\ncd", "abcd"),
        ("ab\r\ncd", "abcd"),
        ("ab  \n    cd", "abcd"),
        ("ab \\\n  cd", "abcd"),
        ("     1→ab\n     2→cd", "abcd"),
        ("  1\tab\n  2\tcd", "abcd"),
        ("12 | ab\n13 | cd", "abcd"),
        ("+ab\n+cd", "+ab+cd"),
    ],
)
def test_lines_are_joined_without_their_margins(text: str, line: str) -> None:
    """Indentation, numbers, continuation marks and carriage returns are not the line."""
    view = joined(text)

    assert view is not None
    assert line == view.text


def test_marks_are_margins_where_asked_for() -> None:
    """A plus is a letter of base64 or the mark of a patch: the caller looks at both."""
    view = joined("+ab\n+cd\n> ef", is_marked=True)

    assert view is not None
    assert "abcdef" == view.text
    assert (0, 2, 4) == view.breaks
    assert "ab\n+cd" == "+ab\n+cd\n> ef"[slice(*view.source(TextSpan(0, 4)))]


def test_one_line_has_nothing_to_join() -> None:
    """None, as for escapes."""
    assert joined("one line") is None


def test_wrapped_base64_is_one_stretch() -> None:
    """Lines of one length and a shorter last one; what follows is not part of it."""
    lines = ["QUJD" * 15, "REVG" * 15, "R0hJ" * 3 + "QQ=="]
    text = "x: " + "\n".join(lines) + "\nnot base64 at all"
    [stretch] = base64_stretches(text)

    assert "".join(lines) == stretch.letters
    assert "\n".join(lines) == text[slice(*stretch.place)]
