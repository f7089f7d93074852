"""What was redacted in the mirror of a session, after its client wrote the same text again."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import recollect
from recollect.ask.secrets.redactor import Fingerprints
from recollect.ask.secrets.scan import scan
from recollect.change.redact import redact
from tests.agents import tiny_homes
from tests.secret_home import token

OLD, NEW = token("redacted in a mirror"), token("said after that")


def say_in_chat(home: Path, *texts: str) -> None:
    """As Gemini before 0.39: every turn rewrites the whole file."""
    path = home / "tmp/proj/chats" / f"session-2026-11-16T09-00-{tiny_homes.CHANGED[:8]}.json"
    chat = json.loads((path if path.exists() else tiny_homes.gemini_document(home)).read_text())
    for text in texts:
        said = {
            "id": f"n{len(chat['messages'])}",
            "timestamp": tiny_homes.AT,
            "type": "user",
            "content": text,
        }
        chat["messages"].append(said)
    path.write_text(json.dumps(chat, indent=2))


def say_in_row(home: Path, *texts: str) -> None:
    """As OpenCode: a row is updated while its text grows."""
    path = home / "opencode.db"
    with closing(sqlite3.connect(path if path.exists() else tiny_homes.opencode_database(home))) as database:
        name, data = database.execute("SELECT id, data FROM part WHERE data LIKE '%\"text\"%'").fetchone()
        part = json.loads(data)
        part["text"] = " ".join((part["text"], *texts))
        database.execute("UPDATE part SET data = ? WHERE id = ?", (json.dumps(part), name))
        database.commit()


def holding(home: recollect.Home, data: Path, secret: str) -> list[Path]:
    """The files of the mirror that hold a text."""
    assert home.sessions()
    return [
        one
        for one in (data / "agents").rglob("*")
        if one.suffix in (".jsonl", ".json", ".txt") and secret in one.read_text()
    ]


@pytest.mark.parametrize(
    ("place", "say"), [(".gemini", say_in_chat), ("opencode", say_in_row)], ids=["gemini", "opencode"]
)
def test_a_redacted_secret_does_not_return_with_what_the_client_writes_next(
    tmp_path: Path, place: str, say: Callable[..., None]
) -> None:
    """Another secret, which no one redacted, is mirrored as it is: the mirror takes out what it was told to and no more."""
    home, data = tmp_path / place, tmp_path / "data"
    say(home, f"use {OLD} for it")
    before = recollect.Home(home, data=data, index=False)
    (log,) = holding(before, data, OLD)
    session = next(one for one in before.sessions() if one.path == log)
    redact(session, data)
    assert not holding(before, data, OLD)

    say(home, "and then?", f"or {NEW}")

    after = recollect.Home(home, data=data, index=False)
    assert holding(after, data, "and then?") == holding(after, data, NEW) == [log]
    assert not holding(after, data, OLD)
    assert {one.fingerprint for one in scan(after, data=data).findings} == {Fingerprints(data)(NEW)}
    state = log.read_bytes()
    assert recollect.Home(home, data=data, index=False).sessions()
    assert log.read_bytes() == state


def test_a_secret_that_was_redacted_in_a_file_beside_the_log_does_not_return_there(tmp_path: Path) -> None:
    """A result that Gemini stores in a file of its own, written again with more in it."""
    home, data = tmp_path / ".gemini", tmp_path / "data"
    say_in_chat(home, "print it")
    result = home / "tmp/proj/tool-outputs" / f"session-{tiny_homes.CHANGED}" / "shell_1.txt"
    result.parent.mkdir(parents=True)
    result.write_text(f"TOKEN={OLD}\n")
    before = recollect.Home(home, data=data, index=False)
    session = next(one for one in before.sessions() if one.id == tiny_homes.CHANGED)
    kept = holding(before, data, OLD)
    assert {session.path, session.path.with_suffix("") / "tool-results" / "shell_1.txt"} == set(kept)
    redact(session, data)
    assert not holding(before, data, OLD)

    result.write_text(f"TOKEN={OLD}\nOTHER={NEW}\n")

    after = recollect.Home(home, data=data, index=False)
    assert holding(after, data, NEW) == kept
    assert not holding(after, data, OLD)
