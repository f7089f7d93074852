"""R18-R22: modes, hooks, precedence, approvals, trust. Expected values are from the rule table and from client 2.1.325."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recollect.policy.decision import RuleSource, Scope, Verdict
from recollect.policy.engine import Mode, PolicyEngine, RuleSet, Workspace, approval_rules, combine_hook
from recollect.policy.rules.rule import Rule, parse_rule
from tests.policy.worlds import CWD, HOME, TableWorld, engine, verdict


@pytest.mark.parametrize(
    ("mode", "tool", "argument", "expected"),
    [
        (Mode.DEFAULT, "Write", f"{CWD}/a", "ask"),
        (Mode.DEFAULT, "Read", f"{CWD}/a", "allow"),
        (Mode.DEFAULT, "Read", "/etc/passwd", "ask"),
        (Mode("manual"), "Write", f"{CWD}/a", "ask"),
        (Mode.ACCEPT_EDITS, "Write", f"{CWD}/a", "allow"),
        (Mode.ACCEPT_EDITS, "Write", "/etc/x", "ask"),
        (Mode.ACCEPT_EDITS, "Bash", "mkdir a", "allow"),
        (Mode.ACCEPT_EDITS, "Bash", "mkdir /etc/a", "ask"),
        (Mode.ACCEPT_EDITS, "Bash", "mkdir .git/hooks", "ask"),
        (Mode.ACCEPT_EDITS, "Bash", "npm i", "ask"),
        (Mode.PLAN, "Write", f"{CWD}/a", "ask"),
        (Mode.PLAN, "Read", f"{CWD}/a", "allow"),
        (Mode.PLAN, "Bash", "ls", "allow"),
        (Mode.AUTO, "Edit", f"{CWD}/a", "allow"),
        (Mode.AUTO, "Bash", "npm i", "ask"),
        (Mode.DONT_ASK, "Bash", "npm i", "deny"),
        (Mode.DONT_ASK, "Write", f"{CWD}/a", "deny"),
        (Mode.DONT_ASK, "Bash", "ls", "allow"),
        (Mode.BYPASS, "Bash", "npm i $(x)", "allow"),
        (Mode.BYPASS, "Write", "/etc/x", "allow"),
        (Mode.BYPASS, "mcp__a__b", "x", "allow"),
    ],
)
def test_r18_modes(mode: Mode, tool: str, argument: str, expected: str) -> None:
    """What becomes of a call that no rule speaks of."""
    assert expected == verdict(engine(mode=mode), tool, argument)


@pytest.mark.parametrize("command", ["rm -rf /", "rm -rf ~", "rm -fr /*", "rm -r -f $HOME", 'rm -rf "$(echo /)"',
                                     "sudo rm -rf /", "rm --recursive /", "rm -rf /home", "rm -rf ~/", "rm -Rf ../.."])  # fmt: skip
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS])
def test_r18_removing_everything_is_asked_about_in_every_mode(command: str, mode: Mode) -> None:
    """Neither bypassing nor a rule for all commands covers it."""
    assert "ask" == verdict(engine(["Bash", "Bash(rm:*)"], mode=mode), "Bash", command)


def test_r18_bypass_keeps_deny_and_ask() -> None:
    """Rules that hold back hold in every mode."""
    made = engine(ask=["Bash(touch:*)"], deny=["Bash(mkdir:*)", "Edit(x)"], mode=Mode.BYPASS)
    assert ["ask", "deny", "deny", "allow"] == [
        verdict(made, "Bash", "touch a"),
        verdict(made, "Bash", "mkdir a"),
        verdict(made, "Write", f"{CWD}/x"),
        verdict(made, "Bash", "make"),
    ]


def test_r18_plan_allows_no_edit_even_by_rule() -> None:
    """The client refuses writes in plan mode whatever is allowed."""
    assert "ask" == verdict(engine(["Write", "Edit(**)"], mode=Mode.PLAN), "Write", f"{CWD}/a")


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


@pytest.mark.parametrize(
    ("kind", "scope", "trusted", "expected"),
    [
        ("allow", Scope.PROJECT, False, "ask"),
        ("allow", Scope.PROJECT, True, "allow"),
        ("allow", Scope.LOCAL, False, "allow"),
        ("allow", Scope.USER, False, "allow"),
        ("deny", Scope.PROJECT, False, "deny"),
        ("ask", Scope.PROJECT, False, "ask"),
    ],
)
def test_r22_a_project_gives_itself_nothing_before_trust(
    kind: str, scope: Scope, trusted: bool, expected: str
) -> None:
    """Allow rules of the project wait for trust; what holds back counts at once."""
    lists = {kind: ["Bash(npm:*)"]}
    made = engine(**lists, scope=scope, trusted=trusted)  # type: ignore[arg-type] # one of three lists by name
    assert expected == verdict(made, "Bash", "npm i")


def test_r22_a_decision_made_before_trust_says_why() -> None:
    """Explaining names the rule that is waiting."""
    made = engine(["Bash(npm:*)"], scope=Scope.PROJECT, trusted=False)
    (look,) = made.explain("Bash", {"command": "npm i"}).looks
    assert (False, "a project's allow rules wait for the workspace to be trusted") == (look.matched, look.why)


def test_explaining_looks_at_every_rule() -> None:
    """Each rule is listed with what it said to the call when asked alone."""
    made = engine(["Bash(npm:*)", "Bash(make)"], deny=["Read(x)", "Bash(npm i)"])
    looks = made.explain("Bash", {"command": "npm i"}).looks
    assert [("Bash(npm:*)", True), ("Bash(make)", False), ("Read(x)", False), ("Bash(npm i)", True)] == [
        (look.rule.text, look.matched) for look in looks
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
