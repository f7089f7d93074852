"""docs/design/seeds.md says what is true: its tests exist, and no section of a seed is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.oracle.rates.seeds import PAGE, SeedRow, measure, rows

ROWS = list(rows(PAGE.read_text("utf-8")))
_ONLY_WORDS = {"TABLE OF CONTENTS", "Table of Contents", "Overview"}


def test_every_row_names_tests_that_exist() -> None:
    """And the rate says so, a seed at a time."""
    assert {} == {(row.seed, row.section): row.missing for row in ROWS if row.missing}
    assert [] == [rate.name for rate in measure() if not rate.is_met]


@pytest.mark.parametrize("seed", ["000", "001", "002"])
def test_every_section_of_a_seed_has_a_row(transcripts: Path, seed: str) -> None:
    """By itself, or by each of its parts."""
    named = {row.section for row in ROWS if row.seed == seed}
    (text,) = [path.read_text("utf-8") for path in (transcripts / "seeds").glob(f"{seed}_*")]
    parts: dict[str, list[str]] = {}
    for level, title in re.findall(
        r"^(##|###) (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE
    ):
        parts.setdefault(title, []) if level == "##" else parts[list(parts)[-1]].append(title)

    assert [] == [
        title
        for title, inner in parts.items()
        if title not in _ONLY_WORDS | named and not (inner and named.issuperset(inner))
    ]


def test_a_row_without_its_test_is_noticed() -> None:
    """A name that is not there, a file that is not there, and no name at all."""
    page = "## 009\n| section | asks | test |\n|---|---|---|\n"
    page += "| A | a | `tests/seeds/test_table.py::test_gone` |\n| B | b | `tests/gone.py::test_a` |\n| C | c | none |\n"
    page += "| D | d | `tests/seeds/test_table.py::test_every_row_names_tests_that_exist` |\n"
    found = list(rows(page))

    assert SeedRow("009", "A", (("tests/seeds/test_table.py", "test_gone"),)) == found[0]
    assert [True, True, True, False] == [bool(row.missing) for row in found]
