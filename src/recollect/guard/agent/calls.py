"""Calls of tools: the values of one call, the permission engine for a shell that moves, the client's sentences.

A shell keeps its directory between calls, so each command is judged from where it will run. Rules relative to
the working directory stay relative to the session's first one: a deny or ask that applies there is not lost by
a ``cd`` in an earlier call.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from recollect.guard.policy.engine import PolicyEngine
from recollect.guard.policy.rules import BUILT_IN
from recollect.guard.policy.terms import covers
from recollect.model.settings.decision import Decision, Verdict
from recollect.store.todo_files import TodoTransaction

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
    decision: Decision
    still_allowed: Callable[[], bool]
    asked_by: str | None
    """The entry of the session's log that holds the call; None for a sub-agent's."""

    def number(self, name: str) -> float | None:
        """An argument that is a number."""
        value = self.arguments.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def require_still_allowed(self) -> None:
        """The last check before anything is done (E10, C07)."""
        if not self.still_allowed():
            raise ToolFailed(
                "The files this call names changed between the decision and the call. Nothing was done."
            )


Ask = Callable[[ApprovedCall], bool]
"""A person's answer to a call that must be approved."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """An answered call: the entry with the result, and the block for the model."""

    entry_id: str
    block: dict[str, Any]
    outcome: ToolOutcome


class PermissionGate:
    """Decisions about calls, each for the directory it runs in."""

    def __init__(self, engine: PolicyEngine) -> None:
        self.engine = engine
        self.world = self.engine.world
        self._moved: dict[str, PolicyEngine] = {}

    @property
    def root(self) -> str:
        """The session's first directory, links followed."""
        return self.world.resolved(self.engine.workspace.cwd)

    @property
    def roots(self) -> tuple[str, ...]:
        """The working directories of the session, links followed."""
        return (self.root, *(self.world.resolved(one) for one in self.engine.workspace.directories))

    def holds_directory(self, path: str) -> bool:
        """Whether a path, links followed, is in one of them; by components, not by prefix (C01)."""
        real = self.world.resolved(path)
        return any(os.path.commonpath([root, real]) == root for root in self.roots)

    def offers(self, tool: str) -> bool:
        """Whether the model is offered a tool: not where a rule denies every use of it."""
        rules = self.engine.rules.rules
        return not any(
            rule.verdict is Verdict.DENY and not rule.specifiers and covers(rule.tool, tool) for rule in rules
        )

    def decide(self, tool: str, arguments: Mapping[str, Any], cwd: str) -> Decision:
        found = self._at(tool, cwd).decide(tool, arguments)
        command = arguments.get("command")
        if tool != "Bash" or cwd == self.root or not isinstance(command, str):
            return found
        # As one command with a leading cd, so that rules of the first directory see the paths they cover.
        from_start = self.engine.decide(tool, {**arguments, "command": f"cd {shlex.quote(cwd)}\n{command}"})
        if from_start.verdict.strictness > found.verdict.strictness and (
            from_start.rule is not None and not from_start.rule.startswith(BUILT_IN)
        ):
            return structs.replace(from_start, bound_to=found.bound_to)
        return found

    def still_holds(self, decision: Decision, tool: str, arguments: Mapping[str, Any], cwd: str) -> bool:
        """Whether the decision was made for this call and the files are still the same."""
        return self._at(tool, cwd).still_holds(decision, tool, arguments)

    def _at(self, tool: str, cwd: str) -> PolicyEngine:
        if tool != "Bash" or cwd == self.root:
            return self.engine  # file tools name absolute paths
        if cwd not in self._moved:
            workspace = self.engine.workspace
            moved = replace(workspace, cwd=cwd, directories=(*workspace.directories, workspace.cwd))
            self._moved[cwd] = self.engine.working_in(moved)
        return self._moved[cwd]


_WORDS: dict[str, str] = json.loads(Path(__file__).with_name("words.json").read_text("utf-8"))


def words(name: str, **values: object) -> str:
    """A sentence of the client, measured in its transcripts (2.1.325 unless a version is named).

    Models were trained on these sentences, and readers recognise calls by them (``model.conversation.tool_calls``).
    """
    return _WORDS[name].format(**values)


def invalid(tool: str, problem: str) -> ToolFailed:
    return ToolFailed(
        f"InputValidationError: {tool} failed due to the following issue:\n{problem}", refused=True
    )


def updated(path: str, *, everywhere: bool = False, known: bool = True) -> str:
    """``known``: the model has seen the whole file."""
    how = ". All occurrences were successfully replaced." if everywhere else " successfully."
    return f"The file {path} has been updated{how}{words('current') if known else ''}"
