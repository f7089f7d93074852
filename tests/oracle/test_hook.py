"""`recollect rules hook` in the real client: what it denies is not run, and nothing runs because of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client_runner import Client
from tests.oracle.conftest import command_of
from tests.oracle.test_files_and_tasks import ScriptedStub
from tests.oracle.tool_client import running

RULES = {"allow": ["Bash(touch yes)", "Bash(touch client-denied)"], "deny": ["Bash(touch no)"]}


class Hooked(Client):
    """A client whose every call goes through our hook."""

    stub: ScriptedStub

    def settle(self, program: str = sys.executable, options: str = "", **permissions: list[str]) -> None:
        rules = self.cwd.parent / "rules.json"
        rules.write_text(json.dumps(RULES))
        own = f"--home {self.config} --data {self.cwd.parent / 'own'}"
        command = f"{program} -m recollect {own} rules hook --rules {rules} {options} || exit 2"
        hook = {"matcher": "*", "hooks": [{"type": "command", "command": command}]}
        self.config.mkdir(parents=True, exist_ok=True)
        document: dict[str, Any] = {"hooks": {"PreToolUse": [hook]}, "permissions": permissions}
        (self.config / "settings.json").write_text(json.dumps(document))

    def made(self, *names: str) -> list[bool]:
        """Which of these files the client's calls of ``touch`` have made."""
        self.run(*(f"touch {name}" for name in names))
        return [(self.cwd / name).exists() for name in names]

    def run(self, *commands: str) -> None:
        """Let the client call Bash with each of the commands."""
        self.stub.script = [("Bash", {"command": command}) for command in commands]
        done = self.ask("Go on.")
        assert (0, []) == (done.returncode, self.stub.script), done.stdout + done.stderr


@pytest.fixture
def hooked(tmp_path: Path) -> Iterator[Hooked]:
    with running(ScriptedStub()) as stub:
        yield Hooked("2.1.325", command_of("2.1.325"), tmp_path, stub)


def test_nothing_runs_that_the_client_would_have_asked_about(hooked: Hooked) -> None:
    """With our own allow rules in the hook, the calls that ran are those that run without it."""
    asked = ("touch yes", "touch yes && mkdir d", "(touch sub-shell)", "cd . && touch moved", "touch ../out")
    hooked.settle()
    hooked.run(*asked, "cat a > copied", "touch ${X}braced", "touch starred*")

    assert [] == sorted(one.name for one in hooked.cwd.iterdir() if not one.name.startswith("."))
    assert not (hooked.cwd.parent / "out").exists()


def test_with_may_allow_the_hook_decides_where_no_rule_does(hooked: Hooked) -> None:
    """Its allow lets run, its deny and its ask do not (nobody answers in print mode)."""
    hooked.settle(options="--may-allow")

    assert [True, False, False] == hooked.made("yes", "no", "other")


def test_the_hooks_deny_beats_the_clients_allow(hooked: Hooked) -> None:
    """A command that the client may run is really not run; the reason reaches the model."""
    hooked.settle(allow=["Bash"])

    assert [True, False] == hooked.made("yes", "no")
    assert "rule Bash(touch no)" in json.dumps(hooked.stub.conversations()[-1])


def test_the_hooks_allow_does_not_beat_the_clients_deny(hooked: Hooked) -> None:
    """R19."""
    hooked.settle(options="--may-allow", deny=["Bash(touch client-denied)"])

    assert [True, False] == hooked.made("yes", "client-denied")


def test_a_hook_that_cannot_start_lets_nothing_pass(hooked: Hooked) -> None:
    """``|| exit 2`` is what makes it so."""
    hooked.settle(program="/nonexistent/python", allow=["Bash"])

    assert [False] == hooked.made("yes")
