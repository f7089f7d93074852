"""K4: whatever the umask, what we write is for its owner only: files 0600, directories 0700."""

from __future__ import annotations

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.model.project_key import project_key
from tests.small_home import ONE, TALK, TWO, prompt, put, reply, said

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")

# Commands that write anywhere: into our own directories, into the home, or where they are told to.
WRITING: list[list[str]] = [
    [],
    ["cost", "--json"],
    ["search", "Q1"],
    ["data", "index", "rebuild"],
    ["secrets"],
    ["doctor"],
    ["export", ONE, "--format", "jsonl", "--output", "talk.jsonl"],
    ["fork", ONE],
    ["export", ONE, "--to", "codex"],
    ["rename", ONE, "Another"],
    ["tag", ONE, "kept"],
    ["doctor", TWO, "--fix", "--apply"],
    ["doctor", TWO, "--fix", "--copy", "--apply"],
    ["secrets", "remove", ONE, "--apply"],
    ["data", "migrate", "--to", "claude-to-flat", ONE, "--apply"],
    ["protect", "now"],
    ["export", "--bundle", "bundle.tar"],
    ["protect", "restore", "--all", "--to", "restored", "--apply"],
    ["mv", "/srv/app", "/srv/moved", "--apply"],
    ["protect", "tidy", "--older-than", "1d", "--apply"],
    ["rm", ONE, "--apply"],
    ["undo"],
]


@pytest.fixture
def home(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home as a client leaves it, closed to others; a whole session, an old one, and a damaged one."""
    root = own_home / ".claude"
    put(root, ONE, [*TALK, prompt(5, 4, "My key is ghp_" + "a1B2" * 9)])
    torn = put(root, TWO, [prompt(1, None, "Q"), reply(2, 1, said("A"))], "/srv/other")
    torn.write_bytes(torn.read_bytes() + b'{"torn\n')
    (root / "history.jsonl").write_text('{"display":"Q1","project":"/srv/app"}\n')
    for path in [root, *root.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)
    for log in root.glob("projects/*/*.jsonl"):
        os.utime(log, (1_700_000_000, 1_700_000_000))
    work = tmp_path / "work"
    work.mkdir(mode=0o700)
    monkeypatch.chdir(work)
    return root


@contextlib.contextmanager
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


def too_open(*roots: Path) -> dict[str, str]:
    """What others may look into."""
    found = {}
    for root in roots:
        for path in [root, *root.rglob("*")] if root.exists() else []:
            mode = stat.S_IMODE(path.lstat().st_mode)
            if not path.is_symlink() and mode & 0o077:
                found[str(path)] = oct(mode)
    return found


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_what_is_written_is_for_its_owner_only(
    home: Path,
    own_home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    """Under umask 000: our own directories, what was made in the home, and what was written where we were told."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    with open_umask():
        if "restore" in words:
            assert 0 == main(["protect", "now"])
        assert main(words) in {0, 1}
    capsys.readouterr()

    ours = [own_home / name / "recollect" for name in ("xdg-data", "xdg-cache", "xdg-config")]
    assert {} == too_open(*ours, home, Path.cwd())


def test_an_open_mode_would_be_seen(home: Path) -> None:
    """The proof of the proof."""
    log = home / "projects" / project_key("/srv/app") / f"{ONE}.jsonl"
    log.chmod(0o644)

    assert {str(log): "0o644"} == too_open(home)
