"""`recollect resume`: from anywhere to the right session in the right directory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from recollect.cli.main import main
from tests.agents.tiny_homes import CHANGED, codex
from tests.small_home import ONE, TALK, TWO, put


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
    assert main(["resume", ONE, "--print"]) == 0
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.endswith("no longer exists")
    assert second.strip().startswith("continue in another directory with:")
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


def _archived(own_home: Path) -> None:
    """The session is in the archive and no longer in the home."""
    main(["protect", "now", ONE])
    next((own_home / ".claude").rglob(f"{ONE}.jsonl")).unlink()


def test_an_archived_session_is_restored_first(work: Path, own_home: Path, tmp_path: Path) -> None:
    """With --yes; the client gets the session of the home, not a compressed file. The undo is printed."""
    _archived(own_home)
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho "$PWD|$*"\n')
    program.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-m", "recollect", "resume", "q1", "q2", "--yes"],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, f"{work}|--resume {ONE}\n") == (run.returncode, run.stdout)
    assert "Undo with: recollect undo" in run.stderr
    assert next((own_home / ".claude").rglob(f"{ONE}.jsonl")).is_file()


def test_without_a_yes_an_archived_session_stays_where_it_is(
    work: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody can be asked without a terminal: exit 2 with the command. --print and --json name the restore."""
    _archived(own_home)
    capsys.readouterr()
    code = main(["resume", ONE[:8]])
    told = capsys.readouterr().err
    main(["resume", ONE[:8], "--print"])
    printed = capsys.readouterr().out
    main(["resume", ONE[:8], "--json"])
    document = json.loads(capsys.readouterr().out)

    restore = f"recollect protect restore {ONE} --apply"
    assert (2, True) == (code, f"recollect resume {ONE} --yes" in told)
    assert f"{restore} && cd '{work}' && claude --resume {ONE}\n" == printed
    assert (restore, ONE) == (document["restore"], document["argv"][-1])
    assert [] == list((own_home / ".claude").rglob(f"{ONE}.jsonl"))


def test_a_yes_in_the_terminal_is_enough(work: Path, own_home: Path, tmp_path: Path) -> None:
    """The question names what would be restored and where."""
    _archived(own_home)
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\necho "started with $*"\n')
    program.chmod(0o755)
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "recollect", "resume", ONE],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        encoding="utf-8",
        dimensions=(40, 200),
        timeout=60,
    )
    terminal.expect_exact("[y/N]")
    asked = terminal.before
    terminal.sendline("y")
    terminal.expect_exact(f"started with --resume {ONE}")
    terminal.close()

    assert "Restore 1 file to" in asked


@pytest.mark.parametrize("cwd", [None, "C:\\Users\\bob\\shop"])
def test_a_directory_that_cannot_be_entered_is_not_printed(
    own_home: Path, capsys: pytest.CaptureFixture[str], cwd: str | None
) -> None:
    """No ``cd ''``: the client takes the log by its path from anywhere."""
    log = put(own_home / ".claude", ONE, TALK, cwd or "/srv/app")
    if cwd is None:
        log.write_bytes(log.read_bytes().replace(b'"cwd":"/srv/app",', b""))
    code = main(["resume", ONE, "--print"])
    shown = capsys.readouterr()

    assert (0, f"claude --resume {log}\n") == (code, shown.out)
    assert (f"{cwd} is not on this machine" if cwd else "name no directory") in shown.err


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    "command",
    [
        ["show"],
        ["show", "--tree"],
        ["show", "--sub-agents"],
        ["files"],
        ["export", "--format", "md"],
        ["cost", "--by", "total", "--session"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_reads_finds_an_archived_session(
    own_home: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """By the start of its id, and by its title."""
    _archived(own_home)
    capsys.readouterr()
    answers = []
    for name in (ONE[:8], "Q1"):
        code = main([*command, name])
        answers.append((code, capsys.readouterr().out))

    assert (0, True) == (answers[0][0], bool(answers[0][1].strip()))
    assert answers[0] == answers[1]


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("how", ["--print", "--json", "--yes"])
def test_an_archived_session_of_another_agent_is_not_handed_to_claude(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Its mirror is not on this machine: its log still says whose it is, and nothing is restored."""
    codex(tmp_path / "codex")
    there, bundle = ["--data", str(tmp_path / "there")], str(tmp_path / "laptop.tar")
    main(["--home", str(tmp_path / "codex"), *there, "protect", "now"])
    main([*there, "export", "--bundle", bundle])
    shutil.rmtree(tmp_path / "there")
    main(["import", bundle, "--archive", "--apply"])
    capsys.readouterr()
    code = main(["resume", CHANGED, how])
    told = capsys.readouterr()

    assert (2, how == "--json") == (code, told.out != "")
    assert "a copy of a session of codex" in told.err
    assert f"recollect export {CHANGED} --to claude" in told.err
    assert [] == list((own_home / ".claude").rglob(f"{CHANGED}.jsonl"))
