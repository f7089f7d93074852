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
    1: "9cde908b497117568d71377c34a4d43e5a5ceaf2648c2791ba7b9e8e47f0960a",
    2: "a8fe190188c8b2313a1837b67437328b93087912e67fed5777bb9f2d44e47d4f",
    3: "573f6afb37e1e9f7bad97ebda8f4e86b72b1b86af60c2fcc4ee1ed5efc958532",
    4: "e94ce019629feb2a2df842c468b7735423f198b6201ca9b12b21a0b364c03678",
    5: "0893c6037314c775ca14410c17939004e4b148950bfc52e6555259b36a137c55",
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
    with pytest.raises(NotFound, match="there is none"):
        step_named(name)
