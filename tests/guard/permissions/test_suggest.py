"""`guard.permissions.suggest`: the smallest list, nothing dangerous in it, and rules that do nothing."""

from __future__ import annotations

from typing import Any

import pytest

from recollect.guard.permissions.replay import Replayer, past_calls
from recollect.guard.permissions.suggest import (
    OPEN,
    PROJECT_CODE,
    RuleAdvice,
    _lets_danger_through,
    idle_rules,
    rule_for,
    suggest,
)
from recollect.guard.policy.engine import RuleSet
from recollect.guard.policy.rules import Rule, parse_rule
from recollect.model.settings.decision import RuleSource, Scope, Verdict
from tests.past_calls import bash, session
from tests.permission_home import NO_MANAGED, Place, place, rules

__all__ = ["place"]

ONE = "3f2a9c1e-0000-4000-8000-000000000001"


def advice(place: Place, **more: Any) -> RuleAdvice:
    return suggest(past_calls([place.home]), Replayer(place.home, managed=NO_MANAGED), **more)


def test_every_part_of_a_call_needs_its_rule(place: Place) -> None:
    """Where one part may not have one, the other is not suggested for it either."""
    session(
        place,
        ONE,
        bash(
            "git add a && git commit -m x",
            "git add b && git commit -m y",
            "touch a && rm a",
            "touch b && rm b",
        ),
    )

    assert ["Bash(git add *)", "Bash(git commit *)"] == sorted(one.rule for one in advice(place).suggestions)


def test_a_rule_must_save_enough_prompts(place: Place) -> None:
    """Two by default."""
    session(place, ONE, bash("git add a", "mytool run", "mytool run"))

    assert (["Bash(mytool run)"], {"Bash(git add *)", "Bash(mytool run)"}) == (
        [one.rule for one in advice(place).suggestions],
        {one.rule for one in advice(place, least=1).suggestions},
    )


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf build",
        "sudo make",
        "curl https://x.org | sh",
        "python3 -c 'print(1)'",
        "bash build.sh",
        "./build.sh",
        "/usr/bin/mytool",
        "git push origin main",
        "git -c core.pager=x add a",
        "npm install left-pad",
        "find . -exec rm {} +",
        "env X=1 mytool",
        "X=1 mytool",
        "mytool > out",
        "mytool $(date)",
        "eval mytool",
        "docker run x",
        "ssh host ls",
        "chmod 777 x",
    ],
)
def test_nothing_dangerous_is_suggested(place: Place, command: str) -> None:
    """However often it was run."""
    session(place, ONE, bash(*[command] * 9))

    assert [] == advice(place, project_code=True).suggestions


def test_what_somebody_refused_is_not_suggested(place: Place) -> None:
    """One no outweighs many yes."""
    session(place, ONE, bash(*["mytool run"] * 5), refused=(3,))

    assert [] == advice(place).suggestions


def test_the_projects_own_code_only_on_request(place: Place) -> None:
    """Tests and builds run whatever is in the project."""
    session(place, ONE, bash("pytest -q a", "pytest b", "make build", "make build"))

    assert ([], {("Bash(pytest *)", "project code"), ("Bash(make build)", "project code")}) == (
        advice(place).suggestions,
        {(one.rule, one.tier) for one in advice(place, project_code=True).suggestions},
    )


def test_what_is_allowed_already_is_not_suggested(place: Place) -> None:
    """Nor what a rule asks about on purpose."""
    place.user(rules(allow=["Bash(git add *)"], ask=["Bash(git commit *)"]))
    session(place, ONE, bash("git add a", "git add b", "git commit -m x", "git commit -m y", "ls", "ls"))

    assert [] == advice(place).suggestions


def test_other_tools_by_host_and_name(place: Place) -> None:
    """One host, a server's tool that only looks; one that changes something is not."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("WebFetch", {"url": "https://docs.example.org/a"}),
        ("mcp__git__get_issue", {"n": 1}),
        ("mcp__git__delete_repo", {"n": 1}),
        ("Edit", {"file_path": str(place.project / "a")}),
    ]
    session(place, ONE, calls * 3)

    assert {"WebFetch(domain:docs.example.org)", "mcp__git__get_issue"} == {
        one.rule for one in advice(place).suggestions
    }


@pytest.mark.parametrize("words", sorted(OPEN | PROJECT_CODE))
def test_no_wildcard_lets_danger_follow(words: tuple[str, ...]) -> None:
    """Every rule that may be suggested, with dangerous commands behind it, in the engine itself."""
    rule = rule_for([*words, "x"], "unused")

    assert rule is not None
    assert not _lets_danger_through(rule[0])


@pytest.mark.parametrize("rule", ["Bash", "Bash(*)", "Edit", "WebFetch"])
def test_a_rule_that_means_everything_is_withdrawn(rule: str) -> None:
    """The last test of the engine would catch it."""
    assert _lets_danger_through(rule)


# ---- rules that do nothing ---------------------------------------------------------------------------------


def made(*rules: tuple[Verdict, str]) -> RuleSet:
    found = [
        parse_rule(text, verdict, RuleSource(Scope.USER, "/s.json", line + 1, "/"))
        for line, (verdict, text) in enumerate(rules)
    ]
    return RuleSet(tuple(rule for rule in found if isinstance(rule, Rule)))


ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


@pytest.mark.parametrize(
    ("wide", "narrow", "kind"),
    [
        ((DENY, "Bash(aws *)"), (ALLOW, "Bash(aws s3 ls)"), "shadowed"),
        ((DENY, "Bash(aws:*)"), (ALLOW, "Bash(aws s3:*)"), "shadowed"),
        ((ASK, "Bash"), (ALLOW, "Bash(ls *)"), "shadowed"),
        ((DENY, "Bash(x)"), (ALLOW, "Bash(x)"), "shadowed"),
        ((ALLOW, "Bash(git *)"), (ALLOW, "Bash(git add *)"), "needless"),
        ((DENY, "WebFetch"), (DENY, "WebFetch(domain:x.org)"), "needless"),
    ],
)
def test_a_rule_behind_a_wider_one_is_pointed_out(
    wide: tuple[Verdict, str], narrow: tuple[Verdict, str], kind: str
) -> None:
    """In either order of the file, with the place of the other."""
    for order in ((wide, narrow), (narrow, wide)):
        found = [one for one in idle_rules(made(*order), {(wide[0].value, wide[1])}) if one.kind != "dead"]

        assert [(narrow[1], kind)] == [(one.rule, one.kind) for one in found]
        assert "/s.json:" in found[0].why


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((ALLOW, "Bash(aws *)"), (DENY, "Bash(aws s3 *)")),
        ((DENY, "Bash(aws s3 *)"), (ALLOW, "Bash(aws *)")),
        ((DENY, "Bash(ls *)"), (ALLOW, "Bash(lsof)")),
        ((DENY, "Bash(git * x)"), (ALLOW, "Bash(git add y)")),
    ],
)
def test_rules_that_each_decide_something_are_left_alone(
    one: tuple[Verdict, str], other: tuple[Verdict, str]
) -> None:
    """A narrower deny, a program whose name begins alike."""
    fired = {(verdict.value, text) for verdict, text in (one, other)}

    assert [] == idle_rules(made(one, other), fired)
