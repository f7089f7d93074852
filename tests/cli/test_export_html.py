"""`recollect export --format html`: pages, and what is said about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recollect.cli.main import main
from tests.cli.session_logs import OTHER, SESSION, SessionLog, drives_a_terminal, hostile, talk, text
from tests.share.export.html_pages import Page, pages_below


@pytest.fixture
def home(own_home: Path) -> Path:
    return own_home / ".claude"


def test_a_page_goes_to_stdout(home: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """One document, with the title of the session."""
    talk().write(home)
    assert 0 == main(["export", "3f2a", "--format", "html"])
    page = capfdbinary.readouterr().out

    assert page.startswith(b"<!doctype html>")
    assert ([], True) == (Page(page).problems, "Because 1 is not 2." in Page(page).text)


def test_a_file_is_written_and_told(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """-o names a page, --force replaces it, --json says what was written."""
    talk().write(home)
    target = tmp_path / "talk.html"
    assert 0 == main(["export", "3f2a", "--format", "html", "-o", str(target)])
    captured = capsys.readouterr()

    assert ("", f"to {target}\n") == (captured.out, captured.err[captured.err.index("to ") :])
    assert [] == Page(target.read_bytes()).problems
    assert 0 == main(["export", "3f2a", "--format", "html", "-o", str(target), "--force", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert (SESSION, "html", str(target), target.stat().st_size) == (
        told["session"],
        told["format"],
        told["output"],
        told["bytes"],
    )


def test_a_project_becomes_a_directory(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index and a page for each session."""
    talk().write(home)
    SessionLog(OTHER).prompt("u1", "Short").answer("a1", text("Yes")).write(home)
    assert 0 == main(["export", "--project", "app", "--format", "html", "-o", str(tmp_path / "out")])

    assert "in 3 files to" in capsys.readouterr().err
    assert {"index.html", f"{SESSION}.html", f"{OTHER}.html"} == {
        path.name for path in pages_below(tmp_path / "out")
    }


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (
            ["3f2a", "--project", "app", "--format", "html", "-o", "x"],
            2,
            "leave the session or --project out",
        ),
        (["--project", "app"], 2, "--format html --output DIRECTORY"),
        (["--project", "app", "--format", "html"], 2, "--format html --output DIRECTORY"),
        (["--project", "app", "--format", "html", "-o", "x.html"], 2, "name a new directory"),
        (["--project", "nowhere", "--format", "html", "-o", "x"], 3, "recollect list"),
        (["3f2a", "--format", "html", "-o", "/"], 2, "name a file in it"),
        (["3f2a", "--format", "html", "-o", "no/where"], 2, "create it first"),
        (["3f2a", "--format", "html", "--json"], 2, "add --output FILE"),
        (["nothing-like-it", "--format", "html"], 3, "recollect list"),
    ],
)
def test_wrong_use_says_what_to_do(
    home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    """Usage 2, not found 3; nothing on stdout, nothing written."""
    monkeypatch.chdir(tmp_path)
    talk().write(home)

    assert code == main(["export", *arguments])
    captured = capsys.readouterr()
    assert ("--json" in arguments, True, []) == (
        captured.out != "",
        words in captured.err,
        list(tmp_path.iterdir()),
    )


def test_what_is_said_cannot_drive_a_terminal(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where every text of the session wants to; the page shows it all (W4)."""
    hostile().write(home)
    assert 0 == main(["export", "3f2a", "--format", "html", "-o", str(tmp_path / "out.html"), "--whole"])
    captured = capsys.readouterr()

    assert [] == drives_a_terminal(captured.out + captured.err)
    assert [] == Page((tmp_path / "out.html").read_bytes()).problems
