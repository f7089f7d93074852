"""Text that a terminal may see."""

from __future__ import annotations

import datetime as dt
from unicodedata import category, east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.cli.terminal.text import (
    ago,
    columns_of,
    counted,
    model_name,
    padded,
    size,
    visible,
    visible_lines,
)

NOW = dt.datetime(2026, 11, 15, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb", "a\\u{202e}b"),
        ("a\u200bb", "a\\u{200b}b"),
        ("a\rb", "a\\x0db"),
        ("a\nb\tc", "a b c"),
        ("天気 é", "天気 é"),
        ("\ud800", "\\u{d800}"),
    ],
)
def test_what_would_drive_a_terminal_is_shown_instead(hostile: str, shown: str) -> None:
    """Escape sequences, overrides and invisible characters become visible text."""
    assert shown == visible(hostile)


def test_every_character_is_shown_or_escaped_by_its_category() -> None:
    """Also one that Python calls unprintable and a terminal does not mind, such as a blank of another width."""
    hidden = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    wrong = [
        code
        for code in range(0x110000)
        if chr(code) not in "\t\n" and (visible(chr(code)) == chr(code)) == (category(chr(code)) in hidden)
    ]

    assert [] == wrong


def test_columns_follow_the_tables_of_unicode() -> None:
    """Marks take none, wide characters two, all others one."""
    marks = [chr(code) for code in range(0x300, 0x3000) if category(chr(code)) in ("Mn", "Me")]
    plain = [
        chr(code)
        for code in (*range(0x20, 0x300), *range(0x2000, 0x2100))
        if category(chr(code)) not in ("Mn", "Me") and east_asian_width(chr(code)) not in "WF"
    ]

    assert {0} == {columns_of(mark) for mark in marks}
    assert {1} == {columns_of(character) for character in plain}
    assert [2, 2, 1] == [columns_of(character) for character in "天😀…"]


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    """Nothing below a space but tab and newline, whatever goes in; and it can always be printed."""
    assert all(ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0 for c in visible(text))
    assert all(c in "\t\n" or (ord(c) >= 0x20 and not 0x7F <= ord(c) < 0xA0) for c in visible_lines(text))
    visible(text).encode()


def test_words_for_numbers() -> None:
    """Sizes in powers of ten, ages in their largest unit, nouns that agree."""
    assert ["999 B", "1.0 kB", "99.9 kB", "100 kB", "1.0 MB", "5.0 GB"] == [
        size(number) for number in (999, 1_000, 99_949, 99_999, 999_999, 5_000_000_000)
    ]
    ages = [0, 59, 60, 3_599, 3_600, 86_400, 30 * 86_400, -5, -3_600]
    assert [
        "just now",
        "just now",
        "1 min ago",
        "59 min ago",
        "1 h ago",
        "1 d ago",
        "30 d ago",
        "just now",
        "in the future",
    ] == [ago(NOW - dt.timedelta(seconds=seconds), NOW) for seconds in ages]
    assert ("1 line", "1,234 lines") == (counted(1, "line"), counted(1234, "line"))
    assert "天 " == padded("天", 3)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-sonnet-4-5-20250929", "sonnet 4.5"),
        ("claude-opus-4-20250514", "opus 4"),
        ("claude-3-5-haiku-20241022", "haiku 3.5"),
        ("claude-haiku-4-5", "haiku 4.5"),
        ("gpt-5-codex", "gpt-5-codex"),
        ("<synthetic>", "<synthetic>"),
    ],
)
def test_a_model_has_the_name_that_people_use(model: str, name: str) -> None:
    """As the page shows it; what is not one of Claude's stays."""
    assert name == model_name(model)
