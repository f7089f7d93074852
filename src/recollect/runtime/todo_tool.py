"""TodoWrite: the whole list is replaced, in the session's own file, together with the result in the log."""

from __future__ import annotations

import json

from recollect.errors import RecollectError
from recollect.model.ids import AgentId, SessionId
from recollect.model.todo import decode_todos
from recollect.runtime import words
from recollect.runtime.outcome import ApprovedCall, ToolFailed, ToolOutcome
from recollect.storage.todo_files import TodoFiles
from recollect.storage.todo_transaction import TodoTransaction

_STATUSES = ("pending", "in_progress", "completed")


class TodoTool:
    """The todo list of one session, or of one sub-agent."""

    def __init__(self, files: TodoFiles, session: SessionId, agent: AgentId | None = None) -> None:
        self._files, self._session, self._agent = files, session, agent
        self._last: list[dict[str, object]] | None = None

    def write(self, call: ApprovedCall) -> ToolOutcome:
        todos = call.arguments.get("todos")
        problem = _problem(todos)
        if problem or not isinstance(todos, list):
            raise ToolFailed(words.invalid("TodoWrite", problem), refused=True)
        call.require_still_allowed()
        try:
            before = self._before()
            items = decode_todos(json.dumps(todos).encode())
            change = TodoTransaction(self._files, self._session, items, self._agent)
        except RecollectError as failure:
            raise ToolFailed(f"The todo list could not be saved: {failure.message}") from failure
        self._last = todos
        return ToolOutcome(words.TODOS_KEPT, {"oldTodos": before, "newTodos": todos}, todos=change)

    def _before(self) -> list[dict[str, object]]:
        if self._last is not None:
            return self._last
        return [
            {"content": item.content, "status": item.status, "activeForm": item.active_form or item.content}
            for item in self._files.read(self._session, self._agent).items
        ]


def _problem(todos: object) -> str:
    if not isinstance(todos, list):
        return "The required parameter `todos` is missing"
    for number, one in enumerate(todos, 1):
        if not isinstance(one, dict) or not isinstance(one.get("content"), str):
            return f"The todo {number} has no `content`"
        if one.get("status") not in _STATUSES:
            return f"The todo {number} has no valid `status`; it is one of {', '.join(_STATUSES)}"
    return ""
