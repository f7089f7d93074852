"""Homes of OpenCode 0.5 to 1.18, files and databases, read through their mirrors."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

import recollect
from recollect.agents import opencode
from recollect.agents.homes import machine_homes
from recollect.agents.mirror import AgentMirror
from recollect.ask.resume import resumption
from recollect.ask.sessions.originals import resumed
from recollect.model.lines.blocks import ToolResultBlock
from recollect.model.lines.ids import is_uuid
from tests.agents.samples import Sample, other_samples, tree_state


@pytest.fixture(scope="module")
def samples(transcripts: Path) -> dict[str, Sample]:
    return {one.name: one for one in other_samples(transcripts, "opencode")}


@pytest.mark.parametrize("name", ["opencode-1.1.34", "opencode-1.18.33"])
def test_a_fork_names_the_session_it_was_made_from(
    samples: dict[str, Sample], tmp_path: Path, name: str
) -> None:
    """No record does: the time of a copied message tells."""
    home = recollect.Home(samples[name].home, data=tmp_path, index=False)
    forks = {session: origins for session in home.sessions() if (origins := forked_from(session))}
    assert forks
    for fork, origins in forks.items():
        (name_of_origin,) = origins
        origin = home.session(name_of_origin)
        first = next(message.text for message in fork.conversation().messages)
        assert first in [message.text for message in origin.messages(branches="all")]


def forked_from(session: recollect.Session) -> set[str]:
    """The sessions that the lines of a session say they were copied from."""
    lines = [json.loads(line) for line in session.path.read_bytes().splitlines()]
    return {line["forkedFrom"]["sessionId"] for line in lines if "forkedFrom" in line}


# ---- a database of our own -------------------------------------------------------------------------------


SESSION = "ses_e1c767d00ffek0P38B9qK1cCq2"
TABLES = """
CREATE TABLE session(id TEXT PRIMARY KEY, project_id TEXT, parent_id TEXT, directory TEXT, title TEXT, version TEXT,
  share_url TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE account(id TEXT PRIMARY KEY, access_token TEXT);
CREATE TABLE hologram(id TEXT PRIMARY KEY, depth INTEGER);
"""
TOKEN = "a-token-that-is-nobodys-business"


class Database:
    """A small opencode.db, written as the client writes it."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True)
        self._db = sqlite3.connect(home / "opencode.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA wal_autocheckpoint = 0")
        self._db.executescript(TABLES)
        self._db.execute("INSERT INTO account VALUES ('a', ?)", (TOKEN,))
        row = (
            SESSION,
            "p",
            None,
            "/srv/app",
            "A title",
            "1.18.33",
            f"https://share.example/{TOKEN}",
            None,
            1000,
            1000,
        )
        self._db.execute(f"INSERT INTO session VALUES ({','.join('?' * 10)})", row)

    def say(self, number: int, role: str, *parts: dict[str, object], **more: object) -> None:
        name, at = f"msg_{number * 4096 * 1000:012x}abcdefghijklmn", number * 1000
        data = json.dumps({"role": role, "time": {"created": at}, **more})
        self._db.execute(
            "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", (name, SESSION, at, at, data)
        )
        for place, part in enumerate(parts):
            own = f"prt_{number:010x}{place:02x}abcdefghijklmn"
            row = (own, name, SESSION, at, at, json.dumps(part))
            self._db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)

    def revert(self, number: int | None, part: str | None = None) -> None:
        said = {"messageID": f"msg_{(number or 0) * 4096 * 1000:012x}abcdefghijklmn", "partID": part}
        value = None if number is None else json.dumps(said)
        self._db.execute("UPDATE session SET revert = ?, time_updated = time_updated + 1", (value,))

    def forget(self, number: int) -> None:
        self._db.execute("DELETE FROM part WHERE time_created >= ?", (number * 1000,))
        self._db.execute("DELETE FROM message WHERE time_created >= ?", (number * 1000,))
        self._db.execute("UPDATE session SET time_updated = time_updated + 1")


def text(said: str) -> dict[str, object]:
    return {"type": "text", "text": said}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "opencode"


def copied(home: Path, to: Path) -> Path:
    """The files of a client that is gone: the database and its write-ahead log, no shared memory."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for name in ("opencode.db", "opencode.db-wal"):
        shutil.copyfile(home / name, to / name)
    return to


def said_in(home: Path, data: Path) -> tuple[list[str], list[str]]:
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    live = [message.text for message in session.conversation().messages]
    return live, [message.text for message in session.messages(branches="all")]


def test_a_turn_that_stands_only_in_the_write_ahead_log_is_read_and_nothing_is_created(
    home: Path, tmp_path: Path
) -> None:
    database = Database(home)
    database.say(1, "user", text("hello"))
    left = copied(home, tmp_path / "left")
    before = tree_state(left)
    assert said_in(left, tmp_path / "data")[0] == ["hello"]
    assert tree_state(left) == before


def test_tokens_and_share_links_are_never_copied(home: Path, tmp_path: Path) -> None:
    Database(home).say(1, "user", text("hello"))
    said_in(home, tmp_path / "data")
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_a_session_in_which_nothing_was_said_yet_has_its_own_time_and_directory(
    home: Path, tmp_path: Path
) -> None:
    database = Database(home)
    (listed,) = recollect.Home(home, data=tmp_path / "data", index=False).listed()
    assert (listed.cwd, listed.last_at) == ("/srv/app", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC))
    assert said_in(home, tmp_path / "data") == ([], [])
    database.say(2, "user", text("hello"))
    assert said_in(home, tmp_path / "data") == (["hello"], ["hello"])
    database.forget(1)
    assert said_in(home, tmp_path / "data") == (["hello"], ["hello"])
    (log,) = AgentMirror("opencode", home, tmp_path / "data").root.rglob("*.jsonl")
    assert [json.loads(line)["type"] for line in log.read_bytes().splitlines() if b'"uuid"' in line] == [
        "system",
        "user",
    ]


def test_what_a_revert_destroys_is_kept_as_a_branch(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    database.say(1, "user", text("one"))
    database.say(2, "assistant", text("first"))
    database.say(3, "user", text("two"))
    database.say(4, "assistant", text("second"))
    assert said_in(home, tmp_path / "data")[0] == ["one", "first", "two", "second"]
    database.forget(3)
    database.say(5, "user", text("other"))
    live, everything = said_in(home, tmp_path / "data")
    assert live == ["one", "first", "other"]
    assert {"two", "second"} <= set(everything)


def test_a_revert_that_is_pending_leaves_its_turn_and_can_be_taken_back(home: Path, tmp_path: Path) -> None:
    """The client deletes the turn with the next prompt; until then it only says from where on."""
    database = Database(home)
    for number, (role, words) in enumerate(
        [("user", "one"), ("assistant", "first"), ("user", "two"), ("assistant", "second")], 1
    ):
        database.say(number, role, text(words))
    assert said_in(home, tmp_path / "data")[0] == ["one", "first", "two", "second"]
    for part, left in ((None, ["one", "first"]), ("prt_x", ["one", "first", "two"])):
        database.revert(3, part)
        live, everything = said_in(home, tmp_path / "data")
        assert live == left
        assert {"two", "second"} <= set(everything)
    database.revert(1)
    assert said_in(home, tmp_path / "data")[0] == ["All messages were taken back"]
    assert said_in(home, tmp_path / "fresh")[0] == ["All messages were taken back"]
    database.revert(None)
    assert said_in(home, tmp_path / "data")[0] == ["one", "first", "two", "second"]


@pytest.mark.parametrize(
    ("ended", "live"),
    [
        ({"finish": "stop"}, ["Conversation compacted", "the summary"]),
        ({"finish": "stop", "error": {"name": "APIError"}}, ["one", "the summary", "APIError"]),
        ({}, ["one", "the summary"]),
    ],
)
def test_only_a_finished_compaction_cuts_the_conversation(
    home: Path, tmp_path: Path, ended: dict[str, object], live: list[str]
) -> None:
    database = Database(home)
    database.say(1, "user", text("one"))
    database.say(2, "assistant", text("the summary"), summary=True, **ended)
    assert said_in(home, tmp_path / "data")[0] == live


def test_a_compaction_keeps_the_tail_that_it_names(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    for number, (role, words) in enumerate(
        [("user", "one"), ("assistant", "first"), ("user", "two"), ("assistant", "second")], 1
    ):
        database.say(number, role, text(words))
    tail = f"msg_{3 * 4096 * 1000:012x}abcdefghijklmn"
    database.say(5, "user", {"type": "compaction", "auto": True, "tail_start_id": tail})
    database.say(6, "assistant", text("the summary"), summary=True, finish="stop")
    database.say(7, "user", text("three"))
    live, everything = said_in(home, tmp_path / "data")
    assert live == ["Conversation compacted", "the summary", "two", "second", "three"]
    assert {"one", "first"} <= set(everything)
    (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
    sent = [block["text"] for message in resumed(session) for block in message["content"]]
    assert sent == ["What did we do so far?", "the summary", "two", "second", "three"]


def test_a_result_that_the_client_cleared_is_kept_and_not_sent(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    state: dict[str, object] = {
        "status": "completed",
        "input": {},
        "output": "a long result",
        "time": {"start": 1},
    }
    for compacted in ({}, {"compacted": 5}):
        state["time"] = {"start": 1, "end": 2, **compacted}
        database.say(1, "user", text("run it"))
        database.say(2, "assistant", {"type": "tool", "tool": "bash", "callID": "c1", "state": state})
        database._db.execute("UPDATE part SET time_updated = time_updated + ?", (len(compacted),))
        (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
        (result,) = [
            block for one in resumed(session) for block in one["content"] if block["type"] == "tool_result"
        ]
        assert result["content"] == ("[Old tool result content cleared]" if compacted else "a long result")
        entries = [json.loads(line) for line in session.path.read_bytes().splitlines() if b'"uuid"' in line]
        assert len(entries) == 3


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_the_database_that_a_variable_names_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_elsewhere: bool
) -> None:
    """Also where the home holds nothing else; other homes do not get it."""
    usual = tmp_path / "share" / "opencode"
    place = tmp_path / "elsewhere" if is_elsewhere else usual
    Database(place).say(1, "user", text("hello"))
    for path in place.glob("opencode.db*"):
        path.rename(place / path.name.replace("opencode.db", "my.db"))
    usual.mkdir(parents=True, exist_ok=True)
    (tmp_path / "other" / "storage" / "message").mkdir(parents=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("OPENCODE_DB", str(place / "my.db") if is_elsewhere else "my.db")
    (root,) = [one for one in machine_homes(tmp_path / "data") if one.agent == "opencode"]
    (log,) = root.path.rglob("*.jsonl")
    assert b"hello" in log.read_bytes()
    assert opencode.units(tmp_path / "other") == []


def test_a_text_that_is_not_sent_is_no_part_of_the_conversation(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    database.say(1, "user", text("one"), {**text("for you only"), "ignored": True})
    database.say(2, "assistant", text("first"), {**text("for you too"), "ignored": True})
    (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
    sent = [block["text"] for message in resumed(session) for block in message["content"]]
    assert sent == ["one", "first"]
    notes = [entry for entry in session.entries() if b"not_sent" in getattr(entry, "raw", b"")]
    assert len(notes) == 2


def test_a_result_has_the_time_at_which_its_call_was_done(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    database.say(1, "user", text("run it"))
    done: dict[str, object] = {
        "type": "tool",
        "callID": "c1",
        "tool": "bash",
        "state": {
            "status": "completed",
            "input": {"command": "ls"},
            "output": "a",
            "time": {"start": 1_790_000_000_500, "end": 1_790_000_003_250},
        },
    }
    database.say(2, "assistant", done, modelID="m1")
    (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
    (result,) = (one for one in session.messages() if isinstance(one.blocks[0], ToolResultBlock))
    assert result.at == dt.datetime.fromtimestamp(1_790_000_003.25, dt.UTC)


def test_a_part_that_grows_ends_with_its_last_state(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    database.say(1, "user", text("run it"))
    running: dict[str, object] = {
        "type": "tool",
        "callID": "c1",
        "tool": "bash",
        "state": {"status": "running", "input": {"command": "ls"}},
    }
    database.say(2, "assistant", running, modelID="m1")
    said_in(home, tmp_path / "data")
    done: dict[str, object] = running | {
        "state": {"status": "completed", "input": {"command": "ls"}, "output": "a.txt"}
    }
    database.say(2, "assistant", done, modelID="m1")
    (session,) = recollect.Home(home, data=tmp_path / "data", index=False).sessions()
    (call,) = [call for call in session.tool_calls() if call.text]
    assert call.text == "a.txt"
    assert len(session.conversation().messages) == 3


def test_unknown_tables_columns_and_parts_hide_nothing(home: Path, tmp_path: Path) -> None:
    database = Database(home)
    database.say(1, "user", text("hello"), {"type": "hologram", "depth": 3}, brand="new")
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    assert said_in(home, tmp_path / "data")[0] == ["hello"]
    report = found.check()
    assert report.summary.by_code == {"unknown-type": 2}
    assert {one.what for one in report.findings} == {
        "type 'opencode:part:hologram'",
        "a table of a newer client: not read",
    }
    assert f"{home / 'opencode.db'}: table hologram" in {one.path for one in report.findings}


def test_a_session_is_found_and_resumed_by_the_clients_own_id(home: Path, tmp_path: Path) -> None:
    Database(home).say(1, "user", text("hello"))
    found = recollect.Home(home, data=tmp_path / "data", index=False)
    session = found.session(SESSION)
    assert is_uuid(session.id)
    assert found.session(session.id[:8]).id == session.id
    way = resumption(session)
    assert way.argv == ("env", f"XDG_DATA_HOME={home.parent}", "opencode", "--session", SESSION)
    assert way.client == "opencode"
