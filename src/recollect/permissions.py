"""Permission decisions for programs: the client's rules, yours, or both.

    from recollect.permissions import Engine

    engine = Engine(allow=["Bash(git status *)"], deny=["Read(//etc/**)"], cwd="/srv/shop")
    decision = engine.check("Bash(git status && cat /etc/shadow)")
    decision.verdict, decision.rule, decision.why     # deny, "Read(//etc/**)", ...

    Engine.from_settings("/srv/shop")                 # what the client's settings say there

Deny holds by over-approximation, allow by under-approximation: what cannot be understood is asked about, and
still meets every deny. Text rules are a convenience; the boundary is a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from recollect.errors import UsageError
from recollect.policy.command_pattern import CommandPattern
from recollect.policy.decision import Decision, DecisionPart, RuleSource, Scope, Verdict
from recollect.policy.engine import (
    Explanation,
    Mode,
    PolicyEngine,
    RuleEvaluation,
    RuleSet,
    Workspace,
    approval_rules,
    combine_hook,
)
from recollect.policy.host_rules import DomainPattern
from recollect.policy.path_pattern import Anchor, PathPattern
from recollect.policy.rules import ParameterPattern, Rule, RuleProblem, parse_rule
from recollect.services.permissions.engine import ProjectEngine, call_of, permit
from recollect.services.permissions.file_world import FileWorld
from recollect.storage.home import ClaudeHome
from recollect.system.locations import claude_homes, home_at

__all__ = [
    "Anchor",
    "CommandPattern",
    "Decision",
    "DecisionPart",
    "DomainPattern",
    "Engine",
    "Explanation",
    "Mode",
    "ParameterPattern",
    "PathPattern",
    "Rule",
    "RuleEvaluation",
    "RuleSource",
    "Scope",
    "Verdict",
    "approval_rules",
    "combine_hook",
]


class Engine:
    """Rules, a workspace and a mode; ask it about calls.

    ``allow``, ``ask`` and ``deny`` are rules as settings spell them; one that the client would skip is a
    ``UsageError`` here, because a rule that was meant must not be missing quietly. ``directories`` may be
    read and edited like ``cwd``. Nothing of the client's settings counts: see ``from_settings``.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        cwd: str | Path = ".",
        directories: Sequence[str | Path] = (),
        mode: str = "default",
        home: str | Path | None = None,
    ) -> None:
        place = os.path.realpath(cwd)
        source = RuleSource(Scope.COMMAND_LINE, anchor=place)
        given = ((Verdict.ALLOW, allow), (Verdict.ASK, ask), (Verdict.DENY, deny))
        rules = [parse_rule(text, verdict, source) for verdict, texts in given for text in texts]
        for rule in rules:
            if isinstance(rule, RuleProblem):
                raise UsageError(f"rule {rule.text!a}: {rule.why}", hint=f"correct it: {rule.consequence}")
        kept = tuple(rule for rule in rules if not isinstance(rule, RuleProblem))
        workspace = Workspace(
            place, tuple(str(Path(place, one)) for one in directories), str(home or Path.home()), trusted=True
        )
        self._engine: PolicyEngine | ProjectEngine = PolicyEngine(
            RuleSet(kept), workspace, Mode(mode), FileWorld()
        )

    @staticmethod
    def from_settings(
        cwd: str | Path = ".",
        *,
        home: str | Path | None = None,
        settings: str | None = None,
        mode: str | None = None,
    ) -> Engine:
        """The rules that count in a directory, as the client layers them; ``home`` is a Claude home."""
        # There or not: a project has settings of its own, and so may the machine.
        root = home_at(home) if home is not None else next(iter(claude_homes()), home_at("~/.claude"))
        where = ClaudeHome(root.path, root.config_file)
        return _SettingsEngine(permit(where, cwd, mode=mode, command_line=settings))

    def __repr__(self) -> str:
        engine = self._engine.engine if isinstance(self._engine, ProjectEngine) else self._engine
        return (
            f"<Engine {len(engine.rules.rules)} rules, mode {engine.mode.value}, in {engine.workspace.cwd}>"
        )

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """May this call run? Never raises for whatever the arguments hold."""
        return self._engine.decide(tool, arguments)

    def check(self, call: str) -> Decision:
        """The same for a call as people write it: ``Bash(git status)``, ``Read({"file_path": ...})``."""
        return self.decide(*call_of(call))

    def allows(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the call may run without a question."""
        return self.decide(tool, arguments).verdict is Verdict.ALLOW

    def explain(self, tool: str, arguments: Mapping[str, object]) -> Explanation:
        """The decision, and what every rule said to the call."""
        return self._engine.explain(tool, arguments)

    def still_holds(self, decision: Decision, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether a decision was made for this very call, and the files it names are still the same."""
        engine = self._engine.engine if isinstance(self._engine, ProjectEngine) else self._engine
        return engine.still_holds(decision, tool, arguments)


class _SettingsEngine(Engine):
    """An engine made from settings instead of lists."""

    def __init__(self, made: ProjectEngine) -> None:
        # It has all it needs already, so the constructor of the base class is not called.
        self._engine = made
