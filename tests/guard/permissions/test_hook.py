"""`recollect rules hook`: one decision out, and no way to end in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recollect.guard.permissions import engine as permission_hook
from recollect.guard.permissions.engine import answer_hook
from tests.permission_home import NO_MANAGED, Place, place, rules

__all__ = ["place"]


def request(place: Place, command: str = "make a", **more: Any) -> bytes:
    document = {
        "session_id": "x",
        "transcript_path": "/x",
        "cwd": str(place.project),
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": command},
        **more,
    }
    return json.dumps({key: value for key, value in document.items() if value != "absent"}).encode()


def decision(answer: dict[str, Any]) -> str:
    specific = answer["hookSpecificOutput"]
    assert {"hookEventName", "permissionDecision", "permissionDecisionReason"} == set(specific)
    assert "PreToolUse" == specific["hookEventName"]
    return str(specific["permissionDecision"])


@pytest.fixture
def ruled(place: Place) -> Place:
    place.user(rules(allow=["Bash(make a)"], deny=["Bash(make b)"]))
    return place


@pytest.mark.parametrize(("command", "expected"), [("make b", "deny"), ("make c", "ask")])
def test_the_answer_is_the_engines(ruled: Place, command: str, expected: str) -> None:
    """In the client's words."""
    assert expected == decision(answer_hook(ruled.home, request(ruled, command), managed=NO_MANAGED))


@pytest.mark.parametrize("command", ["make a", "ls", "ls && make a"])
def test_what_the_rules_allow_is_left_to_the_client(ruled: Place, command: str) -> None:
    """R19: no answer, so the hook can never let a call run that the client would have asked about."""
    assert {} == answer_hook(ruled.home, request(ruled, command), managed=NO_MANAGED)


@pytest.mark.parametrize(
    ("command", "expected"), [("make a", "allow"), ("make b", "deny"), ("make c", "ask")]
)
def test_with_may_allow_an_allow_rule_is_an_answer(ruled: Place, command: str, expected: str) -> None:
    """Only on request, and only for a call that a rule covers: read-only commands stay the client's."""
    found = answer_hook(ruled.home, request(ruled, command), managed=NO_MANAGED, may_allow=True)

    assert expected == decision(found)
    assert {} == answer_hook(ruled.home, request(ruled, "ls"), managed=NO_MANAGED, may_allow=True)


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_a_tool_that_asks_the_person_is_left_to_the_client(ruled: Place, tool: str) -> None:
    """The engine refuses it where nobody can be asked; a client that offers it has somebody."""
    asked = request(ruled, tool_name=tool, tool_input={})

    assert {} == answer_hook(ruled.home, asked, managed=NO_MANAGED)


def test_the_reason_names_the_rule_and_its_place(ruled: Place) -> None:
    """For the person who is told no."""
    answer = answer_hook(ruled.home, request(ruled, "make b"), managed=NO_MANAGED)
    reason = answer["hookSpecificOutput"]["permissionDecisionReason"]

    assert f"(rule Bash(make b), {ruled.home.settings_file}:7)" in reason


@pytest.mark.parametrize(
    ("mode", "expected"), [("default", "ask"), ("dontAsk", "deny"), ("bypassPermissions", None)]
)
def test_the_mode_is_the_clients(ruled: Place, mode: str, expected: str | None) -> None:
    """As it says in its request."""
    found = answer_hook(ruled.home, request(ruled, "make c", permission_mode=mode), managed=NO_MANAGED)

    assert expected == (decision(found) if found else None)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"tool_name": "Bash"}']
)
def test_input_that_makes_no_sense_is_a_deny(ruled: Place, data: bytes) -> None:
    """Nothing passes because it could not be read."""
    assert "deny" == decision(answer_hook(ruled.home, data, managed=NO_MANAGED))


@pytest.mark.parametrize(
    "more",
    [
        {"tool_name": 4},
        {"tool_input": "make a"},
        {"tool_input": "absent"},
        {"cwd": "absent"},
        {"cwd": ""},
        {"permission_mode": "yolo"},
        {"hook_event_name": "PostToolUse"},
        {"tool_input": {"command": ["make a"]}},
    ],
)
def test_a_request_that_is_not_whole_is_a_deny(ruled: Place, more: dict[str, Any]) -> None:
    """A wrong type, a missing part, a mode that is none."""
    assert "deny" == decision(answer_hook(ruled.home, request(ruled, **more), managed=NO_MANAGED))


def test_an_error_of_our_own_is_a_deny(ruled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is."""

    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(permission_hook, "permit", failing)
    assert "deny" == decision(answer_hook(ruled.home, request(ruled), managed=NO_MANAGED))


def test_broken_settings_hold_the_call_back(ruled: Place) -> None:
    """An allow becomes a question."""
    ruled.local("{")

    assert "ask" == decision(answer_hook(ruled.home, request(ruled), managed=NO_MANAGED))


def test_rules_of_a_file_may_be_used_and_a_missing_file_is_a_deny(ruled: Place) -> None:
    """In place of those in the settings."""
    file = ruled.write(ruled.root / "r.json", {"allow": ["Bash(make c)"]})
    asked = request(ruled, "make c")
    found = [
        decision(answer_hook(ruled.home, asked, managed=NO_MANAGED, rules=path, may_allow=True))
        for path in (file, ruled.root / "missing.json")
    ]

    assert ["allow", "deny"] == found


# ---- the command -------------------------------------------------------------------------------------------


def hook(place: Place, data: bytes, **more: Any) -> subprocess.CompletedProcess[bytes]:
    command = [
        sys.executable,
        "-m",
        "recollect",
        *place.options,
        "rules",
        "hook",
        "--managed",
        str(NO_MANAGED),
    ]
    return subprocess.run(
        [*command, *more.pop("options", [])], input=data, capture_output=True, check=False, **more
    )


def test_the_command_prints_one_document_and_ends_with_0(ruled: Place) -> None:
    """Also when it says no."""
    ran = hook(ruled, request(ruled, "make b"))

    assert (0, "deny", b"") == (ran.returncode, decision(json.loads(ran.stdout)), ran.stderr)


def test_a_home_that_is_not_there_yet_is_no_reason_to_let_pass(place: Place) -> None:
    """No settings at all: nothing is allowed but what only reads."""
    place.home.root.rmdir()
    found = [json.loads(hook(place, request(place, command)).stdout) for command in ("make a", "ls")]

    assert ("ask", {}) == (decision(found[0]), found[1])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_where_the_answer_cannot_be_written_the_exit_status_is_2(ruled: Place) -> None:
    """The client holds a call back for 2 alone: a full disk, a closed stdout, a reader that went away."""
    command = f"{sys.executable} -m recollect {' '.join(ruled.options)} rules hook"
    data = request(ruled)

    def status(shell: str) -> int:
        ran = subprocess.run(["sh", "-c", shell], input=data, capture_output=True, check=False)
        return ran.returncode

    assert [2, 2] == [status(f"{command} {end}") for end in (">/dev/full", ">&-")]
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        ["sh", "-c", command], input=data, stdout=writer, stderr=subprocess.PIPE, check=False
    )
    os.close(writer)
    assert 2 == ran.returncode


def test_a_wrong_option_ends_with_2(ruled: Place) -> None:
    """A hook that was written down wrongly lets nothing pass."""
    assert 2 == hook(ruled, request(ruled), options=["--nonsense"]).returncode
