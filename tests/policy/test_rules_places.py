"""R23, R24: what a rule for a command does not cover, as client 2.1.325 has it."""

from __future__ import annotations

import pytest

from recollect.policy.engine import Mode
from recollect.policy.rules.warnings import rule_warnings
from tests.policy.worlds import CWD, TableWorld, engine, rule_set, verdict

PROGRAMS = (
    "cat",
    "head",
    "ls",
    "grep",
    "find",
    "sort",
    "sed",
    "cp",
    "mv",
    "rm",
    "touch",
    "mkdir",
    "tee",
    "cd",
    "git",
)
PREFIXES = [f"Bash({name}:*)" for name in PROGRAMS]


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/hosts",
        "grep x ../y",
        "find /",
        "touch ~/x",
        "cp a /x",
        "cp /x a",
        "sed -n 1p /etc/hosts",
        "ls ~root",
        "cat src/../a",
        "touch a*",
        "cp -r a b",
        "mv -- a b",
        "timeout 5 cat /etc/hosts",
        "touch .git/config",
        "cd ..",
        "git diff --no-index a /etc/hosts",
        "grep -f /etc/hosts a",
        "cat $HOME/x",
        'cat "~/x"',
        "tee /x",
        "cat /dev/null",
    ],
)
@pytest.mark.parametrize("form", ["prefix", "glob", "exact"])
def test_r24_a_rule_for_a_program_does_not_name_a_place(command: str, form: str) -> None:
    """Prefix, wildcard and exact rules alike."""
    glob = [rule.replace(":*", " *") for rule in PREFIXES]
    allow = {"prefix": PREFIXES, "glob": glob, "exact": [f"Bash({command})"]}[form]

    assert "ask" == verdict(engine(allow), "Bash", command)


@pytest.mark.parametrize(
    ("allow", "command"),
    [
        (["Bash"], "cat /etc/hosts"),
        (["Bash(*)"], "touch /x"),
        ([*PREFIXES, "Read(//etc/**)"], "cat /etc/hosts"),
        ([*PREFIXES, "Edit(//out/**)"], "touch /out/x"),
        (PREFIXES, "cat src/a"),
        (PREFIXES, "cp a src/b"),
        (PREFIXES, "cat *.py"),
        (PREFIXES, "tee /dev/null"),
        (["Bash(less:*)"], "less /etc/hosts"),
    ],
)
def test_r24_what_lifts_it(allow: list[str], command: str) -> None:
    """A rule for all of Bash, a rule for the path, a place inside, a program that is not checked."""
    assert "allow" == verdict(engine(allow), "Bash", command)


def test_r24_another_working_directory_lifts_it_too() -> None:
    """``additionalDirectories``."""
    assert "allow" == verdict(engine(PREFIXES, directories=("/out",)), "Bash", "cp /out/a /out/b")


def test_a_link_out_of_the_directory_asks_whatever_is_allowed() -> None:
    """The path as written is inside, what would be written is not."""
    made = engine(["Bash", "Write", "Edit"], world=TableWorld({f"{CWD}/link": "/out"}))

    assert ("ask", "ask") == (
        verdict(made, "Bash", "touch link/x"),
        verdict(made, "Write", f"{CWD}/link/x"),
    )


@pytest.mark.parametrize(
    "command",
    [
        "touch a &",
        "(touch a)",
        "{ touch a; }",
        "case a in a) touch a;; esac",
        "touch $X",
        "touch ${X}",
        "touch $'a'",
        "touch $(b)",
        "touch `b`",
        "cat <<E\nx\nE",
        "touch a\\ b",
        "touch 'a\n#b'",
        "if true; then touch a | cat; fi",
        "cat <<'E' | sort\nx\nE",
        "touch a >&-",
        "A=1 | touch a",
        "touch <(b)",
        "for i in 1; do touch $i; done",
    ],
)
def test_r23_constructs_that_a_rule_for_the_command_does_not_cover(command: str) -> None:
    """A rule for all of Bash does."""
    assert ("ask", "allow") == (
        verdict(engine(PREFIXES), "Bash", command),
        verdict(engine(["Bash"]), "Bash", command),
    )


@pytest.mark.parametrize(
    "command",
    [
        "touch 'a b'",
        "if true; then touch a; fi",
        "for i in 1 2; do touch a; done",
        "! touch a",
        "cat <<'E'\n$(x)\nE",
        "LANG=C touch a",
        "command touch a",
        "X=1; touch a",
        "touch a 2>&1",
        "cd . && touch a",
        "[[ -f a ]] && touch a",
        "touch a > /dev/null",
        "touch a | cat && touch b",
        "echo $HOME",
    ],
)
def test_r23_and_those_that_it_covers(command: str) -> None:
    """Clear in every shell, and run by the client."""
    assert "allow" == verdict(engine(PREFIXES), "Bash", command)


@pytest.mark.parametrize(
    ("command", "expected"), [("touch one", "allow"), ("touch  one", "ask"), ("touch 'one'", "ask")]
)
def test_an_exact_rule_is_compared_as_text(command: str, expected: str) -> None:
    """Other blanks and other quotes are another text."""
    assert expected == verdict(engine(["Bash(touch one)"]), "Bash", command)


@pytest.mark.parametrize("name", ["Task", "Agent"])
def test_rules_for_task_are_rules_for_agent(name: str) -> None:
    """Either name, in the rule and in the call."""
    made = engine(deny=["Task(Explore)"], ask=["Agent(*)"])

    assert ("deny", "ask") == (
        verdict(made, name, {"subagent_type": "Explore"}),
        verdict(made, name, {"subagent_type": "other"}),
    )


def test_mcp_tools_and_interpreters_wait_in_plan_mode() -> None:
    """Allow rules do not count for them there."""
    made = engine(["mcp__demo", "Bash(python3:*)", "Bash(touch:*)"], mode=Mode.PLAN)

    assert ("ask", "ask", "allow") == (
        verdict(made, "mcp__demo__echo", {}),
        verdict(made, "Bash", "python3 -c 1"),
        verdict(made, "Bash", "touch a"),
    )


@pytest.mark.parametrize("text", ["Edit(.)", "Edit(./)", " Edit", "Edit ", "Bash( mkdir:* )"])
def test_an_allow_that_matches_nothing_is_a_problem(text: str) -> None:
    """The client ignores it, so it is reported and not read in another way."""
    found = rule_set([text])

    assert ((), 1) == (found.rules, len(found.problems))


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


def test_documentation_is_fetched_without_a_rule() -> None:
    """The hosts that the client fetches; a deny still holds, and only the listed path of a shared host counts."""
    urls = ("https://docs.python.org/3/", "https://github.com/anthropics/x", "https://github.com/x")

    assert ["allow", "allow", "ask"] == [verdict(engine(), "WebFetch", url) for url in urls]
    assert "deny" == verdict(engine(deny=["WebFetch(domain:docs.python.org)"]), "WebFetch", urls[0])
