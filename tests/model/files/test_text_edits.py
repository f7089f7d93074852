"""What a file said after an edit: worked out where both accounts agree, unknown where they do not."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.model.files.text_edits import Hunk, Replacement, edited, patched

lines = st.lists(st.sampled_from(["a", "b", "", "\ta", "  b", "c\td"]), max_size=8)


def hunks_of(before: str, after: str) -> list[Hunk]:
    """The patch between two texts, by a differ that is not ours."""
    found: list[Hunk] = []
    old, new = before.split("\n"), after.split("\n")
    for line in list(difflib.unified_diff(old, new, lineterm=""))[2:]:
        if line.startswith("@@"):
            found.append(_headed(line))
        else:
            found[-1].lines.append(line)
    return found


def _headed(line: str) -> Hunk:
    (old, old_count), (new, new_count) = (
        (int(part[1:].split(",")[0]), int([*part.split(","), "1"][1])) for part in line.split()[1:3]
    )
    return Hunk(old, old_count, new, new_count, [])


def on_screen(hunks: list[Hunk]) -> list[Hunk]:
    """The patch as the client records it: each leading tab shown as two blanks."""
    shown = []
    for hunk in hunks:
        texts = [(line[0], line[1:].lstrip("\t"), line[1:]) for line in hunk.lines]
        shown_lines = [mark + "  " * (len(full) - len(bare)) + bare for mark, bare, full in texts]
        shown.append(Hunk(hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines, shown_lines))
    return shown


def test_a_lone_replacement_needs_no_patch() -> None:
    """Text that stands once can only be replaced there."""
    assert "one\nTWO\n" == edited("one\ntwo\n", [Replacement("two", "TWO")], [])


def test_without_a_patch_a_text_that_stands_twice_leaves_doubt() -> None:
    """Which of the two was replaced is not known, so neither is the result."""
    assert None is edited("x\nx\n", [Replacement("x", "y")], [])


def test_the_patch_tells_which_of_two_places_was_meant() -> None:
    """The second line changed, says the patch."""
    patch = [Hunk(1, 2, 1, 2, [" x", "-x", "+y"])]

    assert "x\ny\n" == edited("x\nx\n", [Replacement("x", "y")], patch)


def test_tabs_that_the_patch_shows_as_blanks_stay_tabs() -> None:
    """Measured on 2.1.325: a leading tab is two blanks in ``structuredPatch``."""
    patch = [Hunk(1, 2, 1, 3, ["   one", "-  two", "+  TWO", "+  new"])]

    assert "\tone\n\tTWO\n\tnew\n" == edited("\tone\n\ttwo\n", [Replacement("\ttwo", "\tTWO\n\tnew")], patch)


def test_curly_quotes_that_only_the_patch_knows_are_kept() -> None:
    """Measured on 2.1.325: the client writes curly quotes where the file has them, and reports straight ones."""
    patch = [Hunk(1, 1, 1, 1, ["-it’s “one”", "+it’s “TWO”"])]

    assert "it’s “TWO”\n" == edited("it’s “one”\n", [Replacement("it’s “one”", 'it\'s "TWO"')], patch)


def test_a_deleted_line_takes_its_end_along() -> None:
    """Seen in real sessions: an empty replacement for a whole line also removes its newline."""
    patch = [Hunk(1, 3, 1, 2, [" a", "-b", " c"])]

    assert "a\nc\n" == edited("a\nb\nc\n", [Replacement("b", "")], patch)


def test_a_line_that_went_is_told_from_one_that_was_emptied() -> None:
    """Both look alike in the patch; only the number of lines tells them apart."""
    patch = [Hunk(1, 3, 1, 2, [" a", "-b", " "])]

    assert "a\n\nc\n" == edited("a\nb\n\nc\n", [Replacement("b", "")], patch)


@pytest.mark.parametrize(
    ("text", "hunk", "expected"),
    [("a\nc", Hunk(1, 0, 2, 1, ["+b"]), "a\nb\nc"), ("", Hunk(0, 0, 1, 1, ["+b"]), "b\n")],
)
def test_a_patch_that_only_adds_stands_after_the_line_it_names(text: str, hunk: Hunk, expected: str) -> None:
    """With no old lines the number is that of the line before, as in every unified diff."""
    assert expected == patched(text, [hunk])


@pytest.mark.parametrize(
    ("text", "step", "patch"),
    [
        ("other\n", Replacement("two", "TWO"), []),
        ("full\n", Replacement("", "new"), []),
        ("other\n", Replacement("two", "TWO"), [Hunk(1, 1, 1, 1, ["-two", "+TWO"])]),
        ("one\n", Replacement("x", "\ty"), [Hunk(1, 1, 1, 1, ["-one", "+  y"])]),
    ],
    ids=["text not there", "nothing to replace by", "patch of another file", "tab or blanks"],
)
def test_what_does_not_fit_is_not_known(text: str, step: Replacement, patch: list[Hunk]) -> None:
    """No result is invented where neither account fits the text."""
    assert None is edited(text, [step], patch)


def test_a_crafted_line_cannot_make_us_guess_for_ever() -> None:
    """Sixty steps with sixty places each are given up after a few guesses."""
    steps = [Replacement("x", "xx")] * 60

    assert None is edited("x\n" * 60, steps, [Hunk(1, 1, 1, 1, ["-q", "+r"])])


@given(lines, st.integers(0, 7), st.sampled_from(["a", "\tz", "z\n\tz", ""]))
def test_a_replacement_agrees_with_the_patch_the_client_shows(
    before: list[str], place: int, new: str
) -> None:
    """A whole-line replacement is recognised in the client's patch, tabs and all."""
    marked = [*before[:place], "MARK", *before[place:]]
    old_text = "\n".join(marked)
    new_text = old_text.replace("MARK", new)

    assert new_text == edited(old_text, [Replacement("MARK", new)], on_screen(hunks_of(old_text, new_text)))
