"""How many rows of docs/design/seeds.md name a test that exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.oracle.rates.rate import Rate

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "design" / "seeds.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@dataclass(frozen=True, slots=True)
class SeedRow:
    """One row of the page: a section of a seed, and the tests that show it."""

    seed: str
    section: str
    tests: tuple[tuple[str, str], ...]

    @property
    def missing(self) -> list[str]:
        """The tests that do not exist; the section itself where the row names none."""
        if not self.tests:
            return ["no test is named"]
        return [f"{file}::{name}" for file, name in self.tests if name not in names_in(ROOT / file)]


def rows(page: str) -> Iterator[SeedRow]:
    """The rows of the tables below each seed's heading."""
    seed = ""
    for line in page.splitlines():
        if line.startswith("## "):
            seed = line.removeprefix("## ").strip()
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("|") and len(cells) == 3 and cells[0] != "section":
            yield SeedRow(seed, cells[0], tuple(_TEST.findall(cells[2])))


@cache
def names_in(path: Path) -> frozenset[str]:
    """The functions and classes of a module; none where it does not exist."""
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def measure() -> Iterator[Rate]:
    """One rate for each seed."""
    by_seed: dict[str, list[SeedRow]] = {}
    for row in rows(PAGE.read_text("utf-8")):
        by_seed.setdefault(row.seed, []).append(row)
    for seed, found in sorted(by_seed.items()):
        gaps = [row for row in found if row.missing]
        told = tuple(f"{row.section}: {', '.join(row.missing)}" for row in gaps)
        yield Rate(f"seed {seed}: rows with a test", len(found) - len(gaps), len(found), 1.0, told)
