"""Text that the client wrote in the user's name: the same parts here and in the browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.model.conversation.client_text import client_parts

CASES = json.loads((Path(__file__).parents[2] / "data" / "client_texts.json").read_text())


@pytest.mark.parametrize(("text", "parts"), CASES)
def test_the_parts_of_a_text(text: str, parts: list[list[str]]) -> None:
    """The cases that ``web/tests/lists.test.ts`` reads too."""
    assert parts == [list(part) for part in client_parts(text)]
