"""``recollect agent`` as a person runs it: a process, a key, an address, a directory, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.guard.agent.workshop import needs_sandbox, scripted_api


class Person:
    """Somebody with a shell. Commands run in this process, since the SDK takes seconds to import."""

    def __init__(
        self, place: Path, stub: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.stub, self._patch, self._capsys = stub, monkeypatch, capsys
        self.project, self.home = place / "work", place / "home"
        self.project.mkdir()
        (self.home / ".claude").mkdir(parents=True)
        monkeypatch.chdir(self.project)
        for name in ("CLAUDE_CONFIG_DIR", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL"):
            monkeypatch.delenv(name, raising=False)
        self.environment = {
            "HOME": str(self.home),
            "XDG_DATA_HOME": str(self.home / "data"),
            "ANTHROPIC_API_KEY": "sk-dummy-key",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{stub.port}",
        }
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        self._patch.setattr("sys.stdin", io.StringIO(stdin))
        code = main(list(arguments))
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def agent(self, steps: list[dict[str, Any]], *options: str) -> tuple[int, str, str]:
        return self.run("agent", "-p", script(steps), "--no-mcp", *options)

    def logs(self) -> list[Path]:
        return sorted((self.home / ".claude").glob("projects/*/*.jsonl"))

    def lines(self) -> list[dict[str, Any]]:
        (log,) = self.logs()
        return [json.loads(line) for line in log.read_bytes().splitlines()]


def script(steps: list[dict[str, Any]]) -> str:
    return f"Go. STUB:{json.dumps(steps)}"


@pytest.fixture
def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Person]:
    with scripted_api() as stub:
        yield Person(tmp_path, stub, monkeypatch, capsys)


def test_the_answer_is_printed_and_nothing_else(person: Person) -> None:
    """Text on stdout, exit 0, one session in the home."""
    assert (0, "All done.\n", "") == person.agent([{"text": "All done."}])
    assert 1 == len(person.logs())


def test_a_prompt_may_come_from_stdin(person: Person) -> None:
    """``-p -``."""
    code, out, _ = person.run("agent", "-p", "-", "--no-mcp", stdin=script([{"text": "Heard."}]))

    assert (0, "Heard.\n") == (code, out)


def test_one_document_says_how_it_went(person: Person) -> None:
    """The client's names: result, session, turns, usage, denials."""
    steps: list[dict[str, Any]] = [
        {"tools": [{"name": "Bash", "input": {"command": "touch x"}, "id": "t1"}]},
        {"text": "No."},
    ]

    code, out, err = person.agent(steps, "--output-format", "json")

    document = json.loads(out)
    (log,) = person.logs()
    expected = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "No.",
        "session_id": log.stem,
        "num_turns": 2,
        "permission_denials": [
            {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "touch x"}}
        ],
    }
    assert (0, "", expected) == (code, err, {name: document[name] for name in expected})
    assert {
        "input_tokens": 22,
        "output_tokens": 14,
        "cache_creation_input_tokens": 600,
        "cache_read_input_tokens": 4000,
    } == document["usage"]


@needs_sandbox
def test_check_cost_and_show_agree(person: Person) -> None:
    """Nothing to remark, the tokens of the run, and the conversation."""
    steps: list[dict[str, Any]] = [
        {"text": "I look.", "tools": [{"name": "Bash", "input": {"command": "ls"}}]},
        {"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded", "times": 1}},
    ]
    _, out, _ = person.agent(steps, "--output-format", "json")
    session = json.loads(out)["session_id"]

    checked = person.run("doctor")
    cost = json.loads(person.run("cost", "--json")[1])
    shown = person.run("show", session)[1]

    assert (0, True) == (checked[0], "0 errors, 0 warnings, 0 remarks" in checked[1])
    assert json.loads(out)["usage"]["input_tokens"] == cost["totals"]["input_tokens"]
    assert ("I look." in shown, "stub: recovered after errors." in shown) == (True, True)


def test_rules_of_the_command_line_count(person: Person) -> None:
    """An allow lets it run, a deny beats it, a wrong one is a usage error before anything is asked."""
    target = person.project / "a.txt"
    steps: list[dict[str, Any]] = [
        {"tools": [{"name": "Write", "input": {"file_path": str(target), "content": "x"}}]},
        {"text": "."},
    ]

    person.agent(steps, "--allowed-tools", "Write", "--disallowed-tools", "Write")
    denied = target.exists()
    person.agent(steps, "--allowed-tools", "Write")
    allowed = target.exists()
    asked = len(person.stub.requests)
    code, _, err = person.agent(steps, "--allowed-tools", "Write(")

    assert (False, True, 2) == (denied, allowed, code), err
    assert asked == len(person.stub.requests)


def test_an_api_that_fails_is_exit_1(person: Person) -> None:
    """And says how to go on."""
    code, out, err = person.agent(
        [{"error": {"status": 400, "type": "invalid_request_error", "message": "no"}}]
    )

    (log,) = person.logs()
    assert (1, "API Error: 400 no\n", True) == (code, out, f"--resume {log.stem}" in err)


def test_a_store_of_our_own(person: Person) -> None:
    """``--store``: nothing is written to the home, and the session can be resumed from there."""
    person.agent([{"text": "One."}], "--store", "../store")

    code, out, _ = person.agent([{"text": "Two."}], "--store", "../store", "--resume", "@last")

    (log,) = (person.project.parent / "store").glob("projects/*/*.jsonl")
    assert (0, "Two.\n", []) == (code, out, person.logs())
    assert (True, True) == (b"One." in log.read_bytes(), b"Two." in log.read_bytes())


def test_resuming_sends_what_was_said(person: Person) -> None:
    """The same session goes on in the same file."""
    person.agent([{"text": "One."}])
    person.agent([{"text": "Two."}], "--resume", "@last")

    sent = person.stub.requests[-1]["body"]["messages"]
    assert (["user", "assistant", "user"], 1) == ([message["role"] for message in sent], len(person.logs()))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-p", " "), "the prompt is empty"),
        (("-p", "x", "--max-turns", "0"), "--max-turns"),
        (("-p", "x", "--compact-at", "0"), "--compact-at"),
        (("-p", "x", "--permission-mode", "yolo"), "there is no such mode"),
        (("-p", "x", "--resume", "nothing"), "nothing"),
        (("-p", "x", "--store", "../home/.claude"), "is a Claude home"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_asked(
    person: Person, options: tuple[str, ...], words: str
) -> None:
    """Exit 2 or 3, no request, no session."""
    code, _, err = person.run("agent", *options)

    assert (True, True) == (code in (2, 3), words in err), err
    assert ([], []) == (person.stub.requests, person.logs())


def test_the_sample_is_not_written_to(person: Person) -> None:
    """It ships with the program."""
    code, _, err = person.run("--home", ":sample", "agent", "-p", "x")

    assert (2, True) == (code, "sample" in err)


def test_the_key_is_in_nothing_that_was_written(person: Person) -> None:
    """Neither in the log nor in what was printed."""
    printed = person.agent([{"text": "All done."}])

    (log,) = person.logs()
    assert (False, False) == (
        b"sk-dummy-key" in log.read_bytes(),
        "sk-dummy-key" in "".join(map(str, printed)),
    )


@needs_sandbox
def test_ctrl_c_while_a_command_runs(person: Person) -> None:
    """What it printed is kept, the calls behind it are rejected, nothing of it is left running."""
    calls = [
        {"name": "Bash", "input": {"command": "echo early; touch begun; sleep 601.25"}, "id": "t1"},
        {"name": "Bash", "input": {"command": "echo never"}, "id": "t2"},
    ]
    arguments = [
        "agent",
        "-p",
        script([{"tools": calls}]),
        "--no-mcp",
        "--permission-mode",
        "bypassPermissions",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "recollect", *arguments],
        env={"PATH": os.environ["PATH"], **person.environment},
        stdout=subprocess.PIPE,
    )
    wait_for((person.project / "begun").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)

    first, second, last = person.lines()[-3:]
    assert (130, "early", True) == (
        process.returncode,
        first["toolUseResult"]["stdout"],
        first["toolUseResult"]["interrupted"],
    )
    assert ("User rejected tool use", "[Request interrupted by user for tool use]") == (
        second["toolUseResult"],
        last["message"]["content"][0]["text"],
    )


def wait_for(condition: Any, seconds: float = 600.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_session_is_compacted_on_request(person: Person) -> None:
    """``-p /compact`` prints the summary and leaves the client's two lines; a new session has nothing to compact."""
    assert 2 == person.run("agent", "-p", "/compact", "--no-mcp")[0]
    assert [] == person.logs()
    person.agent([{"text": "First."}])

    code, out, _ = person.run("agent", "-p", "/compact keep it short", "--no-mcp", "--resume", "@last")

    boundary, summary = person.lines()[-2:]
    assert (0, "1. Primary Request: stub summary of the talk so far.\n") == (code, out)
    assert ("compact_boundary", True) == (boundary["subtype"], summary["isCompactSummary"])


def test_config_json_names_model_and_rules(person: Person) -> None:
    """The home's ``config.json`` counts for our agent: the model it asks, the calls it may make."""
    rules = {str(person.project.resolve()): {"allowedTools": ["Write"]}}
    config = {"userSettings": {"model": "claude-sonnet-5-5"}, "projects": rules}
    (person.home / ".claude" / "config.json").write_text(json.dumps(config))
    path = str(person.project / "made.txt")

    person.agent(
        [{"tools": [{"name": "Write", "input": {"file_path": path, "content": "x"}}]}, {"text": "Done."}]
    )

    asked = person.stub.requests[-1]
    assert "claude-sonnet-5-5" == asked.get("body", asked)["model"]
    assert "x" == Path(path).read_text()
