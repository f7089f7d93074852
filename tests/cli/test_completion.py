"""The completion scripts, loaded in real shells."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminals import InteractiveProgram

# A line that is being typed, and what its last word can become.
CASES = [
    (["sho"], ["show"]),
    (["doc"], ["doctor"]),
    (["list", "--si"], ["--since"]),
    (["doctor", "--sev"], ["--severity"]),
    (["--home", ":sample", "show", "--todos", "--kind", ""], ["todos", "tasks"]),
    (["rules", "re"], ["replay", "restore"]),
    (["protect", "ver"], ["verify"]),
    (["protect", "restore", "--a"], ["--all", "--apply"]),
    (["show", "--tr"], ["--tree"]),
    (["list", "--color", "al"], ["always"]),
    (["--home", ":sample", "show", "6a"], ["6ada00ba"]),
    (["--home", ":sample", "show", "Basket"], ["Basket totals off by a cent"]),
    (["show", "--home", ":sample", "off"], ["6ada00ba"]),
]


def script_for(shell: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "recollect", "completion", shell], capture_output=True, text=True, check=True
    )
    return done.stdout


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
    script.write_text(script_for("bash"))
    tries = [
        f"COMP_LINE={shlex.quote(' '.join(['recollect', *line]))}; COMP_POINT=${{#COMP_LINE}}; COMP_TYPE=9;"
        '_python_argcomplete recollect; printf "%s|" "${COMPREPLY[@]}"; printf "\\0"'
        for line, _ in CASES
    ]
    found = ran(["bash", "--norc", "-c", f"source {script}\n" + "\n".join(tries)])

    assert [wanted for _, wanted in CASES] == [
        [word.strip().replace("\\ ", " ") for word in answer.split("|")[:-1]] for answer in found
    ]


@pytest.mark.fish
def test_fish(program: Path) -> None:
    script = program / "recollect.fish"
    script.write_text(script_for("fish"))
    lines = [" ".join(["recollect", *line]) for line, _ in CASES]
    tries = [f"complete -C '{line}'; printf '\\0'" for line in lines]
    found = ran(["fish", "--no-config", "-c", f"source {script}\n" + "\n".join(tries)])

    # fish sorts, and quotes for itself.
    assert [sorted(wanted) for _, wanted in CASES] == [
        sorted(row.split("\t")[0].replace("\\ ", " ") for row in answer.strip().splitlines())
        for answer in found
    ]


@pytest.mark.zsh
def test_zsh(program: Path) -> None:
    """In a terminal: its completion cannot be asked from outside."""
    (program / "_recollect").write_text(script_for("zsh"))
    with InteractiveProgram(["zsh", "-f", "-i"], columns=120, cwd=program) as terminal:
        terminal.send(
            "PROMPT='%% '; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy\r"
        )
        terminal.wait_for("ready")
        for typed, becomes in (
            ("recollect sho\t", "recollect show"),
            ("recollect list --si\t", "recollect list --since"),
            ("recollect --home :sample show 6a\t", "show 6ada00ba"),
            ("recollect --home :sample show Bask\t", r"show Basket\ totals\ off\ by\ a\ cent"),
            ("recollect rules set\t", "rules settings"),
        ):
            terminal.send(typed)
            terminal.wait_for(becomes)
            terminal.send("\x15")


def test_an_answer_is_never_a_message(program: Path) -> None:
    """A shell would offer it as a word."""
    script = program / "recollect.bash"
    script.write_text(script_for("bash"))
    line = "recollect show --home /no/such/place x"
    asked = f"COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_TYPE=9; _python_argcomplete recollect"
    shown = 'printf "%s" "${COMPREPLY[@]}"; printf "\\0"'

    assert [""] == ran(["bash", "--norc", "-c", f"source {script}; {asked}; {shown}"])
