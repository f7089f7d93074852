"""Colour is decided in one module: by --color, NO_COLOR, FORCE_COLOR, and what stdout is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal.terminals import environment, on_terminal

SAMPLE = ["--home", ":sample", "--data", "data", "list", "--no-index"]
# Variables, options, whether there is colour on a terminal, and in a pipe.
CASES: list[tuple[dict[str, str], list[str], bool, bool]] = [
    ({}, [], True, False),
    ({"NO_COLOR": "1"}, [], False, False),
    ({"FORCE_COLOR": "1"}, [], True, True),
    ({"FORCE_COLOR": "0"}, [], True, False),
    ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, [], False, False),
    ({"TERM": "dumb"}, [], False, False),
    ({"NO_COLOR": "1"}, ["--color", "always"], True, True),
    ({"FORCE_COLOR": "1"}, ["--color=never"], False, False),
    ({}, ["--color", "auto"], True, False),
]
DRIVER = """
import json, os, sys
from recollect.cli.main import main
from recollect.cli.terminal import output
before = dict(os.environ)
for changes, words in json.loads(sys.argv[1]):
    os.environ.update(changes)
    print("\\x1e", flush=True)
    main(words)
    sys.stdout.flush()
    output.choose_colour("auto")
    os.environ.clear()
    os.environ.update(before)
"""


def driver(asked: list[tuple[dict[str, str], list[str]]]) -> list[str]:
    return [sys.executable, "-c", DRIVER, json.dumps(asked)]


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_whether_there_is_colour() -> None:
    asked = [(changes, [*SAMPLE, *words]) for changes, words, _, _ in CASES]
    shown, _ = on_terminal(driver(asked), 80)
    piped = subprocess.run(driver(asked), env=environment(), capture_output=True, text=True, check=True)
    parts = zip(shown.split("\x1e")[1:], piped.stdout.split("\x1e")[1:], strict=True)

    assert CASES == [
        (*case[:2], "\x1b[36m6ada00ba" in terminal, "\x1b[" in pipe)
        for case, (terminal, pipe) in zip(CASES, parts, strict=True)
    ]


def test_a_pipe_gets_whole_rows() -> None:
    """Whatever COLUMNS says: who reads a pipe wants whole directories."""
    asked: list[tuple[dict[str, str], list[str]]] = [({"COLUMNS": "60"}, SAMPLE)]
    piped = subprocess.run(driver(asked), env=environment(), capture_output=True, text=True, check=True)
    shown, _ = on_terminal(driver(asked), 200)

    assert "  /home/sam/field notes\n" in piped.stdout
    assert "/home/sam/field notes" not in shown
