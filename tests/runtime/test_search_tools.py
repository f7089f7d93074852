"""Glob, against what client 2.1.325 answered for the same files and the same calls."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.runtime import ToolRunner, globs
from tests.runtime.workshop import Workshop, call

PYTHON = [
    "src/a.py",
    "src/deep/c.py",
    "top.py",
    ".git/x.py",
    "src/.hid/h.py",
    "node_modules/m.py",
    "lib/[x].py",
]
FILES = [
    *("src/a.py", "src/deep/c.py", "top.py", ".git/x.py", ".git/config", "src/.hid/h.py"),
    *("node_modules/m.py", "b.md", "lib/[x].py", "Up.PY"),
    *(f"many/f{number:03d}.txt" for number in range(120)),
]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """The directory the client was asked in; each file is a second younger than the one before."""
    made = Workshop(tmp_path)
    for number, name in enumerate(FILES):
        os.utime(made.file(name, "alpha\n"), (1_700_000_000 + number, 1_700_000_000 + number))
    (made.project / "link.py").symlink_to("src/a.py")
    (made.project / "linkdir").symlink_to("src")
    return made


def glob(runner: ToolRunner, **arguments: Any) -> tuple[Any, Any]:
    """What the model is told, and what stands in the log, without the time it took."""
    outcome = runner.run(call("Glob", arguments)).outcome
    rich = outcome.rich
    return outcome.content, {**rich, "durationMs": 0} if isinstance(rich, dict) else rich


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"pattern": "*.py"}, PYTHON),
        ({"pattern": "**/*.py"}, PYTHON),
        ({"pattern": "src/*.py"}, ["src/a.py"]),
        ({"pattern": "src/**/*.py"}, ["src/a.py", "src/deep/c.py", "src/.hid/h.py"]),
        ({"pattern": "src/**"}, ["src/a.py", "src/deep/c.py", "src/.hid/h.py"]),
        ({"pattern": "*.py", "path": "src"}, ["src/a.py", "src/deep/c.py", "src/.hid/h.py"]),
        ({"pattern": "{top,b}.*"}, ["top.py", "b.md"]),
        ({"pattern": "[a-c].py"}, ["src/a.py", "src/deep/c.py"]),
        ({"pattern": "?op.py"}, ["top.py"]),
        ({"pattern": "lib/\\[x\\].py"}, ["lib/[x].py"]),
        ({"pattern": "**/.git/*"}, [".git/x.py", ".git/config"]),
        ({"pattern": "*.PY"}, ["Up.PY"]),
        ({"pattern": "./src/*.py"}, []),
        ({"pattern": "*.{md,txt}", "path": "lib"}, []),
        ({"pattern": "*/c.py"}, []),
        ({"pattern": "deep/*.py"}, []),
        ({"pattern": "linkdir/*.py"}, []),
        ({"pattern": "src"}, []),
        ({"pattern": "src/"}, []),
    ],
)
def test_the_files_the_client_lists(shop: Workshop, arguments: dict[str, str], names: list[str]) -> None:
    """The same names in the same order, in the same two shapes."""
    rich = {
        "filenames": names,
        "durationMs": 0,
        "numFiles": len(names),
        "truncated": False,
        "totalMatches": len(names),
        "countIsComplete": True,
    }

    assert ("\n".join(names) or "No files found", rich) == glob(shop.runner(), **arguments)


def test_an_absolute_pattern_is_a_directory_and_a_pattern(shop: Workshop) -> None:
    """As the client takes it: the rest of it has no slash, and is met at any depth."""
    content, _ = glob(shop.runner(), pattern=f"{shop.project}/src/*.py")

    assert "src/a.py\nsrc/deep/c.py\nsrc/.hid/h.py" == content


def test_more_than_a_hundred_are_counted_not_listed(shop: Workshop) -> None:
    """The hundred oldest, then how many there are."""
    content, rich = glob(shop.runner(), pattern="many/*")
    told = (
        "(Showing 100 of 120 matching files; 20 more are not listed. "
        "Narrow the pattern or path to see the rest.)"
    )

    assert ("many/f000.txt", "many/f099.txt", told) == (
        content.split("\n")[0],
        *content.split("\n")[-2:],
    )
    assert (100, True, 120, True) == tuple(
        rich[name] for name in ("numFiles", "truncated", "totalMatches", "countIsComplete")
    )


def test_a_missing_directory_and_a_file_in_its_place(shop: Workshop) -> None:
    """The client's words."""
    runner, here = shop.runner(), shop.project
    missing = f"Directory does not exist: {here}/nodir. Note: your current working directory is {here}."

    assert (missing, f"Error: {missing}") == glob(runner, pattern="*", path=f"{here}/nodir")
    assert f"Path is not a directory: {here}/top.py" == glob(runner, pattern="*", path=f"{here}/top.py")[0]


@pytest.mark.parametrize("pattern", [None, 7, "", "{a", "[a", "{a,b}" * 9, "**/" * 9 + "x", "x" * 1_001])
def test_a_pattern_that_is_none_is_refused(shop: Workshop, pattern: object) -> None:
    """It is answered, and nothing is listed."""
    outcome = shop.runner().run(call("Glob", {"pattern": pattern})).outcome

    assert (True, True) == (outcome.is_error, "pattern" in str(outcome.content))


@pytest.mark.parametrize(
    "arguments", [{"pattern": "*", "path": "/etc"}, {"pattern": "/etc/*"}, {"pattern": "../*"}]
)
def test_what_lies_outside_needs_a_rule(shop: Workshop, arguments: dict[str, str]) -> None:
    """Nobody is there to be asked, so the answer is no."""
    outcome = shop.runner().run(call("Glob", arguments)).outcome

    assert (True, True) == (outcome.is_error, outcome.denied)


def test_denied_files_are_not_named(tmp_path: Path) -> None:
    """A rule that keeps a file from being read keeps its name as well."""
    shop = Workshop(tmp_path, deny=["Read(.env)"])
    for name in ("open/key.py", "open/.env"):
        shop.file(name, "x")

    assert ["open/key.py"] == glob(shop.runner(), pattern="*")[1]["filenames"]


def test_it_looks_where_the_shell_is(shop: Workshop) -> None:
    """After ``cd src`` the directory is src, and names are shown from there."""
    runner = shop.runner()
    runner._bash.cwd = f"{shop.project}/src"

    assert "a.py\ndeep/c.py\n.hid/h.py" == glob(runner, pattern="*.py")[0]


def test_a_stop_is_heard_on_the_way(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk over a large disk ends when somebody says so, and the log says that it was stopped."""
    stop = threading.Event()
    walk = os.fwalk

    def stopping(*given: Any, **more: Any) -> Any:
        stop.set()
        return walk(*given, **more)

    monkeypatch.setattr(os, "fwalk", stopping)
    outcome = shop.runner(cancelled=stop).run(call("Glob", {"pattern": "*"})).outcome

    assert (True, True) == (outcome.is_error, outcome.interrupted)


def test_no_pattern_takes_long() -> None:
    """Stars that a careless matcher would try in every combination, against a name that fits none."""
    began = time.process_time()
    met = globs.matcher("*a" * 200 + "b")("a" * 5_000)

    assert (False, True) == (met, time.process_time() - began < 5)


@pytest.mark.parametrize(
    ("pattern", "meant", "not_meant"),
    [
        ("*a*b*c", "xaxbxc", "xaxcxb"),
        ("a*", "a", "ba"),
        ("*.py", "x/.py", "x.pyc"),
        ("**", "a/b", None),
        ("a/**/b", "a/b", "a/c"),
        ("a/**/b", "a/x/y/b", "xa/b"),
        ("{a,b{c,d}}.x", "bd.x", "b.x"),
        ("[!a].x", "b.x", "a.x"),
        ("!*.py", "a.md", "d/a.py"),
        ("\\*.x", "*.x", "a.x"),
        ("a?c", "abc", "a/c"),
        ("*ab*ab", "abab", "ab"),
    ],
)
def test_what_a_pattern_means(pattern: str, meant: str, not_meant: str | None) -> None:
    """By the rules of gitignore, which ripgrep follows."""
    met = globs.matcher(pattern)

    assert (True, False) == (met(meant), not_meant is not None and met(not_meant))
