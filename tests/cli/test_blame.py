"""`recollect blame` and `recollect files`: what they print, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, link, prompt, put, reply

PROMPT = "Make a file\x1b[31m with a very long reason " + "that goes on and on " * 8


@pytest.fixture
def file(own_home: Path, tmp_path: Path) -> Path:
    """A session wrote two lines, a person the third."""
    path = tmp_path / "proj" / "a:1.py"
    path.parent.mkdir()
    text = "one_line = 1\ntwo_line = '\x1b[31m'\n"
    report = {"type": "create", "filePath": str(path), "content": text, "structuredPatch": []}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    use = {
        "type": "tool_use",
        "id": "t1",
        "name": "Write",
        "input": {"file_path": str(path), "content": text},
    }
    lines = [
        prompt(1, None, PROMPT),
        reply(2, 1, use),
        link(3, 2, type="user", message={"role": "user", "content": [block]}, toolUseResult=report),
    ]
    put(own_home / ".claude", ONE, lines)
    path.write_text(text + "three_line = " + "3" * 200 + "\n")
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert 0 == main(list(words))
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, *words, "--json"))
    return found


def test_every_line_has_its_session_or_none(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Within 80 columns; what the transcript says is shown, never sent to the terminal."""
    told = printed(capsys, "blame", str(file)).splitlines()

    assert [f"1  {ONE[:8]}  one_line = 1", f"2  {ONE[:8]}  two_line = '\\x1b[31m'"] == told[:2]
    assert told[2].startswith("3  -         three_line = 333")
    assert told[3].startswith(f"{ONE[:8]}  Make a file\\x1b[31m with")
    assert "2 of 3 lines written by a session" == told[4]
    assert max(map(len, told)) <= 80


def test_a_line_is_told_in_full(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Session, time, tool and the whole prompt; a person's line is unknown."""
    told = printed(capsys, "blame", f"{file}:1").splitlines()

    assert ("1  one_line = 1", f"  session  {ONE}") == (told[0], told[1])
    assert any(line.startswith("  written  2026-11-15") and line.endswith("(write)") for line in told)
    assert "prompt   Make a file\\x1b[31m with a very long reason" in " ".join(told)
    assert 8 == " ".join(" ".join(told).split("prompt")[1].split()).count("goes on and on")
    assert max(map(len, told)) <= 80
    assert "unknown: no session wrote it" in printed(capsys, "blame", f"{file}:3")


@pytest.mark.parametrize(
    ("ending", "code", "words"),
    [
        (":4", 2, "it has 3 lines"),
        (":0", 2, "no line 0"),
        (":3-2", 2, "no line 3-2"),
        ("x", 3, "no such file"),
    ],
)
def test_what_is_not_there_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], ending: str, code: int, words: str
) -> None:
    """With the next step."""
    assert code == main(["blame", f"{file}{ending}"])
    assert words in capsys.readouterr().err


def test_log_lists_sessions(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the number of changes and of lines that are left."""
    told = printed(capsys, "files", str(file)).splitlines()

    assert f"{ONE[:8]}  2026-11-15" in told[0]
    assert "1 change, 2 lines now  Make a file\\x1b[31m" in told[0]
    assert ("1 session, 0 commits", True) == (told[1], max(map(len, told)) <= 80)
    found = document(capsys, "files", str(file))
    (row,) = found["sessions"]
    assert (ONE, 1, 2, [PROMPT.strip()]) == (row["session"], row["changes"], row["lines"], row["prompts"])
    assert 3 == main(["files", f"{file}x"])
