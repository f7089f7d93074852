"""Commands that a command prints work as they stand: with the homes, the data directory and the agents it was given."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from recollect.cli.main import WORDS, main
from tests.agents import tiny_homes
from tests.cli.session_logs import SESSION, SessionLog

# A command in a sentence: up to what ends it there.
_PRINTED = re.compile(rf"recollect (?:--home|(?:{'|'.join(WORDS)})\b)[^`;,\n]*")


def commands_in(text: str) -> list[list[str]]:
    """Those to be typed, as words; placeholders for what only the reader knows are left out."""
    found = (shlex.split(one.rstrip(" .)")) for one in _PRINTED.findall(text))
    return [words[1:] for words in found if "WORDS" not in words]


def typed(words: list[str]) -> int:
    """Whether a command is one: plans are only printed, and pickers need a terminal."""
    plan = [word for word in words if word not in ("--apply", "--yes")]
    return main([*plan, "--print"] if "resume" in plan else plan)


@pytest.fixture
def codex(tmp_path: Path) -> list[str]:
    """A home of Codex that no variable names: one session is damaged, the file of the other is gone."""
    home = tmp_path / "home"
    log = tiny_homes.codex(home)
    log.write_text(log.read_text() + "no record\n")
    given = ["--home", str(home), "--data", str(tmp_path / "our data"), "--agent", "codex"]
    assert main([*given, "list"]) == 0
    next(home.rglob(f"*{tiny_homes.UNTOUCHED}.jsonl")).unlink()
    return given


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", "doctor"),
        ("search done --flat", "resume"),
        ("search done", "show"),
        (f"show {tiny_homes.CHANGED}", "doctor"),
        (f"show {tiny_homes.CHANGED} --tree", "doctor"),
        (f"doctor {tiny_homes.CHANGED}", "export"),
        (f"resume {tiny_homes.UNTOUCHED} --print", "export"),
        ("show no-such-session", "list"),
        (f"fork {tiny_homes.CHANGED}", "export"),
        (f"secrets remove {tiny_homes.CHANGED}", ""),
        (f"rm {tiny_homes.CHANGED}", "rm"),
    ],
)
def test_a_printed_command_reads_what_the_command_that_printed_it_read(
    codex: list[str], command: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    main([*codex, *command.split()])
    told = capsys.readouterr()
    printed = commands_in((told.out + told.err).replace("DIR", str(tmp_path / "out")))
    assert {"", expected} <= {"", *(words[len(codex)] for words in printed)}
    for words in printed:
        assert words[: len(codex)] == codex, words
        # A session whose file is gone is found, and its client cannot go on with it.
        unusable = (3,) if "resume" in words else (2, 3)
        assert typed(words) not in unusable, (words, capsys.readouterr())


def test_findings_in_json_have_the_command_too(codex: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("", "doctor --no-secrets"):
        capsys.readouterr()
        main([*codex, *command.split(), "--json"])
        document = json.loads(capsys.readouterr().out)
        found = document["findings"] + document.get("damage", {}).get("findings", [])
        fixes = [one["fix"] for one in found]
        assert [fix for fix in fixes if "recollect" in fix], command
        assert all(shlex.join(["recollect", *codex]) in fix for fix in fixes if "recollect" in fix), fixes


def test_search_names_the_log_of_a_home_that_the_client_does_not_use(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `resume` does: by its id the client would not find it."""
    log = SessionLog().prompt("k1", "Why is it red?")
    log.write(own_home / ".claude")
    shutil.copytree(own_home / ".claude", tmp_path / "copy")
    for home, name in (
        (own_home / ".claude", SESSION),
        (tmp_path / "copy", str(next((tmp_path / "copy").rglob("*.jsonl")))),
    ):
        assert main(["--home", str(home), "search", "red", "--flat"]) == 0
        assert f"claude --resume {name}" in capsys.readouterr().out
