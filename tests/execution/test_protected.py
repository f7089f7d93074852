"""Names that others execute stay as they are: held, watched and put back, with nothing left behind."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from recollect.errors import StorageError
from recollect.execution import protected
from recollect.execution.trees import OpenTree, open_tree
from recollect.policy.paths.protected import DIRECTORIES, FILES, protected_name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small project with a repository."""
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    (tmp_path / ".git" / "hooks" / "sample").write_text("one")
    (tmp_path / ".git" / "config").write_text("[core]\n")
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def prepare(tree: Path, *, has_mounts: bool) -> protected.ProtectedNames:
    """As a run does it; the tree stays open until the test ends."""
    return protected.prepare([open_tree(tree)], has_mounts=has_mounts)


def names(tree: Path) -> set[str]:
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*")}


def test_what_exists_is_held_and_the_way_to_it_pinned(tree: Path) -> None:
    """Pinned: a directory that holds a held name could else be moved aside with it."""
    guarded = prepare(tree, has_mounts=True)
    held, pinned = set(guarded.held), list(guarded.pinned)
    guarded.settle()

    assert {tree / ".git/hooks", tree / ".git/config"} <= held
    assert [tree / ".git"] == pinned


def test_what_is_missing_gets_an_empty_directory_for_the_time_of_the_run(tree: Path) -> None:
    """A directory, because git does not list empty ones; read-only; gone afterwards."""
    before = names(tree)
    guarded = prepare(tree, has_mounts=True)
    during = names(tree) - before
    modes = {stat.S_IMODE((tree / name).stat().st_mode) for name in during}
    put_back = guarded.settle()

    assert {".mcp.json", ".claude", ".vscode", ".bashrc"} <= during
    assert ".claude/settings.json" not in during
    assert ({0o555}, before, ()) == (modes, names(tree), put_back)


def test_the_last_of_two_runs_removes_the_placeholders(tree: Path) -> None:
    """Else the first to end would open the door for the second."""
    before = names(tree)
    first = prepare(tree, has_mounts=True)
    second = prepare(tree, has_mounts=True)
    first.settle()
    between = names(tree)
    second.settle()

    assert (True, before) == (".mcp.json" in between, names(tree))


def test_what_a_crash_left_is_taken_along_by_the_next_run(tree: Path) -> None:
    """An empty directory with the placeholder's mode is one."""
    before = names(tree)
    crashed = prepare(tree, has_mounts=True)
    for placeholder in crashed.placeholders:
        os.close(placeholder.descriptor)
    prepare(tree, has_mounts=True).settle()

    assert before == names(tree)


def test_an_empty_directory_of_the_user_stays(tree: Path) -> None:
    """His has another mode."""
    (tree / ".vscode").mkdir()
    prepare(tree, has_mounts=True).settle()

    assert (tree / ".vscode").is_dir()


def test_a_watched_file_is_put_back_and_the_change_kept(tree: Path) -> None:
    """Without mounts, or for a link: what stood there stands again, mode and all; no byte is lost."""
    (tree / ".git/config").chmod(0o600)
    guarded = prepare(tree, has_mounts=False)
    (tree / ".git/config").write_text("evil")
    (tree / ".git/config").chmod(0o777)
    put_back = guarded.settle()

    assert (str(tree / ".git/config"),) == put_back
    assert ("[core]\n", 0o600) == (
        (tree / ".git/config").read_text(),
        stat.S_IMODE((tree / ".git/config").stat().st_mode),
    )
    assert "evil" == (tree / ".git/config.recollect-blocked-1").read_text()


def test_a_watched_directory_is_put_back_whole(tree: Path) -> None:
    """A hook more, one less, one changed: all as before."""
    (tree / ".git/hooks/sub").mkdir()
    (tree / ".git/hooks/sub/x").write_text("two")
    guarded = prepare(tree, has_mounts=False)
    (tree / ".git/hooks/pre-commit").write_text("evil")
    (tree / ".git/hooks/sample").unlink()
    guarded.settle()

    assert {"sample": "one", "sub/x": "two"} == {
        path.relative_to(tree / ".git/hooks").as_posix(): path.read_text()
        for path in (tree / ".git/hooks").rglob("*")
        if path.is_file()
    }


def test_what_was_missing_is_missing_again(tree: Path) -> None:
    """A file that was made under a protected name stands beside it under another."""
    guarded = prepare(tree, has_mounts=False)
    (tree / ".mcp.json").write_text("{}")
    put_back = guarded.settle()

    assert ((str(tree / ".mcp.json"),), False) == (put_back, (tree / ".mcp.json").exists())
    assert "{}" == (tree / ".mcp.json.recollect-blocked-1").read_text()


def test_a_link_that_was_turned_is_turned_back(tree: Path) -> None:
    """A mount would lie on what the link names; the link itself can only be watched."""
    (tree / "rc").write_text("")
    (tree / ".ripgreprc").symlink_to("rc")
    guarded = prepare(tree, has_mounts=True)
    (tree / ".ripgreprc").unlink()
    (tree / ".ripgreprc").symlink_to("/etc/evil")
    put_back = guarded.settle()

    assert ((str(tree / ".ripgreprc"),), "rc") == (put_back, os.readlink(tree / ".ripgreprc"))


def test_nothing_is_written_through_a_planted_link(
    tree: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The program replaces .git by a link to elsewhere and waits for us to put things back there (C07)."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    guarded = prepare(tree, has_mounts=False)
    (tree / ".git").rename(tree / "away")
    (tree / ".git").symlink_to(elsewhere)
    guarded.settle()

    assert [] == list(elsewhere.iterdir())
    assert ("[core]\n", "one") == (
        (tree / ".git/config").read_text(),
        (tree / ".git/hooks/sample").read_text(),
    )


def test_no_placeholder_is_made_through_a_link(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """.claude is a link: it is watched, and nothing appears where it leads."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tree / ".claude").symlink_to(elsewhere)
    guarded = prepare(tree, has_mounts=True)
    there = list(elsewhere.iterdir())
    guarded.settle()

    assert [] == there


def test_a_new_common_directory_of_git_is_taken_away(tree: Path) -> None:
    """It would send git to another config; a placeholder for it would break git (C08)."""
    guarded = prepare(tree, has_mounts=True)
    (tree / ".git/commondir").write_text("../evil")
    put_back = guarded.settle()

    assert ((str(tree / ".git/commondir"),), False) == (put_back, (tree / ".git/commondir").exists())


def test_we_ourselves_are_held_where_we_live_in_the_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project's own .venv may hold recollect: what confines a program must not be its to change."""
    (tmp_path / "env" / ".venv").mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env" / ".venv"))
    guarded = prepare(tmp_path, has_mounts=True)
    held, pinned = set(guarded.held), set(guarded.pinned)
    guarded.settle()

    assert tmp_path / "env/.venv" in held
    assert tmp_path / "env" in pinned


def test_what_cannot_be_put_back_is_told(tree: Path) -> None:
    """The placeholders are gone all the same."""
    (tree / ".ripgreprc").symlink_to("rc")
    guarded = prepare(tree, has_mounts=True)
    (tree / ".ripgreprc").unlink()
    closed = OpenTree(tree, os.dup(0))
    os.close(closed.descriptor)
    guarded.watched[:] = [(closed, name, before) for _, name, before in guarded.watched]
    with pytest.raises(StorageError, match="put back"):
        guarded.settle()

    assert not (tree / ".mcp.json").exists()


def test_the_sandbox_and_the_permission_engine_protect_the_same_names(tree: Path) -> None:
    """Each name the engine asks about is held or watched in a run, on both kinds of back end, and nothing else is."""
    for has_mounts in (True, False):
        guarded = prepare(tree, has_mounts=has_mounts)
        covered = {path.relative_to(tree).as_posix() for path in guarded.held}
        covered |= {name for _, name, _ in guarded.watched} - set(protected.WATCHED)
        guarded.settle()

        tops = {name.split("/")[0] for name in covered}
        missing = {name for name in (*DIRECTORIES, *FILES) if name not in tops}
        assert (set(), []) == (missing, [name for name in covered if protected_name(name) is None])


@pytest.mark.parametrize("has_mounts", [True, False])
def test_files_that_tools_read_are_put_back_when_a_run_made_them(tree: Path, has_mounts: bool) -> None:
    """No placeholder stands in for them, since npm or git would stumble over it."""
    guarded = prepare(tree, has_mounts=has_mounts)
    for name in (".npmrc", ".gitattributes"):
        assert not (tree / name).exists()
        (tree / name).write_text("planted")

    assert {str(tree / ".npmrc"), str(tree / ".gitattributes")} == set(guarded.settle())
    assert not (tree / ".npmrc").exists()


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
    for has_mounts in (True, False):
        guarded = prepare(tree, has_mounts=has_mounts)
        held = set(guarded.held)
        if not has_mounts:
            (tree / directory).mkdir(parents=True, exist_ok=True)
            (tree / directory / "pre-commit").write_text("planted")
        put_back = guarded.settle()

        if has_mounts:
            assert held & {tree / directory, *(tree / directory).parents}
        assert not (tree / directory / "pre-commit").exists()
        assert ((str(tree / directory),) if not has_mounts else ()) == put_back


@pytest.mark.parametrize("value", ["/etc/hooks", "../outside", "~/hooks", "", ".", "a\\"])
def test_a_hooks_directory_outside_the_tree_is_no_name_of_it(tree: Path, value: str) -> None:
    (tree / ".git/config").write_text(f"[core]\n\thooksPath = {value}\n")
    guarded = prepare(tree, has_mounts=True)
    held = {path.relative_to(tree).as_posix() for path in guarded.held}
    guarded.settle()

    assert not held & {"..", ".", "etc"}
