"""Values of a tool cycle: the call, the question to a person, the outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.policy.decision import Decision
from recollect.storage.todo_transaction import TodoTransaction

Arguments = Mapping[str, Any]


class ToolFailed(Exception):
    """A call that could not be made. ``refused``: it was never started (the client marks those)."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.text, self.refused = text, refused


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The answer to a call: ``content`` for the model, ``rich`` for people (``toolUseResult``).

    ``marks`` are further fields of the line. ``interrupted`` means a request to stop, not a limit. ``todos``
    is a todo list that is stored together with the line.
    """

    content: str | list[dict[str, Any]]
    rich: object
    is_error: bool = False
    denied: bool = False
    interrupted: bool = False
    marks: Mapping[str, object] = field(default_factory=dict)
    todos: TodoTransaction | None = None


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """A decided call: ``still_allowed`` checks again against the current files."""

    id: str
    tool: str
    arguments: Arguments
    cwd: str
    still_allowed: Callable[[], bool]
    asked_by: str | None
    """The entry of the session's log that holds the call; None for a sub-agent's."""

    def require_still_allowed(self) -> None:
        """The last check before anything is done (E10, C07)."""
        if not self.still_allowed():
            raise ToolFailed(
                "The files this call names changed between the decision and the call. Nothing was done."
            )


@dataclass(frozen=True, slots=True)
class PermissionQuestion:
    """A call that a person must approve."""

    tool: str
    arguments: Arguments
    cwd: str
    decision: Decision


Ask = Callable[[PermissionQuestion], bool]


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """An answered call: the entry with the result, and the block for the model."""

    entry_id: str
    block: dict[str, Any]
    outcome: ToolOutcome
    decision: Decision | None
