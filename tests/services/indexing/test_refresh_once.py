"""A refresh nobody waits for: quiet, once, and never in anybody's way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recollect.services.indexing.access import index_path, open_index
from recollect.services.indexing.refresh_once import USAGE, main
from recollect.system.lock import FileLock
from tests.talk import assistant, log_at


@pytest.fixture
def home(tmp_path: Path) -> Path:
    log_at(tmp_path / "home" / "projects" / "-srv" / "s.jsonl", [assistant("a", None, 1, "x")])
    return tmp_path / "home"


def answers(home: Path, cache: Path) -> object:
    with open_index([home], cache=cache, is_refreshed=False, patience=0) as opened:
        return None if opened.database is None else opened.database.value("SELECT sum(messages) FROM rollup")


def test_it_refreshes_and_says_nothing(home: Path, tmp_path: Path) -> None:
    """As a program of its own, the way the status line starts it."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "recollect.services.indexing.refresh_once",
            "--cache",
            str(tmp_path / "cache"),
            str(home),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (0, "", "", 1) == (ran.returncode, ran.stdout, ran.stderr, answers(home, tmp_path / "cache"))


def test_where_somebody_else_is_at_it_it_has_nothing_to_do(home: Path, tmp_path: Path) -> None:
    """It does not even wait for the first index."""
    path = index_path([home], tmp_path)
    with FileLock(path.with_suffix(".lock")):
        assert 0 == main(["--cache", str(tmp_path), str(home)])

        assert answers(home, tmp_path) is None


def test_without_a_place_for_it_it_ends_quietly(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where the directory should be."""
    (tmp_path / "file").write_text("")

    assert (0, ("", "")) == (
        main(["--cache", str(tmp_path / "file" / "cache"), str(home)]),
        capsys.readouterr(),
    )


def test_without_a_cache_it_takes_ours(home: Path, own_home: Path) -> None:
    """The place every command looks at."""
    assert (0, True) == (main([str(home)]), index_path([home]).exists())
    assert index_path([home]).is_relative_to(own_home)


@pytest.mark.parametrize(
    "arguments", [[], ["--cache"], ["--cache", "x"], ["--help"], ["--cache", "x", "--verbose"]]
)
def test_a_call_without_a_home_is_a_mistake(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The one thing it complains of."""
    assert (2, USAGE + "\n") == (main(arguments), capsys.readouterr().err)
