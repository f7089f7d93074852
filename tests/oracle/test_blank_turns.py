"""What the client makes of blank prompts, empty answers and calls that were left alone: ``to_api()`` says the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.test_conversation import compare
from tests.talk import Fields, assistant, call, result, user

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
TEXTS = ["Q", "Q", "R", "", " ", "\n"]
KINDS = ["prompt", "prompt", "answer", "answer", "thought", "call", "call", "results"]


def text(words: str) -> Fields:
    return {"type": "text", "text": words}


def blank_talk(dice: random.Random) -> list[Fields]:
    """Lines in a row: blank or not, answers that follow answers, results that come late or never."""
    lines: list[Fields] = [user("n0", None, 0, "Start")]
    waiting: list[str] = []
    for number in range(1, dice.randint(3, 9)):
        kind, parent = dice.choice(KINDS), f"n{number - 1}"
        content: Any
        if kind in {"prompt", "results"}:
            results = [result(name) for name in waiting] if kind == "results" else []
            content = results or dice.choice(TEXTS)
            if kind == "prompt" and dice.random() < 0.5:
                content = [text(content)]
            waiting = [] if results else waiting
            lines.append(user(f"n{number}", parent, number, content))
            continue
        content = [text(dice.choice(TEXTS))]
        if kind == "thought":
            content = [THOUGHT, *content]
        if kind == "call":
            waiting.append(f"t{number}")
            content = [*dice.choice([[], content]), call(f"t{number}")]
        lines.append(assistant(f"n{number}", parent, number, content))
    return [*lines, user("n98", lines[-1]["uuid"], 98, "Last"), assistant("n99", "n98", 99, "End")]


@pytest.mark.parametrize("number", range(40))
def test_blank_turns_are_sent_as_the_client_sends_them(number: int, tmp_path: Path) -> None:
    """Dropped, filled or answered in the user's name: random talks agree."""
    name = f"blank turns: {number}"
    compare(name, blank_talk(random.Random(name)), tmp_path)
