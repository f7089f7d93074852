"""R1-R6, R16, R17: what a rule's text means. Expected values are from the rule table, by hand."""

from __future__ import annotations

import pytest

from recollect.policy.decision import Scope, Verdict
from recollect.policy.rules.command_pattern import CommandPattern
from recollect.policy.rules.rule import Rule, RuleProblem
from recollect.policy.rules.warnings import WarningKind, rule_warnings
from tests.policy.worlds import engine, rule, rule_set, verdict


@pytest.mark.parametrize(
    ("allow", "ask", "deny", "command", "expected"),
    [
        (["Bash(aws s3 ls)"], [], ["Bash(aws *)"], "aws s3 ls", "deny"),
        (["Bash(aws *)"], ["Bash(aws s3 rm *)"], [], "aws s3 rm x", "ask"),
        (["Bash(git push origin main)"], ["Bash(git *)"], [], "git push origin main", "ask"),
        ([], ["Bash(npm *)"], ["Bash(npm *)"], "npm i", "deny"),
        (["Bash(npm test)"], [], ["Bash(npm publish *)"], "npm test", "allow"),
        (["Bash"], [], ["Bash(curl *)"], "curl x", "deny"),
        (["Bash"], ["Bash(curl *)"], [], "curl x", "ask"),
    ],
)
def test_r01_deny_then_ask_then_allow(
    allow: list[str], ask: list[str], deny: list[str], command: str, expected: str
) -> None:
    """The first match in the order deny, ask, allow decides, however narrow the others are."""
    assert expected == verdict(engine(allow, ask, deny), "Bash", command)


@pytest.mark.parametrize(
    ("allow", "deny", "tool", "expected"),
    [
        (["Bash"], [], "Bash", "allow"),
        (["Bash(*)"], [], "Bash", "allow"),
        ([], ["Bash"], "Bash", "deny"),
        ([], ["Bash(*)"], "Bash", "deny"),
        ([], ["Bash( * )"], "Bash", "deny"),
        (["WebSearch"], [], "WebSearch", "allow"),
        ([], ["WebSearch(*)"], "WebSearch", "deny"),
    ],
)
def test_r02_a_bare_name_means_every_use(allow: list[str], deny: list[str], tool: str, expected: str) -> None:
    """``Tool`` and ``Tool(*)`` are the same rule."""
    assert expected == verdict(engine(allow, [], deny), tool, {"command": "x --y $(z)", "query": "q"})


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("Agent(model:opus)", {"model": "opus"}, "deny"),
        ("Agent(model:opus)", {"model": "opus-4"}, "allow"),
        ("Agent(model : opus*)", {"model": "opus-4"}, "deny"),
        ("Agent(isolation:*)", {}, "allow"),
        ("Agent(isolation:*)", {"isolation": "worktree"}, "deny"),
        ("Agent(background:true)", {"background": True}, "deny"),
        ("Agent(depth:3)", {"depth": 3}, "deny"),
        ("Agent(model:opus)", {"model": ["opus"]}, "allow"),
        ("Agent(model:opus)", {"inner": {"model": "opus"}}, "allow"),
    ],
)
def test_r03_a_parameter_rule_looks_at_one_given_scalar(
    text: str, arguments: dict[str, object], expected: str
) -> None:
    """``Tool(param:value)`` compares the literal value of a top-level argument, and never an omitted one."""
    assert expected == verdict(engine(deny=[text]), "Agent", arguments)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Agent(model:opus)", "allow"),
        ("mcp__a__b(x:1)", "allow"),
        ("Bash(command:rm)", "deny"),
        ("Read(file_path:x)", "deny"),
        ("Edit(path : x)", "ask"),
        ("NotebookEdit(notebook_path:x)", "deny"),
        ("WebFetch(url:http://x)", "deny"),
    ],
)
def test_r03_parameters_are_refused_in_allow_and_for_the_primary_field(text: str, kind: str) -> None:
    """Such a rule is skipped with a warning, as the client does."""
    found = rule(text, kind)
    assert isinstance(found, RuleProblem)
    assert "the client skips this rule" == found.consequence


def test_r03_bash_background_can_be_denied() -> None:
    """A parameter of Bash that is not the command can be named in deny."""
    made = engine(["Bash"], deny=["Bash(run_in_background:true)"])
    background = {"command": "ls", "run_in_background": True}
    assert ("deny", "allow") == (verdict(made, "Bash", background), verdict(made, "Bash", "ls"))


@pytest.mark.parametrize(
    ("text", "kind", "is_rule"),
    [
        ("*", "deny", True),
        ("B*", "deny", True),
        ("mcp__*", "ask", True),
        ("*", "allow", False),
        ("B*", "allow", False),
        ("mcp__*", "allow", False),
        ("mcp__s*", "allow", False),
        ("mcp__s__*", "allow", True),
        ("mcp__s__get_*", "allow", True),
    ],
)
def test_r04_name_globs(text: str, kind: str, is_rule: bool) -> None:
    """Deny and ask may glob any name; allow only after a literal server."""
    assert is_rule == isinstance(rule(text, kind), Rule)


@pytest.mark.parametrize(
    ("deny", "tool", "expected"),
    [
        ("*", "Bash", "deny"),
        ("B*", "Bash", "deny"),
        ("B*", "WebSearch", "ask"),
        ("mcp__*", "mcp__a__b", "deny"),
        ("*__delete", "mcp__a__delete", "deny"),
        ("mcp__a__get*", "mcp__a__set", "ask"),
    ],
)
def test_r04_name_globs_match(deny: str, tool: str, expected: str) -> None:
    """A star in a tool's name stands for any text."""
    assert expected == verdict(engine(deny=[deny]), tool, {"command": "touch x"})


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
    assert warns == (WarningKind.UNKNOWN_TOOL in {warning.kind for warning in rule_warnings([found])})


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


@pytest.mark.parametrize(
    ("domain", "url", "expected"),
    [
        ("example.com", "https://example.com/x", "allow"),
        ("example.com", "https://EXAMPLE.com./x?y", "allow"),
        ("EXAMPLE.com.", "http://example.com:8080", "allow"),
        ("example.com", "https://www.example.com", "ask"),
        ("*.example.com", "https://a.b.example.com", "allow"),
        ("*.example.com", "https://example.com", "ask"),
        ("example.*", "https://example.org", "allow"),
        ("example.*", "https://example.evil.com", "ask"),
        ("api-*.example.com", "https://api-1.example.com", "allow"),
        ("api-*.example.com", "https://api-1.x.example.com", "ask"),
        ("*", "https://anything.example", "allow"),
    ],
)
def test_r16_domains(domain: str, url: str, expected: str) -> None:
    """Hosts are compared whole; a leading ``*.`` takes any depth, another star stays within its label."""
    assert expected == verdict(engine([f"WebFetch(domain:{domain})"]), "WebFetch", url)


@pytest.mark.parametrize(
    ("allow", "tool", "expected"),
    [
        ("mcp__s", "mcp__s__get", "allow"),
        ("mcp__s__*", "mcp__s__get", "allow"),
        ("mcp__s__get", "mcp__s__get", "allow"),
        ("mcp__s__get", "mcp__s__get2", "ask"),
        ("mcp__s", "mcp__s2__get", "ask"),
        ("mcp__s__*", "mcp__t__get", "ask"),
        ("mcp__s", "mcp__sx", "ask"),
    ],
)
def test_r17_mcp_names(allow: str, tool: str, expected: str) -> None:
    """A server's name, its glob or one tool of it."""
    assert expected == verdict(engine([allow]), tool, {})


@pytest.mark.parametrize("text", ["", "Bash(", "Bash)x(", "Bash(x", "a b", "()", "mcp__", "Bash (x)"])
def test_text_that_is_no_rule_is_a_problem(text: str) -> None:
    """A malformed line is skipped alone; it says why."""
    assert isinstance(rule(text, "deny"), RuleProblem)


@pytest.mark.parametrize(("kind", "is_rule"), [("allow", False), ("ask", True), ("deny", True)])
def test_empty_brackets_hold_back_everything_and_give_nothing(kind: str, is_rule: bool) -> None:
    """``Bash()`` cannot be an allow; as a deny it means the tool."""
    assert is_rule == isinstance(rule("Bash()", kind), Rule)


def test_shadowed_and_duplicate_rules_are_pointed_out() -> None:
    """An allow that a deny covers wholly can never take effect."""
    rules = rule_set(["Bash(git push:*)", "Bash(ls)", "Bash(ls)"], [], ["Bash(git *)"]).rules
    assert [("Bash(git push:*)", "shadowed"), ("Bash(ls)", "duplicate")] == [
        (warning.rule.text, warning.kind.value) for warning in rule_warnings(rules)
    ]


def test_odd_rules_are_pointed_out() -> None:
    """Paths that only look absolute, wrappers that no prefix covers, hosts that anybody can write to."""
    rules = rule_set(["Read(/etc/x)", "Bash(watch *)", "Bash(sudo *)", "WebFetch(domain:github.com)"]).rules
    assert ["not absolute", "never covers", "too wide", "too wide"] == [
        warning.kind.value for warning in rule_warnings(rules)
    ]


def test_a_rule_knows_its_source() -> None:
    """The decision names the rule and where it was written."""
    decision = engine(deny=["Bash(rm *)"], scope=Scope.MANAGED).decide("Bash", {"command": "rm x"})
    assert (Verdict.DENY, "Bash(rm *)", Scope.MANAGED) == (
        decision.verdict,
        decision.rule,
        decision.source.scope if decision.source else None,
    )
