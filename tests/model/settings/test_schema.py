"""`model.settings.schema`: what client 2.1.325 was seen to accept, drop and ignore (tests/oracle/test_settings.py)."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.model.settings.schema import (
    described,
    dropped,
    faults,
)

IGNORED: list[tuple[dict[str, Any], str, str]] = [
    ({"cleanupPeriodDays": "30"}, "cleanupPeriodDays", "a whole number of at least 1"),
    ({"cleanupPeriodDays": 0}, "cleanupPeriodDays", "a whole number of at least 1"),
    ({"cleanupPeriodDays": 1.5}, "cleanupPeriodDays", "a whole number of at least 1"),
    ({"cleanupPeriodDays": True}, "cleanupPeriodDays", "a whole number of at least 1"),
    ({"model": 4}, "model", "a text"),
    ({"model": None}, "model", "a text"),
    ({"permissions": []}, "permissions", "an object"),
    ({"permissions": {"allow": "Bash"}}, "permissions.allow", "a list"),
    ({"permissions": {"additionalDirectories": ["x", 4]}}, "permissions.additionalDirectories[1]", "a text"),
    ({"enabledMcpjsonServers": ["x", 4]}, "enabledMcpjsonServers[1]", "a text"),
    ({"hooks": {"PreToolUse": "x"}}, "hooks.PreToolUse", "a list"),
    ({"hooks": {"PreToolUse": [4]}}, "hooks.PreToolUse[0]", "an object"),
    ({"hooks": {"PreToolUse": [{"matcher": "x"}]}}, "hooks.PreToolUse[0].hooks", "a list"),
    ({"hooks": {"PreToolUse": [{"matcher": 4, "hooks": []}]}}, "hooks.PreToolUse[0].matcher", "a text"),
    ({"statusLine": {"type": "command"}}, "statusLine", 'an object {"type": "command", "command": text}'),
    ({"sandbox": "x"}, "sandbox", "an object"),
    ({"skillListingBudgetFraction": 2}, "skillListingBudgetFraction", "a number above 0 and up to 1"),
    ({"allowManagedPermissionRulesOnly": "x"}, "allowManagedPermissionRulesOnly", "true or false"),
]


@pytest.mark.parametrize(("document", "key", "expected"), IGNORED)
def test_one_wrong_value_costs_the_file(document: dict[str, Any], key: str, expected: str) -> None:
    """The key and the type it should have."""
    assert [(key, expected)] == [(fault.key, fault.expected) for fault in faults(document)]


@pytest.mark.parametrize("hook", [{"type": "nonsense"}, {"type": "command"}, 4])
def test_a_malformed_hook_costs_the_file(hook: object) -> None:
    """Deny rules stand in the same file as hooks."""
    document = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}

    assert ["hooks.PreToolUse[0].hooks[0]"] == [fault.key for fault in faults(document)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"fromTheFuture": [1, {"a": None}]},
        {"env": {"A": 1, "B": True, "C": None, "D": ["x"]}},
        {"permissions": {"allow": [1], "deny": ["Bash(touch:*)", 5]}},
        {"permissions": {"allow": ["nonsense("]}},
        {"hooks": []},
        {"hooks": {"Nonsense": 4}},
        {"theme": 4, "effortLevel": 4},
        {"attribution": True},
    ],
)
def test_these_do_not_cost_the_file(document: dict[str, Any]) -> None:
    """Unknown keys, any environment, a rule that is none, an unknown event, a few keys that are dropped alone."""
    assert [] == list(faults(document))


def test_what_is_dropped_alone_is_said() -> None:
    """A rule that is no text, a theme that is a number."""
    document = {"permissions": {"deny": ["Bash", 5]}, "theme": 4}

    assert {"permissions.deny[1]", "theme"} == {fault.key for fault in dropped(document)}


def test_values_are_described_and_never_quoted() -> None:
    """Settings hold secrets."""
    values = [None, True, 4, "sk-ant-secret", [1], {"a": 1}]

    assert ["null", "true", "the number 4", "a text", "a list", "an object"] == list(map(described, values))
