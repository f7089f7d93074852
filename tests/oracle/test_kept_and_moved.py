"""Real clients go on with sessions that came back from the archive, or whose project moved."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from recollect.model.project_key import project_key
from recollect.services import keep
from recollect.services.homes import Home
from recollect.services.relocation import carry_out, planned_move
from recollect.storage.changes import ChangeJournal
from recollect.storage.home import ClaudeHome
from tests.oracle.client_runner import Client
from tests.oracle.test_real_clients import (
    PROMPT,
    SESSION,
    TALKS,
    loaded,
    resumed,
    said,
    without_additions,
    written,
)

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 11, 15, tzinfo=dt.UTC)


@pytest.mark.parametrize("talk", ["plain talk"])
def test_a_session_from_the_archive_is_resumed(client: Client, tmp_path: Path, talk: str) -> None:
    """Archived, deleted, restored: the client sends the whole history and goes on from its last line."""
    drafts, messages = TALKS[talk]
    path = client.put(SESSION, written(client, drafts))
    before = path.read_bytes()
    archive = keep.archive_at(tmp_path / "data")
    keep.add_all(archive, list(Home(client.config).sessions()), NOW)
    path.unlink()
    keep.restore(archive, archive.find(SESSION), None)
    assert before == path.read_bytes()
    assert loaded(messages) == resumed(client, path, SESSION)


def moved_project(client: Client, data: Path) -> tuple[Path, str]:
    """The client's directory under another name, and its history told; the log and the change."""
    old, new = client.cwd, client.cwd.with_name("renamed project")
    old.rename(new)
    change = carry_out(planned_move(ClaudeHome(client.config), str(old), str(new)), data)
    client.cwd = new
    return client.config / "projects" / project_key(str(new)) / f"{SESSION}.jsonl", change.id


def test_a_moved_project_is_resumed_from_its_new_directory(client: Client, tmp_path: Path) -> None:
    """By id, in the new directory: the whole history, and the file goes on from our leaf."""
    drafts, messages = TALKS["plain talk"]
    client.put(SESSION, written(client, drafts))
    path, _ = moved_project(client, tmp_path / "data")
    assert loaded(messages) == resumed(client, path, SESSION)


def test_a_moved_project_is_continued_from_its_new_directory(client: Client, tmp_path: Path) -> None:
    """`--continue` in the new directory finds it too."""
    drafts, messages = TALKS["plain talk"]
    client.put(SESSION, written(client, drafts))
    moved_project(client, tmp_path / "data")
    assert 0 == client.ask(PROMPT, "--continue").returncode
    assert [*messages, ("user", [said(PROMPT)])] == without_additions(client.stub.conversations()[-1])


def test_the_old_directory_has_no_history_any_more(client: Client, tmp_path: Path) -> None:
    """`--continue` under the old name starts with nothing; after the undo it has all again."""
    drafts, messages = TALKS["plain talk"]
    old = client.cwd
    path = client.put(SESSION, written(client, drafts))
    _, change = moved_project(client, tmp_path / "data")
    old.mkdir()
    client.cwd = old
    client.ask(PROMPT, "--continue")
    # The first message is the new prompt: nothing was said before it. Clients add words of their own behind it.
    assert ("user", [said(PROMPT)]) == without_additions(client.stub.conversations()[-1])[0]
    ChangeJournal(tmp_path / "data" / "undo").undo(change)
    assert loaded(messages) == resumed(client, path, SESSION)
