"""What the client makes of blank prompts, empty answers and calls that were left alone: ``to_api()`` says the same."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.oracle.client_runner import Client, running_stub
from tests.oracle.conftest import command_of
from tests.oracle.test_conversation import SESSION, _ours
from tests.oracle.what_is_sent import NEW_PROMPT, before_the_prompt
from tests.talk import Fields, assistant, call, encoded, result, user

pytestmark = pytest.mark.slow
# Each is a start of the client.
TALKS = 40 if os.environ.get("RECOLLECT_TORTURE") else 10
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
TEXTS = st.sampled_from(["Q", "Q", "R", "", " ", "\n"])
KINDS = st.sampled_from(["prompt", "prompt", "answer", "answer", "thought", "call", "call", "results"])


def text(words: str) -> Fields:
    return {"type": "text", "text": words}


@st.composite
def blank_talks(draw: DrawFn) -> list[Fields]:
    """Lines in a row: blank or not, answers that follow answers, results that come late or never."""
    lines: list[Fields] = [user("n0", None, 0, "Start")]
    waiting: list[str] = []
    for number in range(1, draw(st.integers(3, 9))):
        kind, parent = draw(KINDS), f"n{number - 1}"
        content: Any
        if kind in {"prompt", "results"}:
            results = [result(name) for name in waiting] if kind == "results" else []
            content = results or draw(TEXTS)
            if kind == "prompt" and draw(st.booleans()):
                content = [text(content)]
            waiting = [] if results else waiting
            lines.append(user(f"n{number}", parent, number, content))
            continue
        content = [text(draw(TEXTS))]
        if kind == "thought":
            content = [THOUGHT, *content]
        if kind == "call":
            waiting.append(f"t{number}")
            content = [*draw(st.sampled_from([[], content])), call(f"t{number}")]
        lines.append(assistant(f"n{number}", parent, number, content))
    return [*lines, user("n98", lines[-1]["uuid"], 98, "Last"), assistant("n99", "n98", 99, "End")]


@settings(
    max_examples=TALKS,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(blank_talks())
def test_blank_turns_are_sent_as_the_client_sends_them(lines: list[Fields]) -> None:
    """Dropped, filled or answered in the user's name: random talks agree."""
    command = command_of("2.1.325")
    with tempfile.TemporaryDirectory() as root, running_stub() as stub:
        client = Client("2.1.325", command, Path(root), stub)
        log = client.put(SESSION, encoded(lines).split(b"\n")[:-1])
        ours = _ours(log)
        client.ask(NEW_PROMPT, "--resume", SESSION)
        talks = stub.conversations()

    theirs = before_the_prompt(talks[0]) if talks else None
    assert theirs == ours, "\n".join(json.dumps(line) for line in lines)
