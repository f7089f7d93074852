"""One tool call: decide, run, log.

    runner = ToolRunner(log, permit, home=home)
    ran = runner.run(block)          # the tool_use block of an answer
    messages.append({"role": "user", "content": [ran.block]})

Deny is a refusal. Ask is a refusal too, as in the client's print mode, unless ``ask`` is given and
approves. Right before a tool acts, the decision is checked against the call and the files again.
Exactly one result is appended per call, because the client invents one for a call without a result.
Only failures of the log itself are raised.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from recollect.errors import RecollectError
from recollect.guard.agent.bash_tool import BackgroundTasks, BashTool
from recollect.guard.agent.calls import (
    AnsweredCall,
    ApprovedCall,
    Ask,
    PermissionGate,
    ToolFailed,
    ToolOutcome,
    invalid,
    words,
)
from recollect.guard.agent.files import FileHistory, FileTools
from recollect.guard.agent.model import McpTools, Stopped
from recollect.guard.agent.search import GREP, SearchTools
from recollect.guard.agent.sessions import AgentLog, put
from recollect.guard.policy.engine import PolicyEngine
from recollect.guard.policy.terms import is_mcp
from recollect.guard.sandbox import Confinement, RunLimits
from recollect.model.cost.money import Spending
from recollect.model.files.reports import EDITING_TOOLS
from recollect.model.lines import draft
from recollect.model.lines.blocks import Tokens, ToolUseBlock
from recollect.model.lines.ids import AgentId, SessionId
from recollect.model.lines.json_text import loose_value
from recollect.model.settings.decision import Verdict
from recollect.model.todo import decode_todos
from recollect.store.home import ClaudeHome
from recollect.store.store import SessionLog, marked
from recollect.store.todo_files import TodoFiles, TodoTransaction

_STATUSES = ("pending", "in_progress", "completed")


class TodoTool:
    """The todo list of one session, or of one sub-agent."""

    def __init__(self, files: TodoFiles, session: SessionId, agent: AgentId | None = None) -> None:
        self._files, self._session, self._agent = files, session, agent
        self._last: list[dict[str, object]] | None = None

    def write(self, call: ApprovedCall) -> ToolOutcome:
        todos = call.arguments.get("todos")
        if not isinstance(todos, list):
            raise invalid("TodoWrite", "The required parameter `todos` is missing")
        for number, one in enumerate(todos, 1):
            if not isinstance(one, dict) or not isinstance(one.get("content"), str):
                raise invalid("TodoWrite", f"The todo {number} has no `content`")
            if one.get("status") not in _STATUSES:
                known = ", ".join(_STATUSES)
                raise invalid("TodoWrite", f"The todo {number} has no valid `status`; it is one of {known}")
        call.require_still_allowed()
        try:
            before = self._before()
            items = decode_todos(json.dumps(todos).encode())
            change = TodoTransaction(self._files, self._session, items, self._agent)
        except RecollectError as failure:
            raise ToolFailed(f"The todo list could not be saved: {failure.message}") from failure
        self._last = todos
        return ToolOutcome(words("todos_kept"), {"oldTodos": before, "newTodos": todos}, todos=change)

    def _before(self) -> list[dict[str, object]]:
        if self._last is not None:
            return self._last
        return [
            {"content": item.content, "status": item.status, "activeForm": item.active_form or item.content}
            for item in self._files.read(self._session, self._agent).items
        ]


_PATHS = {"Read": "file_path", "Write": "file_path", "Edit": "file_path", "Glob": "path", "Grep": "path"}
_Run = Callable[[ApprovedCall], ToolOutcome]


class ToolRunner:
    """The tools of one session. Use it in one thread; ``cancelled`` may be set from another.

    ``delegate`` answers calls of the Agent tool (``SubAgents.run``); without it there is no such tool.
    ``close`` ends what works in the background.
    """

    delegate: Callable[[ApprovedCall, ToolRunner], ToolOutcome] | None = None

    def __init__(
        self,
        log: SessionLog,
        engine: PolicyEngine | PermissionGate,
        *,
        home: ClaudeHome | None = None,
        ask: Ask | None = None,
        mcp: McpTools | None = None,
        confinement: Confinement | None = None,
        limits: RunLimits | None = None,
        cancelled: threading.Event | None = None,
        parent: ToolRunner | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        # A log of the claude layout is at <root>/projects/<key>/<session>.jsonl.
        home = home or ClaudeHome(log.path.parents[2])
        self._log, self._home, self._ask, self._mcp = log, home, ask, mcp
        self._confinement, self._limits = confinement or Confinement(), limits or RunLimits()
        self.is_sub_agent = parent is not None
        self.calls = 0
        self.side_spending = Spending(Tokens())
        self._adding = threading.Lock()
        self.gate = engine if isinstance(engine, PermissionGate) else PermissionGate(engine)
        self.cancelled = cancelled or threading.Event()
        self.history: FileHistory = FileHistory(log, home, self.gate) if parent is None else parent.history
        self.results: Path = log.path.with_suffix("") / "tool-results" if parent is None else parent.results
        self.background = BackgroundTasks(self.results)
        self._bash = BashTool(
            self.gate,
            self._confinement,
            self._limits,
            self.results,
            self.cancelled,
            background=None if self.is_sub_agent else self.background,
        )
        self._files = FileTools(self.gate, self.history)
        self._search = SearchTools(self.gate, self._confinement, self.cancelled)
        self._todos = TodoTool(TodoFiles(home), log.id, log.place.agent)
        self._tools: dict[str, _Run] = {
            "Bash": self._bash.run,
            "Read": self._files.read,
            "Write": self._files.write,
            "Edit": self._files.edit,
            "Glob": self._search.glob,
            **({"Grep": self._search.grep} if GREP else {}),
            "TodoWrite": self._todos.write,
        }
        if not self.is_sub_agent:
            self._tools |= {
                "TaskOutput": lambda call: self.background.output(call, self.cancelled),
                "TaskStop": self.background.end,
                "Agent": self._delegated,
            }
        if only is not None:
            self._tools = {name: run for name, run in self._tools.items() if name in only}

    @property
    def cwd(self) -> str:
        return self._bash.cwd

    @property
    def names(self) -> list[str]:
        """The built-in tools that a model may be offered."""
        return [name for name in self._tools if self._has(name)]

    def _has(self, tool: str) -> bool:
        known = tool in self._tools and (tool != "Agent" or self.delegate is not None)
        return known and self.gate.offers(tool)

    def for_sub_agent(
        self, log: AgentLog, cancelled: threading.Event, only: Collection[str] | None
    ) -> ToolRunner:
        """The tools of a sub-agent: the same rules and limits, and its changes of files belong to this turn."""
        return ToolRunner(
            log,
            self.gate,
            home=self._home,
            ask=self._ask,
            mcp=self._mcp if only is None else None,
            confinement=self._confinement,
            limits=self._limits,
            cancelled=cancelled,
            parent=self,
            only=only,
        )

    def add_spending(self, spent: Spending) -> None:
        """What was spent beside the session's own log, by sub-agents and summaries."""
        with self._adding:
            self.side_spending += spent

    def run(self, block: ToolUseBlock | Mapping[str, Any], *, asked_by: str | None = None) -> AnsweredCall:
        """Decide a call, run it, and append its result. ``asked_by`` is the entry of the call."""
        call_id, tool, arguments = _asked(block)
        cwd = self.cwd
        self.calls += 1
        try:
            arguments = _checked(tool, arguments, cwd)
            run = self._tool(tool)
            decision = self.gate.decide(tool, arguments, cwd)
            still = functools.partial(self.gate.still_holds, decision, tool, arguments, cwd)
            # Backups are noted in the session's own log, where a sub-agent's entries are not known.
            named = None if self.is_sub_agent else asked_by
            call = ApprovedCall(call_id, tool, arguments, cwd, decision, still, named)
            outcome = self._refused(call) or run(call)
        except ToolFailed as failure:
            outcome = _failed(failure)
        except Stopped:
            outcome = rejection()
        return self._written(call_id, tool, outcome, asked_by)

    def reject(self, block: ToolUseBlock | Mapping[str, Any], *, asked_by: str | None = None) -> AnsweredCall:
        """Log that a call was not made because the run was stopped."""
        call_id, tool, _ = _asked(block)
        return self._written(call_id, tool, rejection(), asked_by)

    def fail(
        self, block: ToolUseBlock | Mapping[str, Any], why: str, *, asked_by: str | None = None
    ) -> AnsweredCall:
        call_id, tool, _ = _asked(block)
        return self._written(call_id, tool, _failed(ToolFailed(why, refused=True)), asked_by)

    def _tool(self, tool: str) -> _Run:
        if self._has(tool):
            return self._tools[tool]
        if is_mcp(tool) and self._mcp is not None and self.gate.offers(tool):
            mcp = self._mcp
            return lambda call: mcp.call(call, self.cancelled)
        raise ToolFailed(words("no_such_tool", tool=tool), refused=True)

    def _delegated(self, call: ApprovedCall) -> ToolOutcome:
        if self.delegate is None:
            raise ToolFailed(words("no_such_tool", tool=call.tool), refused=True)
        return self.delegate(call, self)

    def _refused(self, call: ApprovedCall) -> ToolOutcome | None:
        """None where the call may be made, else the answer."""
        if self.cancelled.is_set():
            return rejection()
        if call.decision.verdict is Verdict.ALLOW:
            return None
        if call.decision.verdict is Verdict.ASK and self._ask is not None:
            # Each tool checks the decision again before it acts, since approval takes time (E10).
            return None if self._ask(call) else rejection()
        return _denial(call)

    def _written(self, call_id: str, tool: str, outcome: ToolOutcome, asked_by: str | None) -> AnsweredCall:
        result = draft.tool_result(call_id, outcome.content, outcome.is_error, outcome.rich, tool=tool)
        line = marked(result, sourceToolAssistantUUID=asked_by, **outcome.marks)
        (entry_id,) = put(self._log, line if outcome.todos is None else outcome.todos.draft(line))
        if outcome.todos is not None:
            outcome.todos.finish()
        if isinstance(self._log, AgentLog):
            self._log.place = structs.replace(self._log.place, cwd=self.cwd)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": outcome.content}
        if outcome.is_error:
            block["is_error"] = True
        return AnsweredCall(entry_id, block, outcome)


def rejection() -> ToolOutcome:
    """What the client writes for a call that a person stopped or refused."""
    return ToolOutcome(
        words("rejected"),
        words("rejected_rich"),
        True,
        denied=True,
        interrupted=True,
        marks={"toolDenialKind": "user-rejected"},
    )


def _denial(call: ApprovedCall) -> ToolOutcome:
    """The client's sentences for a refusal without a person to ask."""
    decision, tool, kind = call.decision, call.tool, "user-rejected"
    path, command = call.arguments.get("file_path"), call.arguments.get("command")
    if decision.verdict is Verdict.DENY:
        what = f"{tool} with command {command}" if tool == "Bash" and command is not None else tool
        text, kind = f"Permission to use {what} has been denied.", "permission-rule"
    elif tool == "Bash":
        parts = [part.text for part in decision.parts if part.verdict is not Verdict.ALLOW]
        listed = f"The following parts require approval: {', '.join(parts)}"
        text = f"This Bash command contains multiple operations. {listed}"
        text = text if len(parts) > 1 else "This command requires approval"
    else:
        what = f"use {tool}"
        if isinstance(path, str):
            what = f"{'write to' if tool in EDITING_TOOLS else 'read from'} {path}"
        text = f"Claude requested permissions to {what}, but you haven't granted it yet."
    return ToolOutcome(text, f"Error: {text}", True, denied=True, marks={"toolDenialKind": kind})


def _failed(failure: ToolFailed) -> ToolOutcome:
    content = words("tool_error", text=failure.text) if failure.refused else failure.text
    return ToolOutcome(content, f"Error: {failure.text.removeprefix('Error: ')}", True)


def _asked(block: ToolUseBlock | Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    if isinstance(block, ToolUseBlock):
        raw = loose_value(block.input)
        return block.id, block.name, raw if isinstance(raw, dict) else {}
    arguments = block.get("input")
    return str(block.get("id")), str(block.get("name")), arguments if isinstance(arguments, Mapping) else {}


def _checked(tool: str, arguments: Mapping[str, Any], cwd: str) -> Mapping[str, Any]:
    """The arguments that are decided and used: plain JSON, with absolute paths."""
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise invalid(tool, "The input is not plain JSON") from None
    name = _PATHS.get(tool, "")
    path = arguments.get(name)
    if path is None and name == "path":
        path = cwd
    if not name or not isinstance(path, str):
        return arguments
    if not path or "\0" in path:
        raise invalid(tool, f"The parameter `{name}` names no file")
    whole = Path.home() / path[2:] if path.startswith("~/") else Path(cwd) / path
    # ".." is resolved by name, as the rules do: a link before it must not lead elsewhere (C03).
    return {**arguments, name: os.path.normpath(whole)}
