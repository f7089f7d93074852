"""Engines for tests, and a world that is only a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recollect.guard.permissions.engine import FileWorld
from recollect.guard.policy.engine import PolicyEngine, RuleSet
from recollect.guard.policy.paths import Workspace
from recollect.guard.policy.rules import Rule, RuleProblem, parse_rule
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import RuleSource, Scope, Verdict

CWD, HOME = "/w/repo", "/home/me"


@dataclass
class TableWorld:
    """Links and special files by name; everything else is plain."""

    links: dict[str, str] = field(default_factory=dict)
    special: set[str] = field(default_factory=set)
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)

    def resolved(self, path: str) -> str:
        for _ in range(20):
            for name, target in self.links.items():
                if path == name or path.startswith(name + "/"):
                    path = target + path[len(name) :]
                    break
            else:
                return path
        return path

    def identity(self, path: str) -> tuple[int, int] | None:
        return self.identities.get(path)

    def is_regular_or_missing(self, path: str) -> bool:
        return self.resolved(path) not in self.special

    def is_directory(self, path: str) -> bool:
        return False

    def names_in(self, path: str) -> frozenset[str] | None:
        return None


def rule(text: str, verdict: str, scope: Scope = Scope.USER, anchor: str | None = None) -> Rule | RuleProblem:
    return parse_rule(text, Verdict(verdict), RuleSource(scope, anchor=anchor))


def rule_set(
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    scope: Scope = Scope.USER,
    anchor: str | None = None,
) -> RuleSet:
    parsed = [
        rule(text, verdict, scope, anchor)
        for verdict, texts in (("allow", allow), ("ask", ask), ("deny", deny))
        for text in texts
    ]
    rules = tuple(each for each in parsed if isinstance(each, Rule))
    return RuleSet(rules, tuple(each for each in parsed if isinstance(each, RuleProblem)))


def engine(
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
    *,
    mode: Mode = Mode.DEFAULT,
    world: TableWorld | FileWorld | None = None,
    scope: Scope = Scope.USER,
    anchor: str | None = None,
    cwd: str = CWD,
    home: str = HOME,
    directories: tuple[str, ...] = (),
    trusted: bool = True,
) -> PolicyEngine:
    workspace = Workspace(cwd, directories, home, trusted)
    return PolicyEngine(rule_set(allow, ask, deny, scope, anchor), workspace, mode, world or TableWorld())


def verdict(made: PolicyEngine, tool: str, arguments: Mapping[str, object] | str) -> str:
    """The verdict as a word. A text is the command of Bash, the path of a file tool, the URL of WebFetch."""
    if isinstance(arguments, str):
        key = {"Bash": "command", "WebFetch": "url", "Grep": "path", "Glob": "path", "LS": "path"}.get(
            tool, "file_path"
        )
        arguments = {key: arguments}
    return made.decide(tool, arguments).verdict.value
