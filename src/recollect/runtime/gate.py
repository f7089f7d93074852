"""The permission engine for a session whose directory changes.

A shell keeps its directory between calls, so each command is judged from where it will run. Rules
relative to the working directory stay relative to the session's first one: a deny or ask that applies
there is not lost by a ``cd`` in an earlier call.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from recollect.policy.decision import Decision, Verdict
from recollect.policy.engine import PolicyEngine
from recollect.policy.findings import BUILT_IN
from recollect.policy.tool_names import covers
from recollect.services.permissions.engine import ProjectEngine


class PermissionGate:
    """Decisions about calls, each for the directory it runs in."""

    def __init__(self, engine: PolicyEngine | ProjectEngine) -> None:
        self._permit = engine if isinstance(engine, ProjectEngine) else None
        self.loaded = None if self._permit is None else self._permit.loaded
        self.engine = engine.engine if isinstance(engine, ProjectEngine) else engine
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
        """The decision about one call in ``cwd``."""
        found = self._asked(self._at(tool, cwd), tool, arguments)
        command = arguments.get("command")
        if tool != "Bash" or cwd == self.root or not isinstance(command, str):
            return found
        # As one command with a leading cd, so that rules of the first directory see the paths they cover.
        from_start = self._asked(
            self.engine, tool, {**arguments, "command": f"cd {shlex.quote(cwd)}\n{command}"}
        )
        if from_start.verdict.strictness > found.verdict.strictness and _by_settings(from_start):
            return replace(from_start, bound_to=found.bound_to)
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
            self._moved[cwd] = PolicyEngine(self.engine.rules, moved, self.engine.mode, self.world)
        return self._moved[cwd]

    def _asked(self, engine: PolicyEngine, tool: str, arguments: Mapping[str, Any]) -> Decision:
        if self._permit is None:
            return engine.decide(tool, arguments)
        return replace(self._permit, engine=engine).decide(tool, arguments)


def _by_settings(decision: Decision) -> bool:
    return decision.rule is not None and not decision.rule.startswith(BUILT_IN)
