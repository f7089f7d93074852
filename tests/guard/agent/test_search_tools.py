"""Glob and Grep beside ``calls.toml``: long lists, denied files, and an end of every search."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from recollect.guard.agent import search
from tests.guard.agent.workshop import Workshop, call, needs_sandbox


def test_more_than_a_hundred_are_counted_not_listed(tmp_path: Path) -> None:
    """The hundred oldest, then how many there are."""
    shop = Workshop(tmp_path)
    for number in range(120):
        os.utime(shop.file(f"many/f{number:03d}.txt", "alpha\n"), (1_700_000_000 + number,) * 2)
    outcome = shop.runner().run(call("Glob", {"pattern": "many/*"})).outcome
    lines, rich = str(outcome.content).split("\n"), outcome.rich
    note = "(Showing 100 of 120 matching files; 20 more are not listed. Narrow the pattern or path to see the rest.)"

    assert ("many/f000.txt", "many/f099.txt", note) == (lines[0], *lines[-2:])
    assert isinstance(rich, dict)
    assert (100, True, 120, True) == tuple(
        rich[name] for name in ("numFiles", "truncated", "totalMatches", "countIsComplete")
    )


def test_a_stop_is_heard_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk over a large disk ends when somebody says so, and the log says that it was stopped."""
    stop = threading.Event()
    walk = os.fwalk

    def stopping(*given: Any, **more: Any) -> Any:
        stop.set()
        return walk(*given, **more)

    monkeypatch.setattr(os, "fwalk", stopping)
    outcome = Workshop(tmp_path).runner(cancelled=stop).run(call("Glob", {"pattern": "*"})).outcome

    assert (True, True) == (outcome.is_error, outcome.interrupted)


def test_no_pattern_takes_long() -> None:
    """Stars that a careless matcher would try in every combination, against a name that fits none."""
    began = time.process_time()
    met = search.matcher("*a" * 200 + "b")("a" * 5_000)

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
    met = search.matcher(pattern)

    assert (True, False) == (met(meant), not_meant is not None and met(not_meant))


@needs_sandbox
def test_lines_of_denied_files_are_left_out(tmp_path: Path) -> None:
    """In every mode, with the separators around them."""
    shop = Workshop(tmp_path, deny=["Read(.env)"])
    for name in ("a/x.py", "a/.env", "a/z.py"):
        shop.file(name, "top\nkey=1\nend\n")
    runner = shop.runner()
    modes: list[dict[str, Any]] = [{}, {"output_mode": "count"}, {"output_mode": "content", "-C": 1}]
    named, counted, shown = (
        str(runner.run(call("Grep", {"pattern": "key", **mode})).outcome.content).split("\n")
        for mode in modes
    )

    assert (["a/x.py", "a/z.py"], ["a/x.py:1", "a/z.py:1"]) == (sorted(named[1:]), sorted(counted[:2]))
    assert (7, "--", []) == (len(shown), shown[3], [line for line in shown if ".env" in line])


@needs_sandbox
def test_a_pattern_that_never_ends_is_ended(tmp_path: Path) -> None:
    """Whether the limit of the library or that of the sandbox comes first, an answer comes."""
    shop = Workshop(tmp_path)
    shop.file("slow.txt", "a" * 5_000 + "!\n")
    outcome = shop.runner().run(call("Grep", {"pattern": "(a|aa|a?a)+$", "glob": "slow.txt"})).outcome

    assert isinstance(outcome.content, str)
    assert outcome.content
