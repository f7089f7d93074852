"""Merging copies of the global config: nothing lost, newest first, nothing widened, no value told."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.model.settings.config_merge import (
    differences,
    merged,
    parsed,
)


def test_everything_that_any_copy_has_is_there() -> None:
    """Keys, projects and servers; the newest copy is right where they differ."""
    new = {"theme": "dark", "projects": {"/a": {"lastCost": 2}}, "mcpServers": {"x": {"command": "new"}}}
    old = {
        "theme": "light",
        "numStartups": 9,
        "projects": {"/a": {"lastCost": 1, "lastSessionId": "s"}, "/b": {"lastCost": 3}},
        "mcpServers": {"x": {"command": "old", "args": []}, "y": {"command": "y"}},
    }

    assert {
        "theme": "dark",
        "projects": {"/a": {"lastCost": 2, "lastSessionId": "s"}, "/b": {"lastCost": 3}},
        "mcpServers": {"x": {"command": "new"}, "y": {"command": "y"}},
        "numStartups": 9,
    } == merged([new, old])


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ({"hasTrustDialogAccepted": True}, {"hasTrustDialogAccepted": False}, False),
        ({"hasTrustDialogAccepted": False}, {"hasTrustDialogAccepted": True}, False),
        ({"hasTrustDialogAccepted": True}, {"hasTrustDialogAccepted": True}, True),
        ({}, {"hasTrustDialogAccepted": True}, True),
        ({"hasTrustDialogAccepted": "yes"}, {"hasTrustDialogAccepted": True}, "yes"),
    ],
)
def test_trust_is_never_widened(new: dict[str, Any], old: dict[str, Any], expected: object) -> None:
    """One copy that withholds it is enough; trust that only an older copy knows is brought back."""
    result = merged([{"projects": {"/a": new}}, {"projects": {"/a": old}}])

    assert {"projects": {"/a": {"hasTrustDialogAccepted": expected}}} == result


def test_approvals_shrink_and_refusals_grow() -> None:
    """What one copy refuses is not approved, whatever the others say."""
    new = {"enabledMcpjsonServers": ["a", "b", "c"], "disabledMcpjsonServers": ["x"], "allowedTools": ["R"]}
    old = {"enabledMcpjsonServers": ["a", "c", "d"], "disabledMcpjsonServers": ["c"], "allowedTools": ["W"]}

    assert {
        "enabledMcpjsonServers": ["a"],
        "disabledMcpjsonServers": ["x", "c"],
        "allowedTools": [],
    } == merged([new, old])


def test_approved_keys_shrink_too() -> None:
    """The ends of API keys that may be used."""
    new = {"customApiKeyResponses": {"approved": ["k1", "k2"], "rejected": []}}
    old = {"customApiKeyResponses": {"approved": ["k1", "k2"], "rejected": ["k2"]}}

    assert {"customApiKeyResponses": {"approved": ["k1"], "rejected": ["k2"]}} == merged([new, old])


def test_who_has_logged_out_stays_logged_out() -> None:
    """Secrets of older copies do not come back where the newest file is sound."""
    new: dict[str, Any] = {"theme": "dark"}
    old = {"primaryApiKey": "sk-1", "oauthAccount": {"a": 1}, "tips": 1}

    assert {"theme": "dark", "tips": 1} == merged([new, old], keep_secrets_of_first=True)
    assert {"theme": "dark", **old} == merged([new, old])


def test_differences_are_keys() -> None:
    """With the way to them; secrets are marked."""
    old = {"a": 1, "c": 1, "projects": {"/p": {"x": 1, "mcpServers": {"s": {"env": {"T": "1"}}}}}}
    new = {
        "a": 2,
        "primaryApiKey": "sk-1",
        "projects": {"/p": {"x": 2, "mcpServers": {"s": {"env": {"T": "2"}}}}, "/q": {}},
    }

    assert [
        (("a",), "changed", False),
        (("primaryApiKey",), "added", True),
        (("projects", "/p", "x"), "changed", False),
        (("projects", "/p", "mcpServers", "s"), "changed", False),
        (("projects", "/q"), "added", False),
        (("c",), "removed", False),
    ] == [(one.path, one.how, one.is_secret) for one in differences(old, new)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b'{"primaryApiKey": "sk-secret', "not JSON"),
        (b'{"a":1}{"a":1}', "not JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "nested"),
        (b'{"a": "\xff"}', "not JSON"),
    ],
)
def test_what_cannot_be_read_is_said_without_quoting_it(data: bytes, why: str) -> None:
    """The file may hold secrets."""
    problem = parsed(data)
    assert isinstance(problem, str)

    assert (True, False) == (why in problem, "sk-secret" in problem)
