"""`recollect resume`: from anywhere to the right session in the right directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, TALK, TWO, open_in_this_process, put


@pytest.fixture
def work(own_home: Path) -> Path:
    """The directory a session of the client's own home worked in."""
    work = own_home / "my work"
    work.mkdir()
    put(own_home / ".claude", ONE, TALK, str(work))
    return work


def test_its_json(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Session, directory and command, for other programs."""
    assert 0 == main(["resume", ONE[:4], "--json"])
    document = json.loads(capsys.readouterr().out)

    assert (ONE, str(work), f"claude --resume {ONE}") == tuple(
        document[key] for key in ("session", "cwd", "command")
    )


def test_printing_gives_a_line_for_the_shell(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The directory is quoted."""
    assert 0 == main(["resume", "Q1", "Q2", "--print"])

    assert f"cd '{work}' && claude --resume {ONE}\n" == capsys.readouterr().out


def test_it_becomes_the_client_in_that_directory(work: Path, own_home: Path, tmp_path: Path) -> None:
    """The program called claude gets the arguments and the directory, and its exit code is ours."""
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho "$PWD|$*"\nexit 9\n')
    program.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-m", "recollect", "resume", ONE],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (9, f"{work}|--resume {ONE}\n") == (run.returncode, run.stdout)


def test_without_the_client_it_says_what_to_type(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3."""
    monkeypatch.setenv("PATH", "/nonexistent")

    assert 3 == main(["resume", ONE])
    assert f"cd '{work}' && claude --resume {ONE}" in capsys.readouterr().err


def test_a_directory_that_is_gone_is_told_with_the_way_on(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3; --cwd names the new place, and the log is then named by its path."""
    work.rmdir()
    code = main(["resume", ONE])
    told = capsys.readouterr().err
    elsewhere = work.parent
    main(["resume", ONE, "--cwd", str(elsewhere), "--json"])
    document = json.loads(capsys.readouterr().out)

    assert 3 == code
    assert f"{work} no longer exists" in told
    assert f"recollect resume {ONE} --cwd DIR" in told
    assert (str(elsewhere), True) == (document["cwd"], document["command"].endswith(f"{ONE}.jsonl"))


def test_several_that_fit_are_shown_and_nothing_runs(
    work: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 3 with the candidates; --newest decides."""
    put(own_home / ".claude", TWO, TALK, str(work))
    os.utime(next(own_home.rglob(f"{ONE}.jsonl")), (1, 1))
    code = main(["resume", "q2", "q1"])
    told = capsys.readouterr().err
    main(["resume", "q2", "q1", "--newest", "--json"])

    assert (3, True, True) == (code, ONE[:8] in told, TWO[:8] in told)
    assert TWO == json.loads(capsys.readouterr().out)["session"]


def test_an_open_session_is_mentioned(work: Path, own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two clients on one session make two branches; it is a note, not a refusal."""
    open_in_this_process(own_home / ".claude", ONE)

    assert 0 == main(["resume", ONE, "--print"])
    assert "two branches" in capsys.readouterr().err


def test_nothing_found_is_exit_3(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the words that were looked for."""
    assert 3 == main(["resume", "zebra", "crossing"])
    assert "'zebra crossing'" in capsys.readouterr().err
