"""`recollect data index`: how the index stands, build it anew, make it small."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.index.access import index_path
from recollect.index.schema import VERSION
from tests.talk import assistant, encoded, log_at, user

ONE = "11111111-1111-4111-8111-111111111111"
TWO = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def home(own_home: Path) -> Path:
    """The machine's home: two sessions."""
    for name in (ONE, TWO):
        lines = [user(f"{name}u", None, 0, "prompt"), assistant(f"{name}a", None, 1, "answer")]
        log_at(own_home / ".claude" / "projects" / "-srv" / f"{name}.jsonl", lines)
    return own_home / ".claude"


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["data", "index", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, _ = shown(capsys, *arguments, "--json")
    assert 0 == code
    found: dict[str, Any] = json.loads(out)
    return found


def test_before_there_is_one_it_says_how_to_get_one(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Looking makes none; ``status`` may be left out."""
    code, out, err = shown(capsys)

    assert (0, "", False) == (code, err, index_path([home]).exists())
    assert [
        "Index      " + f"{index_path([home])}  (version {VERSION})",
        "State      none yet: the first search or cost builds it, or `recollect data index rebuild`",
    ] == out.splitlines()


def test_status_shows_where_what_and_how_fresh(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Path, state, size and share, freshness, sessions, rows, segments."""
    shown(capsys, "rebuild")
    code, out, err = shown(capsys, "status")

    lines = {line[:11].strip(): line[11:] for line in out.splitlines()}
    assert (0, "") == (code, err)
    assert ["Index", "State", "Size", "Refreshed", "Holds", "Rows", "Words"] == list(lines)
    assert (
        "complete",
        "just now; no log changed since then",
        "2 sessions, 0 sub-agents, 0 tool outputs",
    ) == (
        lines["State"],
        lines["Refreshed"],
        lines["Holds"],
    )
    assert "files 2, messages 4, texts 4, responses 2, usage 2" in lines["Rows"]


def test_what_changed_since_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that grew and one that is gone."""
    shown(capsys, "rebuild")
    logs = home / "projects" / "-srv"
    with (logs / f"{ONE}.jsonl").open("ab") as log:
        log.write(encoded([user("n", None, 9, "new")]))
    (logs / f"{TWO}.jsonl").unlink()

    assert "just now; 1 log changed since then, 1 log deleted since then" in shown(capsys, "status")[1]


def test_rebuild_says_that_deleted_sessions_stay(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One, then both; the status says it too."""
    shown(capsys, "rebuild")
    (home / "projects" / "-srv" / f"{TWO}.jsonl").unlink()
    one = shown(capsys, "rebuild")
    (home / "projects" / "-srv" / f"{ONE}.jsonl").unlink()
    both = shown(capsys, "rebuild")

    assert (0, "1 deleted session stays in the totals.", "") == (one[0], one[1].splitlines()[1], one[2])
    assert "2 deleted sessions stay in the totals." == both[1].splitlines()[1]
    assert "2 deleted sessions still in the totals" in shown(capsys, "status")[1]
    assert 2 == document(capsys, "rebuild")["gone_sessions"]


def test_rebuild_says_what_could_not_be_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr: a pipe among the logs, and an old index that is none."""
    os.mkfifo(home / "projects" / "-srv" / "pipe.jsonl")
    path = index_path([home])
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage" * 1_000)
    code, out, err = shown(capsys, "rebuild")

    assert (0, True) == (code, out.startswith("Rebuilt from 2 logs: "))
    assert [
        f"could not be read: {home}/projects/-srv/pipe.jsonl: not a regular file",
        f"{path.stem}.aside could not be read: deleted sessions it knew are missing from the totals",
    ] == err.splitlines()


def test_vacuum_says_before_and_after(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And what it removed."""
    shown(capsys, "rebuild")
    aside = index_path([home]).with_suffix(".aside")
    aside.write_bytes(b"x")
    announced = shown(capsys, "status")[1]
    code, out, _ = shown(capsys, "vacuum")

    assert f"Left over  {aside.name}: `recollect data index vacuum` removes them" in announced
    assert (0, True, f"removed {aside.name}") == (
        code,
        " before, " in out.splitlines()[0],
        out.splitlines()[1],
    )
    assert [] == document(capsys, "vacuum")["removed"]


def test_a_damaged_index_ends_with_1(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A finding, in words and in the document."""
    path = index_path([home])
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage" * 1_000)
    code, out, _ = shown(capsys, "status")
    coded, text, _ = shown(capsys, "status", "--json")

    assert (1, 1) == (code, coded)
    assert "damaged: file is not a database; the next query sets it aside" in out
    assert "file is not a database" == json.loads(text)["problem"]


def test_a_path_that_would_drive_the_terminal_is_made_visible(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names are somebody else's text too."""
    main(["--data", str(tmp_path / "\x1b[31mred"), "data", "index"])

    assert "\\x1b[31mred" in capsys.readouterr().out
