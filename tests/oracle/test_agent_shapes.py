"""The same calls made by client 2.1.325 and by our runner: the same words for the model, the same shapes for people."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recollect.guard.agent import ToolRunner, new_session
from recollect.guard.permissions.engine import permit
from recollect.store.home import ClaudeHome
from tests.guard.agent.workshop import needs_sandbox, scripted_api
from tests.oracle.client_runner import Client
from tests.oracle.conftest import command_of

pytestmark = [needs_sandbox]

RULES = ("Bash(echo:*)", "Bash(seq:*)", "Bash(sh:*)", "Bash(true)", "Bash(rm:*)")
DENIED = "Bash(rm:*)"


def calls(cwd: Path) -> list[tuple[str, dict[str, Any]]]:
    old, new = str(cwd / "old.txt"), str(cwd / "new.txt")
    return [
        ("Bash", {"command": "echo hi", "description": "Say hi"}),
        ("Bash", {"command": "ls", "description": "List"}),
        ("Bash", {"command": "true", "description": "Nothing"}),
        ("Bash", {"command": "sh -c 'echo out; echo err >&2; exit 3'", "description": "Fail"}),
        ("Bash", {"command": "sh -c 'echo out; echo err >&2'", "description": "Both streams"}),
        ("Bash", {"command": "rm old.txt", "description": "Denied"}),
        ("Bash", {"command": "seq 1 40000", "description": "Long"}),
        ("Read", {"file_path": str(cwd / "missing.txt")}),
        ("Read", {"file_path": old}),
        ("Read", {"file_path": old, "offset": 2, "limit": 1}),
        ("Edit", {"file_path": old, "old_string": "absent", "new_string": "x"}),
        ("Edit", {"file_path": old, "old_string": "t", "new_string": "x"}),
        ("Edit", {"file_path": old, "old_string": "one", "new_string": "one"}),
        ("Edit", {"file_path": old, "old_string": "two", "new_string": "2"}),
        ("Edit", {"file_path": old, "old_string": "e", "new_string": "E", "replace_all": True}),
        ("Write", {"file_path": new, "content": "made\n"}),
        ("Write", {"file_path": old, "content": "other\n"}),
        ("Write", {"file_path": "/elsewhere/x.txt", "content": "x"}),
        ("Read", {"file_path": str(cwd / "empty.txt")}),
        ("Nothing", {"x": 1}),
    ]


class Told:
    """What a log tells of each call: content, error mark, rich result. Only names of files of its own are taken out."""

    def __init__(self, log: Path) -> None:
        self.results: list[Any] = []
        for line in log.read_text().splitlines():
            entry = json.loads(line)
            message = entry.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            for block in content if isinstance(content, list) else ():
                if block.get("type") == "tool_result":
                    told = [block["content"], bool(block.get("is_error")), entry.get("toolUseResult")]
                    self.results.append(json.loads(_neutral(json.dumps(told), log)))


def _neutral(text: str, log: Path) -> str:
    text = text.replace(str(log.with_suffix("")), "<session>")
    return re.sub(r"tool-results/\w+\.txt", "tool-results/<id>.txt", text)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    command = command_of("2.1.325")
    with scripted_api() as stub:
        address = SimpleNamespace(address=f"http://127.0.0.1:{stub.port}")
        yield Client("2.1.325", command, tmp_path, address)  # type: ignore[arg-type]  # all a client needs of it


def prepared(cwd: Path) -> None:
    for path in cwd.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (cwd / "old.txt").write_text("one\ntwo\nthree\n")
    (cwd / "empty.txt").write_text("")


def by_the_client(client: Client) -> Told:
    prepared(client.cwd)
    steps = [{"tools": [{"name": name, "input": arguments}]} for name, arguments in calls(client.cwd)]
    done = client.ask(
        f"Go. STUB:{json.dumps(steps)}",
        "--permission-mode",
        "acceptEdits",
        "--allowedTools",
        *RULES,
        "--disallowedTools",
        DENIED,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    (log,) = client.config.glob("projects/*/*.jsonl")
    return Told(log)


def by_us(client: Client, data: Path) -> Told:
    prepared(client.cwd)
    home = ClaudeHome(data / "home")
    session = new_session(home, client.cwd, data=data)
    rules = json.dumps({"permissions": {"allow": list(RULES), "deny": [DENIED]}})
    runner = ToolRunner(
        session.log, permit(home, client.cwd, mode="acceptEdits", command_line=rules), home=home
    )
    with session.log:
        for number, (name, arguments) in enumerate(calls(client.cwd)):
            runner.run({"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments})
    return Told(session.log.path)


def test_results_are_the_clients(client: Client, tmp_path: Path) -> None:
    """Content, error mark and rich result of every call are equal."""
    theirs, ours = by_the_client(client), by_us(client, tmp_path / "data")

    made = [f"{name} {json.dumps(arguments)}" for name, arguments in calls(client.cwd)]
    assert dict(zip(made, theirs.results, strict=True)) == dict(zip(made, ours.results, strict=True))
