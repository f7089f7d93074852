"""`store.git`: which files a repository tracks, without starting git on it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from recollect.store.git import UnknownIndex, is_tracked, tracked_names

NAMES = ["a", "a/x".replace("/", "_"), "dir/.claude/settings.local.json", "dir/1", "dir/12", "dir/123", "é"]


def git(root: Path, *words: str) -> bytes:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    environ = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(root), *words], check=True, capture_output=True, env=environ
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    return tmp_path


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
def test_it_names_what_git_names(tmp_path: Path, version: str, hashes: str) -> None:
    """Both layouts of names, both lengths of ids."""
    git(tmp_path, "init", "-q", f"--object-format={hashes}")
    for number in range(40):
        (tmp_path / f"file-{number:03d}{'x' * number}").write_text("x")
    git(tmp_path, "add", ".")
    git(tmp_path, "update-index", "--index-version", version)

    listed = git(tmp_path, "ls-files", "-z").split(b"\0")[:-1]
    assert listed == tracked_names((tmp_path / ".git" / "index").read_bytes())


def test_a_tracked_file_is_tracked_and_its_neighbour_is_not(repository: Path) -> None:
    """By its whole path from the top of the repository."""
    files = [repository / "dir" / ".claude" / name for name in ("settings.local.json", "settings.json")]

    assert [True, False] == list(map(is_tracked, files))


def test_outside_every_repository_nothing_is_tracked(tmp_path: Path) -> None:
    """No .git on the way up."""
    assert not is_tracked(tmp_path / "x")


@pytest.mark.parametrize(
    "data", [b"", b"DIRC", b"XXXX\0\0\0\2\0\0\0\0" + b"x" * 20, b"DIRC\0\0\0\2\0\0\0\5" + b"\0" * 30]
)
def test_an_index_that_makes_no_sense_counts_as_tracking(tmp_path: Path, data: bytes) -> None:
    """The careful way to be wrong."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "index").write_bytes(data)

    assert is_tracked(tmp_path / "x")


def test_every_cut_of_an_index_is_refused(repository: Path) -> None:
    """A torn file never reads as a shorter list of names."""
    data = (repository / ".git" / "index").read_bytes()
    understood = []
    for end in range(len(data)):
        try:
            understood.append((end, tracked_names(data[:end])))
        except UnknownIndex:
            continue

    assert [] == understood


def test_an_index_split_over_files_counts_as_tracking(repository: Path) -> None:
    """The other half is not followed."""
    git(repository, "update-index", "--split-index")
    (repository / "new").write_text("x")
    git(repository, "add", "new")

    assert is_tracked(repository / "nothing")


def test_a_worktree_names_its_own_index(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """There ``.git`` is a file."""
    git(repository, "-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")
    other = tmp_path_factory.mktemp("other") / "tree"
    git(repository, "worktree", "add", "-q", str(other))

    files = [other / "dir" / ".claude" / name for name in ("settings.local.json", "settings.json")]
    assert [True, False] == list(map(is_tracked, files))
