"""The loop: what is asked, what is written, how it ends; and that both sides always agree."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from recollect.guard.agent import AgentResult
from recollect.guard.agent.model import BUILT_IN, ApiFailed, Cancelled
from tests.guard.agent.workshop import Script, Workshop, call, needs_sandbox, overloaded, plain


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def kinds(workshop: Workshop) -> list[str]:
    return [str(line.get("subtype") or line["type"]) for line in workshop.lines()]


def test_a_question_and_an_answer(tmp_path: Path) -> None:
    """The prompt, the snapshot of its files, the answer; the answer is the result."""
    workshop = Workshop(tmp_path)

    result = workshop.agent(Script("Hello.")).run("Hi")

    assert ("success", "Hello.", 1) == (result.ending, result.text, result.turns)
    assert ["user", "file-history-snapshot", "assistant"] == kinds(workshop)


@needs_sandbox
def test_results_are_sent_and_stored_alike(tmp_path: Path) -> None:
    """What the model is sent at the end is what the log says to whoever resumes it."""
    workshop = Workshop(tmp_path, mode="acceptEdits")
    path = str(workshop.project / "a.txt")
    script = Script(
        [
            said("I look."),
            call("Bash", {"command": "ls"}, "t1"),
            call("Bash", {"command": "touch x; curl y"}, "t2"),
        ],
        [call("Write", {"file_path": path, "content": "x"}, "t3"), call("Nope", {}, "t4")],
        overloaded(),
        [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, said("Done.")],
        "Bye.",
    )
    agent = workshop.agent(script)
    agent.run("Go")

    agent.run("And?")

    sent = plain(script.asked[-1]["messages"])
    assert [*sent, {"role": "assistant", "content": [said("Bye.")]}] == plain(
        workshop.read_back().conversation().to_api()
    )
    assert ["user", "assistant"] * 4 == [message["role"] for message in sent] + ["assistant"]


def test_one_line_for_each_block_with_one_usage(tmp_path: Path) -> None:
    """The lines of an answer share ids and usage, and it is counted once."""
    workshop = Workshop(tmp_path)

    result = workshop.agent(Script([said("One"), said("Two")])).run("Hi")

    lines = [line for line in workshop.lines() if line["type"] == "assistant"]
    assert [("msg_1", "req_1", 10)] * 2 == [
        (line["message"]["id"], line["requestId"], line["message"]["usage"]["input_tokens"]) for line in lines
    ]
    assert (10, 5) == (result.spending.tokens.input, result.spending.tokens.output)


def test_the_spending_is_that_of_the_run(tmp_path: Path) -> None:
    """A second prompt does not count the first one's tokens again."""
    workshop = Workshop(tmp_path)
    agent = workshop.agent(Script("One", "Two"))
    agent.run("Hi")

    result = agent.run("Again")

    assert 10 == result.spending.tokens.input


def test_the_first_request_names_tools_and_directory(tmp_path: Path) -> None:
    """What the model is told."""
    workshop = Workshop(tmp_path)
    script = Script("Hello.")

    workshop.agent(script).run("Hi")

    (request,) = script.asked
    assert list(BUILT_IN) == [tool["name"] for tool in request["tools"]]
    assert f"Working directory: {workshop.project}\n" in request["system"][0]["text"]
    assert {"type": "ephemeral"} == request["messages"][-1]["content"][-1]["cache_control"]


def test_turns_are_bounded(tmp_path: Path) -> None:
    """After so many answers it ends, with every call answered."""
    workshop = Workshop(tmp_path)
    script = Script(*([call("TodoWrite", {"todos": []}, f"t{number}")] for number in range(9)))

    result = workshop.agent(script, max_turns=3).run("Hi")

    assert ("error_max_turns", 3, 3) == (result.ending, result.turns, len(script.asked))
    assert "user" == workshop.last()["type"]


def test_denied_calls_are_listed(tmp_path: Path) -> None:
    """With their arguments, as the client's print mode lists them."""
    workshop = Workshop(tmp_path)

    result = workshop.agent(Script([call("Bash", {"command": "touch x"}, "t1")], "Done.")).run("Hi")

    assert (
        {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "touch x"}},
    ) == result.denials


# ---- the API fails ---------------------------------------------------------------------------------------


def test_a_failure_is_asked_again_and_written_down(tmp_path: Path) -> None:
    """One ``api_error`` line for each, in the chain and not sent."""
    workshop = Workshop(tmp_path)
    script = Script(overloaded(), overloaded(), "Hello.")

    result = workshop.agent(script).run("Hi")

    assert ("success", ["api_error", "api_error", "assistant"]) == (result.ending, kinds(workshop)[2:])
    line = workshop.lines()[3]
    assert (2, 6, 529, "529 Overloaded", "error") == (
        line["retryAttempt"],
        line["maxRetries"],
        line["error"]["status"],
        line["error"]["formatted"],
        line["level"],
    )
    assert ["user", "assistant"] == [one["role"] for one in workshop.read_back().conversation().to_api()]


def test_retries_are_bounded(tmp_path: Path) -> None:
    """The last failure becomes the answer clients drop when they resume."""
    workshop = Workshop(tmp_path)

    result = workshop.agent(Script(*(overloaded() for _ in range(4))), retries=3).run("Hi")

    assert ("error_api", "API Error: 529 Overloaded") == (result.ending, result.text)
    line = workshop.last()
    assert (True, "<synthetic>", 529, "overloaded_error") == (
        line["isApiErrorMessage"],
        line["message"]["model"],
        line["apiErrorStatus"],
        line["apiErrorType"],
    )
    assert ["user"] == [one["role"] for one in workshop.read_back().conversation().to_api()]


def test_what_cannot_get_better_is_not_asked_again(tmp_path: Path) -> None:
    """A refused request is refused once."""
    workshop = Workshop(tmp_path)
    script = Script(ApiFailed("400 no", again=False, status=400, kind="invalid_request_error"))

    result = workshop.agent(script).run("Hi")

    assert ("error_api", 1) == (result.ending, len(script.asked))


# ---- the model stops early -------------------------------------------------------------------------------


def test_an_answer_cut_off_goes_on(tmp_path: Path) -> None:
    """A hidden prompt asks for the rest, a few times at most."""
    workshop = Workshop(tmp_path)
    cut = [said("a"), {"stop": "max_tokens", "type": "stop"}]

    result = workshop.agent(Script(cut, cut, cut, cut, "never asked")).run("Hi")

    assert ("success", 4) == (result.ending, result.turns)
    assert [True] * 3 == [line["isMeta"] for line in workshop.lines() if "isMeta" in line]


def test_a_call_cut_off_is_not_made(tmp_path: Path) -> None:
    """Its arguments may be half of what was meant."""
    workshop = Workshop(tmp_path, mode="bypassPermissions")
    path = workshop.project / "a.txt"
    cut = [
        call("Write", {"file_path": str(path), "content": "hal"}, "t1"),
        {"stop": "max_tokens", "type": "stop"},
    ]

    workshop.agent(Script(cut, "Done.")).run("Hi")

    assert not path.exists()


@pytest.mark.parametrize(("stop", "ending"), [("refusal", "refusal"), ("stop_sequence", "success")])
def test_other_stops_end_the_run(tmp_path: Path, stop: str, ending: str) -> None:
    """The reason is in the result."""
    workshop = Workshop(tmp_path)

    result = workshop.agent(Script([said("No."), {"stop": stop, "type": "stop"}])).run("Hi")

    assert (ending, stop) == (result.ending, result.stop_reason)


def test_an_answer_without_content_is_an_end(tmp_path: Path) -> None:
    """Nothing is written for it, and nothing empty is sent later."""
    workshop = Workshop(tmp_path)

    result = workshop.agent(Script([])).run("Hi")

    assert ("success", "", ["user", "file-history-snapshot"]) == (result.ending, result.text, kinds(workshop))


# ---- stopped ---------------------------------------------------------------------------------------------


def stopped_during(workshop: Workshop, stop_at: str) -> tuple[AgentResult, Script]:
    stop = threading.Event()

    def while_asking() -> Exception:
        stop.set()
        return Cancelled()

    def with_the_answer() -> list[dict[str, Any]]:
        stop.set()
        return [call("Bash", {"command": "echo hi"}, "t1"), call("Bash", {"command": "echo ho"}, "t2")]

    script = Script(while_asking if stop_at == "question" else with_the_answer)
    return workshop.agent(script, workshop.runner(cancelled=stop)).run("Hi"), script


@pytest.mark.parametrize(
    ("stop_at", "text"),
    [("question", "[Request interrupted by user]"), ("call", "[Request interrupted by user for tool use]")],
)
def test_a_stop_is_written_as_the_client_writes_it(tmp_path: Path, stop_at: str, text: str) -> None:
    """The last line says so, every call has a result, and the log is whole."""
    workshop = Workshop(tmp_path)

    result, _ = stopped_during(workshop, stop_at)

    assert ("interrupted", [said(text)]) == (result.ending, workshop.last()["message"]["content"])
    messages = workshop.read_back().conversation().to_api()
    calls = [
        block["id"] for one in messages for block in plain([one])[0]["content"] if block["type"] == "tool_use"
    ]
    results = [
        block["tool_use_id"]
        for one in messages
        for block in plain([one])[0]["content"]
        if block["type"] == "tool_result"
    ]
    assert (calls, []) == (results, workshop.damage())


def test_a_stop_while_waiting_for_the_api_is_heard(tmp_path: Path) -> None:
    """The pause before the next attempt ends at once."""
    workshop = Workshop(tmp_path)
    stop = threading.Event()

    def fails() -> Exception:
        stop.set()
        return ApiFailed("529 Overloaded", again=True, status=529, wait=3600.0)

    result = workshop.agent(Script(fails), workshop.runner(cancelled=stop)).run("Hi")

    assert "interrupted" == result.ending
