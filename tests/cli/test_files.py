"""`recollect files`: versions, differences, and one of them back on disk."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from tests.small_home import ONE, link, prompt, put, reply, uuid_of


def result(number: int, after: int, name: str, report: dict[str, Any]) -> dict[str, Any]:
    """A tool result with the client's rich report beside it."""
    block = {"type": "tool_result", "tool_use_id": name, "content": "ok"}
    message = {"role": "user", "content": [block]}
    return link(number, after, type="user", message=message, toolUseResult=report)


def use(name: str, tool: str, **arguments: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": arguments}


WRITE = {"type": "create", "filePath": "/srv/app/a.txt", "content": "one\n", "structuredPatch": []}
EDIT = {
    "filePath": "/srv/app/a.txt",
    "oldString": "one",
    "newString": "\x1b[31mtwo",
    "originalFile": "one\n",
    "replaceAll": False,
    "structuredPatch": [
        {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-one", "+\x1b[31mtwo"]}
    ],
}
SESSION = [
    prompt(1, None, "Make a file"),
    reply(2, 1, use("t1", "Write", file_path="/srv/app/a.txt", content="one\n")),
    result(3, 2, "t1", WRITE),
    reply(4, 3, use("t2", "Edit", file_path="/srv/app/a.txt", old_string="one", new_string="\x1b[31mtwo")),
    result(5, 4, "t2", EDIT),
]


@pytest.fixture
def home(own_home: Path) -> Path:
    """A session that wrote one file and changed it."""
    put(own_home / ".claude", ONE, SESSION)
    return own_home / ".claude"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The JSON document."""
    assert 0 == main(["files", ONE, *arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_every_version_is_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file, then four bytes, then nine, each with the entry that says so."""
    versions = answer(capsys)["files"][0]["versions"]

    assert [
        (1, "found", False, None),
        (2, "write", True, 4),
        (3, "edit", True, 9),
    ] == [(one["number"], one["source"], one["existed"], one["bytes"]) for one in versions]
    assert uuid_of(5) == versions[-1]["entry_uuid"]


def test_a_difference_cannot_drive_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The change is shown line by line, with the escape made visible."""
    assert 0 == main(["diff", ONE])
    shown = capsys.readouterr().out

    assert "\n+\\x1b[31mtwo\n" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("path", "code"), [("a.txt", 0), ("/srv/app/a.txt", 0), ("app/a.txt", 0), ("b.txt", 3)]
)
def test_a_file_is_named_by_its_path_or_the_end_of_it(
    home: Path, capsys: pytest.CaptureFixture[str], path: str, code: int
) -> None:
    """One that was not touched is not found."""
    assert code == main(["files", ONE, "--path", path])
    assert ("/srv/app/a.txt" in capsys.readouterr().out) is (code == 0)


@pytest.mark.parametrize(
    ("at", "content"),
    [([], b"\x1b[31mtwo\n"), (["--at", "2"], b"one\n"), (["--at", uuid_of(3)], b"one\n")],
    ids=["the last", "by number", "by entry"],
)
def test_a_version_is_restored_below_the_directory(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], at: list[str], content: bytes
) -> None:
    """Under the file's own name; without --apply nothing is written."""
    arguments = ["--restore", "a.txt", *at, "--to", str(tmp_path)]
    answer(capsys, *arguments)
    planned = list(tmp_path.iterdir())
    document = answer(capsys, *arguments, "--apply")

    assert ([], content) == (planned, (tmp_path / "a.txt").read_bytes())
    assert 0 == main(shlex.split(document["undo"])[1:])
    assert not (tmp_path / "a.txt").exists()


def test_nothing_is_overwritten_unasked(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2; what --overwrite replaced comes back with the undo, and nothing else is left beside it."""
    (tmp_path / "a.txt").write_text("mine")
    arguments = ["--restore", "a.txt", "--at", "2", "--to", str(tmp_path), "--apply"]
    code = main(["files", ONE, *arguments])
    capsys.readouterr()
    document = answer(capsys, *arguments, "--overwrite")

    assert (2, "one\n") == (code, (tmp_path / "a.txt").read_text())
    assert 0 == main(shlex.split(document["undo"])[1:])
    assert ["mine"] == [one.read_text() for one in tmp_path.iterdir() if one.is_file()]


def test_a_link_is_not_written_through(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even with --overwrite: what it leads to stays as it is."""
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "a.txt").symlink_to(outside)
    code = main(["files", ONE, "--restore", "a.txt", "--to", str(tmp_path / "to"), "--overwrite", "--apply"])

    assert (True, "mine") == (code in (2, 74), outside.read_text())
    assert "recollect:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--at", "1"], 2), (["--at", "9"], 3), (["--at", "ffff"], 3), (["--to", "/nonexistent/x"], 3)],
    ids=["no file then", "no such number", "no such entry", "no such directory"],
)
def test_what_cannot_be_restored_says_why(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int
) -> None:
    """With the exit code that fits."""
    assert code == main(["files", ONE, "--restore", "a.txt", *arguments, "--apply"])
    assert "recollect:" in capsys.readouterr().err


def test_two_files_of_one_name_are_ambiguous(own_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3 with both paths."""
    other = {**WRITE, "filePath": "/srv/app/inner/a.txt"}
    extra = reply(6, 5, use("t3", "Write", file_path="/srv/app/inner/a.txt", content="one\n"))
    put(own_home / ".claude", ONE, [*SESSION, extra, result(7, 6, "t3", other)])

    assert 3 == main(["files", ONE, "--restore", "a.txt"])
    assert "  /srv/app/a.txt\n  /srv/app/inner/a.txt\n" in capsys.readouterr().err


def test_the_files_of_a_time_are_listed_with_their_sessions(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was only read is not there; another day has none; a directory narrows."""
    report = {"type": "text", "file": {"filePath": "/srv/app/seen.txt", "content": "x\n", "numLines": 1}}
    seen = [reply(6, 5, use("t3", "Read", file_path="/srv/app/seen.txt")), result(7, 6, "t3", report)]
    put(home, ONE, [*SESSION, *seen])
    listed = "+1 -0  /srv/app/a.txt (new)"

    for narrowed in (["--since", "2026-11-15"], ["/srv/app/"], ["--path", "app"], ["-p", "app"]):
        assert 0 == main(["files", *narrowed])
        shown = capsys.readouterr().out
        assert [f"{listed}  {ONE[:8]}", "1 file changed, +1 -0"] == shown.splitlines(), narrowed
    assert 0 == main(["files", "--until", "2026-11-01"])
    assert "0 files changed" in capsys.readouterr().out
    assert 0 == main(["files", "--since", "2026-11-15", "--json"])
    (only,) = json.loads(capsys.readouterr().out)["files"]
    assert ("created", [ONE], None) == (only["kind"], only["sessions"], only["diff"])


def test_a_session_lists_what_it_changed_and_says_how_to_see_versions(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == main(["files", ONE])
    shown = capsys.readouterr()
    assert ["+1 -0  /srv/app/a.txt (new)", "1 file changed, +1 -0"] == shown.out.splitlines()
    assert "recollect files " in shown.err
    assert "--versions" in shown.err
    assert 0 == main(["files", ONE, "--versions"])
    assert ["found", "write", "edit"] == [
        row.split()[3] for row in capsys.readouterr().out.splitlines() if row.startswith("    ")
    ]


def test_restoring_takes_the_newest_version_that_has_content(
    own_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A later backup whose body is gone is passed over."""
    lost = {
        "type": "file-history-snapshot",
        "messageId": uuid_of(6),
        "snapshot": {
            "messageId": uuid_of(6),
            "trackedFileBackups": {
                "/srv/app/a.txt": {
                    "backupFileName": "0123456789abcdef@v3",
                    "version": 3,
                    "backupTime": "2026-11-15T11:00:00.000Z",
                }
            },
            "timestamp": "2026-11-15T11:00:00.000Z",
        },
        "isSnapshotUpdate": False,
    }
    put(own_home / ".claude", ONE, [*SESSION, prompt(6, 5, "More"), lost])
    versions = answer(capsys)["files"][0]["versions"]
    assert (4, False) == (len(versions), versions[-1]["known"])

    document = answer(capsys, "--restore", "a.txt", "--to", str(tmp_path), "--apply")
    assert (3, b"\x1b[31mtwo\n") == (document["version"], (tmp_path / "a.txt").read_bytes())


def test_a_version_is_shown_without_restoring(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["files", ONE, "--at", "2"])
    assert "one\n" == capsys.readouterr().out
    assert 0 == main(["files", ONE, "--at", "3"])
    assert "\\x1b[31mtwo\n" == capsys.readouterr().out
    assert "one\n" == answer(capsys, "--path", "a.txt", "--at", "2")["text"]


@pytest.mark.parametrize(
    "words", [[], ["--at", "2", "--since", "today"], ["/srv/app/a.txt", "--restore", "a.txt"]]
)
def test_what_names_too_little_says_what_to_add(
    home: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert 2 == main(["files", *words])
    assert "for example: recollect files" in capsys.readouterr().err
