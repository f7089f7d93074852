"""`recollect export`: what it says to type next can be typed."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.agents import tiny_homes


def test_the_command_that_goes_on_is_quoted_for_the_shell(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory with spaces: the words that a shell reads are the client, its option and the file."""
    home, into = own_home / "codex", own_home / "Ausgabe mit Käse"
    tiny_homes.codex(home)
    assert 0 == main(["--home", str(home), "export", "@last", "--to", "claude", "-o", str(into)])
    line = next(one for one in capsys.readouterr().out.splitlines() if one.startswith("Continue it with: "))

    program, option, path = shlex.split(line.removeprefix("Continue it with: "))
    assert ("claude", "--resume", True) == (program, option, Path(path).is_relative_to(into))
    assert all(
        json.loads(text)["sessionId"] == Path(path).stem for text in Path(path).read_text().splitlines()
    )
