"""Rule codes in comments and docstrings (P4, S11, R22, E07, "law 6") lead to one definition each in docs."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Not part of a longer word, a date (2026-W46) or a path.
_CODE = re.compile(r"(?<![\w./-])(?:R(?:[1-9]|1\d|2[0-2])|[A-E]\d\d|[GHIKLMPSTWXYZ]\d{1,2})(?!\w)")
_RANGE = re.compile(r"(?<![\w./-])([A-Z])(\d+)(?:-| to )\1(\d+)(?!\w)")
_LAWS = re.compile(r"\blaws? (\d+)(?:(?:, | and )(\d+))*", re.IGNORECASE)
_DEFINITION = re.compile(r'<a id="([a-z]\d+|law-\d+)"></a>')


def codes_in(text: str) -> set[str]:
    """The codes a text cites, as the anchors that define them."""
    found = {code.lower() for code in _CODE.findall(text)}
    for letter, first, last in _RANGE.findall(text):
        width = len(first) if first.startswith("0") else 1
        found |= {f"{letter.lower()}{number:0{width}}" for number in range(int(first), int(last) + 1)}
    for laws in _LAWS.finditer(text):
        found |= {f"law-{number}" for number in re.findall(r"\d+", laws[0])}
    return found


def prose_of(source: str) -> Iterator[str]:
    """Comments, and strings that stand alone: docstrings of modules, classes, functions and constants."""
    # To take a file apart into tokens is slow: only where something behind a "#" looks like a code.
    if any(codes_in(line.partition("#")[2]) for line in source.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


@cache
def cited_in(room: str) -> dict[str, set[str]]:
    """The codes that each file of a directory cites."""
    found = {}
    for path in (ROOT / room).rglob("*.py"):
        source = path.read_text("utf-8")
        if codes_in(source):  # most files cite none, and taking one apart costs time
            found[str(path.relative_to(ROOT))] = {
                code for text in prose_of(source) for code in codes_in(text)
            }
    return found


def definitions() -> Counter[str]:
    """Every anchor of a code in docs, and how often it stands there."""
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return Counter(code for page in pages for code in _DEFINITION.findall(page.read_text("utf-8")))


@pytest.mark.parametrize("room", ["src", "tests"])
def test_every_code_that_is_cited_is_defined(room: str) -> None:
    """A reader who meets a code finds its meaning in docs."""
    defined = definitions().keys()
    unknown = {f"{path}: {code}" for path, codes in cited_in(room).items() for code in codes - defined}

    assert sorted(unknown) == []


def test_a_code_is_defined_once() -> None:
    """Two definitions would drift apart."""
    assert [code for code, times in definitions().items() if times > 1] == []


def test_every_attack_of_the_list_has_cases_or_a_test() -> None:
    """The attacks that threats.md names (A01 to E10) are tried; the two that are not stopped say so there."""
    corpus = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests" / "attack").glob("*.toml"))
    tried = {code.lower() for code in re.findall(r'^id = "([A-E]\d\d)', corpus, re.MULTILINE)}
    tried = tried.union(*cited_in("tests").values())

    attacks = {code for code in definitions() if re.fullmatch(r"[a-e]\d\d", code)}
    assert attacks - tried == {"c10", "d06"}


def test_codes_are_recognised_in_the_forms_that_are_used() -> None:
    """Single, in ranges, beside each other, as laws; not in dates, paths, longer words or error codes of linters."""
    text = "(S3, P2) R12-R15 W1 to W3, laws 6 and 11; 2026-W46 noqa: S101 tests/A01 UTF8 sha256"

    wanted = {"s3", "p2", "r12", "r13", "r14", "r15", "w1", "w2", "w3", "law-6", "law-11"}
    assert codes_in(text) == wanted
