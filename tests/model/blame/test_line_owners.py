"""Owners of lines from one text to the next: certain, or uncertain, never a guess."""

from __future__ import annotations

import random

from recollect.model.blame import NEW, UNCERTAIN, carried

OLD = ["alpha_line = 1", "    }", "beta_line = 2", "    }"]


def test_a_moved_line_keeps_its_owner() -> None:
    """Wherever it stands; a bracket is not recognised without the lines around it."""
    assert [12, 10] == carried(OLD, [10, 11, 12, 13], ["beta_line = 2", "alpha_line = 1"], NEW)
    assert [UNCERTAIN, NEW] == carried(["    }"], [10], ["    }", "gamma_line = 3"], NEW)


def test_equal_lines_side_by_side_are_uncertain_where_the_owner_would_differ() -> None:
    """Two brackets, one of them new: either may be it. Where both answers are the same, it is the answer."""
    new = ["alpha_line = 1", "    }", "    }", "beta_line = 2"]
    old = ["alpha_line = 1", "    }", "beta_line = 2"]
    assert [10, UNCERTAIN, UNCERTAIN, 12] == carried(old, [10, 11, 12], new, NEW)
    assert [10, NEW, NEW, 12] == carried(old, [10, NEW, 12], new, NEW)


def test_a_deletion_among_equal_lines_leaves_the_owner_open() -> None:
    """One of two brackets is gone: whose?"""
    new = ["alpha_line = 1", "    }"]
    assert [10, UNCERTAIN] == carried(["alpha_line = 1", "    }", "    }"], [10, 11, 12], new, NEW)
    assert [10, 11] == carried(["alpha_line = 1", "    }", "    }"], [10, 11, 11], new, NEW)


def test_very_different_texts_with_many_equal_lines_take_no_time_and_no_guess() -> None:
    """More pairs than can be compared: a repeated line may be any of them."""
    chance = random.Random(1)
    old = [chance.choice(["repeated_line = 1", "repeated_line = 2"]) for _ in range(2_000)]
    new = [chance.choice(["repeated_line = 1", "repeated_line = 2"]) for _ in range(2_000)]
    assert {UNCERTAIN} == set(carried(old, list(range(2_000)), new, NEW))
