"""The finding about one part of a call, before the parts are combined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recollect.policy.decision import RuleSource, Verdict
from recollect.policy.rules.rule import Rule

BUILT_IN = "built-in: "
"""Prefix for the name of a built-in rule, which no settings file can switch off."""


@dataclass(frozen=True, slots=True)
class PolicyFinding:
    """A verdict and its reason. ``rule`` is a rule's text, or the name of a built-in one."""

    verdict: Verdict
    why: str
    rule: str | None = None
    source: RuleSource | None = None


def by_rule(rule: Rule, why: str) -> PolicyFinding:
    return PolicyFinding(rule.verdict, why, rule.text, rule.source)


def by_nature(verdict: Verdict, name: str, why: str) -> PolicyFinding:
    """A built-in finding, independent of the settings."""
    return PolicyFinding(verdict, why, BUILT_IN + name)


def strictest(findings: Iterable[PolicyFinding]) -> PolicyFinding | None:
    """The finding that decides: the strictest; of equals one with a rule, then the first."""
    ranked = list(findings)
    if not ranked:
        return None
    return max(ranked, key=lambda finding: (finding.verdict.strictness, finding.rule is not None))
