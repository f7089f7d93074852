"""`change.settings`: the layers of a directory, what .claude.json says of it, and changing one key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from recollect.change.settings import settings
from recollect.change.settings.settings import LoadedSettings
from recollect.errors import UsageError
from recollect.guard.permissions.engine import require_rules, rules_of
from recollect.guard.policy.rules import Rule
from recollect.model.settings.decision import Scope
from tests.permission_home import NO_MANAGED, Place, place, rules
from tests.store.test_git_index import git

__all__ = ["place"]


def load(place: Place, **more: Any) -> LoadedSettings:
    return settings.loaded(place.home, place.project, managed=more.pop("managed", NO_MANAGED), **more)


def test_all_five_layers_are_read(place: Place, tmp_path: Path) -> None:
    """Each in its own file; the strongest gives the value."""
    managed = place.write(tmp_path / "managed.json", {"language": "managed"})
    place.user({"language": "user", "model": "user"})
    place.shared({"language": "project", "model": "project"})
    place.local({"language": "local", "outputStyle": "local"})
    found = load(place, managed=managed, command_line='{"language": "line", "outputStyle": "line"}').settings

    assert ("managed", "line", "project") == tuple(map(found.value, ("language", "outputStyle", "model")))
    assert str(managed) == found.of("language")[0].origin.path


def test_the_command_line_may_name_a_file(place: Place, tmp_path: Path) -> None:
    """As the client's --settings; a file that is not there is a usage error."""
    file = place.write(tmp_path / "extra.json", {"model": "extra"})

    assert "extra" == load(place, command_line=str(file)).settings.value("model")
    with pytest.raises(UsageError):
        load(place, command_line=str(tmp_path / "missing.json"))


def test_a_file_that_cannot_be_read_is_a_problem_and_not_the_end(place: Place) -> None:
    """Here a directory stands in its place; the other layers are read."""
    (place.home.root / "settings.json").mkdir()
    place.local({"model": "local"})
    found = load(place)

    assert ("local", ["user"]) == (found.settings.value("model"), [layer.scope for layer in found.unreadable])


# ---- .claude.json ------------------------------------------------------------------------------------------


def test_what_the_global_config_says_of_a_project(place: Place) -> None:
    """Trust, servers, and rules that have no effect."""
    place.trust(
        allowedTools=["Bash(ls:*)"],
        mcpServers={"own": {"command": "x", "env": {"TOKEN": "secret"}}},
        enabledMcpjsonServers=["a"],
        disabledMcpjsonServers=["b"],
    )
    facts = load(place).project

    assert (True, ("Bash(ls:*)",), ("own",), ("a",), ("b",)) == (
        facts.trusted,
        facts.allowed_tools,
        facts.servers,
        facts.enabled_servers,
        facts.disabled_servers,
    )
    assert [] == list(rules_of(load(place).layers))


@pytest.mark.parametrize("value", ["true", 1, None, [True]])
def test_only_true_is_trust(place: Place, value: object) -> None:
    """Not a text, not a number."""
    place.write(
        place.root / ".claude.json", {"projects": {str(place.project): {"hasTrustDialogAccepted": value}}}
    )

    assert not load(place).project.trusted


def test_trusting_a_parent_does_not_trust_what_is_inside(place: Place) -> None:
    """A project is trusted by its own path (R22)."""
    place.trust()
    inner = place.project / "vendor" / "lib"
    inner.mkdir(parents=True)

    assert not settings.loaded(place.home, inner, managed=NO_MANAGED).project.trusted


def test_trust_belongs_to_the_directory_and_not_to_a_name_for_it(place: Place) -> None:
    """A link to a trusted directory is that directory; a link put where a trusted one was is not."""
    place.trust()
    name = place.root / "name"
    name.symlink_to(place.project)
    evil = place.root / "evil"
    evil.mkdir()
    swapped = place.root / "swapped"
    swapped.symlink_to(evil)

    trusted = [
        settings.loaded(place.home, one, managed=NO_MANAGED).project.trusted for one in (name, swapped)
    ]
    assert [True, False] == trusted


@pytest.mark.parametrize("text", ["", "{", "[]", '{"projects": []}'])
def test_a_broken_config_trusts_nothing(place: Place, text: str) -> None:
    """And the settings are still read."""
    place.write(place.root / ".claude.json", text)

    assert not load(place).project.trusted


# ---- rules -------------------------------------------------------------------------------------------------


def found_rules(place: Place) -> list[tuple[str, str, Scope, int | None]]:
    found = rules_of(load(place).layers)
    return [
        (one.verdict.value, one.text, one.source.scope, one.source.line)
        for one in found
        if isinstance(one, Rule)
    ]


def test_no_program_is_started_to_find_that_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository names hooks and filters that git would run (E03)."""
    git(place.project, "init", "-q")
    place.local(rules(allow=["Bash(make)"]))
    git(place.project, "add", "-f", ".")
    for name in ("fork", "posix_spawn", "execv", "execve"):
        monkeypatch.setattr(os, name, None)
    monkeypatch.setattr("subprocess.Popen", None)

    assert Scope.PROJECT is found_rules(place)[0][2]


# ---- changing ----------------------------------------------------------------------------------------------


def plan(
    place: Place, key: str, value: object = None, how: settings.How = "set", scope: str = "user"
) -> settings.SettingChange:
    require_rules(tuple(key.split(".")), value, how)
    return settings.planned(place.home, place.project, scope, key, value, how=how)


@pytest.mark.parametrize(("scope", "name"), [("project", "settings.json"), ("local", "settings.local.json")])
def test_a_missing_file_is_made_for_its_owner_alone(place: Place, scope: str, name: str) -> None:
    """With its directory; mode 0600."""
    settings.changed(plan(place, "permissions.deny", "Bash(rm *)", "add", scope).plan, place.root / "own")
    file = place.project / ".claude" / name

    assert ('{\n  "permissions": {\n    "deny": [\n      "Bash(rm *)"\n    ]\n  }\n}\n', 0o600) == (
        file.read_text(),
        file.stat().st_mode & 0o777,
    )


def test_nothing_is_planned_where_the_file_says_so_already(place: Place) -> None:
    """Adding a rule twice, removing one that is not there."""
    place.user(rules(deny=["Bash(rm *)"]))
    plans = [
        plan(place, "permissions.deny", "Bash(rm *)", "add"),
        plan(place, "permissions.deny", "Bash(x)", "remove"),
        plan(place, "model", how="unset"),
    ]

    assert [None, None, None] == [one.plan for one in plans]


def test_a_faulty_file_can_be_mended_key_by_key(place: Place) -> None:
    """Two faults, mended one after the other; a third is refused meanwhile."""
    place.user({"model": 4, "cleanupPeriodDays": "30"})
    with pytest.raises(UsageError):
        plan(place, "language", 4)
    settings.changed(plan(place, "model", "m").plan, place.root / "own")
    settings.changed(plan(place, "cleanupPeriodDays", 30).plan, place.root / "own")

    assert [] == load(place).problems


@pytest.mark.parametrize("scope", ["managed", "command line", "nobody"])
def test_other_scopes_are_not_changed(place: Place, scope: str) -> None:
    """Managed settings are the administrator's."""
    with pytest.raises(UsageError):
        plan(place, "model", "m", scope=scope)
