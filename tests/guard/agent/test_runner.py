"""A call is decided, carried out and written down; a no is written down too, in the client's words."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.guard.agent import ApprovedCall, ToolRunner
from recollect.guard.agent.calls import PermissionGate
from recollect.model.conversation.tool_calls import ToolCallStatus
from recollect.model.lines.blocks import ToolUseBlock
from recollect.model.lines.json_text import json_of
from recollect.model.settings.decision import Verdict
from recollect.store.store import Store
from tests.guard.agent.workshop import Workshop, bash, call, needs_sandbox

REJECTED = "The user doesn't want to proceed with this tool use."


@needs_sandbox
def test_a_command_that_only_looks_runs_without_a_rule(tmp_path: Path) -> None:
    """``ls`` is answered with its output and the client's rich result."""
    workshop = Workshop(tmp_path)
    workshop.file("a.txt", "")

    ran = bash(workshop.runner(), "ls")

    assert {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"} == ran.block
    rich = {
        "stdout": "a.txt",
        "stderr": "",
        "interrupted": False,
        "isImage": False,
        "noOutputExpected": False,
    }
    assert rich == workshop.last()["toolUseResult"]


@needs_sandbox
def test_the_entry_is_what_the_block_says(tmp_path: Path) -> None:
    """The stored line holds the very block that goes to the model, and names the line of its call."""
    workshop = Workshop(tmp_path)

    ran = workshop.runner().run(
        call("Bash", {"command": "pwd"}), asked_by="11111111-1111-4111-8111-111111111111"
    )

    line = workshop.last()
    assert [ran.block] == line["message"]["content"]
    assert ("11111111-1111-4111-8111-111111111111", ran.entry_id) == (
        line["sourceToolAssistantUUID"],
        line["uuid"],
    )


@needs_sandbox
def test_a_block_of_the_model_can_be_given_as_it_was_read(tmp_path: Path) -> None:
    """``ToolUseBlock`` and plain JSON are the same call."""
    workshop = Workshop(tmp_path)

    ran = workshop.runner().run(ToolUseBlock("toolu_9", "Bash", json_of("input", {"command": "echo hi"})))

    assert ("toolu_9", "hi") == (ran.block["tool_use_id"], ran.block["content"])


def test_a_deny_is_not_asked_about(tmp_path: Path) -> None:
    """Somebody who says yes to everything is not even heard."""
    workshop = Workshop(tmp_path, deny=["Bash(rm:*)"])
    asked: list[ApprovedCall] = []

    def yes(call: ApprovedCall) -> bool:
        asked.append(call)
        return True

    ran = bash(workshop.runner(ask=yes), "rm x")

    assert (True, []) == (ran.outcome.denied, asked)


@needs_sandbox
def test_a_yes_lets_the_call_run(tmp_path: Path) -> None:
    """The question names tool, arguments, directory and decision."""
    workshop = Workshop(tmp_path)
    asked: list[ApprovedCall] = []

    def yes(call: ApprovedCall) -> bool:
        asked.append(call)
        return True

    bash(workshop.runner(ask=yes), "touch made")

    assert (workshop.project / "made").exists()
    (question,) = asked
    expected = ("Bash", {"command": "touch made"}, str(workshop.project), Verdict.ASK)
    assert expected == (question.tool, question.arguments, question.cwd, question.decision.verdict)


def test_a_no_is_written_as_a_rejection(tmp_path: Path) -> None:
    """A person refused: the client's sentence, and its word for people."""
    workshop = Workshop(tmp_path)

    ran = bash(workshop.runner(ask=lambda *_: False), "touch made")

    assert str(ran.block["content"]).startswith(REJECTED)
    line = workshop.last()
    assert ("User rejected tool use", "user-rejected") == (line["toolUseResult"], line["toolDenialKind"])
    assert not (workshop.project / "made").exists()


def test_an_approval_does_not_reach_another_file(tmp_path: Path) -> None:
    """While the person thinks, the file becomes a link: the yes was for something else (C07, E10)."""
    workshop = Workshop(tmp_path)
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs")
    target = workshop.project / "a.txt"

    def swaps(*_: object) -> bool:
        target.symlink_to(outside)
        return True

    ran = workshop.runner(ask=swaps).run(call("Write", {"file_path": str(target), "content": "ours"}))

    assert (
        "The files this call names changed between the decision and the call. Nothing was done."
        == (ran.block["content"])
    )
    assert "theirs" == outside.read_text()


def test_a_changed_file_stops_a_command_too(tmp_path: Path) -> None:
    """A command is bound to the files it names."""
    workshop = Workshop(tmp_path)
    path = workshop.file("a.txt", "one")

    def swaps(*_: object) -> bool:
        os.replace(workshop.file("b.txt", "two"), path)
        return True

    ran = bash(workshop.runner(ask=swaps), "rm a.txt")

    assert (True, True) == (ran.outcome.is_error, Path(path).exists())


def test_a_tool_that_is_denied_whole_is_not_there(tmp_path: Path) -> None:
    """A bare deny takes the tool away: not offered, and a call of it finds no such tool."""
    workshop = Workshop(tmp_path, deny=["Bash"])
    runner = workshop.runner()

    ran = bash(runner, "ls")

    assert ["Read", "Write", "Edit", "Glob", "Grep", "TodoWrite", "TaskOutput", "TaskStop"] == runner.names
    assert "<tool_use_error>Error: No such tool available: Bash</tool_use_error>" == ran.block["content"]


def test_after_a_stop_nothing_runs(tmp_path: Path) -> None:
    """A call that comes after Ctrl-C is written down as rejected."""
    workshop = Workshop(tmp_path, mode="bypassPermissions")
    stopped = threading.Event()
    stopped.set()

    ran = bash(workshop.runner(cancelled=stopped), "touch made")

    assert (True, False) == (ran.outcome.interrupted, (workshop.project / "made").exists())


@needs_sandbox
def test_readers_see_what_became_of_each_call(tmp_path: Path) -> None:
    """``tool_calls`` reads our lines as it reads the client's."""
    workshop = Workshop(tmp_path)
    from recollect.model.lines import draft

    calls = [
        call("Bash", {"command": "echo hi"}, "toolu_a"),
        call("Bash", {"command": "touch x"}, "toolu_b"),
        call("Bash", {"command": "ls /nowhere-at-all"}, "toolu_c"),
    ]
    workshop.session.log.put(
        draft.user("Go"),
        *(draft.assistant([one], model="claude-sonnet-5-5", message_id="m") for one in calls),
    )
    runner = workshop.runner()
    for one in calls:
        runner.run(one)

    found = {one.id: one.status for one in workshop.read_back().tool_calls()}

    assert {"toolu_a": ToolCallStatus.OK, "toolu_b": ToolCallStatus.DENIED} == {
        name: found[name] for name in ("toolu_a", "toolu_b")
    }


@needs_sandbox
def test_a_log_of_a_plain_store_is_taken_too(tmp_path: Path) -> None:
    """``Store().create()`` gives a log that can be written to, with the client's further fields."""
    workshop = Workshop(tmp_path)
    store = Store(tmp_path / "store")
    with store.create(workshop.project) as log:
        ran = ToolRunner(log, workshop.permit).run(call("Bash", {"command": "echo hi"}))

        (line,) = [json.loads(one) for one in log.path.read_bytes().splitlines()]
    assert ([ran.block], True) == (line["message"]["content"], "sandboxed" in line)


def test_a_settings_file_that_cannot_be_read_turns_an_allow_into_a_no(tmp_path: Path) -> None:
    """Its deny rules are not known, so nothing is allowed by a rule (fails closed)."""
    settings = tmp_path / "home" / ".claude" / "settings.json"
    settings.mkdir(parents=True)
    workshop = Workshop(tmp_path, allow=["Bash(touch:*)"])

    ran = bash(workshop.runner(gate=PermissionGate(workshop.permit)), "touch made")

    assert (True, False) == (ran.outcome.denied, (workshop.project / "made").exists())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    ["command", "file_path", "content", "old_string", "new_string", "todos", "offset", "timeout"]
)
PATHS = st.sampled_from(
    ["", ".", "..", "/", "~", "~/x", "a\0b", "a/../../b", "/proc/self/mem", "\ud800", "x" * 5000]
)


@settings(max_examples=60)
@given(
    tool=st.sampled_from(
        ["Bash", "Read", "Write", "Edit", "Glob", "Grep", "TodoWrite", "mcp__a__b", "", "No\nTool"]
    ),
    arguments=st.dictionaries(NAMES, JSON | PATHS, max_size=5),
)
def test_whatever_a_model_sends_there_is_one_result(
    tmp_path_factory: pytest.TempPathFactory, tool: str, arguments: dict[str, Any]
) -> None:
    """Nothing is raised, one sound line is stored, and it answers the call."""
    workshop = Workshop(tmp_path_factory.mktemp("any"))

    ran = workshop.runner().run(call(tool, arguments))

    (line,) = workshop.lines()
    assert ([ran.block], "toolu_1") == (line["message"]["content"], ran.block["tool_use_id"])
