"""Rules that may not do what their author expects: dead, shadowed, misread or too wide.

A warning changes nothing: the rule stays in force as far as it can.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from recollect.policy.decision import Verdict
from recollect.policy.paths.pattern import Anchor, PathPattern
from recollect.policy.rules.any_program import more_than_it_seems
from recollect.policy.rules.command_pattern import CommandPattern
from recollect.policy.rules.hosts import DomainPattern
from recollect.policy.rules.rule import Rule
from recollect.policy.tool_names import KNOWN_TOOLS, covers

_NEVER_BY_PREFIX = frozenset({"watch", "setsid", "ionice", "flock"})
_DEAD_DROPS = (
    "github.com",
    "githubusercontent.com",
    "gitlab.com",
    "pastebin.com",
    "google.com",
    "amazonaws.com",
    "githubapp.com",
    "discord.com",
    "slack.com",
    "telegram.org",
)
_LOOKS_ABSOLUTE = re.compile(r"(?:home|users|etc|var|usr|opt|tmp|root|mnt|private|srv)(?:/|$)", re.IGNORECASE)


class WarningKind(enum.StrEnum):
    """What is unusual about a rule."""

    UNKNOWN_TOOL = "unknown tool"
    SHADOWED = "shadowed"
    DUPLICATE = "duplicate"
    NOT_ABSOLUTE = "not absolute"
    NEVER_COVERS = "never covers"
    TOO_WIDE = "too wide"


@dataclass(frozen=True, slots=True)
class RuleWarning:
    """A warning about one rule. ``other`` is the rule that makes it ineffective."""

    rule: Rule
    kind: WarningKind
    why: str
    other: Rule | None = None

    def __str__(self) -> str:
        return f"{self.rule.verdict.value} {self.rule.text}: {self.why}"


def rule_warnings(rules: Iterable[Rule]) -> tuple[RuleWarning, ...]:
    every = tuple(rules)
    held = [rule for rule in every if rule.verdict is not Verdict.ALLOW]
    seen: dict[tuple[str, Verdict], Rule] = {}
    found: list[RuleWarning] = []
    for rule in every:
        earlier = seen.setdefault((rule.text.strip(), rule.verdict), rule)
        if earlier is not rule:
            found.append(
                RuleWarning(rule, WarningKind.DUPLICATE, "the same rule is also listed elsewhere", earlier)
            )
        found.extend(_of_one(rule))
        found.extend(_shadows(rule, held))
    return tuple(found)


def _shadows(rule: Rule, held: list[Rule]) -> Iterable[RuleWarning]:
    for other in held:
        stricter = other.verdict.strictness > rule.verdict.strictness
        if stricter and _contains(other, rule):
            why = f"{other.verdict.value} {other.text} comes first and covers all of it"
            yield RuleWarning(rule, WarningKind.SHADOWED, why, other)
            return


def _contains(wide: Rule, narrow: Rule) -> bool:
    """Whether the wide rule covers everything the narrow one covers."""
    if not wide.specifiers:
        return covers(wide.tool, narrow.tool)
    if wide.tool != narrow.tool or len(narrow.specifiers) != 1:
        return False
    inner = narrow.specifiers[0]
    for outer in wide.specifiers:
        if outer == inner:
            return True
        # A star of the narrow pattern counts as a letter: only a star of the wide one can match it.
        if isinstance(outer, CommandPattern) and isinstance(inner, CommandPattern):
            return outer.matches(inner.text.replace(":*", " *"))
        if isinstance(outer, DomainPattern) and isinstance(inner, DomainPattern):
            return outer.matches(inner.text)
        if isinstance(outer, PathPattern) and isinstance(inner, PathPattern):
            return outer.anchor is inner.anchor and not inner.floating and outer.matches(inner.body)
    return False


def _of_one(rule: Rule) -> Iterable[RuleWarning]:
    if rule.tool == "Agent" and rule.specifiers and rule.verdict is Verdict.ASK:
        why = "the client asks about all agents or none; write deny, or ask without brackets"
        yield RuleWarning(rule, WarningKind.NEVER_COVERS, why)
    named = rule.tool in KNOWN_TOOLS or "_" in rule.tool or "*" in rule.tool
    if not named and rule.verdict is not Verdict.ALLOW:
        yield RuleWarning(rule, WarningKind.UNKNOWN_TOOL, f"no tool is called {rule.tool}")
    for specifier in rule.specifiers:
        if isinstance(specifier, PathPattern):
            yield from _of_path(rule, specifier)
        elif isinstance(specifier, CommandPattern) and rule.verdict is Verdict.ALLOW:
            yield from _of_command(rule, specifier)
        elif isinstance(specifier, DomainPattern) and rule.verdict is Verdict.ALLOW:
            yield from _of_domain(rule, specifier)
    if rule.tool == "Bash" and not rule.specifiers and rule.verdict is Verdict.ALLOW:
        yield RuleWarning(rule, WarningKind.TOO_WIDE, "every command is allowed")


def _of_path(rule: Rule, pattern: PathPattern) -> Iterable[RuleWarning]:
    if pattern.anchor is Anchor.SOURCE and _LOOKS_ABSOLUTE.match(pattern.body):
        why = f"/{pattern.body} starts at the directory of the settings; write //{pattern.body} for the root"
        yield RuleWarning(rule, WarningKind.NOT_ABSOLUTE, why)


def _of_command(rule: Rule, pattern: CommandPattern) -> Iterable[RuleWarning]:
    if pattern.first_word in _NEVER_BY_PREFIX and pattern.exact is None:
        why = f"{pattern.first_word} runs another command; only a rule for one exact command covers it"
        yield RuleWarning(rule, WarningKind.NEVER_COVERS, why)
    if pattern.exact is not None:
        return
    if pattern.first_word is None:
        yield RuleWarning(rule, WarningKind.TOO_WIDE, "it lets any program run")
    elif pattern.covers_program_only and (found := more_than_it_seems(pattern.first_word)):
        how, narrower = found
        why = f"{pattern.first_word} allows more than it seems: {how}; narrower: {narrower}"
        yield RuleWarning(rule, WarningKind.TOO_WIDE, why)


def _of_domain(rule: Rule, pattern: DomainPattern) -> Iterable[RuleWarning]:
    host = pattern.text.lower().removeprefix("*.")
    if host == "*" or any(host == name or host.endswith("." + name) for name in _DEAD_DROPS):
        yield RuleWarning(rule, WarningKind.TOO_WIDE, "anyone can store and fetch data on such a host")
