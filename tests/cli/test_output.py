"""Colour is decided in one module: by --color, NO_COLOR, FORCE_COLOR, and what stdout is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.terminal.rows import fitted_table
from tests.cli.terminals import environment, on_terminal

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


HEADS = ["project", "responses", "cache read", "cost"]
ROWS = [
    HEADS,
    ["/home/sam/projects/shop", "1,234", "98,765,432,109", "$1,443.10"],
    ["/srv/app", "7", "12", "$0.02"],
]


def test_a_table_that_fits_stays_as_it_is() -> None:
    assert ROWS == fitted_table(ROWS, 1, None, ["cache read"])
    assert ROWS == fitted_table(ROWS, 1, 200, ["cache read"])


def test_names_are_shortened_before_figures() -> None:
    table = fitted_table(ROWS, 1, 55, ["cache read"])

    assert table[1][0] == "/home/…jects/shop"
    assert ["1,234", "98,765,432,109", "$1,443.10"] == table[1][1:]
    assert 55 == sum(max(len(row[at]) for row in table) for at in range(4)) + 6


def test_figures_lose_digits_before_columns_are_left_out() -> None:
    """And what is left out goes for all rows, so that figures stay under their heads."""
    assert ["1.2k", "98.8G", "$1.4k"] == fitted_table(ROWS, 1, 46, ["cache read"])[1][1:]
    narrow = fitted_table(ROWS, 1, 36, ["cache read"])

    assert ["project", "responses", "cost"] == narrow[0]
    assert ["7", "$0.02"] == narrow[2][1:]
