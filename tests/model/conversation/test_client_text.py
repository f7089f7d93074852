"""Text that the client wrote in the user's name: the same parts here and in the browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.model.conversation.tool_calls import client_parts, own_words

CASES = json.loads((Path(__file__).parents[2] / "data" / "client_texts.json").read_text())


@pytest.mark.parametrize(("text", "parts"), CASES)
def test_the_parts_of_a_text(text: str, parts: list[list[str]]) -> None:
    """The cases that ``web/tests/lists.test.ts`` reads too."""
    assert parts == [list(part) for part in client_parts(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Plant it\n<system-reminder>Be brief.</system-reminder>", "Plant it"),
        ("<ide_opened_file>a.py</ide_opened_file>\nPlant it", "Plant it"),
        ("Plant it <system-reminder>Be brief, and", "Plant it"),
        ("<command-name>/plant</command-name><command-args>a hedge</command-args>", "/plant a hedge"),
        ("<bash-input>ls -l</bash-input>", "ls -l"),
        ("[Request interrupted by user]", "[Request interrupted by user]"),
        ("<b>Plant</b> it", "<b>Plant</b> it"),
    ],
)
def test_the_words_of_a_person_in_a_text(text: str, words: str) -> None:
    """What the client added is left out, also where its end was cut off; where nothing else is there, it stays."""
    assert own_words(text) == words
