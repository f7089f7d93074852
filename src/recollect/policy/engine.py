"""Decides whether a call may run: deny, then ask, then allow, then the mode (R1); the strictest part
decides.

Denies over-approximate and allows under-approximate. What is not understood is asked about, and a deny
stays a deny whether or not the rest was understood. ``decide`` never raises: a call that cannot be
judged is denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from recollect.policy.binding import seal
from recollect.policy.decision import Decision, DecisionPart, Scope, Verdict
from recollect.policy.findings import by_nature, strictest
from recollect.policy.glance import MemoizedWorld
from recollect.policy.modes import Mode
from recollect.policy.paths.judge import PathJudge, Workspace
from recollect.policy.paths.spelling import collapsed
from recollect.policy.rules.approvals import approval_rules
from recollect.policy.rules.index import RuleIndex
from recollect.policy.rules.rule import Rule, RuleProblem
from recollect.policy.tool_judge import ToolJudge, ToolJudgement
from recollect.policy.tool_names import covers
from recollect.policy.world import World

__all__ = [
    "Explanation",
    "Mode",
    "PolicyEngine",
    "RuleEvaluation",
    "RuleSet",
    "Workspace",
    "approval_rules",
    "combine_hook",
]


@dataclass(frozen=True)
class RuleSet:
    """All rules in force, from every settings file, and the lines that are not valid rules."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[RuleProblem, ...] = ()

    @cached_property
    def trusted(self) -> dict[Verdict, RuleIndex]:
        """The rules of a trusted workspace, indexed by verdict."""
        return _indexes(self.rules)

    @cached_property
    def untrusted(self) -> dict[Verdict, RuleIndex]:
        """The same without the project's own allow rules (R22)."""
        return _indexes(tuple(rule for rule in self.rules if not needs_trust(rule)))


def _indexes(rules: tuple[Rule, ...]) -> dict[Verdict, RuleIndex]:
    return {verdict: RuleIndex(rule for rule in rules if rule.verdict is verdict) for verdict in Verdict}


def needs_trust(rule: Rule) -> bool:
    """Whether it is an allow rule from the project itself."""
    return rule.verdict is Verdict.ALLOW and rule.source.scope is Scope.PROJECT


@dataclass(frozen=True, slots=True)
class RuleEvaluation:
    """One rule, whether it matched, and why."""

    rule: Rule
    matched: bool
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision, and the result of every rule for the same call."""

    decision: Decision
    looks: tuple[RuleEvaluation, ...]


class PolicyEngine:
    """One rule set in one workspace in one mode. Cheap to call, and safe from several threads."""

    def __init__(self, rules: RuleSet, workspace: Workspace, mode: Mode, world: World) -> None:
        self.rules = rules
        self.workspace = workspace
        self.mode = mode
        self.world = world
        self._indexes = rules.trusted if workspace.trusted else rules.untrusted
        self._paths = PathJudge.of(self._indexes, workspace, world)

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """The verdict for one call, with the rule behind it. Never raises."""
        world = MemoizedWorld(self.world)
        try:
            judge = ToolJudge(self._indexes, self._paths.seeing(world), self.workspace.cwd, self.mode)
            judged = judge.judged(tool, arguments)
        except Exception as error:  # noqa: BLE001 - any failure here must deny the call
            why = f"the call could not be judged ({type(error).__name__})"
            judged = ToolJudgement(((str(tool), by_nature(Verdict.DENY, "not judged", why)),))
        return self._decision(str(tool), arguments, judged, world)

    def explain(self, tool: str, arguments: Mapping[str, object]) -> Explanation:
        """The decision, and whether each rule matches the call on its own."""
        looks = tuple(self._look(rule, tool, arguments) for rule in self.rules.rules)
        return Explanation(self.decide(tool, arguments), looks)

    def still_holds(self, decision: Decision, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the decision was made for this call and the named files are unchanged."""
        return bool(decision.bound_to) and self.decide(tool, arguments).bound_to == decision.bound_to

    def _look(self, rule: Rule, tool: str, arguments: Mapping[str, object]) -> RuleEvaluation:
        if needs_trust(rule) and not self.workspace.trusted:
            return RuleEvaluation(rule, False, "a project's allow rules wait for the workspace to be trusted")
        alone = PolicyEngine(
            RuleSet((rule,)), replace(self.workspace, trusted=True), Mode.DEFAULT, self.world
        )
        parts = alone.decide(tool, arguments).parts
        found = next((part for part in parts if part.rule == rule.text), None)
        if found:
            return RuleEvaluation(rule, True, found.why)
        about = covers(rule.tool, tool) or rule.tool in ("Read", "Edit")
        return RuleEvaluation(
            rule, False, "no part of the call matches" if about else "the rule is for another tool"
        )

    def _decision(
        self, tool: str, arguments: Mapping[str, object], judged: ToolJudgement, world: MemoizedWorld
    ) -> Decision:
        findings = [finding for _, finding in judged.parts]
        decisive = strictest(findings) or by_nature(Verdict.DENY, "not judged", "nothing was found")
        verdict = self.mode.final(decisive.verdict)
        why = decisive.why if verdict is decisive.verdict else f"{decisive.why}, and this mode does not ask"
        cwd = collapsed(self.workspace.cwd)
        return Decision(
            verdict=verdict,
            rule=decisive.rule,
            source=decisive.source,
            why=why,
            parts=tuple(
                DecisionPart(text, found.verdict, found.rule, found.source, found.why)
                for text, found in judged.parts
            ),
            unanalysable=judged.unanalysable,
            bound_to=seal(tool, arguments, cwd, judged.files, world),
        )


def combine_hook(decision: Decision, hook: Verdict | None) -> Decision:
    """The decision after a hook: it may be stricter, and may allow only what no rule covers (R19)."""
    if hook is None or hook is decision.verdict:
        return decision
    if hook.strictness > decision.verdict.strictness:
        return replace(decision, verdict=hook, rule=None, source=None, why=f"a hook says {hook.value}")
    covered = decision.rule is not None or any(
        part.rule and part.verdict is not Verdict.ALLOW for part in decision.parts
    )
    if decision.verdict is Verdict.DENY or covered or hook is not Verdict.ALLOW:
        return decision
    return replace(decision, verdict=Verdict.ALLOW, why="a hook allows it, and no rule forbids it")
