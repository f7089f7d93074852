"""Sessions whose ids begin with the time (Codex) are named so that the name fits one of them, in every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, link, prompt, put, reply, said

EARLY, LATE = "01a1e394-f0ab-7c11-8f44-2b3c4d5e6f70", "01a1e394-fe4b-76d3-b40a-90bd3af77600"
_SECRET = "sk-ant-api03-" + "Zq9Xw8Ve7" * 10 + "AA"


@pytest.fixture
def file(own_home: Path, tmp_path: Path) -> Path:
    """Two sessions of one minute, of which one is damaged and one wrote a file, beside one with an id of no time."""
    path = tmp_path / "a.py"
    report = {"type": "create", "filePath": str(path), "content": "one\n", "structuredPatch": []}
    use = {
        "type": "tool_use",
        "id": "t",
        "name": "Write",
        "input": {"file_path": str(path), "content": "one\n"},
    }
    block = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    wrote = link(3, 2, type="user", message={"role": "user", "content": [block]}, toolUseResult=report)
    home = own_home / ".claude"
    put(home, EARLY, [prompt(1, None, "Write it"), reply(2, 1, use), wrote])
    damaged = put(home, LATE, [prompt(1, None, f"Key {_SECRET}"), reply(2, 1, said("Done"))])
    with damaged.open("ab") as log:
        log.write(b'{"type":"user","uuid":')
    put(home, ONE, [prompt(1, None, "Other"), reply(2, 1, said("Yes"))])
    path.write_text("one\n")
    return path


COMMANDS = [
    ["doctor"],
    [],
    ["fork", LATE, "--at", "nothing"],
    ["show", LATE, "--branch", "ffffffff"],
    ["fork", EARLY],
    ["rename", EARLY, "Name"],
    ["blame", "{file}"],
    ["files", "{file}"],
    ["secrets"],
    ["protect", "tidy", "--older-than", "0d"],
    ["protect", "list"],
    ["protect", "rm", "01a1e394"],
    ["undo"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_name_that_is_shown_fits_one_session(
    words: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Eight characters would be those of both."""
    main(["protect", "now", EARLY, LATE])
    main(["rm", ONE, "--apply"])
    main(["rm", EARLY, "--apply"] if words == ["undo"] else ["list"])
    capsys.readouterr()

    main([word.format(file=file) for word in words])
    told = "".join(capsys.readouterr())

    assert "01a1e394-" in told
    assert not re.search(r"01a1e394(?!-)", told.replace("'01a1e394'", "")), told


@pytest.mark.parametrize(
    "words",
    [["list"], ["protect", "list"], ["protect", "tidy", "--older-than", "0d"], ["undo"]],
    ids=" ".join,
)
def test_names_of_two_lengths_are_one_column(
    words: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What follows the name stands in the same column in every row."""
    main(["protect", "now"])
    for name in (ONE, EARLY) if words == ["undo"] else ():
        main(["rm", name, "--apply"])
    capsys.readouterr()

    main(words)
    rows = [row for row in capsys.readouterr().out.splitlines() if "01a1e394-" in row or ONE[:8] in row]

    ends = {
        row.index("Write it") if "Write it" in row else row.index("Other") for row in rows if "Key" not in row
    }
    assert 2 <= len(rows)
    assert 1 == len(ends), rows
