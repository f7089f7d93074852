"""Real clients go on with sessions that came back from the archive, or whose project moved."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path

import pytest

from recollect.ask import archive as keep
from recollect.ask.library import Home
from recollect.change.move import carry_out, planned_move, planned_split
from recollect.model.lines import draft
from recollect.model.project_key import project_key
from recollect.store.changes.journal import ChangeJournal
from recollect.store.home import ClaudeHome
from tests.oracle.client_runner import Client
from tests.oracle.test_real_clients import (
    PROMPT,
    SESSION,
    TALKS,
    answer,
    loaded,
    resumed,
    said,
    without_additions,
    written,
)

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
    keep.restore(archive, archive.find(SESSION), client.config)
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


OTHER = "6a0e4f0c-7a58-4f0e-9d43-2f6d1f1b7c99"


def in_two_directories(client: Client) -> tuple[Path, Path]:
    """Two directories that share a project folder, a session of each; the second was written to last."""
    root = client.cwd.parent
    here, there = root / "a-b", root / "a" / "b"
    client.cwd = here
    for directory, session, words in ((here, SESSION, "Here"), (there, OTHER, "There")):
        directory.mkdir(parents=True)
        drafts = [draft.user(words), answer(draft.text(f"{words}!"))]
        lines = [line.replace(SESSION.encode(), session.encode()) for line in written(client, drafts)]
        own = [line.replace(str(client.cwd).encode(), str(directory).encode()) for line in lines]
        path = client.put(session, own)
        # Recent: what is older than its clean-up period a client may delete while it starts.
        seconds = int(time.time()) - 100 + (session == OTHER)
        os.utime(path, (seconds, seconds))
    return here, there


def first_words(client: Client) -> object:
    return without_additions(client.stub.conversations()[-1])[0]


def test_a_split_folder_no_longer_mixes_two_projects(client: Client, tmp_path: Path) -> None:
    """`--continue` goes on with the directory's own talk; the other directory's goes on by its file.

    Before, 2.1.197 takes the other's. (2.0.76 goes by the times of entries; 2.1.325 passes over sessions that
    began in another directory.)
    """
    here, there = in_two_directories(client)
    if client.version == "2.1.197":
        client.ask(PROMPT, "--continue", "--no-session-persistence")
        assert ("user", [said("There")]) == first_words(client)
    found = planned_split(ClaudeHome(client.config), str(here), keep=str(here))
    carry_out(found, tmp_path / "data")
    client.ask(PROMPT, "--continue")
    assert ("user", [said("Here")]) == first_words(client)

    if client.version != "2.0.76":  # which resumes by id only
        client.cwd = there
        (moved,) = found.sessions
        client.ask(PROMPT, "--resume", str(moved.target))
        assert ("user", [said("There")]) == first_words(client)
