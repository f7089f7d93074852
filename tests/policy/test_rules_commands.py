"""R7-R11: compound commands, wrappers, the read-only set and ``cd``. Expected values are from the rule table."""

from __future__ import annotations

import pytest

from recollect.policy.modes import Mode
from tests.policy.worlds import engine, verdict


@pytest.mark.parametrize("separator", [" && ", " || ", "; ", " | ", " |& ", "\n", "&&", ";", "|"])
def test_r07_every_part_needs_a_rule(separator: str) -> None:
    """A rule for the first command says nothing about the second."""
    made = engine(["Bash(good *)"])
    assert ("ask", "allow") == (
        verdict(made, "Bash", f"good 1{separator}evil 2"),
        verdict(made, "Bash", f"good 1{separator}good 2"),
    )


def test_r07_a_denied_part_denies_the_whole() -> None:
    """The strictest part decides, and each part says what was decided about it."""
    decision = engine(["Bash(good *)"], deny=["Bash(evil *)"]).decide("Bash", {"command": "good 1 && evil 2"})
    assert ("deny", [("good 1", "allow"), ("evil 2", "deny")]) == (
        decision.verdict.value,
        [(part.text, part.verdict.value) for part in decision.parts[:2]],
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("timeout 30 npm test", "allow"),
        ("time npm test", "allow"),
        ("nice npm test", "allow"),
        ("nohup npm test", "allow"),
        ("stdbuf -oL npm test", "allow"),
        ("timeout 30 npm publish", "ask"),
        ("npx npm test", "ask"),
        ("docker exec box npm test", "ask"),
        ("devbox run npm test", "ask"),
        ("mise exec npm test", "ask"),
        ("direnv exec . npm test", "ask"),
        ("echo x | xargs npm test", "allow"),
        ("echo x | xargs -n1 npm test", "ask"),
    ],
)
def test_r08_wrappers(command: str, expected: str) -> None:
    """Five wrappers and a flagless xargs are looked through by an allow rule; runners are not."""
    assert expected == verdict(engine(["Bash(npm test:*)"]), "Bash", command)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("watch ls", "ask"),
        ("setsid ls", "ask"),
        ("ionice -c3 ls", "ask"),
        ("flock x ls", "ask"),
        ("find . -name x -delete", "ask"),
        ("find . -exec ls {} +", "ask"),
        ("find . -name x", "allow"),
    ],
)
def test_r09_some_commands_are_never_covered_by_a_prefix(command: str, expected: str) -> None:
    """A prefix rule for a program that runs others, or for a deleting find, does not cover it."""
    program = command.split(maxsplit=1)[0]
    assert expected == verdict(engine([f"Bash({program}:*)", "Bash(ls:*)"]), "Bash", command)


@pytest.mark.parametrize(
    "command", ["watch ls", "find . -name x -delete", "setsid ls -l", "flock x ls", "ionice ls"]
)
def test_r09_an_exact_rule_covers_them(command: str) -> None:
    """Who wrote down the very command has seen it."""
    assert "allow" == verdict(engine([f"Bash({command})"]), "Bash", command)


@pytest.mark.parametrize(
    "command",
    ["env rm x", "sudo rm x", "watch rm x", "ionice rm x", "setsid rm x", "/bin/rm x", "nice -n 5 rm x"],
)
def test_r09_a_deny_sees_through_wrappers(command: str) -> None:
    """Whatever is wrapped around it, a denied program is denied."""
    assert "deny" == verdict(engine(["Bash"], deny=["Bash(rm *)"]), "Bash", command)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls -la", "allow"),
        ("cat a.txt", "allow"),
        ("echo hello", "allow"),
        ("pwd", "allow"),
        ("head -n 3 a", "allow"),
        ("tail -5 a", "allow"),
        ("grep -n x a", "allow"),
        ("wc -l a", "allow"),
        ("which ls", "allow"),
        ("diff a b", "allow"),
        ("stat a", "allow"),
        ("du -sh .", "allow"),
        ("git log --oneline", "allow"),
        ("git status", "allow"),
        ("git diff HEAD", "allow"),
        ("ls *.py", "allow"),
        ("git push", "ask"),
        ("mkdir x", "ask"),
        ("cat /etc/passwd", "ask"),
        ("ls ~/.ssh", "ask"),
        ("cat ../other/x", "ask"),
        ("find . -delete", "ask"),
        ("python -c 1", "ask"),
    ],
)
def test_r10_looking_needs_no_rule(command: str, expected: str) -> None:
    """Known harmless commands run without a rule, as long as they look only at the working directories."""
    assert expected == verdict(engine(), "Bash", command)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd src && ls", "allow"),
        ("cd /w/repo && git status", "allow"),
        ("cd src/.. && ls", "ask"),
        ("cd /tmp && ls", "ask"),
        ("cd /tmp && git status", "ask"),
        ("cd .. && git status", "ask"),
        ("cd src && git status", "ask"),
        ("cd && git log", "ask"),
        ("cd - && git log", "ask"),
        ("cd src && echo x > y", "ask"),
        ("cd src && echo x > /dev/null", "allow"),
        ("cd src && cat ../../x", "ask"),
        ("cd ../repo-evil && ls", "ask"),
    ],
)
def test_r11_changing_directory(command: str, expected: str) -> None:
    """``cd`` is harmless inside the workspace; what follows is judged from where it may have led."""
    assert expected == verdict(engine(), "Bash", command)


def test_r11_rules_for_cd_and_git_do_not_cover_git_elsewhere() -> None:
    """Another repository's hooks would run; that is asked whatever is allowed."""
    made = engine(["Bash(cd:*)", "Bash(git:*)", "Bash"])
    assert "ask" == verdict(made, "Bash", "cd /elsewhere && git commit -m x")


@pytest.mark.parametrize(
    ("allow", "command", "expected"),
    [
        (["Bash(echo:*)"], "echo x > out", "ask"),
        (["Bash(echo:*)", "Edit(out)"], "echo x > out", "allow"),
        (["Bash(echo x > out)"], "echo x > out", "ask"),
        (["Bash(make:*)"], "X=1 make", "ask"),
        (["Bash(X=1 make:*)"], "X=1 make all", "allow"),
        (["Bash(X=1 make:*)"], "X=1 Y=2 make all", "ask"),
        (["Bash(* all)"], "LD_PRELOAD=./x make all", "ask"),
        (["Bash(* all)"], "X=1 make all", "ask"),
        (["Bash(make:*)"], "make $(evil)", "ask"),
        (["Bash(make:*)"], "make 2>&1", "allow"),
        (["Bash(make:*)"], "make < /etc/passwd", "ask"),
    ],
)
def test_a_plain_rule_covers_no_redirect_prefix_or_substitution(
    allow: list[str], command: str, expected: str
) -> None:
    """Table D of the oracle: these are not part of what the rule says."""
    assert expected == verdict(engine(allow), "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "eval rm x",
        'bash -c "rm x"',
        "echo $(rm x)",
        "r''m x",
        "$'rm' x",
        "ls `rm x`",
        "if true; then rm x; fi",
        "rm x )",
    ],
)
def test_a_deny_holds_whether_or_not_the_text_is_understood(command: str) -> None:
    """Not understanding a text never weakens a deny."""
    assert "deny" == verdict(engine(["Bash"], deny=["Bash(rm *)"], mode=Mode.BYPASS), "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "git push origin",
        "git -C x push origin",
        'eval "git push origin"',
        "git $(true) push origin",
        "sudo git push x",
    ],
)
def test_a_deny_of_a_sub_command_holds_in_every_spelling(command: str) -> None:
    """Options before a sub-command, wrappers and unreadable texts do not hide it."""
    assert "deny" == verdict(engine(["Bash"], deny=["Bash(git push *)"]), "Bash", command)


@pytest.mark.parametrize("command", ["git pull", "git commit -m push", "gitpush x", "echo git push"])
def test_a_deny_of_a_sub_command_means_nothing_else(command: str) -> None:
    """Understood commands that only mention the word are not denied."""
    assert "allow" == verdict(engine(["Bash"], deny=["Bash(git push *)"]), "Bash", command)
