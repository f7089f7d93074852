"""The hunks of a change lead from the old text to the new one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from recollect.guard.agent.files import structured_patch

LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-x", "+y", " z"]), max_size=30)


def applied(old: str, hunks: list[dict[str, Any]]) -> str:
    """A small, strict reader of hunks: every old line must be the one the hunk says."""
    before, result, at = old.split("\n"), [], 0
    ends_whole = old.endswith("\n") or not old
    before = before[:-1] if ends_whole else before
    cut = not ends_whole
    for hunk in hunks:
        start = hunk["oldStart"] - (1 if hunk["oldLines"] else 0)
        result += before[at:start]
        at = start
        for position, line in enumerate(hunk["lines"]):
            if line.startswith("\\"):
                cut = cut if hunk["lines"][position - 1].startswith("-") else True
                continue
            if line[0] != "+":
                assert before[at] == line[1:]
                at += 1
            if line[0] != "-":
                result.append(line[1:])
                cut = False
    result += before[at:]
    cut = cut or (at < len(before) and not ends_whole)
    return "\n".join(result) + ("" if cut or not result else "\n")


@given(LINES, LINES, st.booleans(), st.booleans())
def test_hunks_applied_to_the_old_text_give_the_new_one(
    old: list[str], new: list[str], old_whole: bool, new_whole: bool
) -> None:
    """For any two texts, with and without a last newline."""
    before = "\n".join(old) + ("\n" if old and old_whole else "")
    after = "\n".join(new) + ("\n" if new and new_whole else "")

    assert after == applied(before, structured_patch(before, after))


def test_three_lines_stand_around_a_change() -> None:
    """Far from the start and the end of a text, counted from one."""
    old = [str(number) for number in range(1, 11)]
    new = [*old[:5], "six", *old[6:]]

    (hunk,) = structured_patch("\n".join(old) + "\n", "\n".join(new) + "\n")

    assert {
        "oldStart": 3,
        "oldLines": 7,
        "newStart": 3,
        "newLines": 7,
        "lines": [" 3", " 4", " 5", "-6", "+six", " 7", " 8", " 9"],
    } == hunk


def test_a_long_rewrite_is_one_hunk() -> None:
    """Looking for what two long texts share would take minutes."""
    old = "".join(f"a{number}\n" for number in range(5_000))
    new = "".join(f"b{number}\n" for number in range(5_000))

    (hunk,) = structured_patch(old, new)

    assert (5_000, 5_000, 10_000) == (hunk["oldLines"], hunk["newLines"], len(hunk["lines"]))
