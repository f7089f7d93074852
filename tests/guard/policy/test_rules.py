"""R1-R24: what a rule's text means, modes, hooks and trust. Plain decisions are in ``decisions.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from recollect.guard.policy.command_lines import CommandPattern
from recollect.guard.policy.engine import PolicyEngine, RuleSet, combine_hook
from recollect.guard.policy.paths import Workspace, globs_meet
from recollect.guard.policy.rules import Rule, RuleProblem, approval_rules, parse_rule, rule_warnings
from recollect.guard.policy.terms import Mode
from recollect.model.settings.decision import RuleSource, Scope, Verdict
from tests.guard.policy.worlds import CWD, HOME, TableWorld, engine, rule, rule_set, verdict

TABLES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))[
    "table"
]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["says"][:40])
def test_lines_are_rules_or_problems_as_the_table_says(table: dict[str, Any]) -> None:
    """A line that is no rule is skipped with its reason, never read in another way."""
    for kind, texts in table.get("rules", {}).items():
        assert all(isinstance(rule(text, kind), Rule) for text in texts)
    for kind, texts in table["problems"].items():
        for text in texts:
            problem = rule(text, kind)
            assert isinstance(problem, RuleProblem), (kind, text)
            assert (True, "the client skips this rule") == (
                table.get("why", "") in problem.why,
                problem.consequence,
            )


@pytest.mark.parametrize(
    ("text", "kind", "warns"),
    [
        ("Bsh", "deny", True),
        ("Reed(x:y)", "ask", True),
        ("Bash", "deny", False),
        ("my_tool", "deny", False),
        ("Foo*", "deny", False),
        ("mcp__nobody__x", "deny", False),
        ("Bsh", "allow", False),
    ],
)
def test_r05_unknown_names_in_deny_and_ask_warn(text: str, kind: str, warns: bool) -> None:
    """A deny that names no tool protects nothing; names with ``_`` or ``*`` may come from elsewhere."""
    found = rule(text, kind)
    assert isinstance(found, Rule)
    assert warns == ("unknown tool" in {warning.kind for warning in rule_warnings([found])})


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("npm run build", "npm run build", True),
        ("npm run build", "npm run build --x", False),
        ("npm run build", "npm run", False),
        ("ls *", "ls -la", True),
        ("ls *", "ls", True),
        ("ls *", "lsof", False),
        ("ls*", "lsof", True),
        ("ls*", "ls -la", True),
        ("ls:*", "ls -la", True),
        ("ls:*", "lsof", False),
        ("mkdir:*", "mkdirx", False),
        ("git * main", "git push origin main", True),
        ("git * main", "git main", False),
        ("* --version", "node --version", True),
        ("* --version", "node --versions", False),
        ("a:b", "a:b", True),
        ("a:b", "a b", False),
        ("npm run test:*", "npm run test:unit", False),
        (r"rm \*", "rm *", True),
        (r"rm \*", "rm x", False),
        ("git log --format=* HEAD", "git log --format=%h x HEAD", True),
    ],
)
def test_r06_command_patterns(pattern: str, command: str, expected: bool) -> None:
    """Exact; ``*`` anywhere; a trailing `` *`` or ``:*`` at a word's border; other colons are letters."""
    assert expected == CommandPattern(pattern).matches(command)


def test_shadowed_and_duplicate_rules_are_pointed_out() -> None:
    """An allow that a deny covers wholly can never take effect."""
    rules = rule_set(["Bash(git push:*)", "Bash(ls)", "Bash(ls)"], [], ["Bash(git *)"]).rules
    assert [("Bash(git push:*)", "shadowed"), ("Bash(ls)", "duplicate")] == [
        (warning.rule, warning.kind) for warning in rule_warnings(rules)
    ]


def test_odd_rules_are_pointed_out() -> None:
    """Paths that only look absolute, wrappers that no prefix covers, hosts that anybody can write to."""
    rules = rule_set(["Read(/etc/x)", "Bash(watch *)", "Bash(sudo *)", "WebFetch(domain:github.com)"]).rules
    assert ["not absolute", "never covers", "too wide", "too wide"] == [
        warning.kind for warning in rule_warnings(rules)
    ]


def test_a_rule_knows_its_source() -> None:
    """The decision names the rule and where it was written."""
    decision = engine(deny=["Bash(rm *)"], scope=Scope.MANAGED).decide("Bash", {"command": "rm x"})
    assert (Verdict.DENY, "Bash(rm *)", Scope.MANAGED) == (
        decision.verdict,
        decision.rule,
        decision.source.scope if decision.source else None,
    )


def test_r07_a_denied_part_denies_the_whole() -> None:
    """The strictest part decides, and each part says what was decided about it."""
    decision = engine(["Bash(good *)"], deny=["Bash(evil *)"]).decide("Bash", {"command": "good 1 && evil 2"})
    assert ("deny", [("good 1", "allow"), ("evil 2", "deny")]) == (
        decision.verdict.value,
        [(part.text, part.verdict.value) for part in decision.parts[:2]],
    )


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("/a/b", "/a/b", True),
        ("/a/b", "/a/c", False),
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/a/*.pem", "/a/key*", True),
        ("/a/*.pem", "/a/*.txt", False),
        ("/**/x", "/q/r/x", True),
        ("/a/?", "/a/bc", False),
        ("/a/[bc]", "/a/b", True),
        (r"/a/\*", "/a/b", False),
        ("*a*", "b*", True),
    ],
)
def test_globs_meet(left: str, right: str, expected: bool) -> None:
    """Whether one path can match both, from either side."""
    assert (expected, expected) == (globs_meet(left, right), globs_meet(right, left))


@pytest.mark.parametrize(
    "program",
    [
        "rg",
        "find",
        "xargs",
        "env",
        "git",
        "tar",
        "awk",
        "sed",
        "ssh",
        "make",
        "npm",
        "npx",
        "python3",
        "docker",
        "sort",
    ],
)
def test_a_rule_that_allows_more_than_it_seems_is_named_with_a_narrower_one(program: str) -> None:
    """``rg --pre``, ``tar --to-command``, ``ssh -o ProxyCommand`` and their like; not for a rule that says more."""
    (warning,) = rule_warnings(rule_set([f"Bash({program}:*)"]).rules)

    assert "allows more than it seems" in warning.why
    assert "narrower: Bash(" in warning.why
    assert () == rule_warnings(rule_set([f"Bash({program} --version:*)"]).rules)


@pytest.mark.parametrize(
    ("allow", "ask", "deny", "hook", "expected"),
    [
        ([], [], ["Bash(npm:*)"], "allow", "deny"),
        ([], ["Bash(npm:*)"], [], "allow", "ask"),
        ([], [], [], "allow", "allow"),
        (["Bash(npm:*)"], [], [], "ask", "ask"),
        (["Bash(npm:*)"], [], [], "deny", "deny"),
        ([], ["Bash(npm:*)"], [], "deny", "deny"),
        ([], [], ["Bash(npm:*)"], "ask", "deny"),
        (["Bash(npm:*)"], [], [], "allow", "allow"),
    ],
)
def test_r19_hooks(allow: list[str], ask: list[str], deny: list[str], hook: str, expected: str) -> None:
    """A hook may hold back; its allow beats no rule."""
    decision = engine(allow, ask, deny).decide("Bash", {"command": "npm i"})
    assert expected == combine_hook(decision, Verdict(hook)).verdict.value


def test_r19_no_word_from_the_hook_changes_nothing() -> None:
    """A silent hook leaves the decision as it is."""
    decision = engine().decide("Bash", {"command": "npm i"})
    assert decision == combine_hook(decision, None)


def test_r19_a_hook_cannot_wave_through_what_is_always_asked() -> None:
    """Built-in asks are rules too."""
    decision = engine(["Bash"]).decide("Bash", {"command": "rm -rf /"})
    assert Verdict.ASK is combine_hook(decision, Verdict.ALLOW).verdict


def _two(held: str, held_scope: Scope, given_scope: Scope) -> PolicyEngine:
    texts = [(Verdict(held), held_scope), (Verdict.ALLOW, given_scope)]
    parsed = [parse_rule("Bash(npm:*)", each, RuleSource(scope)) for each, scope in texts]
    rules = tuple(each for each in parsed if isinstance(each, Rule))
    return PolicyEngine(RuleSet(rules, ()), Workspace(CWD, (), HOME, True), Mode.DEFAULT, TableWorld())


@pytest.mark.parametrize("held_scope", list(Scope))
@pytest.mark.parametrize("given_scope", list(Scope))
@pytest.mark.parametrize("held", ["deny", "ask"])
def test_r20_no_scope_takes_back_what_another_holds(held: str, held_scope: Scope, given_scope: Scope) -> None:
    """A deny or ask at any level stands against an allow at any other, above or below."""
    assert held == verdict(_two(held, held_scope, given_scope), "Bash", "npm i")


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Bash", {"command": "npm i && make all"}, ("Bash(npm i)", "Bash(make all)")),
        ("Bash", {"command": "ls && make all"}, ("Bash(make all)",)),
        ("Bash", {"command": "make *.o"}, (r"Bash(make \*.o)",)),
        ("Bash", {"command": "rm *.o"}, ()),
        (
            "Bash",
            {"command": "; ".join(f"make {n}" for n in range(5))},
            tuple(f"Bash(make {n})" for n in range(5)),
        ),
        ("Bash", {"command": "; ".join(f"make {n}" for n in range(6))}, ()),
        ("Bash", {"command": "make $(x)"}, ()),
        ("Write", {"file_path": "/a/b[1]*.txt"}, (r"Edit(//a/b\[1\]\*.txt)",)),
        ("Read", {"file_path": "/etc/x"}, ("Read(//etc/x)",)),
        ("WebFetch", {"url": "https://Example.com/x"}, ("WebFetch(domain:example.com)",)),
        ("mcp__a__b", {}, ("mcp__a__b",)),
        ("Write", {"file_path": f"{CWD}/.git/config"}, ()),
    ],
)
def test_r21_a_saved_approval_means_only_what_was_shown(
    tool: str, arguments: dict[str, object], expected: tuple[str, ...]
) -> None:
    """One rule per part that was asked about, at most five, glob characters escaped."""
    assert expected == approval_rules(engine().decide(tool, arguments), tool, arguments)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Bash", {"command": "npm i && make all"}),
        ("Bash", {"command": "make *.o"}),
        ("Write", {"file_path": "/a/b[1]*.txt"}),
        ("Read", {"file_path": "/etc/x"}),
        ("WebFetch", {"url": "https://example.com/x"}),
        ("mcp__a__b", {}),
    ],
)
def test_r21_a_saved_approval_lets_the_same_call_through(tool: str, arguments: dict[str, object]) -> None:
    """The rules offered are the rules needed."""
    offered = approval_rules(engine().decide(tool, arguments), tool, arguments)
    assert "allow" == verdict(engine(offered), tool, arguments)


@pytest.mark.parametrize("other", ["npm i -g", "npm", "npm i && make", "rm x.o", "rm a.o *.o"])
def test_r21_a_saved_approval_lets_nothing_else_through(other: str) -> None:
    """Neither more arguments, nor another file that the star could stand for."""
    assert "ask" == verdict(engine(["Bash(npm i)", r"Bash(rm \*.o)"]), "Bash", other)


def test_r22_a_decision_made_before_trust_says_why() -> None:
    """Explaining names the rule that is waiting."""
    made = engine(["Bash(npm:*)"], scope=Scope.PROJECT, trusted=False)
    (look,) = made.explain("Bash", {"command": "npm i"})
    assert (False, "a project's allow rules wait for the workspace to be trusted") == (look.matched, look.why)


def test_explaining_looks_at_every_rule() -> None:
    """Each rule is listed with what it said to the call when asked alone."""
    made = engine(["Bash(npm:*)", "Bash(make)"], deny=["Read(x)", "Bash(npm i)"])
    looks = made.explain("Bash", {"command": "npm i"})
    assert [("Bash(npm:*)", True), ("Bash(make)", False), ("Read(x)", False), ("Bash(npm i)", True)] == [
        (look.rule, look.matched) for look in looks
    ]


def test_a_decision_is_bound_to_its_call() -> None:
    """Another argument, another directory, another file behind the same name: the decision no longer holds."""
    world = TableWorld(identities={f"{CWD}/a": (1, 7)})
    made = engine(["Bash(cat:*)"], world=world)
    call: dict[str, object] = {"command": "cat a"}
    decision = made.decide("Bash", call)
    same = made.still_holds(decision, "Bash", dict(call))
    other = made.still_holds(decision, "Bash", {"command": "cat b"})
    world.identities[f"{CWD}/a"] = (1, 8)
    swapped = made.still_holds(decision, "Bash", call)
    assert (True, False, False, False) == (
        same,
        other,
        swapped,
        made.still_holds(replace(decision, bound_to=""), "Bash", call),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": None},
        {"command": 5},
        {"command": ["rm"]},
        {"command": {"a": 1}},
        {"file_path": 7},
        {"file_path": ""},
        {"file_path": "\0"},
        {"url": None},
        {"url": "\udcff"},
        {"command": "\udcff\0"},
        {1: 2},
        {"command": b"ls"},
    ],
)
@pytest.mark.parametrize("tool", ["Bash", "Read", "Write", "WebFetch", "", "mcp__", "\udcff"])
def test_hostile_arguments_are_never_allowed_and_never_raise(tool: str, arguments: dict[str, object]) -> None:
    """A call without a usable argument is not let through; a tool nobody knows is asked about."""
    allowed = engine(["Bash", "Read", "Write", "WebFetch"]).decide(tool, arguments).verdict
    usable = isinstance(arguments.get("command"), str) and tool == "Bash"
    assert usable or allowed is not Verdict.ALLOW


def test_arguments_that_are_no_mapping_are_denied() -> None:
    """Not even the type is taken on trust."""
    assert "deny" == engine(["Bash"]).decide("Bash", ["ls"]).verdict.value  # type: ignore[arg-type] # on purpose
