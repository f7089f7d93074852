"""`recollect rules run`: decided by the rules, confined by the sandbox, ended as the command ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.guard import sandbox as execution
from recollect.guard.sandbox import launch


@pytest.fixture
def project(tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to run in, with rules in the user's settings; skips where no sandbox works."""
    if execution.unavailable():
        pytest.skip(f"no sandbox works here: {execution.unavailable()}")
    settings = own_home / ".claude" / "settings.json"
    settings.parent.mkdir()
    rules = {"allow": ["Bash(sh *)", "Bash(touch *)"], "ask": ["Bash(date *)"], "deny": ["Bash(rm *)"]}
    settings.write_text(json.dumps({"permissions": rules}))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def test_what_it_prints_and_how_it_ends(project: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Both streams are passed on, and the exit code is the command's."""
    code = main(["rules", "run", "--yes", "--", "sh", "-c", "echo out; echo err >&2; exit 3"])
    out, err = capfdbinary.readouterr()

    assert (3, b"out\n") == (code, out)
    assert err.startswith(b"err\n")


def test_its_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One document, with the sandbox that was used."""
    code = main(["rules", "run", "--json", "--", "touch", "made"])
    document = json.loads(capsys.readouterr().out)

    assert (0, True) == (code, (project / "made").exists())
    assert {"exit_code": 0, "stdout": "", "stderr": "", "interrupted": False, "truncated": False} == {
        key: document[key] for key in ("exit_code", "stdout", "stderr", "interrupted", "truncated")
    }
    assert document["sandbox"] == "bubblewrap"


def test_a_deny_is_a_no_also_with_yes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started, and the message says how to see why."""
    (project / "kept").write_text("")
    codes = [main(["rules", "run", *yes, "--", "rm", "kept"]) for yes in ([], ["--yes"])]
    said = capsys.readouterr().err

    assert ([2, 2], True) == (codes, (project / "kept").exists())
    assert "recollect rules check --explain 'Bash(rm kept)'" in said
    assert "--yes" not in said


def test_an_ask_is_a_no_unless_it_is_answered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--yes is the answer."""
    without = main(["rules", "run", "--", "date", "+%Y"])
    said = capsys.readouterr().err
    with_yes = main(["rules", "run", "--json", "--yes", "--", "date", "+%Y"])

    assert (2, 0) == (without, with_yes)
    assert "--yes runs it anyway" in said


def test_it_cannot_write_elsewhere_unless_named(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """--write opens one more directory."""
    other = tmp_path_factory.mktemp("other")
    without = main(["rules", "run", "--yes", "--", "touch", str(other / "a")])
    named = main(["rules", "run", "--yes", "--write", str(other), "--", "touch", str(other / "b")])

    assert (True, 0, ["b"]) == (without != 0, named, [path.name for path in other.iterdir()])


def test_its_time_is_up(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """124, as timeout(1) has it, and what was printed is kept."""
    code = main(
        ["rules", "run", "--yes", "--json", "--timeout", "1.5", "--", "sh", "-c", "echo part; sleep 60"]
    )
    document = json.loads(capsys.readouterr().out)

    assert (124, "part\n", None, True) == (
        code,
        document["stdout"],
        document["exit_code"],
        document["timed_out"],
    )


def test_an_interrupt_ends_the_command_and_keeps_its_output(project: Path) -> None:
    """Ctrl-C: what was printed arrives, the exit code is 130."""
    argv = [
        sys.executable,
        "-m",
        "recollect",
        "rules",
        "run",
        "--yes",
        "--",
        "sh",
        "-c",
        "echo part; sleep 60",
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=project) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        code = process.wait(30)

    assert (b"part\n", 130) == (first, code)


def test_options_of_the_command_are_the_commands(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After -- nothing is ours, not even what looks like it (E08)."""
    main(
        [
            "rules",
            "run",
            "--json",
            "--yes",
            "--",
            "sh",
            "-c",
            'printf "%s|" "$@"',
            "sh",
            "--unconfined",
            "--",
            "--yes",
        ]
    )

    assert "--unconfined|--|--yes|" == json.loads(capsys.readouterr().out)["stdout"]


def test_without_a_sandbox_it_refuses(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless --unconfined is said; and that is told in the answer."""
    monkeypatch.setattr(launch, "unavailable", lambda: "broken")
    refused = main(["rules", "run", "--", "touch", "a"])
    said = capsys.readouterr().err
    named = main(["rules", "run", "--unconfined", "--json", "--", "touch", "b"])
    document = json.loads(capsys.readouterr().out)

    assert (2, 0, ["b"], "unconfined") == (
        refused,
        named,
        [path.name for path in project.iterdir()],
        document["sandbox"],
    )
    assert "no sandbox" in said
    assert "--unconfined" in said


@pytest.mark.parametrize(
    "wrong", [["--timeout", "0"], ["--timeout", "nan"], ["--write", "/"], ["--allow-net", "*"]]
)
def test_what_cannot_be_meant_is_refused(project: Path, wrong: list[str]) -> None:
    """Before anything is started."""
    assert 2 == main(["rules", "run", *wrong, "--yes", "--", "touch", "a"])
    assert [] == list(project.iterdir())
