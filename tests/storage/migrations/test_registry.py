"""The steps are numbered, named, and never edited once released."""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path

import pytest

from recollect.errors import NotFound
from recollect.storage.migrations.registry import STEPS, step_named

RELEASED = {
    1: "58c3774ab5d7159b673f46bdc3a62c79341ee468975da8627ff9f5552c6f2ed4",
    2: "6e6c677749a9bd5a8ecc6534ab0b8cdc6b2adb9e732c2431e343e068b918c9e1",
    3: "3300cebf2b0d6b0e82e86085424d982d92f8ec249bcafa2fe8c40717062bb974",
    4: "99a8b130a56c85fdfde8a227cf463c3fdfadd540a56b729208e4c8d0952e37ad",
    5: "141824be171710846b706bd1795f572ddeef0ffad415b8571b3acb6490881305",
}


def code_of(source: str) -> str:
    """A module without its imports and docstrings: where other modules live is not what a step does."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return ast.unparse(tree)


def test_a_released_step_is_never_edited() -> None:
    """What it made lies on people's disks: a better way is a new step. These are sha256 of the code."""
    sources = {step.number: sys.modules[step.planned.__module__].__file__ for step in STEPS}
    found = {}
    for number, source in sources.items():
        assert source is not None
        code = code_of(Path(source).read_text(encoding="utf-8"))
        found[number] = hashlib.sha256(code.encode()).hexdigest()

    assert RELEASED == found


def test_steps_are_numbered_without_gaps() -> None:
    """And each says from where to where."""
    assert list(range(1, len(STEPS) + 1)) == [step.number for step in STEPS]
    assert [] == [step.name for step in STEPS if not (step.source and step.target and step.about)]


@pytest.mark.parametrize("name", ["3", "003", "flat-agents-to-subagents"])
def test_a_step_is_found_by_number_or_name(name: str) -> None:
    """Zeros in front do not matter."""
    assert 3 == step_named(name).number


@pytest.mark.parametrize("name", ["0", "6", "", "flat"])
def test_a_step_that_is_not_there_is_said(name: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(NotFound, match="not found"):
        step_named(name)
