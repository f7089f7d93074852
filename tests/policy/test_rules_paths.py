"""R12-R15 and the protected names: which files a rule means. Expected values are from the rule table."""

from __future__ import annotations

import pytest

from recollect.policy.modes import Mode
from recollect.policy.paths.glob_meeting import globs_meet
from recollect.policy.rules.rule import RuleProblem
from tests.policy.worlds import CWD, HOME, TableWorld, engine, rule, verdict


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("//etc/hosts", "/etc/hosts", True),
        ("//etc/**", "/etc/ssh/x", True),
        ("//etc/**", "/etcx/y", False),
        ("/etc/hosts", "/etc/hosts", False),
        ("/docs/x", "/s/docs/x", True),
        ("/docs/x", f"{CWD}/docs/x", False),
        ("~/notes/*.md", f"{HOME}/notes/a.md", True),
        ("~/notes/*.md", f"{HOME}/notes/b/a.md", False),
        ("~/notes/**", f"{HOME}/notes/b/a.md", True),
        ("*.env", f"{CWD}/a/b/x.env", True),
        (".env", f"{CWD}/a/.env", True),
        ("./.env", f"{CWD}/a/.env", False),
        ("./.env", f"{CWD}/.env", True),
        ("src/**", f"{CWD}/src/a/b", True),
        ("src/**", f"{CWD}/lib/src/a", False),
        ("src", f"{CWD}/lib/src/a", True),
        ("src/*.py", f"{CWD}/src/a.py", True),
        ("src/*.py", f"{CWD}/src/b/a.py", False),
        ("a/**/z", f"{CWD}/a/z", True),
        ("a/**/z", f"{CWD}/a/b/c/z", True),
        ("**/z", f"{CWD}/b/c/z", True),
        ("x?.txt", f"{CWD}/x1.txt", True),
        ("x[0-9].txt", f"{CWD}/x5.txt", True),
        ("x[!0-9].txt", f"{CWD}/x5.txt", False),
        (r"x\*.txt", f"{CWD}/x*.txt", True),
        (r"x\*.txt", f"{CWD}/xy.txt", False),
        ("docs/", f"{CWD}/docs/a", True),
        ("../side/**", "/w/side/a", True),
        ("src/../lib/*", f"{CWD}/lib/a", True),
    ],
)
def test_r12_four_anchors_and_gitignore_patterns(pattern: str, path: str, expected: bool) -> None:
    """``//`` root, ``~/`` home, ``/`` the settings' directory, else the working directory."""
    wanted = "allow" if expected else "ask"
    assert wanted == verdict(engine([f"Edit({pattern})"], anchor="/s"), "Edit", path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("//etc/shadow", "/etc/shadow"),
        (".env", "/elsewhere/.env"),
        ("./.env", f"{CWD}/a/.env"),
        ("secrets/**", f"{CWD}/secrets"),
        ("./secret/", f"{CWD}/secret"),
        ("~/.ssh/**", f"{HOME}/.ssh/id"),
        ("/x", "/s/x/y"),
    ],
)
def test_r12_a_deny_reads_its_pattern_generously(pattern: str, path: str) -> None:
    """The directory of a denied tree, and a bare name outside the working directory, are meant too."""
    assert "deny" == verdict(engine(["Read"], deny=[f"Read({pattern})"], anchor="/s"), "Read", path)


@pytest.mark.parametrize("pattern", ["!x", "#x", " ", "a\0b"])
def test_r12_a_pattern_that_names_no_path_is_a_problem(pattern: str) -> None:
    """Exceptions and comments are not rules."""
    assert isinstance(rule(f"Read({pattern}y)" if pattern != " " else "Read( /)x", "deny"), RuleProblem)


@pytest.mark.parametrize("tool", ["Edit", "Write", "MultiEdit", "NotebookEdit"])
def test_r13_edit_rules_cover_all_editing_tools(tool: str) -> None:
    """One rule for the path, whichever tool writes it."""
    made = engine(["Edit(src/**)"], deny=["Edit(src/x)"])
    assert ("allow", "deny") == (verdict(made, tool, f"{CWD}/src/a"), verdict(made, tool, f"{CWD}/src/x"))


@pytest.mark.parametrize("tool", ["Read", "Grep", "Glob", "LS", "NotebookRead"])
def test_r13_read_rules_cover_all_reading_tools(tool: str) -> None:
    """One rule for the path, whichever tool reads it."""
    made = engine(["Read(//data/**)"], deny=["Read(//data/x)"])
    assert ("allow", "deny") == (verdict(made, tool, "/data/a"), verdict(made, tool, "/data/x"))


@pytest.mark.parametrize("tool", ["Edit", "Write", "NotebookEdit"])
def test_r13_a_read_deny_also_blocks_editing(tool: str) -> None:
    """What may not be seen may not be changed, by path or as a whole."""
    by_path, whole = engine([tool], deny=["Read(x)"]), engine([tool], deny=["Read"])
    assert ("deny", "deny") == (verdict(by_path, tool, f"{CWD}/x"), verdict(whole, tool, f"{CWD}/y"))


@pytest.mark.parametrize("text", ["Write(x)", "Glob(x)", "NotebookEdit(x)", "Grep(x)", "MultiEdit(x)"])
def test_r13_path_rules_of_other_tools_never_match(text: str) -> None:
    """They are skipped, and the warning names the rule to write instead."""
    found = rule(text, "deny")
    assert isinstance(found, RuleProblem)
    assert "never matches" in found.why


def test_r13_a_bare_edit_allows_edit_only() -> None:
    """Table D: a bare ``Edit`` does not allow Write."""
    made = engine(["Edit"])
    assert ("allow", "ask") == (verdict(made, "Edit", f"{CWD}/a"), verdict(made, "Write", f"{CWD}/a"))


@pytest.mark.parametrize("pattern", ["*.pem", "**/key*", f"/{CWD}/x/*"])
def test_r13_glob_and_grep_do_not_search_for_denied_names(pattern: str) -> None:
    """A search whose own pattern could give a denied file is denied."""
    made = engine(deny=["Read(*.pem)", "Read(x/**)", "Read(key)"])
    assert "deny" == verdict(made, "Glob", {"pattern": pattern})


@pytest.mark.parametrize(
    "command",
    [
        "cat secret",
        "cat ./secret",
        "cat src/../secret",
        "head -n1 secret",
        "tail secret",
        "cp secret x",
        "sed -n 1p secret",
        "grep x secret",
        "cat < secret",
        "cat secre*",
        "cat s?cret",
        "cd src && cat ../secret",
        "cat /w/repo/secret",
        "sudo cat secret",
        "eval 'cat secret'",
        "cat $(echo secret)",
        "base64 secret",
    ],
)
def test_r14_read_denies_reach_file_commands(command: str) -> None:
    """A Read deny also stops the shell's ways of reading the file, as far as they are known."""
    assert "deny" == verdict(engine(["Bash"], deny=["Read(./secret)"]), "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        """jq -n 'import "keys" as $d; $d'""",
        """jq -n -L . 'import "keys" as $d; $d'""",
        """jq -n -Lsub/.. 'import "keys" as $d; $d'""",
        """jq -n 'import "./keys" as $d; $d'""",
        """jq -n 'import "keys" as $d {search: "./"}; $d'""",
        "strings @keys.json",
        "git grep --no-index x keys.json",
        "git grep --untracked x -- keys.json",
        "grep -d recurse x keys.json",
        "wc --files0-from=keys.json",
    ],
)
def test_r14_read_denies_reach_files_that_no_word_names_plainly(command: str) -> None:
    """A deny, not only a question, also where a rule allows all of Bash."""
    assert "deny" == verdict(engine(["Bash"], deny=["Read(./keys.json)"]), "Bash", command)


@pytest.mark.parametrize(
    "command", ["echo x > locked", "touch locked", "rm locked", "cp a locked", "tee locked"]
)
def test_r14_edit_denies_reach_file_commands(command: str) -> None:
    """An Edit deny also stops the shell's ways of writing the file."""
    assert "deny" == verdict(engine(["Bash"], deny=["Edit(locked)"]), "Bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "ls sub",
        "ls -la sub/b",
        "find sub",
        "stat secret",
        "git diff --no-index secret a",
        "git show HEAD:secret",
    ],
)
def test_r14_read_denies_reach_listings_and_git(command: str) -> None:
    """The client denies these too: what may not be read may not be listed or shown by git."""
    assert "deny" == verdict(engine(["Bash"], deny=["Read(./secret)", "Read(./sub/**)"]), "Bash", command)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("grep -r x .", "ask"),
        ("grep -rn x", "ask"),
        ("cp -r . /elsewhere", "ask"),
        ("rg x", "ask"),
        ("grep -r x src", "allow"),
        ("grep x a", "allow"),
    ],
)
def test_r14_reading_a_whole_directory_with_a_denied_file_in_it_is_asked_about(
    command: str, expected: str
) -> None:
    """A denied file that is there would be read along with the others."""
    world = TableWorld(identities={f"{CWD}/.env": (1, 2)})
    assert expected == verdict(engine(["Bash"], deny=["Read(.env)"], world=world), "Bash", command)


@pytest.mark.parametrize(
    ("command", "expected"),
    [("cat *", "allow"), ("cat .*", "deny"), ("cat .e*", "deny"), ("cat *env", "allow")],
)
def test_r14_a_star_leaves_hidden_files_out(command: str, expected: str) -> None:
    """The shell expands a leading star to visible names only."""
    assert expected == verdict(engine(["Bash"], deny=["Read(.env)"]), "Bash", command)


def test_r14_a_file_in_an_unknown_directory_is_asked_about() -> None:
    """Where some files are denied, a relative name in a directory nobody knows may be one of them."""
    made = engine(["Bash"], deny=["Read(~/.ssh/**)"])
    assert ["ask", "deny", "allow"] == [
        verdict(made, "Bash", "cd $D && cat id"),
        verdict(made, "Bash", "cd ~/.ssh && cat id"),
        verdict(made, "Bash", "cd $D && echo id"),
    ]


def test_r14_a_text_that_is_not_understood_is_not_denied_for_a_tree_it_does_not_name() -> None:
    """Only its own words count against it."""
    made = engine(["Bash"], deny=["Read(~/.ssh/**)", "Read(secrets/**)"])
    assert ["allow", "deny"] == [
        verdict(made, "Bash", "eval 'cat readme'"),
        verdict(made, "Bash", "eval 'cat secrets/a'"),
    ]


@pytest.mark.parametrize("command", ["cat public", "cat secrets.md", "cat src/public", "echo secret"])
def test_r14_other_files_stay_readable(command: str) -> None:
    """A deny means its own file."""
    assert "allow" == verdict(engine(deny=["Read(./secret)"]), "Bash", command)


LINKS = TableWorld(links={f"{CWD}/link": "/etc/passwd", f"{CWD}/dir": "/outside", f"{CWD}/in": f"{CWD}/src"})


@pytest.mark.parametrize(
    ("allow", "deny", "path", "expected"),
    [
        (["Edit(link)"], [], f"{CWD}/link", "ask"),
        (["Edit(link)", "Edit(//etc/passwd)"], [], f"{CWD}/link", "allow"),
        (["Edit"], ["Edit(//etc/passwd)"], f"{CWD}/link", "deny"),
        (["Edit"], ["Edit(link)"], f"{CWD}/link", "deny"),
        (["Edit(**)"], [], f"{CWD}/dir/new", "ask"),
        (["Edit"], ["Edit(//outside/**)"], f"{CWD}/dir/new", "deny"),
        (["Edit(**)"], [], f"{CWD}/in/a", "allow"),
        (["Edit(in/**)"], [], f"{CWD}/in/a", "ask"),
        (["Edit(src/**)"], [], f"{CWD}/src/../link", "ask"),
    ],
)
def test_r15_allow_needs_both_ends_of_a_link_and_deny_either(
    allow: list[str], deny: list[str], path: str, expected: str
) -> None:
    """The link and what it leads to are two names of one file."""
    assert expected == verdict(engine(allow, deny=deny, world=LINKS), "Edit", path)


@pytest.mark.parametrize("tool", ["Read", "Bash"])
def test_r15_a_link_out_of_the_workspace_is_not_in_it(tool: str) -> None:
    """Reading without a rule needs both ends inside."""
    path = f"{CWD}/link"
    assert "ask" == verdict(engine(world=LINKS), tool, path if tool == "Read" else f"cat {path}")


@pytest.mark.parametrize(
    "name",
    [".git/hooks/pre-commit", ".git/config", ".bashrc", "a/.zshrc", ".mcp.json", ".claude/settings.json",
     ".claude/settings.local.json", ".vscode/tasks.json", ".idea/x", ".ripgreprc", ".GIT/config", ".Claude/x",
     ".gitmodules", ".envrc", ".husky/pre-commit"],
)  # fmt: skip
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.AUTO])
def test_c05_protected_names_are_asked_about(name: str, mode: Mode) -> None:
    """A rule for the tree and a mode that accepts edits do not cover them, existing or not."""
    made = engine(["Edit(**)", "Write", "Bash(cp:*)"], mode=mode)
    assert ["ask"] * 3 == [
        verdict(made, "Write", f"{CWD}/{name}"),
        verdict(made, "Bash", f"cp x {name}"),
        verdict(made, "Bash", f"echo x > {name}"),
    ]


def test_c05_a_worktree_below_the_settings_directory_is_a_working_directory() -> None:
    """The name above the working directory says nothing about the files in it; those below still count."""
    cwd = "/w/repo/.claude/worktrees/one"
    made = engine(["Edit(**)"], cwd=cwd)
    assert ("allow", "ask", "ask") == (
        verdict(made, "Edit", f"{cwd}/src/a"),
        verdict(made, "Edit", f"{cwd}/.git/config"),
        verdict(made, "Edit", "/w/repo/.claude/settings.json"),
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
