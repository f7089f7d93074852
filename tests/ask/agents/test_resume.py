"""How clients of other agents go on with their sessions, and when they cannot."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

import recollect
from recollect.ask.resume import resumption
from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.model.lines.ids import derived_uuid
from tests.agents import tiny_homes
from tests.agents.samples import tree_state
from tests.agents.tiny_homes import CHANGED


def session_of(home: Path, tmp_path: Path) -> recollect.Session:
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    return next(one for one in found.sessions() if one.id == CHANGED or "opencode" in home.name)


@pytest.mark.parametrize(
    "make", [tiny_homes.codex, tiny_homes.gemini_lines, tiny_homes.gemini_document, tiny_homes.qwen]
)
def test_a_session_whose_file_the_client_lost_is_not_offered_to_it(
    tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    file = make(tmp_path / "home" / ".gemini")
    session = session_of(tmp_path / "home" / ".gemini", tmp_path)
    file.unlink()
    with pytest.raises(UsageError, match="no longer has it") as refused:
        resumption(session)
    assert f"export {CHANGED} --format original" in str(refused.value.hint)
    assert f"export {CHANGED} --to claude" in str(refused.value.hint)


def test_a_session_of_opencode_whose_store_is_gone_is_not_offered_to_it(tmp_path: Path) -> None:
    store = tiny_homes.opencode_database(tmp_path / "opencode")
    session = session_of(tmp_path / "opencode", tmp_path)
    store.unlink()
    with pytest.raises(UsageError, match="no longer has it"):
        resumption(session)


def deleted_row(home: Path, *, is_settled: bool) -> None:
    """Deleted by the client, in its write-ahead log: a database is read in place, or copied if that is recent."""
    path = home / "opencode.db"
    # As a client that does not come to its end leaves it: closing would empty the log.
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("DELETE FROM session WHERE id = 'ses_0a'")
    shutil.copytree(home, home.with_name("left"))
    database.close()
    shutil.rmtree(home)
    home.with_name("left").rename(home)
    if is_settled:
        for one in home.iterdir():
            os.utime(one, (1_790_000_000, 1_790_000_000))


@pytest.mark.parametrize("kind", ["database", "settled database", "files", "files beside a database"])
def test_a_session_that_opencode_deleted_is_not_offered_to_it_and_its_home_stays_untouched(
    kind: str, tmp_path: Path
) -> None:
    """Another one of the same store still is. A client with a database does not look at the files it was made of."""
    home = tmp_path / "opencode"
    if "files" in kind:
        tiny_homes.opencode_files(home)
    if "database" in kind:
        tiny_homes.opencode_database(home)
    for session in recollect.Home(home, data=tmp_path / "data", index=False).sessions():
        resumption(session)
    if "database" in kind:
        deleted_row(home, is_settled="settled" in kind)
    else:
        (home / "storage" / "session" / "p" / "ses_0a.json").unlink()
    before = tree_state(home)
    content = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    deleted, kept = (found.session(derived_uuid(name, 0)) for name in ("ses_0a", "ses_0b"))
    with pytest.raises(UsageError, match="its client deleted it") as refused:
        resumption(deleted)
    assert f"export {deleted.id} --format original" in str(refused.value.hint)
    assert f"export {deleted.id} --to claude" in str(refused.value.hint)
    assert resumption(kept).argv[-1] == "ses_0b"
    assert tree_state(home) == before
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == content


def test_a_store_that_cannot_be_read_now_tells_nothing_of_its_sessions(tmp_path: Path) -> None:
    """What is not known is not called deleted: it is offered as before."""
    store = tiny_homes.opencode_database(tmp_path / "opencode")
    session = session_of(tmp_path / "opencode", tmp_path)
    store.write_bytes(b"no database" * 1000)
    assert resumption(session).client == "opencode"


@pytest.mark.parametrize(
    ("make", "place", "words"),
    [
        (tiny_homes.codex, "other", ("env", "CODEX_HOME={}/other", "codex", "resume")),
        (
            tiny_homes.gemini_lines,
            "other/.gemini",
            ("env", "GEMINI_CLI_HOME={}/other", "gemini", "--resume"),
        ),
        (
            tiny_homes.opencode_database,
            "other/opencode",
            ("env", "XDG_DATA_HOME={}/other", "opencode", "--session"),
        ),
    ],
)
def test_the_client_is_led_to_a_home_that_is_not_its_usual_one(
    tmp_path: Path, make: Callable[[Path], Path], place: str, words: tuple[str, ...]
) -> None:
    make(tmp_path / place)
    way = resumption(session_of(tmp_path / place, tmp_path))
    assert way.argv[:-1] == tuple(word.format(tmp_path) for word in words)
    assert way.client == words[2]


def test_a_home_that_its_client_cannot_be_led_to_is_said(tmp_path: Path) -> None:
    tiny_homes.qwen(tmp_path / "other")
    with pytest.raises(UsageError, match="qwen looks for its sessions only in"):
        resumption(session_of(tmp_path / "other", tmp_path))


def test_the_usual_home_needs_no_variable(own_home: Path, tmp_path: Path) -> None:
    tiny_homes.codex(own_home / ".codex")
    way = resumption(session_of(own_home / ".codex", tmp_path))
    assert way.argv == ("codex", "resume", CHANGED)
    assert way.notes == ()


def test_an_archived_thread_is_still_found_and_said_to_be_archived(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moved by the client without a change: the mirror reads nothing, and still names the old place."""
    (own_home / ".claude").mkdir()
    file = tiny_homes.codex(own_home / ".codex")
    assert main(["list"]) == 0
    archive = own_home / ".codex" / "archived_sessions"
    archive.mkdir()
    shutil.move(file, archive / file.name)
    capsys.readouterr()
    assert main(["resume", CHANGED, "--print"]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"codex resume {CHANGED}\n"
    assert "it is archived: Codex since 0.117 does not resume it" in printed.err


def test_a_thread_of_the_first_era_is_said_to_be_empty_for_clients_of_today(
    own_home: Path, tmp_path: Path
) -> None:
    tiny_homes.codex_bare(own_home / ".codex")
    (note,) = resumption(session_of(own_home / ".codex", tmp_path)).notes
    assert "before 0.30" in note


def test_a_client_that_is_not_installed_is_named(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where its command begins with the variable that leads it to a home."""
    (own_home / ".claude").mkdir()
    tiny_homes.codex(tmp_path / "other")
    monkeypatch.setenv("PATH", os.defpath)
    words = ["--home", str(tmp_path / "other"), "resume", CHANGED, "--cwd", str(tmp_path)]
    assert main(words) == 3
    assert "program 'codex' is not on PATH" in capsys.readouterr().err
