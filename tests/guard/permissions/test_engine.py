"""`guard.permissions.engine`: an engine out of settings, trust and workspace; and the world it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.errors import UsageError
from recollect.guard.permissions.engine import (
    ProjectEngine,
    permit,
    rules_from,
)
from recollect.guard.policy.engine import call_of
from recollect.guard.policy.rules import rule_warnings
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import Verdict
from tests.permission_home import NO_MANAGED, Place, place, rules
from tests.store.test_git_index import git

__all__ = ["place"]

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def here(place: Place, **more: Any) -> ProjectEngine:
    return permit(place.home, place.project, **{"managed": NO_MANAGED, **more})


def verdict(place: Place, call: str, **more: Any) -> Verdict:
    return here(place, **more).decide(*call_of(call)).verdict


def test_a_rule_decides_and_names_its_file_and_line(place: Place) -> None:
    """The second rule of the user's allow list."""
    file = place.user(rules(allow=["Bash(make)", "Bash(make test)"]))
    decision = here(place).decide("Bash", {"command": "make test"})

    assert decision.source is not None
    assert (ALLOW, "Bash(make test)", str(file), 5) == (
        decision.verdict,
        decision.rule,
        decision.source.path,
        decision.source.line,
    )


def test_layers_are_one_rule_set(place: Place) -> None:
    """A deny at any level beats an allow at any other (R20)."""
    place.user(rules(deny=["Bash(make deploy)"]))
    place.local(rules(allow=["Bash(make *)"]))

    assert [ALLOW, DENY] == [verdict(place, "Bash(make x)"), verdict(place, "Bash(make deploy)")]


@pytest.mark.parametrize("trusted", [False, True])
def test_a_project_allows_itself_something_only_when_trusted(place: Place, trusted: bool) -> None:
    """Deny and ask count at once (R22)."""
    place.shared(rules(allow=["Bash(make a)"], deny=["Bash(make b)"], ask=["WebSearch"]))
    if trusted:
        place.trust()

    assert [ALLOW if trusted else ASK, DENY, ASK] == [
        verdict(place, call) for call in ("Bash(make a)", "Bash(make b)", "WebSearch(x)")
    ]


@pytest.mark.parametrize("tracked", [False, True])
def test_a_local_file_from_the_repository_needs_trust_too(place: Place, tracked: bool) -> None:
    """One that git does not track is the person's own (R22)."""
    git(place.project, "init", "-q")
    place.local(rules(allow=["Bash(make a)"]))
    if tracked:
        git(place.project, "add", "-f", ".")

    assert (ASK if tracked else ALLOW) is verdict(place, "Bash(make a)")


def test_the_mode_of_an_untrusted_project_is_not_taken(place: Place) -> None:
    """CVE-2026-33068 (E01)."""
    place.shared({"permissions": {"defaultMode": "acceptEdits"}})
    before = here(place).mode
    place.trust()

    assert (Mode.DEFAULT, Mode.ACCEPT_EDITS) == (before, here(place).mode)


@pytest.mark.parametrize("mode", [Mode.DONT_ASK, Mode.PLAN])
def test_a_mode_that_narrows_counts_before_the_project_is_trusted(place: Place, mode: Mode) -> None:
    """As deny rules do."""
    place.shared({"permissions": {"defaultMode": mode.value}})

    assert here(place).mode is mode


def test_no_project_switches_all_questions_off(place: Place) -> None:
    """The client ignores bypassPermissions in a project's settings, trusted or not."""
    place.shared({"permissions": {"defaultMode": "bypassPermissions"}})
    place.trust()

    assert here(place).mode is Mode.DEFAULT


def test_directories_of_an_untrusted_project_are_not_taken(place: Place) -> None:
    """Reading there is asked about."""
    outside = place.root / "outside"
    outside.mkdir()
    (outside / "file").write_text("x")
    place.shared({"permissions": {"additionalDirectories": [str(outside)]}})
    before = verdict(place, f"Read({outside / 'file'})")
    place.trust()

    assert (ASK, ALLOW) == (before, verdict(place, f"Read({outside / 'file'})"))


def test_the_administrator_may_forbid_bypassing(place: Place, tmp_path: Path) -> None:
    """Then the mode is the default one."""
    managed = place.write(tmp_path / "m.json", {"permissions": {"disableBypassPermissionsMode": "disable"}})

    assert Mode.DEFAULT is here(place, managed=managed, mode="bypassPermissions").mode


def test_the_administrator_may_forbid_other_rules(place: Place, tmp_path: Path) -> None:
    """No other allow counts; a deny still does, which is stricter than the client."""
    place.user(rules(allow=["Bash(make a)"], deny=["Bash(make b)"]))
    managed = place.write(
        tmp_path / "m.json", {"allowManagedPermissionRulesOnly": True, **rules(allow=["Bash(make c)"])}
    )

    assert [ASK, DENY, ALLOW] == [verdict(place, f"Bash(make {word})", managed=managed) for word in "abc"]


def test_a_broken_settings_file_holds_every_allow_back(place: Place) -> None:
    """Its deny rules are not known; what is denied stays denied."""
    place.user(rules(allow=["Bash(make a)"], deny=["Bash(make b)"]))
    place.local('{"permissions": {"deny": ["Bash(make a)"]')
    decision = here(place).decide("Bash", {"command": "make a"})

    assert [ASK, DENY, ASK] == [decision.verdict, verdict(place, "Bash(make b)"), verdict(place, "Bash(ls)")]
    assert "cannot be read" in decision.why


def test_an_ignored_file_still_denies(place: Place) -> None:
    """The client would drop its deny rules; here only its allow rules go."""
    place.user({"model": 4, **rules(allow=["Bash(make a)"], deny=["Bash(make b)"])})

    assert [ASK, DENY] == [verdict(place, "Bash(make a)"), verdict(place, "Bash(make b)")]


@pytest.mark.parametrize("wrapped", [True, False])
def test_rules_of_a_file_take_the_place_of_the_settings(place: Place, wrapped: bool) -> None:
    """Settings with permissions, or the three lists alone; lines are told."""
    place.user(rules(allow=["Bash(make a)"]))
    lists = {"allow": ["Bash(make b)"]}
    file = place.write(place.root / "new.json", {"permissions": lists} if wrapped else lists)
    trial = rules_from(file)

    assert [ASK, ALLOW] == [verdict(place, f"Bash(make {word})", rules=trial) for word in "ab"]
    assert (4 if wrapped else 3) == trial.rules[0].source.line


@pytest.mark.parametrize("text", [None, "{", '{"permissions": 4}'])
def test_a_rules_file_that_cannot_be_used_is_refused(place: Place, text: str | None) -> None:
    """Not there, no JSON, wrongly typed."""
    file = place.root / "new.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError):
        rules_from(file)


def test_rules_for_tools_that_do_not_exist_are_pointed_out(place: Place) -> None:
    """Names with an underscore or a star are not (R5)."""
    place.user(rules(deny=["Bahs", "mcp__x__y", "B*", "Bash(x)"], ask=["Raed"], allow=["Nonsense"]))

    warnings = rule_warnings(here(place).rules.rules)

    assert {"Raed", "Bahs"} == {one.rule.partition("(")[0] for one in warnings if one.kind == "unknown tool"}


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("Bash(ls)", "Bash", {"command": "ls"}),
        ("Bash(echo (a))", "Bash", {"command": "echo (a)"}),
        ('Read({"file_path": "/x"})', "Read", {"file_path": "/x"}),
        ("Bash({ ls; })", "Bash", {"command": "{ ls; }"}),
        ("WebFetch(https://x.org)", "WebFetch", {"url": "https://x.org"}),
        ("TodoWrite", "TodoWrite", {}),
        ('mcp__a__b({"x": 1})', "mcp__a__b", {"x": 1}),
        ("mcp__a__b", "mcp__a__b", {}),
        ('NewTool({"x": 1})', "NewTool", {"x": 1}),
    ],
)
def test_calls_as_people_write_them(text: str, tool: str, arguments: dict[str, object]) -> None:
    """The tool's own argument, JSON, or nothing."""
    assert (tool, arguments) == call_of(text)


@pytest.mark.parametrize("text", ["", "(x)", "Bash(ls", "mcp__a__b(x)", "rm", "Bsh(ls)"])
def test_calls_that_are_none_are_refused(text: str) -> None:
    """A missing name or bracket, a tool without one argument, a name that no tool has."""
    with pytest.raises(UsageError):
        call_of(text)


def test_an_unknown_mode_is_a_usage_error(place: Place) -> None:
    """Where it was given; in the settings it costs the file."""
    with pytest.raises(UsageError):
        here(place, mode="yolo")


# ---- the world ---------------------------------------------------------------------------------------------
