"""The attack list's sections A and B as data, and the simplest engine that could be built on the analyser."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recollect.policy.analysis import Analysis, Command
from recollect.policy.commands import allow_view, deny_views, file_operands, read_only
from recollect.policy.shell import analyse

_DATA = Path(__file__).parents[2] / "attack"


@dataclass(frozen=True)
class Attack:
    """One case of tests/attack."""

    id: str
    command: str
    expected: str
    source: str
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


def attacks() -> list[Attack]:
    """Every case of shell*.toml and programs*.toml."""
    found = []
    for path in sorted([*_DATA.glob("shell*.toml"), *_DATA.glob("programs*.toml")]):
        for case in tomllib.loads(path.read_text())["case"]:
            text = case.get("prefix", "") * case.get("times", 0) + case["command"]
            rules = {key: tuple(case.get(key, ())) for key in ("allow", "ask", "deny")}
            found.append(Attack(case["id"], text, case["expected"], case["source"], **rules))
    return found


def would_allow(analysis: Analysis, rules: tuple[str, ...]) -> bool:
    """What an engine that trusts the analyser completely would let through."""
    if analysis.unanalysable or not analysis.commands:
        return False
    return all(_covered(command, rules) for command in analysis.commands)


def _covered(command: Command, rules: tuple[str, ...]) -> bool:
    if any(redirect.target and redirect.target.text != "/dev/null" for redirect in command.redirects):
        return False
    view = allow_view(command)
    if view is None or view.assignments or not view.words:
        return False
    return read_only(view) or any(_matches(rule, view) for rule in rules)


def _matches(rule: str, view: Command) -> bool:
    pattern = rule.removeprefix("Bash(").removesuffix(")")
    text = " ".join(word.text if word.text is not None else word.raw for word in view.words)
    if pattern == "*":
        return True
    if pattern.endswith(" *"):
        return text == pattern[:-2] or text.startswith(pattern[:-1])
    return text == pattern


def would_deny(analysis: Analysis, rules: tuple[str, ...]) -> bool:
    """Whether the analyser shows a deny rule what it needs: a name among the suspects, or a file."""
    uses = {
        (use, path.removeprefix("./"))
        for command in analysis.commands
        for view in deny_views(command)
        for use, path in file_operands(view)
    }
    return any(_denied(rule, analysis, uses) for rule in rules)


def _denied(rule: str, analysis: Analysis, uses: set[tuple[str, str]]) -> bool:
    tool, _, inside = rule.partition("(")
    inside = inside.removesuffix(")")
    if tool == "Bash":
        return inside.split()[0] in analysis.suspects
    kinds = {"write"} if tool == "Edit" else {"read", "write"}
    tree = inside.removesuffix("**") if inside.endswith("/**") else None
    return any(
        use in kinds and (path == inside or (tree is not None and path.startswith(tree)))
        for use, path in uses
    )


@cache
def analysed(attack: Attack) -> Analysis:
    """The analysis of the attack's command."""
    return analyse(attack.command)
