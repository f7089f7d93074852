"""Decides whether a call may run: deny, then ask, then allow, then the mode (R1); the strictest part
decides.

Denies over-approximate and allows under-approximate. What is not understood is asked about, and a deny
stays a deny whether or not the rest was understood. ``decide`` never raises: a call that cannot be
judged is denied.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from msgspec import structs

from recollect.errors import UsageError
from recollect.guard.policy.bash_judge import BashJudge, Judgement
from recollect.guard.policy.hosts import (
    host_of,
    hosts_suspected,
    is_documentation,
    is_private_host,
    is_single_label,
)
from recollect.guard.policy.path_judge import MemoizedWorld, PathJudge
from recollect.guard.policy.paths import Workspace, collapsed
from recollect.guard.policy.rules import (
    Rule,
    RuleIndex,
    RuleNote,
    RuleProblem,
    about,
    by_itself,
    by_nature,
    by_rule,
    unspoken,
)
from recollect.guard.policy.terms import (
    HARMLESS_TOOLS,
    INTERACTIVE_TOOLS,
    KNOWN_TOOLS,
    PATH_ARGUMENTS,
    READING_TOOLS,
    SAME_TOOL,
    Mode,
    World,
    covers,
    is_mcp,
)
from recollect.model.files.reports import EDITING_TOOLS
from recollect.model.settings.decision import Decision, DecisionPart, Scope, Verdict


class ToolJudge:
    """The rules of an engine, for one decision."""

    def __init__(self, indexes: dict[Verdict, RuleIndex], paths: PathJudge, cwd: str, mode: Mode) -> None:
        self._indexes = indexes
        self._paths = paths
        self._cwd = cwd
        self._mode = mode

    def judge(self, tool: str, arguments: Mapping[str, object]) -> Judgement:
        tool = SAME_TOOL.get(tool, tool)
        for verdict in (Verdict.DENY, Verdict.ASK):
            index = self._indexes[verdict]
            rule = index.whole_tool(tool)
            # The client asks about all agents or none.
            if not rule and not (tool == "Agent" and verdict is Verdict.ASK):
                rule = index.parameter(tool, arguments)
            if not rule and tool in EDITING_TOOLS:
                rule = index.whole_tool("Read")  # a file that may not be read may not be written either (R13)
            if rule and verdict is Verdict.DENY:
                return Judgement((about(tool, by_rule(rule, "the tool is denied")),))
            if rule:
                inner = self._by_kind(tool, arguments)
                asked = about(tool, by_rule(rule, "the tool is asked about"))
                return replace(inner, parts=(asked, *inner.parts))
        return self._by_kind(tool, arguments)

    def _by_kind(self, tool: str, arguments: Mapping[str, object]) -> Judgement:
        if tool == "Bash":
            text = arguments.get("command")
            if not isinstance(text, str):
                return Judgement((about("Bash", _malformed("command")),))
            return BashJudge(self._indexes, self._paths, self._mode).judge(text)
        if tool in READING_TOOLS | EDITING_TOOLS:
            return self._file_tool(tool, arguments)
        if tool == "WebFetch":
            return Judgement((self._fetch(arguments),))
        return Judgement((about(tool, self._plain_tool(tool, arguments)),))

    # Kinds of tools

    def _file_tool(self, tool: str, arguments: Mapping[str, object]) -> Judgement:
        values = [arguments[name] for name in PATH_ARGUMENTS if arguments.get(name) is not None]
        if not values and tool in ("Grep", "Glob", "LS"):
            values = [self._cwd]
        if not values or not all(isinstance(path, str) and path for path in values):
            return Judgement((about(tool, _malformed("path")),))
        paths = [str(path) for path in values] + _searched(tool, arguments)
        parts = tuple(about(path, self._file(tool, path)) for path in paths)
        return Judgement(parts, files=tuple(self._paths.file(path).written for path in paths))

    def _file(self, tool: str, path: str) -> DecisionPart:
        editing = tool in EDITING_TOOLS
        file = self._paths.file(path)
        kinds = ("Edit", "Read") if editing else ("Read",)
        for verdict in (Verdict.DENY, Verdict.ASK):
            rule = self._paths.forbids(verdict, file.forms, kinds)
            if not rule and not editing and any(char in path for char in "*?["):
                rule = self._paths.forbids_glob(verdict, path, self._cwd, kinds)
            if rule:
                return by_rule(rule, f"the rule covers {path}")
            if file.special and verdict is Verdict.DENY and tool not in ("Grep", "Glob", "LS"):
                return by_nature(Verdict.DENY, "not a file", f"{path}: {file.special}")
        if editing:
            return self._write_finding(tool, path) or unspoken(self._mode)
        whole = self._indexes[Verdict.ALLOW].whole_tool(tool)
        if whole:
            return by_rule(whole, "the tool is allowed")
        return self._paths.readable(file) or unspoken(self._mode)

    def _write_finding(self, tool: str, path: str) -> DecisionPart | None:
        file = self._paths.file(path)
        guarded = self._paths.guarded(file)
        if guarded and self._mode is not Mode.BYPASS:
            return guarded
        if self._mode is Mode.PLAN:
            return by_itself(Verdict.ASK, "nothing is changed in plan mode")
        permitted = self._paths.writable(file, edits_run=self._mode.edits_run)
        whole = self._indexes[Verdict.ALLOW].whole_tool(tool)
        if not whole:
            return permitted
        if not permitted and self._mode is not Mode.BYPASS and self._paths.leads_out(file):
            why = f"{path} leads to {file.forms[-1]}"
            return by_nature(Verdict.ASK, "link out of the working directories", why)
        return by_rule(whole, "the tool is allowed")

    def _fetch(self, arguments: Mapping[str, object]) -> DecisionPart:
        url = arguments.get("url")
        if not isinstance(url, str):
            return about("WebFetch", _malformed("url"))
        hosts = hosts_suspected(url)
        for verdict in (Verdict.DENY, Verdict.ASK):
            for _, rule, pattern in self._indexes[verdict].domains:
                if any(map(pattern.matches, hosts)):
                    return about(url, by_rule(rule, "the host matches"))
        plain = host_of(url)
        return about(url, self._private(hosts, plain) or self._host(url, plain))

    def _private(self, hosts: frozenset[str], plain: str | None) -> DecisionPart | None:
        named = {pattern.named for _, _, pattern in self._indexes[Verdict.ALLOW].domains}
        # In a URL that is not plain every word looks like a single label; such a URL is asked about anyway.
        local = {plain} if plain and is_single_label(plain) else set()
        hidden = [host for host in hosts if (is_private_host(host) or host in local) and host not in named]
        if not hidden:
            return None
        why = f"{hidden[0]} is not a public host, and no rule names it"
        return by_nature(Verdict.DENY, "private address", why)

    def _host(self, url: str, host: str | None) -> DecisionPart:
        whole = self._indexes[Verdict.ALLOW].whole_tool("WebFetch")
        if host is None:
            return by_nature(Verdict.ASK, "odd URL", "the URL can be read in more than one way")
        for _, rule, pattern in self._indexes[Verdict.ALLOW].domains:
            if pattern.matches(host):
                return by_rule(rule, "the host matches")
        if whole:
            return by_rule(whole, "the tool is allowed")
        if is_documentation(url):
            return by_itself(Verdict.ALLOW, f"{host} holds documentation")
        return unspoken(self._mode)

    def _plain_tool(self, tool: str, arguments: Mapping[str, object]) -> DecisionPart:
        if tool in INTERACTIVE_TOOLS:
            return by_nature(Verdict.DENY, "no person to ask", f"{tool} needs a person at the terminal")
        if self._mode is Mode.PLAN and (is_mcp(tool) or tool == "Agent"):
            return by_nature(Verdict.ASK, "plan mode", f"{tool} is not run in plan mode without asking")
        allow = self._indexes[Verdict.ALLOW]
        rule = allow.whole_tool(tool) or allow.parameter(tool, arguments)
        if rule:
            return by_rule(rule, "the tool is allowed")
        if tool in HARMLESS_TOOLS:
            return by_itself(Verdict.ALLOW, "the tool touches nothing outside the session")
        return unspoken(self._mode)


def _malformed(name: str) -> DecisionPart:
    return by_nature(Verdict.DENY, "malformed call", f"the call has no usable {name}")


def _searched(tool: str, arguments: Mapping[str, object]) -> list[str]:
    """Glob's pattern may lead out of the directory in ``path``, or to a denied name."""
    pattern = arguments.get("pattern") if tool == "Glob" else arguments.get("glob")
    if tool not in ("Glob", "Grep") or not isinstance(pattern, str) or not pattern:
        return []
    base = arguments.get("path")
    if pattern.startswith(("/", "~")) or not isinstance(base, str):
        return [pattern]
    return [f"{base.rstrip('/')}/{pattern}"]


def seal(tool: str, arguments: Mapping[str, object], cwd: str, files: Iterable[str], world: World) -> str:
    """The hash of everything outside the rules that a decision depends on."""
    named = sorted({cwd, *files})
    try:
        canonical = json.dumps(dict(arguments), sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError):
        canonical = f"not JSON: {type(arguments).__name__}"  # such calls are denied anyway
    states = [[path, world.resolved(path), world.identity(path)] for path in named]
    text = json.dumps([tool, canonical, cwd, states], default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class RuleSet:
    """All rules in force, from every settings file, and the lines that are not valid rules."""

    rules: tuple[Rule, ...] = ()
    problems: tuple[RuleProblem, ...] = ()

    @cached_property
    def trusted(self) -> dict[Verdict, RuleIndex]:
        return _indexes(self.rules)

    @cached_property
    def untrusted(self) -> dict[Verdict, RuleIndex]:
        """The same without the project's own allow rules (R22)."""
        return _indexes(tuple(rule for rule in self.rules if not needs_trust(rule)))


def _indexes(rules: tuple[Rule, ...]) -> dict[Verdict, RuleIndex]:
    return {verdict: RuleIndex(rule for rule in rules if rule.verdict is verdict) for verdict in Verdict}


def needs_trust(rule: Rule) -> bool:
    return rule.verdict is Verdict.ALLOW and rule.source.scope is Scope.PROJECT


class PolicyEngine:
    """One rule set in one workspace in one mode. Cheap to call, and safe from several threads."""

    def __init__(self, rules: RuleSet, workspace: Workspace, mode: Mode, world: World) -> None:
        self.rules = rules
        self.workspace = workspace
        self.mode = mode
        self.world = world
        self._indexes = rules.trusted if workspace.trusted else rules.untrusted
        self._paths = PathJudge.of(self._indexes, workspace, world)

    def working_in(self, workspace: Workspace) -> Self:
        """The same rules and mode in another workspace."""
        other = copy.copy(self)
        PolicyEngine.__init__(other, self.rules, workspace, self.mode, self.world)
        return other

    def decide(self, tool: str, arguments: Mapping[str, object]) -> Decision:
        """The verdict for one call, with the rule behind it. Never raises."""
        world = MemoizedWorld(self.world)
        try:
            judge = ToolJudge(self._indexes, self._paths.seeing(world), self.workspace.cwd, self.mode)
            judged = judge.judge(tool, arguments)
        except Exception as error:  # noqa: BLE001 - any failure here must deny the call
            why = f"the call could not be judged ({type(error).__name__})"
            judged = Judgement((about(str(tool), by_nature(Verdict.DENY, "not judged", why)),))
        return self._decision(str(tool), arguments, judged, world)

    def allows(self, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the call may run without confirmation."""
        return self.decide(tool, arguments).verdict is Verdict.ALLOW

    def explain(self, tool: str, arguments: Mapping[str, object]) -> tuple[RuleNote, ...]:
        """Whether each rule matches the call on its own."""
        return tuple(self._look(rule, tool, arguments) for rule in self.rules.rules)

    def still_holds(self, decision: Decision, tool: str, arguments: Mapping[str, object]) -> bool:
        """Whether the decision was made for this call and the named files are unchanged."""
        return bool(decision.bound_to) and self.decide(tool, arguments).bound_to == decision.bound_to

    def _look(self, rule: Rule, tool: str, arguments: Mapping[str, object]) -> RuleNote:
        if needs_trust(rule) and not self.workspace.trusted:
            return rule.note("a project's allow rules wait for the workspace to be trusted", matched=False)
        alone = PolicyEngine(
            RuleSet((rule,)), replace(self.workspace, trusted=True), Mode.DEFAULT, self.world
        )
        parts = alone.decide(tool, arguments).parts
        found = next((part for part in parts if part.rule == rule.text), None)
        if found:
            return rule.note(found.why, matched=True)
        about = covers(rule.tool, tool) or rule.tool in ("Read", "Edit")
        why = "no part of the call matches" if about else "the rule is for another tool"
        return rule.note(why, matched=False)

    def _decision(
        self, tool: str, arguments: Mapping[str, object], judged: Judgement, world: MemoizedWorld
    ) -> Decision:
        # The strictest decides; of equals one with a rule, then the first.
        nothing = by_nature(Verdict.DENY, "not judged", "nothing was found")
        ranked = sorted(judged.parts, key=lambda part: (-part.verdict.strictness, part.rule is None))
        decisive = ranked[0] if ranked else nothing
        verdict = self.mode.final(decisive.verdict)
        why = decisive.why if verdict is decisive.verdict else f"{decisive.why}, and this mode does not ask"
        cwd = collapsed(self.workspace.cwd)
        return Decision(
            verdict=verdict,
            rule=decisive.rule,
            source=decisive.source,
            why=why,
            parts=judged.parts,
            unanalysable=judged.unanalysable,
            bound_to=seal(tool, arguments, cwd, judged.files, world),
        )


def combine_hook(decision: Decision, hook: Verdict | None) -> Decision:
    """The decision after a hook: it may be stricter, and may allow only what no rule covers (R19)."""
    if hook is None or hook is decision.verdict:
        return decision
    if hook.strictness > decision.verdict.strictness:
        return structs.replace(
            decision, verdict=hook, rule=None, source=None, why=f"a hook says {hook.value}"
        )
    covered = decision.rule is not None or any(
        part.rule and part.verdict is not Verdict.ALLOW for part in decision.parts
    )
    if decision.verdict is Verdict.DENY or covered or hook is not Verdict.ALLOW:
        return decision
    return structs.replace(decision, verdict=Verdict.ALLOW, why="a hook allows it, and no rule forbids it")


_PRIMARY = {
    **dict.fromkeys(("Read", "Edit", "Write", "MultiEdit"), "file_path"),
    **dict.fromkeys(("Grep", "Glob"), "pattern"),
    **dict.fromkeys(("Task", "Agent"), "subagent_type"),
    "Bash": "command",
    "NotebookEdit": "notebook_path",
    "LS": "path",
    "WebFetch": "url",
    "WebSearch": "query",
    "Skill": "skill",
}


def call_of(text: str) -> tuple[str, dict[str, object]]:
    """``Tool(argument)``, ``Tool({json})`` or ``Tool`` as a tool and its arguments."""
    name, bracket, rest = text.strip().partition("(")
    if not name or (bracket and not rest.endswith(")")):
        raise UsageError(
            f"call {text!a}: not understood", hint="write 'Bash(git status)' or 'Read({\"file_path\": …})'"
        )
    argument = rest[:-1] if bracket else ""
    if argument.lstrip().startswith("{"):
        try:
            found = json.loads(argument)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return name, found
    if name not in KNOWN_TOOLS and not is_mcp(name):
        hint = f"for a command write 'Bash({text.strip()})'; for a tool that is not known here {name}({{…}}) with JSON"
        raise UsageError(f"call {text!a}: there is no tool {name!a}", hint=hint)
    if not argument:
        return name, {}
    if name not in _PRIMARY:
        raise UsageError(
            f"call {text!a}: {name} has no single main argument", hint=f"write {name}({{…}}) with JSON"
        )
    return name, {_PRIMARY[name]: argument}
