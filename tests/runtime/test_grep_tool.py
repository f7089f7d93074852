"""Grep, against what client 2.1.325 answered for the same files and the same calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from recollect.runtime import ToolRunner
from recollect.runtime.grep_tool import GrepTool
from tests.runtime.workshop import Workshop, call, needs_sandbox

pytestmark = [
    needs_sandbox,
    pytest.mark.skipif(not GrepTool.available(), reason="needs grep and xargs"),
]
FILES = {
    "src/a.py": "alpha\nbeta\ngamma\ndelta\nalpha two\n",
    "src/b.ts": "no\nalpha\n",
    ".git/config": "alpha\n",
    ".hid/x.py": "alpha\n",
    "long.txt": f"alpha {'x' * 900}\n",
    "bin.dat": "alpha\0\n",
    "c.md": "aa alpha alpha\n",
}


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """The directory the client was asked in; each file is a second younger than the one before."""
    made = Workshop(tmp_path)
    for number, (name, text) in enumerate(FILES.items()):
        os.utime(made.file(name, text), (1_700_000_000 + number, 1_700_000_000 + number))
    for number in range(300):
        os.utime(made.file(f"many/f{number:03d}.txt", "omega\n"), (1_600_000_000 + number,) * 2)
    (made.project / "link.py").symlink_to("src/a.py")
    return made


def grep(runner: ToolRunner, pattern: str, **arguments: Any) -> tuple[Any, Any]:
    """What the model is told, and what stands in the log."""
    named = {name.replace("_", "-") if len(name) == 2 else name: value for name, value in arguments.items()}
    outcome = runner.run(call("Grep", {"pattern": pattern, **named})).outcome
    return outcome.content, outcome.rich


def files(*names: str) -> tuple[str, dict[str, Any]]:
    head = f"Found {len(names)} file{'s' if len(names) != 1 else ''}"
    rich = {
        "mode": "files_with_matches",
        "filenames": list(names),
        "numFiles": len(names),
        "totalFiles": len(names),
    }
    return "\n".join([head, *names]) if names else "No files found", rich


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({}, ["c.md", "long.txt", ".hid/x.py", "src/b.ts", "src/a.py"]),
        ({"type": "py"}, [".hid/x.py", "src/a.py"]),
        ({"glob": "*.{py,ts}"}, [".hid/x.py", "src/b.ts", "src/a.py"]),
        ({"glob": "*.py *.ts"}, [".hid/x.py", "src/b.ts", "src/a.py"]),
        ({"glob": "*.py,*.ts"}, [".hid/x.py", "src/b.ts", "src/a.py"]),
        ({"glob": "src/**"}, ["src/b.ts", "src/a.py"]),
        ({"path": "src/a.py"}, ["src/a.py"]),
        ({"path": "many"}, []),
    ],
)
def test_the_files_the_client_names(shop: Workshop, arguments: dict[str, str], names: list[str]) -> None:
    """The one changed last first; hidden ones, but none of .git, no link, and nothing binary."""
    assert files(*names) == grep(shop.runner(), "alpha", **arguments)


def test_lines(shop: Workshop) -> None:
    """With file and number; a long line is left out."""
    content, rich = grep(shop.runner(), "alpha", output_mode="content")
    lines = [
        ".hid/x.py:1:alpha",
        "c.md:1:aa alpha alpha",
        "long.txt:1:[Omitted long matching line]",
        "src/a.py:1:alpha",
        "src/a.py:5:alpha two",
        "src/b.ts:2:alpha",
    ]

    assert (lines, content) == (sorted(content.split("\n")), rich["content"])
    assert {"mode": "content", "numFiles": 0, "filenames": [], "numLines": 6, "totalLines": 6} == {
        name: value for name, value in rich.items() if name != "content"
    }


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        (
            {"path": "src", "_C": 1, "glob": "a.py"},
            "src/a.py:1:alpha\nsrc/a.py-2-beta\n--\nsrc/a.py-4-delta\nsrc/a.py:5:alpha two",
        ),
        ({"path": "src/a.py", "_A": 1}, "1:alpha\n2-beta\n--\n5:alpha two"),
        ({"path": "src", "glob": "*.ts", "_n": False}, "src/b.ts:alpha"),
        ({"glob": "*.md", "_o": True}, "c.md:1:alpha\nc.md:1:alpha"),
        ({"path": "many"}, "No matches found"),
    ],
)
def test_how_lines_are_shown(shop: Workshop, arguments: dict[str, Any], content: str) -> None:
    """Context, one file alone, without numbers, only what matched, nothing."""
    assert content == grep(shop.runner(), "alpha", output_mode="content", **arguments)[0]


def test_case_counts_unless_it_is_said_not_to(shop: Workshop) -> None:
    """``-i`` as everywhere."""
    runner = shop.runner()

    assert [files(), files("src/b.ts", "src/a.py")] == [
        grep(runner, "ALPHA", path="src"),
        grep(runner, "ALPHA", path="src", _i=True),
    ]


def test_counts(shop: Workshop) -> None:
    """Lines for each file, and the sum."""
    content, rich = grep(shop.runner(), "alpha", output_mode="count", path="src/a.py")
    expected = {"mode": "count", "numFiles": 1, "filenames": [], "content": "src/a.py:2", "numMatches": 2}

    assert ("src/a.py:2\n\nFound 2 total occurrences across 1 file.", expected) == (content, rich)
    assert (
        "No matches found\n\nFound 0 total occurrences across 0 files."
        == (grep(shop.runner(), "zzz", output_mode="count")[0])
    )


def test_pages(shop: Workshop) -> None:
    """250 unless something else is asked for; what was bounded is said."""
    runner = shop.runner()
    content, rich = grep(runner, "omega")
    assert ("Found 250 files limit: 250", "many/f299.txt", "many/f050.txt") == (
        *content.split("\n")[:2],
        content.split("\n")[-1],
    )
    assert (250, 300, 250) == (rich["numFiles"], rich["totalFiles"], rich["appliedLimit"])

    content, rich = grep(runner, "omega", head_limit=2, offset=1)
    assert "Found 2 files limit: 2, offset: 1\nmany/f298.txt\nmany/f297.txt" == content
    assert (2, 300, 2, 1) == tuple(
        rich[n] for n in ("numFiles", "totalFiles", "appliedLimit", "appliedOffset")
    )

    content, rich = grep(runner, "omega", output_mode="count", head_limit=2)
    assert content.endswith("\n\nFound 300 total occurrences across 300 files. with pagination = limit: 2")
    assert (300, 300, 2) == (rich["numFiles"], rich["numMatches"], len(rich["content"].split("\n")))

    content, rich = grep(runner, "omega", output_mode="content", head_limit=1, offset=1)
    assert content.endswith(":1:omega\n\n[Showing results with pagination = limit: 1, offset: 1]")
    assert (1, 300) == (rich["numLines"], rich["totalLines"])
    assert 300 == len(grep(runner, "omega", head_limit=0)[1]["filenames"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "("}, "the pattern was rejected"),
        ({"pattern": "a", "type": "nope"}, "unrecognized file type: nope"),
        ({"pattern": "a", "path": "nodir"}, "Path does not exist: "),
        ({"pattern": "a", "glob": "{a"}, "never closed"),
        ({"pattern": "a", "multiline": True}, "`multiline` is not available here"),
        ({"pattern": "a", "output_mode": "lines"}, "output_mode"),
        ({}, "The required parameter `pattern` is missing"),
        ({"pattern": "a", "path": "/etc"}, "permissions to use Grep"),
        ({"pattern": "a", "path": ["src"]}, "has been denied"),
    ],
)
def test_what_cannot_be_done_is_said(shop: Workshop, arguments: dict[str, Any], words: str) -> None:
    """An error the model can read; nothing is shown."""
    outcome = shop.runner().run(call("Grep", arguments)).outcome

    assert (True, True) == (outcome.is_error, words in str(outcome.content)), outcome.content


def test_a_pattern_that_looks_like_an_option_is_a_pattern(shop: Workshop) -> None:
    """Neither grep nor xargs takes an order from it."""
    shop.file("odd/-r", "--version -f /etc/passwd\n")

    assert files("odd/-r") == grep(shop.runner(), "--version -f /etc/passwd")


def test_denied_files_are_left_out(tmp_path: Path) -> None:
    """In every mode, with the separators around them."""
    shop = Workshop(tmp_path, deny=["Read(.env)"])
    for name in ("a/x.py", "a/.env", "a/z.py"):
        shop.file(name, "top\nkey=1\nend\n")
    runner = shop.runner()
    lines = grep(runner, "key", output_mode="content", _C=1)[0].split("\n")

    assert ["a/x.py", "a/z.py"] == sorted(grep(runner, "key")[1]["filenames"])
    assert ["a/x.py:1", "a/z.py:1"] == sorted(
        grep(runner, "key", output_mode="count")[1]["content"].split("\n")
    )
    assert (7, "--", []) == (len(lines), lines[3], [line for line in lines if ".env" in line])


def test_a_pattern_that_never_ends_is_ended(shop: Workshop) -> None:
    """Whether the limit of the library or that of the sandbox comes first, an answer comes."""
    shop.file("slow.txt", "a" * 5_000 + "!\n")
    outcome = shop.runner().run(call("Grep", {"pattern": "(a|aa|a?a)+$", "glob": "slow.txt"})).outcome

    assert isinstance(outcome.content, str)
    assert outcome.content
