"""The completion scripts, loaded in real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.main import ALIASES, COMMANDS, main
from recollect.cli.shell import completion_scripts
from tests.cli.terminal.terminals import InteractiveProgram

# A line that is being typed, and what its last word can become.
CASES = [
    (["sho"], ["show"]),
    (["dai"], ["daily"]),
    (["list", "--si"], ["--since"]),
    (["ls", "--si"], ["--since"]),
    (["--home", ":sample", "todos", "--kind", ""], ["todos", "tasks"]),
    (["config", ""], ["check", "restore"]),
    (["list", "--color", "al"], ["always"]),
    (["--home", ":sample", "show", "6a"], ["6ada00ba"]),
    (["--home", ":sample", "show", "Basket"], ["Basket totals off by a cent"]),
    (["show", "--home", ":sample", "off"], ["6ada00ba"]),
]


def needs(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed: its completion cannot be tried here")
    return found


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a program ``recollect`` on PATH, as an installation has it."""
    place = tmp_path / "bin"
    place.mkdir()
    script = place / "recollect"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m recollect "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
    monkeypatch.setenv("RECOLLECT_DATA", str(tmp_path / "data"))
    return tmp_path


def ran(words: list[str]) -> list[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "" == done.stderr
    return done.stdout.split("\0")[:-1]


def test_bash(program: Path) -> None:
    """Each line ends where the cursor is; titles come quoted, as they must be typed."""
    script = program / "recollect.bash"
    script.write_text(completion_scripts.bash())
    tries = [
        f"COMP_WORDS=({shlex.join(['recollect', *line])}); COMP_CWORD={len(line)}; _recollect;"
        'printf "%s|" "${COMPREPLY[@]}"; printf "\\0"'
        for line, _ in CASES
    ]
    found = ran([needs("bash"), "--norc", "-c", f"source {script}\n" + "\n".join(tries)])

    assert [wanted for _, wanted in CASES] == [
        [word.replace("\\ ", " ") for word in answer.split("|")[:-1]] for answer in found
    ]


def test_fish(program: Path) -> None:
    shell = needs("fish")
    script = program / "recollect.fish"
    script.write_text(completion_scripts.fish())
    lines = [" ".join(["recollect", *line]) for line, _ in CASES]
    tries = [f"complete -C '{line}'; printf '\\0'" for line in lines]
    found = ran([shell, "--no-config", "-c", f"source {script}\n" + "\n".join(tries)])

    # fish sorts, and quotes for itself.
    assert [sorted(wanted) for _, wanted in CASES] == [
        sorted(row.split("\t")[0].replace("\\ ", " ") for row in answer.strip().splitlines())
        for answer in found
    ]


def test_zsh(program: Path) -> None:
    """In a terminal: its completion cannot be asked from outside."""
    shell = needs("zsh")
    (program / "_recollect").write_text(completion_scripts.zsh())
    with InteractiveProgram([shell, "-f", "-i"], columns=120, cwd=program) as terminal:
        terminal.send(
            "PROMPT='%% '; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy\r"
        )
        terminal.wait_for("ready")
        for typed, becomes in (
            ("recollect sho\t", "recollect show"),
            ("recollect list --si\t", "recollect list --since"),
            ("recollect --home :sample show 6a\t", "show 6ada00ba"),
            ("recollect --home :sample show Bask\t", r"show Basket\ totals\ off\ by\ a\ cent"),
            ("recollect config res\t", "config restore"),
        ):
            terminal.send(typed)
            terminal.wait_for(becomes)
            terminal.send("\x15")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also the words that people type instead of a command."""
    assert 0 == main(["completion", shell])
    script = capsys.readouterr().out

    assert [] == [name for name in [*COMMANDS, *ALIASES] if name not in script]
    assert "in-place" in script


def test_an_answer_is_never_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    """A shell would offer it as a word."""
    assert 0 == main(["completion", "sessions", "x", "--", "show", "--home", "/no/such/place"])
    assert ("", "") == tuple(capsys.readouterr())
