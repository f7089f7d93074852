"""May this call run? Deny, then ask, then allow, then the mode (R1); the strictest part decides.

The law: deny by over-approximation, allow by under-approximation. What is not understood is asked
about, and a deny stays a deny whether or not the rest was understood. ``decide`` never raises: a
call that cannot be judged is denied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from recollect.policy.approvals import approval_rules
from recollect.policy.bash_judge import BashJudge
from recollect.policy.binding import seal
from recollect.policy.decision import Decision, Part, Scope, Verdict
from recollect.policy.findings import BUILT_IN, Finding, by_nature, by_rule, strictest
from recollect.policy.host_rules import host_of, hosts_suspected, is_private_host
from recollect.policy.modes import Mode
from recollect.policy.path_judge import PathJudge, Workspace
from recollect.policy.paths import collapsed
from recollect.policy.rule_index import RuleIndex
from recollect.policy.rules import Rule, RuleProblem
from recollect.policy.tool_names import (
    EDITING_TOOLS,
    HARMLESS_TOOLS,
    PATH_ARGUMENTS,
    READING_TOOLS,
    covers,
)
from recollect.policy.world import World

__all__ = [
    "Engine",
    "Explanation",
    "Mode",
    "RuleLook",
    "RuleSet",
    "Workspace",
    "approval_rules",
    "combine_hook",
]


@dataclass(frozen=True)
class RuleSet:
    """All rules in force, from every settings file, and the lines that are none."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[RuleProblem, ...] = ()

    def managed_only(self) -> RuleSet:
        """The rules that are left when the administrator forbids all others (R20)."""
        return RuleSet(
            tuple(rule for rule in self.rules if rule.source.scope is Scope.MANAGED), self.problems
        )

    @cached_property
    def trusted(self) -> dict[Verdict, RuleIndex]:
        """The rules by verdict, laid out for looking up."""
        return _indexes(self.rules)

    @cached_property
    def untrusted(self) -> dict[Verdict, RuleIndex]:
        """The same without what a project allows itself (R22)."""
        return _indexes(tuple(rule for rule in self.rules if not needs_trust(rule)))


def _indexes(rules: tuple[Rule, ...]) -> dict[Verdict, RuleIndex]:
    return {verdict: RuleIndex(rule for rule in rules if rule.verdict is verdict) for verdict in Verdict}


def needs_trust(rule: Rule) -> bool:
    """Whether the rule gives something away and comes from the project itself."""
    return rule.verdict is Verdict.ALLOW and rule.source.scope is Scope.PROJECT


@dataclass(frozen=True, slots=True)
class RuleLook:
    """One rule, whether it matched, and why."""

    rule: Rule
    matched: bool
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decision, and every rule that was looked at for it."""

    decision: Decision
    looks: tuple[RuleLook, ...]


@dataclass(frozen=True, slots=True)
class _Judged:
    parts: tuple[tuple[str, Finding], ...]
    unanalysable: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


class Engine:
    """One rule set in one workspace in one mode. Cheap to ask, safe to ask from several threads."""

    def __init__(self, rules: RuleSet, workspace: Workspace, mode: Mode, world: World) -> None:
        self.rules = rules
        self.workspace = workspace
        self.mode = mode
        self.world = world
        self._indexes = rules.trusted if workspace.trusted else rules.untrusted
        self._paths = PathJudge(self._indexes, workspace, world)
        self._bash = BashJudge(self._indexes, self._paths, mode)

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """The verdict for one call, with the rule, the parts and the seal."""
        try:
            judged = self._judged(tool, arguments)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in judging, the answer is no
            why = f"the call could not be judged ({type(error).__name__})"
            judged = _Judged(((str(tool), by_nature(Verdict.DENY, "not judged", why)),))
        return self._decision(str(tool), arguments, judged)

    def explain(self, tool: str, arguments: Mapping[str, object]) -> Explanation:
        """The decision, and what each rule said to the call when asked alone."""
        looks = tuple(self._look(rule, tool, arguments) for rule in self.rules.rules)
        return Explanation(self.decide(tool, arguments), looks)

    def still_holds(self, decision: Decision, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the decision was made for this very call, and the files are still the same ones."""
        return bool(decision.bound_to) and self.decide(tool, arguments).bound_to == decision.bound_to

    def _look(self, rule: Rule, tool: str, arguments: Mapping[str, object]) -> RuleLook:
        if needs_trust(rule) and not self.workspace.trusted:
            return RuleLook(rule, False, "a project's allow rules wait for the workspace to be trusted")
        alone = Engine(RuleSet((rule,)), replace(self.workspace, trusted=True), Mode.DEFAULT, self.world)
        parts = alone.decide(tool, arguments).parts
        found = next((part for part in parts if part.rule == rule.text), None)
        if found:
            return RuleLook(rule, True, found.why)
        about = covers(rule.tool, tool) or rule.tool in ("Read", "Edit")
        return RuleLook(rule, False, "no part of the call matches" if about else "it speaks of another tool")

    def _judged(self, tool: str, arguments: Mapping[str, object]) -> _Judged:
        for verdict in (Verdict.DENY, Verdict.ASK):
            index = self._indexes[verdict]
            rule = index.whole_tool(tool) or index.parameter(tool, arguments)
            if not rule and tool in EDITING_TOOLS:
                rule = index.whole_tool("Read")  # who may not read a file may not write it either (R13)
            if rule and verdict is Verdict.DENY:
                return _Judged(((tool, by_rule(rule, "the tool is denied")),))
            if rule:
                inner = self._by_kind(tool, arguments)
                return replace(inner, parts=((tool, by_rule(rule, "the tool is asked about")), *inner.parts))
        return self._by_kind(tool, arguments)

    def _by_kind(self, tool: str, arguments: Mapping[str, object]) -> _Judged:
        if tool == "Bash":
            return self._shell(arguments)
        if tool in READING_TOOLS | EDITING_TOOLS:
            return self._file_tool(tool, arguments)
        if tool == "WebFetch":
            return _Judged((self._fetch(arguments),))
        return _Judged(((tool, self._plain_tool(tool, arguments)),))

    # Kinds of tools

    def _shell(self, arguments: Mapping[str, object]) -> _Judged:
        text = arguments.get("command")
        if not isinstance(text, str):
            return _Judged((("Bash", _malformed("command")),))
        judged = self._bash.judge(text)
        return _Judged(judged.parts, judged.unanalysable, judged.files)

    def _file_tool(self, tool: str, arguments: Mapping[str, object]) -> _Judged:
        given = [arguments[name] for name in PATH_ARGUMENTS if arguments.get(name) is not None]
        if not given and tool in ("Grep", "Glob", "LS"):
            given = [self.workspace.cwd]
        if not given or not all(isinstance(path, str) and path for path in given):
            return _Judged(((tool, _malformed("path")),))
        paths = [str(path) for path in given] + _searched(tool, arguments)
        parts = tuple((path, self._file(tool, path)) for path in paths)
        return _Judged(parts, files=tuple(self._paths.file(path).written for path in paths))

    def _file(self, tool: str, path: str) -> Finding:
        editing = tool in EDITING_TOOLS
        file = self._paths.file(path)
        kinds = ("Edit", "Read") if editing else ("Read",)
        for verdict in (Verdict.DENY, Verdict.ASK):
            rule = self._paths.forbids(verdict, file, kinds)
            if not rule and not editing and any(char in path for char in "*?["):
                rule = self._paths.forbids_glob(verdict, path, self.workspace.cwd, kinds)
            if rule:
                return by_rule(rule, f"{path} is such a file")
            if file.special and verdict is Verdict.DENY and tool not in ("Grep", "Glob", "LS"):
                return by_nature(Verdict.DENY, "not a file", f"{path}: {file.special}")
        found = self._write_finding(tool, path) if editing else self._read_finding(tool, path)
        return found or Finding(self.mode.unspoken(), self._why_unspoken())

    def _read_finding(self, tool: str, path: str) -> Finding | None:
        whole = self._indexes[Verdict.ALLOW].whole_tool(tool)
        return (
            by_rule(whole, "the tool is allowed") if whole else self._paths.readable(self._paths.file(path))
        )

    def _write_finding(self, tool: str, path: str) -> Finding | None:
        file = self._paths.file(path)
        guarded = self._paths.guarded(file)
        if guarded and self.mode is not Mode.BYPASS:
            return guarded
        if self.mode is Mode.PLAN:
            return Finding(Verdict.ASK, "nothing is changed in plan mode")
        whole = self._indexes[Verdict.ALLOW].whole_tool(tool)
        if whole:
            return by_rule(whole, "the tool is allowed")
        return self._paths.writable(file, edits_run=self.mode.edits_run)

    def _fetch(self, arguments: Mapping[str, object]) -> tuple[str, Finding]:
        url = arguments.get("url")
        if not isinstance(url, str):
            return "WebFetch", _malformed("url")
        hosts = hosts_suspected(url)
        for verdict in (Verdict.DENY, Verdict.ASK):
            for _, rule, pattern in self._indexes[verdict].domains:
                if any(map(pattern.matches, hosts)):
                    return url, by_rule(rule, "the host matches")
        return url, self._private(hosts) or self._host(host_of(url))

    def _private(self, hosts: frozenset[str]) -> Finding | None:
        named = {pattern.named for _, _, pattern in self._indexes[Verdict.ALLOW].domains}
        hidden = [host for host in hosts if is_private_host(host) and host not in named]
        if not hidden:
            return None
        why = f"{hidden[0]} is not a public host, and no rule names it"
        return by_nature(Verdict.DENY, "private address", why)

    def _host(self, host: str | None) -> Finding:
        whole = self._indexes[Verdict.ALLOW].whole_tool("WebFetch")
        if host is None:
            return Finding(
                Verdict.ASK, "where the URL leads can be read in more than one way", BUILT_IN + "odd URL"
            )
        for _, rule, pattern in self._indexes[Verdict.ALLOW].domains:
            if pattern.matches(host):
                return by_rule(rule, "the host matches")
        if whole:
            return by_rule(whole, "the tool is allowed")
        return Finding(self.mode.unspoken(), self._why_unspoken())

    def _plain_tool(self, tool: str, arguments: Mapping[str, object]) -> Finding:
        allow = self._indexes[Verdict.ALLOW]
        rule = allow.whole_tool(tool) or allow.parameter(tool, arguments)
        if rule:
            return by_rule(rule, "the tool is allowed")
        if tool in HARMLESS_TOOLS:
            return Finding(Verdict.ALLOW, "the tool touches nothing outside the session")
        return Finding(self.mode.unspoken(), self._why_unspoken())

    def _why_unspoken(self) -> str:
        return "nothing is asked in this mode" if self.mode is Mode.BYPASS else "no rule allows it"

    # Putting together

    def _decision(self, tool: str, arguments: Mapping[str, object], judged: _Judged) -> Decision:
        findings = [finding for _, finding in judged.parts]
        decisive = strictest(findings) or by_nature(Verdict.DENY, "not judged", "nothing was found")
        verdict = self.mode.final(decisive.verdict)
        why = (
            decisive.why
            if verdict is decisive.verdict
            else f"{decisive.why}, and nobody is asked in this mode"
        )
        cwd = collapsed(self.workspace.cwd)
        return Decision(
            verdict=verdict,
            rule=decisive.rule,
            source=decisive.source,
            why=why,
            parts=tuple(
                Part(text, found.verdict, found.rule, found.source, found.why) for text, found in judged.parts
            ),
            unanalysable=judged.unanalysable,
            bound_to=seal(tool, arguments, cwd, judged.files, self.world),
        )


def _malformed(name: str) -> Finding:
    return by_nature(Verdict.DENY, "malformed call", f"the call has no usable {name}")


def _searched(tool: str, arguments: Mapping[str, object]) -> list[str]:
    """Glob's own pattern may lead out of the directory it is asked for, or to a denied name."""
    pattern = arguments.get("pattern") if tool == "Glob" else arguments.get("glob")
    if tool not in ("Glob", "Grep") or not isinstance(pattern, str) or not pattern:
        return []
    base = arguments.get("path")
    if pattern.startswith(("/", "~")) or not isinstance(base, str):
        return [pattern]
    return [f"{base.rstrip('/')}/{pattern}"]


def combine_hook(decision: Decision, hook: Verdict | None) -> Decision:
    """The decision after a hook has spoken: it may hold back, and give only what no rule speaks of (R19)."""
    if hook is None or hook is decision.verdict:
        return decision
    if hook.strictness > decision.verdict.strictness:
        return replace(decision, verdict=hook, rule=None, source=None, why=f"a hook says {hook.value}")
    spoken = decision.rule is not None or any(
        part.rule and part.verdict is not Verdict.ALLOW for part in decision.parts
    )
    if decision.verdict is Verdict.DENY or spoken or hook is not Verdict.ALLOW:
        return decision
    return replace(decision, verdict=Verdict.ALLOW, why="a hook allows it, and no rule holds it back")
