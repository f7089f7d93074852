"""A project, a Claude home and a session to write, with real files, the real engine and the real sandbox.

The model is a script: either plain answers handed out one after the other, or the loopback Messages API of
``scripted_api.py``, where a prompt carries its script itself.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.session import Session
from recollect.guard import sandbox as execution
from recollect.guard.agent import Agent, AgentSession, SubAgents, ToolRunner, new_session
from recollect.guard.agent.calls import AnsweredCall, Ask, PermissionGate
from recollect.guard.agent.model import ApiClient, ApiFailed, McpTools, ModelResponse, tool_list
from recollect.guard.permissions.engine import ProjectEngine, permit
from recollect.guard.policy.engine import RuleSet
from recollect.guard.policy.terms import Mode
from recollect.guard.sandbox import Confinement
from recollect.model.lines.blocks import Usage
from recollect.model.lines.damage import Damage
from recollect.store.home import ClaudeHome
from tests.guard.agent.scripted_api import ScriptedApi


class Workshop:
    """One project with one home; ``allow`` and ``deny`` are the rules of the command line."""

    def __init__(
        self,
        place: Path,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        asks: Iterable[str] = (),
        mode: str | None = None,
    ) -> None:
        self.project = (place / "work").resolve()
        self.project.mkdir(parents=True, exist_ok=True)
        self.home = ClaudeHome((place / "home" / ".claude").resolve())
        self.home.root.mkdir(parents=True, exist_ok=True)
        self.data = place / "data"
        rules = {"allow": list(allow), "deny": list(deny), "ask": list(asks)}
        self.permit: ProjectEngine = permit(
            self.home,
            self.project,
            mode=mode,
            command_line=json.dumps({"permissions": rules}),
            managed=place / "no-managed-settings.json",
        )
        self.session: AgentSession = new_session(self.home, self.project, data=self.data)

    def runner(
        self,
        *,
        ask: Ask | None = None,
        cancelled: threading.Event | None = None,
        mcp: McpTools | None = None,
        gate: PermissionGate | None = None,
        backend: execution.Backend = "bubblewrap",
    ) -> ToolRunner:
        return ToolRunner(
            self.session.log,
            gate or self.permit,
            home=self.session.home,
            ask=ask,
            mcp=mcp,
            confinement=Confinement(backend=backend),
            cancelled=cancelled,
        )

    def agent(self, api: ApiClient | Script, runner: ToolRunner | None = None, **options: Any) -> Agent:
        runner = runner or self.runner()
        model = "claude-sonnet-5-5"
        runner.delegate = SubAgents(self.session, api, model=model, first_wait=0.0).run  # type: ignore[arg-type]
        settings = {"model": model, "tools": tool_list(runner.names), "first_wait": 0.0}
        return Agent(self.session, runner, api, **(settings | options))  # type: ignore[arg-type]  # a script is an API to a loop

    def file(self, name: str, content: str | bytes) -> str:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.session.log.path.read_bytes().splitlines()]

    def last(self) -> dict[str, Any]:
        return self.lines()[-1]

    def read_back(self) -> Session:
        return Home(self.home.root, data=self.data).session(str(self.session.log.id))

    def damage(self) -> list[Damage]:
        return self.read_back().damage()


def without_rules(made: ProjectEngine) -> ProjectEngine:
    """The same engine with no rule and no mode that gives anything away."""
    return ProjectEngine(RuleSet(), made.workspace, Mode.DEFAULT, made.world, made.loaded)


def call(name: str, arguments: Mapping[str, Any] | None = None, call_id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments or {})}


def bash(runner: ToolRunner, command: str, **more: Any) -> AnsweredCall:
    return runner.run(call("Bash", {"command": command, **more}))


class Script:
    """A model that says what it was told to say. A step is text, calls, or a failure of the API."""

    def __init__(self, *steps: Any) -> None:
        self.steps, self.asked = list(steps), []  # type: list[Any], list[dict[str, Any]]

    def ask(self, request: Mapping[str, Any], cancelled: threading.Event) -> ModelResponse:
        self.asked.append(json.loads(json.dumps(request)))
        step = self.steps.pop(0)
        if callable(step):
            step = step()
        if isinstance(step, Exception):
            raise step
        content = [{"type": "text", "text": step}] if isinstance(step, str) else list(step)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
        if content and "stop" in content[-1]:
            stop = content.pop()["stop"]
        return self.answer(content, stop)

    def answer(self, content: list[dict[str, Any]], stop: str) -> ModelResponse:
        number = len(self.asked)
        usage = Usage(input_tokens=10, output_tokens=5)
        return ModelResponse(f"msg_{number}", "claude-sonnet-5-5", content, stop, usage, f"req_{number}")

    def another(self) -> Script:
        """A sub-agent reads from the same script."""
        return self

    def close(self) -> None:
        """Nothing is held."""


def overloaded() -> ApiFailed:
    return ApiFailed(
        "529 Overloaded", again=True, status=529, kind="overloaded_error", request_id="req_x", wait=0.0
    )


@contextlib.contextmanager
def scripted_api() -> Iterator[ScriptedApi]:
    """The scripted Messages API, served by a thread of this process."""
    stub = ScriptedApi()
    # The short interval is how soon the server notices that it shall end.
    thread = threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        stub.shutdown()
        thread.join()
        stub.server_close()


def plain(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Messages with every content as blocks and without cache marks."""
    found = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        cleaned = [
            {name: value for name, value in block.items() if name != "cache_control"} for block in blocks
        ]
        found.append({"role": message["role"], "content": cleaned})
    return found


needs_sandbox = pytest.mark.skipif(
    execution.unavailable() is not None, reason="no sandbox works on this machine"
)
