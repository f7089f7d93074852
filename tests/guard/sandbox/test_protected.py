"""Names that others execute stay as they are: held, watched and put back, with nothing left behind."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from recollect.errors import StorageError
from recollect.guard.policy.paths import DIRECTORIES, FILES, protected_name
from recollect.guard.sandbox import protected
from recollect.guard.sandbox.protected import OpenTree, open_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project with a repository."""
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / ".git" / "hooks" / "sample").write_text("one")
    (tmp_path / ".git" / "config").write_text("[core]\n")
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def prepare(tree: Path) -> protected.ProtectedNames:
    """As a run does it; the tree stays open until the test ends."""
    return protected.prepare([open_tree(tree)])


def names(tree: Path) -> set[str]:
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*")}


def test_what_exists_is_held_and_the_way_to_it_pinned(tree: Path) -> None:
    """Pinned: a directory that holds a held name could else be moved aside with it."""
    guarded = prepare(tree)
    held, pinned = set(guarded.held), list(guarded.pinned)
    guarded.settle()

    assert {tree / ".git/hooks", tree / ".git/config"} <= held
    assert [tree / ".git"] == pinned


def test_what_is_missing_gets_an_empty_directory_for_the_time_of_the_run(tree: Path) -> None:
    """A directory, because git does not list empty ones; read-only; gone afterwards."""
    before = names(tree)
    guarded = prepare(tree)
    during = names(tree) - before
    modes = {stat.S_IMODE((tree / name).stat().st_mode) for name in during}
    put_back = guarded.settle()

    assert {".mcp.json", ".claude", ".vscode", ".bashrc"} <= during
    assert ".claude/settings.json" not in during
    assert ({0o555}, before, ()) == (modes, names(tree), put_back)


def test_the_last_of_two_runs_removes_the_placeholders(tree: Path) -> None:
    """Else the first to end would open the door for the second."""
    before = names(tree)
    first = prepare(tree)
    second = prepare(tree)
    first.settle()
    between = names(tree)
    second.settle()

    assert (True, before) == (".mcp.json" in between, names(tree))


def test_what_a_crash_left_is_taken_along_by_the_next_run(tree: Path) -> None:
    """An empty directory with the placeholder's mode is one."""
    before = names(tree)
    crashed = prepare(tree)
    for placeholder in crashed.placeholders:
        os.close(placeholder[2])
    prepare(tree).settle()

    assert before == names(tree)


def test_an_empty_directory_of_the_user_stays(tree: Path) -> None:
    """His has another mode."""
    (tree / ".vscode").mkdir()
    prepare(tree).settle()

    assert (tree / ".vscode").is_dir()


def test_a_watched_file_is_put_back_and_the_change_kept(tree: Path) -> None:
    """What was there is there again, mode and all; no byte is lost."""
    (tree / ".git/config.worktree").write_text("[core]\n")
    (tree / ".git/config.worktree").chmod(0o600)
    guarded = prepare(tree)
    (tree / ".git/config.worktree").write_text("evil")
    (tree / ".git/config.worktree").chmod(0o777)
    put_back = guarded.settle()

    assert (str(tree / ".git/config.worktree"),) == put_back
    assert ("[core]\n", 0o600) == (
        (tree / ".git/config.worktree").read_text(),
        stat.S_IMODE((tree / ".git/config.worktree").stat().st_mode),
    )
    assert "evil" == (tree / ".git/config.worktree.recollect-blocked-1").read_text()


def test_a_link_that_was_turned_is_turned_back(tree: Path) -> None:
    """A mount would lie on what the link names; the link itself can only be watched."""
    (tree / "rc").write_text("")
    (tree / ".ripgreprc").symlink_to("rc")
    guarded = prepare(tree)
    (tree / ".ripgreprc").unlink()
    (tree / ".ripgreprc").symlink_to("/etc/evil")
    put_back = guarded.settle()

    assert ((str(tree / ".ripgreprc"),), "rc") == (put_back, os.readlink(tree / ".ripgreprc"))


def test_nothing_is_written_through_a_planted_link(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The program replaces .git by a link to elsewhere and waits for us to put things back there (C07)."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tree / ".git/commondir").write_text("own")
    guarded = prepare(tree)
    (tree / ".git").rename(tree / "away")
    (tree / ".git").symlink_to(elsewhere)
    guarded.settle()

    assert [] == list(elsewhere.iterdir())
    assert "own" == (tree / ".git/commondir").read_text()


def test_no_placeholder_is_made_through_a_link(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """.claude is a link: it is watched, and nothing appears where it leads."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tree / ".claude").symlink_to(elsewhere)
    guarded = prepare(tree)
    there = list(elsewhere.iterdir())
    guarded.settle()

    assert [] == there


def test_a_new_common_directory_of_git_is_taken_away(tree: Path) -> None:
    """It would send git to another config; a placeholder for it would break git (C08)."""
    guarded = prepare(tree)
    (tree / ".git/commondir").write_text("../evil")
    put_back = guarded.settle()

    assert ((str(tree / ".git/commondir"),), False) == (put_back, (tree / ".git/commondir").exists())


def test_we_ourselves_are_held_where_we_live_in_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project's own .venv may hold recollect: what confines a program must not be its to change."""
    (tmp_path / "env" / ".venv").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env" / ".venv"))
    guarded = prepare(tmp_path)
    held, pinned = set(guarded.held), set(guarded.pinned)
    guarded.settle()

    assert tmp_path / "env/.venv" in held
    assert tmp_path / "env" in pinned


def test_what_cannot_be_put_back_is_told(tree: Path) -> None:
    """The placeholders are gone all the same."""
    (tree / ".ripgreprc").symlink_to("rc")
    guarded = prepare(tree)
    (tree / ".ripgreprc").unlink()
    closed = OpenTree(tree, os.dup(0))
    os.close(closed.descriptor)
    guarded.watched[:] = [(closed, name, before) for _, name, before in guarded.watched]
    with pytest.raises(StorageError, match="put back"):
        guarded.settle()

    assert not (tree / ".mcp.json").exists()


def test_the_sandbox_and_the_permission_engine_protect_the_same_names(tree: Path) -> None:
    """Each name the engine asks about is held or watched in a run, and nothing else is."""
    guarded = prepare(tree)
    covered = {path.relative_to(tree).as_posix() for path in guarded.held}
    covered |= {name for _, name, _ in guarded.watched} - set(protected.WATCHED)
    guarded.settle()

    tops = {name.split("/")[0] for name in covered}
    missing = {name for name in (*DIRECTORIES, *FILES) if name not in tops}
    assert (set(), []) == (missing, [name for name in covered if protected_name(name) is None])


def test_files_that_tools_read_are_put_back_when_a_run_made_them(tree: Path) -> None:
    """No placeholder stands in for them, since npm or git would stumble over it."""
    guarded = prepare(tree)
    for name in (".npmrc", ".gitattributes"):
        assert not (tree / name).exists()
        (tree / name).write_text("planted")

    assert {str(tree / ".npmrc"), str(tree / ".gitattributes")} == set(guarded.settle())
    assert not (tree / ".npmrc").exists()
    assert "planted" == (tree / ".npmrc.recollect-blocked-1").read_text()


@pytest.mark.parametrize(
    ("config", "directory"),
    [
        ("[core]\n\thooksPath = .githooks\n", ".githooks"),
        ("[Core] HOOKSPATH=.githooks ; ours\n", ".githooks"),
        ('[core]\n\tbare = false\n\thookspath = "tools/git hooks" # ours\n', "tools/git hooks"),
        ("[core]\n\thooksPath = first\n[core]\n\thooksPath = TREE/tools/./hooks\n", "tools/hooks"),
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_the_directory_that_git_takes_its_hooks_from_is_protected(
    tree: Path, config: str, directory: str, is_there: bool
) -> None:
    """``core.hooksPath`` names another directory than .git/hooks; in the repository or for the user."""
    (tree / ".git/config").write_text(config.replace("TREE", str(tree)))
    if is_there:
        (tree / directory).mkdir(parents=True)
    guarded = prepare(tree)
    held = set(guarded.held)
    guarded.settle()

    assert held & {tree / directory, *(tree / directory).parents}
    assert is_there == (tree / directory).exists()


@pytest.mark.parametrize("value", ["/etc/hooks", "../outside", "~/hooks", "", ".", "a\\"])
def test_a_hooks_directory_outside_the_tree_is_no_name_of_it(tree: Path, value: str) -> None:
    (tree / ".git/config").write_text(f"[core]\n\thooksPath = {value}\n")
    guarded = prepare(tree)
    held = {path.relative_to(tree).as_posix() for path in guarded.held}
    guarded.settle()

    assert not held & {"..", ".", "etc"}
