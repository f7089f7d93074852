"""Which repository a session belongs to, told by files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.ask.library import Home
from recollect.ask.sessions.projects import RepositoryFinder
from recollect.store.git import repository_of
from tests.small_home import ONE, TALK, TWO, put


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one worktree beside it, as git lays them out."""
    root = tmp_path / "shop"
    place = root / ".git" / "worktrees" / "fix"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..\n")
    worktree = tmp_path / "shop-fix"
    (worktree / "src").mkdir(parents=True)
    (worktree / ".git").write_text(f"gitdir: {place}\n")
    return root


def test_a_worktree_belongs_to_the_repository_it_was_made_from(repository: Path) -> None:
    """By its .git file and what all worktrees share, from any directory below it."""
    worktree = repository.with_name("shop-fix")
    assert {str(repository)} == {repository_of(str(one)) for one in (repository, worktree, worktree / "src")}


def test_a_relative_gitdir_is_taken_from_its_own_directory(repository: Path) -> None:
    """Newer git writes relative paths when asked to."""
    worktree = repository.with_name("shop-fix")
    (worktree / ".git").write_text("gitdir: ../shop/.git/worktrees/fix\n")
    assert str(repository) == repository_of(str(worktree))


def test_a_submodule_is_a_repository_of_its_own(repository: Path) -> None:
    """Its .git file leads to a place without a commondir."""
    (repository / ".git" / "modules" / "lib").mkdir(parents=True)
    module = repository / "lib"
    module.mkdir()
    (module / ".git").write_text("gitdir: ../.git/modules/lib\n")
    assert str(module) == repository_of(str(module))


def test_worktrees_of_a_bare_repository_share_it(tmp_path: Path) -> None:
    """It has no directory of files around it: its own name is the group's."""
    place = tmp_path / "shop.git" / "worktrees" / "a"
    place.mkdir(parents=True)
    (place / "commondir").write_text("../..")
    worktree = tmp_path / "a"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {place}")
    assert str(tmp_path / "shop.git") == repository_of(str(worktree))


@pytest.mark.parametrize("directory", ["", "relative/place", "/no\0where", "/no/such/place/at/all"])
def test_what_is_no_directory_has_no_repository(directory: str) -> None:
    """Transcripts may name anything."""
    assert repository_of(directory) is None


def test_a_file_that_says_nonsense_is_no_repository(tmp_path: Path) -> None:
    """A .git file of other content, or with a NUL inside."""
    (tmp_path / ".git").write_bytes(b"gitdir: /a\0b")
    inside = tmp_path / "a"
    inside.mkdir()
    (inside / ".git").write_text("hello")
    assert repository_of(str(inside)) is None


def test_a_worktree_that_is_gone_is_known_by_its_log(own_home: Path, repository: Path) -> None:
    """The client noted where the worktree came from; without a note the path stands for itself."""
    home, gone = own_home / ".claude", repository.with_name("gone")
    noted = put(home, ONE, TALK, str(gone))
    note = {"type": "worktree-state", "worktreeSession": {"originalCwd": str(repository)}, "sessionId": ONE}
    noted.write_bytes(noted.read_bytes() + json.dumps(note).encode() + b"\n")
    put(home, TWO, TALK, str(gone))
    found = {
        session.id: RepositoryFinder().of(session.cwd, session.path) for session in Home(home).sessions()
    }
    assert {ONE: str(repository), TWO: str(gone)} == found


def test_a_directory_below_a_repository_that_is_gone_belongs_to_it(own_home: Path, repository: Path) -> None:
    """The client's own worktrees lie inside the repository."""
    put(own_home / ".claude", ONE, TALK, str(repository / ".claude" / "worktrees" / "x"))
    (session,) = Home(own_home / ".claude").sessions()
    assert str(repository) == RepositoryFinder().of(session.cwd, session.path)
