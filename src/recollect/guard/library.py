"""Permission decisions for programs: the client's rules, yours, or both.

    from recollect.guard.library import Engine

    engine = Engine(allow=["Bash(git status *)"], deny=["Read(//etc/**)"], cwd="/srv/shop")
    decision = engine.check("Bash(git status && cat /etc/shadow)")
    decision.verdict, decision.rule, decision.why     # deny, "Read(//etc/**)", ...

    Engine.from_settings("/srv/shop")                 # the client's settings in this directory

Deny rules over-approximate, allow rules under-approximate: a call that cannot be understood is asked
about and still checked against every deny. Text rules are a convenience; the boundary is a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from recollect.errors import UsageError
from recollect.guard.permissions.engine import FileWorld, hooks_of, permit
from recollect.guard.policy.engine import PolicyEngine, RuleSet, call_of, combine_hook
from recollect.guard.policy.paths import Workspace
from recollect.guard.policy.rules import RuleNote, RuleProblem, approval_rules, parse_rule
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import Decision, DecisionPart, RuleSource, Scope, Verdict
from recollect.store.home import ClaudeHome
from recollect.system.locations import claude_homes, home_at

__all__ = [
    "Decision",
    "DecisionPart",
    "Engine",
    "Mode",
    "RuleNote",
    "RuleSource",
    "Scope",
    "Verdict",
    "approval_rules",
    "combine_hook",
]


class Engine:
    """Rules, a workspace and a mode that decide about calls.

    ``allow``, ``ask`` and ``deny`` are rules as in the settings. A rule that the client would skip is a
    ``UsageError`` here, because a missing rule must not go unnoticed. ``directories`` may be read and
    edited like ``cwd``. The client's settings do not apply: see ``from_settings``.
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
                raise UsageError(f"rule {rule.rule!a}: {rule.why}", hint=f"correct it: {rule.consequence}")
        kept = tuple(rule for rule in rules if not isinstance(rule, RuleProblem))
        user = str(home or Path.home())
        extra = tuple(str(Path(place, one)) for one in directories)
        workspace = Workspace(place, extra, user, trusted=True, hooks=hooks_of(place, user))
        self._engine: PolicyEngine = PolicyEngine(RuleSet(kept), workspace, Mode(mode), FileWorld())

    @staticmethod
    def from_settings(
        cwd: str | Path = ".",
        *,
        home: str | Path | None = None,
        settings: str | None = None,
        mode: str | None = None,
    ) -> Engine:
        """The rules that apply in a directory, layered as the client does it; ``home`` is a Claude home."""
        # Even if it does not exist: a project has its own settings, and so may the machine.
        root = home_at(home) if home is not None else next(iter(claude_homes()), home_at("~/.claude"))
        engine = Engine(cwd=cwd)
        engine._engine = permit(
            ClaudeHome(root.path, root.config_file), cwd, mode=mode, command_line=settings
        )
        return engine

    def __repr__(self) -> str:
        rules, mode, place = self._engine.rules.rules, self._engine.mode, self._engine.workspace
        return f"<Engine {len(rules)} rules, mode {mode.value}, in {place.cwd}>"

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """Decide one call. Never raises, whatever the arguments hold."""
        return self._engine.decide(tool, arguments)

    def check(self, call: str) -> Decision:
        """Decide a call in text form: ``Bash(git status)``, ``Read({"file_path": ...})``."""
        return self.decide(*call_of(call))

    def allows(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the call may run without confirmation."""
        return self._engine.allows(tool, arguments)

    def explain(self, tool: str, arguments: Mapping[str, object]) -> tuple[RuleNote, ...]:
        """Whether each rule matches the call on its own."""
        return self._engine.explain(tool, arguments)

    def still_holds(self, decision: Decision, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether a decision was made for exactly this call, and the files it names are unchanged."""
        return self._engine.still_holds(decision, tool, arguments)
