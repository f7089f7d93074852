"""`recollect show --tree`: how a session branched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.cli.session_logs import (
    SessionLog,
    branched,
    call,
    compacted,
    drives_a_terminal,
    hostile,
    talk,
    text,
)


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert 0 == main(["show", "3f2a", "--tree", "--json", *arguments])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def drawn(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines below the head, without times and colons."""
    assert 0 == main(["show", "3f2a", "--tree"])
    lines = capsys.readouterr().out.split("\n")[1:-1]
    return [" ".join(word.strip(":") for word in line.split() if not word[:1].isdigit()) for line in lines]


def test_a_branch_is_drawn_beside_the_active_one(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was given up is one step in; the active conversation goes on at the margin."""
    branched().write(own_home / ".claude")

    assert [
        "● u1 You Start",
        "● a1 Claude Started fork",
        "│ ○ u2 You First try",
        "│ ○ a2 Claude Tried first leaf a2",
        "● u3 You Second try",
        "● a3 Claude Tried second active leaf a3",
    ] == drawn(capsys)


def test_parallel_calls_are_no_branches(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each result hangs off its own call, and still there is one way only."""
    log = SessionLog().prompt("u1", "Both")
    log.answer("a1", call("Read", "c1"))
    log.answer("a2", call("Read", "c2"))
    log.lines[2] = log.lines[2].replace("msg_a2", "msg_a1")
    log.result("r1", "c1", "one", parent="a1").result("r2", "c2", "two", parent="a2")
    log.answer("a3", text("Done")).write(own_home / ".claude")

    assert ["● u1 You Both", "● a3 Claude Done active leaf a3"] == drawn(capsys)


def test_a_compaction_is_a_step_of_the_same_conversation(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is before it counts as active too, and is no branch of its own."""
    compacted().write(own_home / ".claude")
    assert 0 == main(["show", "3f2a", "--tree"])
    shown = capsys.readouterr().out

    assert "entries 6, branches 1, compactions 1" in shown
    assert "○" not in shown
    assert ["a1"] == [one["before"] for one in document(capsys)["compactions"]]


def test_long_runs_of_prompts_are_folded(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a hundred prompts without a branch the first and last two are shown, and the end."""
    log = SessionLog()
    for number in range(100):
        log.prompt(f"u{number}", f"Prompt {number}", timestamp="2026-11-15T10:00:00.000Z")
    log.write(own_home / ".claude")
    lines = drawn(capsys)

    assert [
        "● u0 You Prompt",
        "● u1 You Prompt",
        "… more prompts",
        "● u97 You Prompt",
        "● u98 You Prompt",
        "● u99 You Prompt active leaf u99",
    ] == lines


def test_circles_and_orphans_are_drawn_once(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hand-made log whose entries follow each other round, and one whose parent is missing."""
    log = SessionLog().prompt("u1", "A", parent="u2").prompt("u2", "B", parent="u1")
    log.prompt("u3", "C", parent="gone").write(own_home / ".claude")
    found = document(capsys)
    assert 0 == main(["show", "3f2a", "--tree"])
    shown = capsys.readouterr().out

    assert ([["u1", "u2"]], ["u3"]) == (found["cycles"], found["orphans"])
    assert [1, 1, 1] == [shown.count(f" {uuid} ") for uuid in ("u1", "u2", "u3")]


def test_deep_nesting_needs_no_stack(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five thousand branches, each off the one before: no recursion, and lines stay short."""
    log = SessionLog().prompt("u0", "x")
    for number in range(1, 5000):
        moment = "2026-11-15T10:00:00.000Z"
        log.prompt(f"u{number}", "x", parent=f"u{number - 1}", timestamp=moment)
        log.prompt(f"d{number}", "x", parent=f"u{number - 1}", timestamp=moment)
    log.prompt("end", "x", None).write(own_home / ".claude")
    assert 0 == main(["show", "3f2a", "--tree"])
    lines = capsys.readouterr().out.split("\n")

    assert "branches 5,001" in lines[0]
    assert max(map(len, lines)) < 150


def test_the_difference_of_two_branches(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What they share is counted, what each has alone is shown."""
    branched().write(own_home / ".claude")
    found = document(capsys, "--diff", "a2", "a3")
    assert 0 == main(["show", "3f2a", "--tree", "--diff", "a2", "a3"])
    shown = capsys.readouterr().out

    assert (2, "a1", ["u2", "a2"], ["u3", "a3"]) == (
        found["common"],
        found["last_common"],
        [one["uuid"] for one in found["only_left"]],
        [one["uuid"] for one in found["only_right"]],
    )
    assert "2 entries in common, the last is a1\n" in shown
    assert ("- Tried first\n" in shown, "+ Tried second\n" in shown) == (True, True)


@pytest.mark.parametrize("arguments", [[], ["--diff", "x3", "z2"]])
def test_hostile_text_is_shown_not_sent(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """W4: one hundred payloads in prompts, ids, titles."""
    hostile().write(own_home / ".claude")
    assert 0 == main(["show", "3f2a", "--tree", *arguments])
    captured = capsys.readouterr()

    assert "\\x" in captured.out
    assert [] == drives_a_terminal(captured.out + captured.err)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "recollect show @last --tree"),
        (["nothing-like-it"], 3, "recollect list"),
        (["3f2a", "--diff", "u1", "zz"], 3, "is not in this session"),
    ],
)
def test_wrong_use_says_what_to_do(
    own_home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    """Usage 2, not found 3."""
    talk().write(own_home / ".claude")

    assert code == main(["show", *arguments, "--tree"])
    assert words in capsys.readouterr().err
