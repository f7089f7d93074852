"""What a message of another agent cost: clients note their model calls before answers, after them, or at the time of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.small_home import ONE, call, outcome, prompt, put, reply, said, uuid_of
from tests.web.pages import Browser, served

HEADER = {"type": "foreign-source", "agent": "codex", "source": "x", "generation": 0}
# Two steps: an answer of two messages with a call, its result, and a last answer.
ORDERS = {
    "before": "P U1 T C R U2 A",
    "before, and one that gave no answer": "P U1 T C R U2 A U4",
    "after": "P T C U1 R A U2",
    "after the results": "P T C R U1 A U2",
    "after, and one that gave no answer": "P T C U1 R A U2 U4",
    "two turns": "P U1 A P U2 A",
}
EXPECTED = {
    "before": {2: 1, 4: 2},
    "before, and one that gave no answer": {2: 1, 4: 6},
    "after": {2: 1, 4: 2},
    "after the results": {2: 1, 4: 2},
    "after, and one that gave no answer": {2: 1, 4: 6},
    "two turns": {1: 1, 3: 2},
}


def at(second: int) -> dict[str, str]:
    return {"timestamp": f"2026-11-16T09:00:{second:02}.000Z"}


def used(tokens: int, second: int, **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": tokens, "output_tokens": 1}
    message = {"role": "assistant", "id": f"call{tokens}", "model": "gpt-5", "usage": usage}
    return {
        "type": "foreign-usage",
        "sessionId": ONE,
        "isSidechain": False,
        "message": message,
        **at(second),
        **more,
    }


def log_of(order: str) -> list[dict[str, Any]]:
    """One line each second: P a prompt, A or T a text and C a call of the model, R its result, Un a call that used n."""
    found: list[dict[str, Any]] = []
    last = None
    for number, word in enumerate(order.split(), 1):
        if word[0] == "U":
            found.append(used(int(word[1:]), number))
        else:
            found.append(spoken(word, number, last) | at(number))
            last = number
    return found


def spoken(word: str, number: int, last: int | None) -> dict[str, Any]:
    if word == "P":
        return prompt(number, last, "Q")
    if word == "R":
        return outcome(number, last or 0, "c", "ok")
    return unpaid(reply(number, last or 0, call("c") if word == "C" else said("A"), answer=f"m{number}"))


def unpaid(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"message": {key: value for key, value in line["message"].items() if key != "usage"}}


def costs(home: Path, data: Path, *, view: str = "whole=true") -> tuple[dict[int, int], list[int]]:
    """Input tokens by message, and of each turn."""
    with Browser(served(home, data)) as browser:
        messages = browser.get(f"/api/sessions/{ONE}/messages?{view}")["messages"]
        turns = browser.get(f"/api/sessions/{ONE}/costs?{view}")["turns"]
    found = {one["index"]: one["cost"]["input_tokens"] for one in messages if one["cost"] is not None}
    for turn in turns:
        assert turn["input_tokens"] == sum(found.get(index, 0) for index in range(turn["from"], turn["to"]))
    return found, [turn["input_tokens"] for turn in turns]


@pytest.mark.parametrize("order", ORDERS)
def test_an_answer_has_the_cost_of_the_call_that_gave_it(order: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    put(home, ONE, [HEADER, *log_of(ORDERS[order])])
    assert costs(home, tmp_path / "data")[0] == EXPECTED[order]


def test_calls_at_the_end_of_the_log_have_the_times_of_their_answers(tmp_path: Path) -> None:
    """As Gemini and OpenCode are mirrored; also where the client wrote an answer again, at a later time."""
    home = tmp_path / "home"
    talk = log_of("P C R A")
    put(home, ONE, [HEADER, *talk, used(1, 2), used(2, 4)])
    assert costs(home, tmp_path / "data")[0] == {1: 1, 3: 2}
    later = [line | at(9) if line["type"] == "assistant" else line for line in talk]
    put(home, ONE, [HEADER, *later, used(1, 2), used(2, 4)])
    assert costs(home, tmp_path / "data")[0] == {1: 1, 3: 2}


def test_a_prompt_without_an_answer_has_the_cost_of_what_was_called_for_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    put(home, ONE, [HEADER, *log_of("P U1 P U2 A")])
    assert costs(home, tmp_path / "data") == ({0: 1, 2: 2}, [1, 2])


def test_a_copied_answer_has_no_cost_where_its_call_counts_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    other = uuid_of(0)
    put(home, other, [HEADER, *log_of("P U1 A")])
    copied = [line | {"forkedFrom": {"sessionId": other}} for line in log_of("P U1 A")]
    more = [prompt(8, 3, "more") | at(8), unpaid(reply(9, 8, said("A"), answer="m9")) | at(9), used(2, 9)]
    put(home, ONE, [HEADER, *copied, *more])
    assert costs(home, tmp_path / "data") == ({3: 2}, [0, 2])


def test_what_was_called_for_a_real_answer_is_told_by_its_number(transcripts: Path, tmp_path: Path) -> None:
    """The service of the samples of Codex numbers its calls: the n-th used 60 + 7n tokens, and tool calls have the number in their ids."""
    seen = set()
    for home in sorted((transcripts / "dialects" / "samples" / "codex").glob("*/*/.codex")):
        if home.parent.name.startswith("compact"):
            continue  # the call that made the summary is with the answer before it
        with Browser(
            served(home, tmp_path / str(home.relative_to(transcripts)).replace("/", "-"))
        ) as browser:
            for row in browser.get("/api/sessions")["sessions"]:
                shown = browser.get(f"/api/sessions/{row['id']}/messages?whole=true&count=200")["messages"]
                for one in shown:
                    names = [block["id"] for block in one["blocks"] if block["type"] == "tool_use"]
                    number = re.search(r"_(\d{4})$", names[0]) if names else None
                    if number is not None and one["cost"] is not None:
                        assert one["cost"]["output_tokens"] == 60 + 7 * int(number[1]), (home, one["index"])
                        seen.add(home.parents[1].name)
    assert {"0.36.0", "0.58.0", "0.98.0", "0.142.5", "0.166.0"} <= seen
