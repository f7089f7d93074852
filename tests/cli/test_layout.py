"""Rows for a terminal of a given width."""

from __future__ import annotations

import shlex
import subprocess

from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from recollect.cli.terminal.output import command_rows, fitted, labelled, plain_width, reflowed, shares
from recollect.cli.terminal.text import shortened, shortened_path, visible, width

RED, OFF = "\x1b[31m", "\x1b[0m"


@given(st.text(), st.integers(20, 60))
def test_a_row_is_never_wider_than_the_terminal_and_loses_nothing(text: str, columns: int) -> None:
    """By the measure of wcwidth, for any text that was made safe; only spaces at a break go."""
    line = visible(text)
    rows = fitted(line, columns, is_text=True)

    assert all(wcswidth(row) <= columns for row in rows)
    assert "".join(line.split()) == "".join("".join(row.split()) for row in rows)


@given(st.text(min_size=1), st.integers(8, 40))
def test_a_shortened_text_fits(text: str, columns: int) -> None:
    for short in (shortened(visible(text), columns), shortened_path(visible(text), columns)):
        assert wcswidth(short) <= columns


def test_words_stay_whole_and_colours_go_on_in_the_next_row() -> None:
    line = f"  {RED}error{OFF}  one two three {RED}four five six{OFF}"

    assert [
        f"  {RED}error{OFF}  one two",
        f"    three {RED}four five{OFF}",
        f"    {RED}six{OFF}",
    ] == fitted(line, 20)


def test_chinese_text_breaks_where_the_row_ends() -> None:
    assert ["ab 検索と要約を直す検", "  索と要約を直す"] == fitted("ab 検索と要約を直す検索と要約を直す", 21)


def test_a_path_keeps_its_beginning_and_its_last_names() -> None:
    assert "/home/sam/p…/basket.py" == shortened_path("/home/sam/projects/2026/shop/basket.py", 22)
    assert "/srv/app" == shortened_path("/srv/app", 8)


def test_a_command_line_that_is_broken_is_still_one_for_the_shell() -> None:
    """A quoted word stays whole; what leads to the command has a row of its own."""
    words = ["recollect", "--home", "/srv/a b/c'd", "repair", "6ada00ba", "--in-place", "--apply"]
    rows = fitted(f"Undo with: {shlex.join(words)}", 40)

    assert "Undo with:" == rows[0]
    assert all(width(row) <= 40 for row in rows)
    script = 'recollect() { printf "%s\\n" recollect "$@"; }\n' + "\n".join(rows[1:])
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert words == ran.stdout.splitlines()
    assert ["  a \\", "  bbbbbbbb"] == command_rows("a bbbbbbbb", 11, "  ")


def test_the_widest_column_gives_up_most() -> None:
    assert [21, 21, 8] == shares(50, [44, 60, 8], [10, 8, 8])
    assert [10, 20] == shares(50, [10, 20], [1, 1])
    assert [5, 5] == shares(3, [9, 9], [5, 5])


def test_a_label_stands_beside_its_text() -> None:
    assert ["Home      one two", "          three"] == list(labelled("Home", "one two three", 20))
    assert 20 >= max(map(plain_width, labelled("Home", "word " * 20, 20)))


def test_help_is_filled_again_for_a_narrow_terminal() -> None:
    """Paragraphs are filled, the meaning of a command stands below itself, examples stay."""
    text = "One two three four\nfive six.\n\n  name   what it is for\n\nExample:\n  recollect x\n"

    assert (
        "One two three\nfour five six.\n\n  name   what it\n         is for\n\nExample:\n  recollect x\n"
        == reflowed(text, 17)
    )
