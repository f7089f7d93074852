"""The Agent tool: a planner delegates, an executor works in a conversation of its own.

A sub-agent has its own log below the session (``<session>/subagents/agent-<id>.jsonl``) and a note beside
it that names the call it was started by, as the client keeps them; so the client, ``recollect show --sub-agents`` and
``recollect show --tree`` find it. It works under the same rules and the same limits, and its changes of files
belong to the turn that started it. It cannot start agents itself.

``Plan`` and ``Explore`` only look; ``general-purpose`` may also change files and run commands. In the
foreground the call is answered when the agent is done; with ``run_in_background`` the call is answered at
once and the result comes as a message.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recollect.guard.agent.bash_tool import BackgroundTask, TaskReport
from recollect.guard.agent.calls import ApprovedCall, ToolFailed, ToolOutcome, invalid, words
from recollect.guard.agent.loop import Agent, AgentResult
from recollect.guard.agent.model import ApiClient, tool_list
from recollect.guard.agent.sessions import AgentLog, AgentSession
from recollect.system import fsops
from recollect.system.fsops import as_storage_error

if TYPE_CHECKING:
    from recollect.guard.agent.runner import ToolRunner
    from recollect.guard.mcp import Tool

_LOOKING = frozenset({"Read", "Glob", "Grep"})
AGENT_TYPES: dict[str, tuple[frozenset[str] | None, str]] = {
    "general-purpose": (None, "You work on one task for another agent. Do it completely, then report."),
    "Explore": (_LOOKING, "You search and read for another agent. Change nothing. Report what you found."),
    "Plan": (
        _LOOKING,
        "You plan for another agent. Read what you need and change nothing. Report the steps, with their files.",
    ),
}
"""By type: the tools it may use (None: all but Agent), and what it is told."""


@dataclass(frozen=True, slots=True)
class _Delegation:
    """One task for a sub-agent, as the call gives it."""

    kind: str
    description: str
    prompt: str
    model: str
    agent_id: str
    call_id: str
    is_background: bool


class SubAgents:
    """Runs the sub-agents of one session."""

    def __init__(
        self,
        session: AgentSession,
        api: ApiClient,
        *,
        model: str,
        foreign: Sequence[Tool] = (),
        max_turns: int | None = None,
        first_wait: float | None = None,
    ) -> None:
        self._session, self._api, self._model, self._foreign = session, api, model, list(foreign)
        self._options: dict[str, Any] = {"max_turns": max_turns}
        if first_wait is not None:
            self._options["first_wait"] = first_wait

    def run(self, call: ApprovedCall, runner: ToolRunner) -> ToolOutcome:
        task = self._task(call)
        call.require_still_allowed()
        if task.is_background:
            started = runner.background.start(
                call.id, lambda one: self._in_background(task, runner, one), task_id=task.agent_id
            )
            return _launched(task, str(started.output))
        result, calls = self._worked(task, runner, runner.cancelled)
        if result.ending == "interrupted":
            raise ToolFailed(words("agent_stopped"))
        if result.is_error:
            raise ToolFailed(words("agent_failed", ending=result.ending, text=result.text))
        return _finished(task, result, calls)

    def _task(self, call: ApprovedCall) -> _Delegation:
        given = {name: call.arguments.get(name) for name in ("description", "prompt")}
        for name, value in given.items():
            if not isinstance(value, str) or not value.strip():
                raise invalid("Agent", f"The required parameter `{name}` is missing")
        kind = call.arguments.get("subagent_type", "general-purpose")
        if kind not in AGENT_TYPES:
            known = ", ".join(AGENT_TYPES)
            raise ToolFailed(f"Agent type '{kind}' not found. Available agents: {known}", refused=True)
        model = call.arguments.get("model")
        return _Delegation(
            str(kind),
            str(given["description"]),
            str(given["prompt"]),
            model if isinstance(model, str) and model.startswith("claude-") else self._model,
            f"a{secrets.token_hex(8)}",
            call.id,
            call.arguments.get("run_in_background") is True,
        )

    def _worked(
        self, task: _Delegation, runner: ToolRunner, stopped: threading.Event
    ) -> tuple[AgentResult, int]:
        """Let the agent work to its end; its log is closed and its note is written either way."""
        tools, role = AGENT_TYPES[task.kind]
        with self._session.log.sub_agent(task.agent_id) as log:
            _note(log, task, is_finished=False)
            own = runner.for_sub_agent(log, stopped, tools)
            offered = tool_list(own.names, () if tools is not None else self._foreign)
            agent = Agent(
                replace(self._session, log=log, messages=(), tokens=0),
                own,
                self._api.another(),
                model=task.model,
                tools=offered,
                role=role,
                **self._options,
            )
            result = agent.run(task.prompt)
            _note(log, task, is_finished=True)
        runner.add_spending(result.spending)
        return result, own.calls

    def _in_background(self, task: _Delegation, runner: ToolRunner, started: BackgroundTask) -> TaskReport:
        result, calls = self._worked(task, runner, started.stop)
        started.write(f"{result.text}\n".encode())
        if result.ending == "interrupted":
            return "killed", f'Agent "{task.description}" was stopped', ""
        if result.is_error:
            return "failed", f'Agent "{task.description}" failed: {result.ending}', ""
        details = f"<result>{result.text}</result>\n<usage><subagent_tokens>{result.spending.tokens.total}</subagent_tokens>"
        details += f"<tool_uses>{calls}</tool_uses><duration_ms>{_milliseconds(result)}</duration_ms></usage>"
        return "completed", f'Agent "{task.description}" finished', details


def _note(log: AgentLog, task: _Delegation, *, is_finished: bool) -> None:
    """The note beside the log, from which the client links call and log."""
    note = {
        "agentType": task.kind,
        "isBuiltIn": True,
        "description": task.description,
        "toolUseId": task.call_id,
        "spawnDepth": 1,
        "requestShape": "background" if task.is_background else "foreground",
    } | ({"finished": True} if is_finished else {})
    path = log.path.with_name(f"{log.path.stem}.meta.json")
    with as_storage_error("write", path):
        fsops.make_directories(path.parent)
        fsops.replace_file(path, json.dumps(note, separators=(",", ":")).encode())


def _launched(task: _Delegation, output: str) -> ToolOutcome:
    rich = {
        "isAsync": True,
        "status": "async_launched",
        "agentId": task.agent_id,
        "description": task.description,
        "resolvedModel": task.model,
        "prompt": task.prompt,
        "outputFile": output,
    }
    return ToolOutcome([{"type": "text", "text": words("agent_launched", agent=task.agent_id)}], rich)


def _finished(task: _Delegation, result: AgentResult, calls: int) -> ToolOutcome:
    report = "\n".join(f"  {line}" for line in result.text.split("\n"))
    text = words(
        "agent_report",
        report=report,
        agent=task.agent_id,
        tokens=result.spending.tokens.total,
        calls=calls,
        milliseconds=_milliseconds(result),
    )
    rich = {
        "status": "completed",
        "prompt": task.prompt,
        "agentId": task.agent_id,
        "agentType": task.kind,
        "content": [{"type": "text", "text": result.text}],
        "resolvedModel": task.model,
        "totalDurationMs": _milliseconds(result),
        "totalTokens": result.spending.tokens.total,
        "totalToolUseCount": calls,
        "usage": result.usage,
    }
    return ToolOutcome([{"type": "text", "text": text}], rich)


def _milliseconds(result: AgentResult) -> int:
    return round(result.seconds * 1000)
