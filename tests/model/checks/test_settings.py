"""`model.checks.chain`: one wrongly typed key, and the client ignores the whole file."""

from __future__ import annotations

import pytest

from recollect.model.checks.chain import settings_fault


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"permissions": {"allow": ["Bash(ls:*)"], "deny": [], "defaultMode": "plan"}}',
        '{"permissions": {"deny": ["not a rule("]}}',
        '{"cleanupPeriodDays": 365, "env": {"A": "1"}, "includeCoAuthoredBy": false}',
        '{"fromTheFuture": [1, {"a": null}]}',
    ],
)
def test_settings_that_count(text: str) -> None:
    """Known keys of their type, malformed rules and unknown keys."""
    assert settings_fault(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not an object"),
        ('{"cleanupPeriodDays": "30"}', "cleanupPeriodDays is not a whole number of at least 1"),
        ('{"cleanupPeriodDays": true}', "cleanupPeriodDays is not a whole number of at least 1"),
        ('{"permissions": []}', "permissions is not an object"),
        ('{"permissions": {"allow": "Bash"}}', "permissions.allow is not a list"),
        ('{"model": 4}', "model is not a text"),
    ],
)
def test_settings_that_are_ignored(text: str, why: str) -> None:
    """The reason is told."""
    fault = settings_fault(text.encode())

    assert fault is not None
    assert fault.what.startswith(why)


def test_deny_rules_go_with_the_file() -> None:
    """It is said where there are any, and only there."""
    with_rules = settings_fault(b'{"model": 4, "permissions": {"deny": ["Bash"]}}')
    without = settings_fault(b'{"model": 4}')

    assert [True, False] == [
        fault is not None and "deny rules do not count" in fault.what for fault in (with_rules, without)
    ]
