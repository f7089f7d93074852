"""The steps are numbered, named, and never edited once released."""

from __future__ import annotations

import hashlib
import sys

import pytest

from recollect.errors import NotFound
from recollect.storage.migrations.registry import STEPS, step_named

RELEASED = {
    1: "a5e1866df7cabd6835b845c26d592dc874c18d35031a395a1d9b4dc18a094adc",
    2: "86d51de4627ef06e425e7f682ac9c1ea046f4a3dc8886988abb47ac6850aa1cd",
    3: "9531690d4e265b119237c3a54f8b6319eb6250d44b6ec5fdb239415081d46e20",
    4: "3544e219d936738a8d065ac8077749b7f82706e94e4d90171b673d4440353f34",
    5: "d73d5ca8a56a85c5b5c1e49afa510114a2dedd8947439d263104d781bf999b05",
}


def test_a_released_step_is_never_edited() -> None:
    """What it made lies on people's disks: a better way is a new step. These are sha256 of the sources."""
    sources = {step.number: sys.modules[step.planned.__module__].__file__ for step in STEPS}
    found = {}
    for number, source in sources.items():
        assert source is not None
        with open(source, "rb") as code:
            found[number] = hashlib.sha256(code.read()).hexdigest()

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
