"""Stores of OpenCode that change between two passes: what is read then, and that nothing is missed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Collection
from functools import partial, partialmethod
from pathlib import Path
from typing import Protocol, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recollect
from recollect.agents.mirror import AgentMirror
from recollect.agents.opencode_database import RowStore
from recollect.agents.opencode_store import FileStore
from recollect.model.lines.ids import derived_uuid
from tests.agents import tiny_homes

TABLES = """
CREATE TABLE IF NOT EXISTS session(id TEXT PRIMARY KEY, directory TEXT, title TEXT, version TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE IF NOT EXISTS message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE IF NOT EXISTS part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
"""
EVENTS = """
CREATE TABLE IF NOT EXISTS event_sequence(aggregate_id TEXT PRIMARY KEY, seq INTEGER);
CREATE TABLE IF NOT EXISTS event(id TEXT PRIMARY KEY, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);
"""
SESSIONS = ("ses_a", "ses_b", "ses_c")
BEGAN = 1_790_000_000_000


def message_of(session: str, number: int) -> str:
    """Its id has its time, as in a message that is no copy."""
    return f"msg_{(BEGAN + number * 1000) * 4096 % (1 << 48):012x}{session}"


class Store(Protocol):
    def say(self, session: str, number: int, text: str, moved: int = 0) -> None: ...
    def drop_message(self, session: str, number: int) -> None: ...
    def drop_part(self, session: str, number: int) -> None: ...
    def drop_session(self, session: str) -> None: ...


class Rows:
    """A database with a write-ahead log."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(home / "opencode.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.executescript(TABLES)

    def say(self, session: str, number: int, text: str, moved: int = 0) -> None:
        name, at, role = (
            message_of(session, number),
            BEGAN + number * 1000,
            "assistant" if number % 2 else "user",
        )
        row = (session, "/w", session, "1.2.27", BEGAN, BEGAN)
        self._db.execute("INSERT OR IGNORE INTO session VALUES (?, ?, ?, ?, ?, ?)", row)
        data = json.dumps({"role": role, "time": {"created": at}})
        self._db.execute(
            "INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", (name, session, at, at, data)
        )
        part = (f"prt_{name}", name, session, at, at + moved, json.dumps({"type": "text", "text": text}))
        self._db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", part)

    def drop_message(self, session: str, number: int) -> None:
        self.drop_part(session, number)
        self._db.execute("DELETE FROM message WHERE id = ?", (message_of(session, number),))

    def drop_part(self, session: str, number: int) -> None:
        self._db.execute("DELETE FROM part WHERE message_id = ?", (message_of(session, number),))

    def drop_session(self, session: str) -> None:
        for table, column in (("part", "session_id"), ("message", "session_id"), ("session", "id")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (session,))


class Events(Rows):
    """One with an event log, as clients write since 1.16: every write adds an event."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._db.executescript(EVENTS)

    def say(self, session: str, number: int, text: str, moved: int = 0) -> None:
        super().say(session, number, text, moved)
        self.say_nothing_more(session, number)

    def say_nothing_more(self, session: str, number: int) -> None:
        name = message_of(session, number)
        for table, key, kind in (("message", "info", "message"), ("part", "part", "message.part")):
            asked = f"SELECT id, data FROM {table} WHERE id = ? OR id = ?"
            for one, data in self._db.execute(asked, (name, f"prt_{name}")).fetchall():
                own = {"id": one, "sessionID": session, "messageID": name, **json.loads(data)}
                self._note(session, f"{kind}.updated.1", {key: own})

    def _note(self, session: str, kind: str, data: object) -> None:
        self._db.execute(
            "INSERT INTO event_sequence VALUES (?, 0) ON CONFLICT DO UPDATE SET seq = seq + 1", (session,)
        )
        self._db.execute(
            "INSERT INTO event SELECT ?, ?, seq, ?, ? FROM event_sequence WHERE aggregate_id = ?",
            (f"evt_{uuid.uuid4()}", session, kind, json.dumps(data), session),
        )

    def drop_message(self, session: str, number: int) -> None:
        super().drop_message(session, number)
        self._note(session, "message.removed.1", {"messageID": message_of(session, number)})

    def drop_part(self, session: str, number: int) -> None:
        super().drop_part(session, number)
        self._note(session, "message.part.removed.1", {"messageID": message_of(session, number)})

    def drop_session(self, session: str) -> None:
        super().drop_session(session)
        for table in ("event", "event_sequence"):
            self._db.execute(f"DELETE FROM {table} WHERE aggregate_id = ?", (session,))


class Files:
    """One file for each record."""

    def __init__(self, home: Path) -> None:
        self._root = home / "storage"
        self._root.mkdir(parents=True, exist_ok=True)

    def say(self, session: str, number: int, text: str, moved: int = 0) -> None:
        name, at, role = (
            message_of(session, number),
            BEGAN + number * 1000,
            "assistant" if number % 2 else "user",
        )
        about = {
            "id": session,
            "directory": "/w",
            "title": session,
            "version": "1.1.34",
            "time": {"created": BEGAN},
        }
        self._write(f"session/p/{session}.json", about)
        self._write(f"message/{session}/{name}.json", {"role": role, "time": {"created": at}})
        part = {"type": "text", "text": text, "sessionID": session}
        self._write(f"part/{name}/prt_{name}.json", part)
        os.utime(self._root / f"part/{name}/prt_{name}.json", (BEGAN // 1000 + moved, BEGAN // 1000 + moved))

    def drop_message(self, session: str, number: int) -> None:
        self.drop_part(session, number)
        (self._root / f"message/{session}/{message_of(session, number)}.json").unlink(missing_ok=True)

    def drop_part(self, session: str, number: int) -> None:
        name = message_of(session, number)
        (self._root / f"part/{name}/prt_{name}.json").unlink(missing_ok=True)

    def drop_session(self, session: str) -> None:
        for number in range(9):
            self.drop_message(session, number)
        (self._root / f"session/p/{session}.json").unlink(missing_ok=True)

    def _write(self, name: str, value: object) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = json.dumps(value)
        if not path.exists() or path.read_text() != data:
            path.write_text(data)


STORES: dict[str, Callable[[Path], Store]] = {"rows": Rows, "events": Events, "files": Files}


def live(home: Path, data: Path, session: str) -> list[str]:
    """The conversation of a session as it is now; empty where there is none."""
    for one in recollect.Home(home, data=data, index=False).sessions():
        with contextlib.suppress(recollect.NotFound):
            if one.id == derived_uuid(session, 0):
                return [message.text for message in one.conversation().messages]
    return []


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path / "opencode")


def test_after_a_new_message_only_its_session_is_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for session in SESSIONS:
        for number in range(6):
            store.say(session, number, f"{session} {number}")
    mirror = AgentMirror("opencode", tmp_path / "opencode", tmp_path / "data")
    read: list[str] = []

    def noted(of: Callable[..., object], own: object, session: str) -> object:
        read.append(session)
        return of(own, session)

    for kind in (FileStore, RowStore):
        monkeypatch.setattr(kind, "of", partialmethod(partial(noted, kind.of)))
    mirror.refresh()
    assert sorted(read) == [*SESSIONS]
    read.clear()
    store.say("ses_b", 6, "ses_b 6")
    mirror.refresh()
    assert read == ["ses_b"]
    assert live(tmp_path / "opencode", tmp_path / "data", "ses_b")[-1] == "ses_b 6"


@pytest.mark.parametrize("moved", [1, -1])
def test_a_change_is_noticed_also_where_the_clock_went_back(store: Store, tmp_path: Path, moved: int) -> None:
    home, data = tmp_path / "opencode", tmp_path / "data"
    store.say("ses_a", 0, "new")
    assert live(home, data, "ses_a") == ["new"]
    store.say("ses_a", 0, "old", moved)
    assert live(home, data, "ses_a") == ["old"]


@pytest.mark.parametrize("what", ["message", "part"])
def test_a_single_row_that_is_deleted_becomes_a_branch(store: Store, tmp_path: Path, what: str) -> None:
    for number in range(4):
        store.say("ses_a", number, f"said {number}")
    home, data = tmp_path / "opencode", tmp_path / "data"
    assert live(home, data, "ses_a") == ["said 0", "said 1", "said 2", "said 3"]
    (store.drop_message if what == "message" else store.drop_part)("ses_a", 2)
    assert live(home, data, "ses_a") == ["said 0", "said 1", "said 3"]
    (session,) = recollect.Home(home, data=data, index=False).sessions()
    assert "said 2" in [message.text for message in session.messages(branches="all")]


def test_a_session_that_is_deleted_stays_as_it_was(store: Store, tmp_path: Path) -> None:
    home, data = tmp_path / "opencode", tmp_path / "data"
    for session in SESSIONS[:2]:
        store.say(session, 0, "hello")
    live(home, data, "ses_a")
    store.drop_session("ses_a")
    store.say("ses_b", 1, "more")
    assert live(home, data, "ses_a") == ["hello"]
    assert live(home, data, "ses_b") == ["hello", "more"]


@pytest.mark.parametrize("what", ["empty tables", "no tables", "a table less", "another database", "files"])
def test_records_that_were_away_for_one_pass_and_return_unchanged_add_nothing(
    what: str, tmp_path: Path
) -> None:
    """A client migrates its database, or a user swaps it: the conversation stays, and nothing is mirrored twice."""
    home, data = tmp_path / "opencode", tmp_path / "data"
    kind = "files" if what == "files" else "rows"
    store = STORES[kind](home)
    for session in SESSIONS:
        for number in range(4):
            store.say(session, number, f"{session} {number}")
    mirror = AgentMirror("opencode", home, data)
    mirror.refresh()
    before = {path: path.read_bytes() for path in mirror.root.rglob("*.jsonl")}
    aside = home.with_name("aside")
    shutil.copytree(home, aside)
    shutil.rmtree(home)
    other = STORES[kind](home)
    if what == "no tables":
        (home / "opencode.db").write_bytes(b"")
    elif what == "a table less":
        shutil.rmtree(home)
        shutil.copytree(aside, home)
        with contextlib.closing(sqlite3.connect(home / "opencode.db")) as database:
            database.execute("DROP TABLE session")
    elif what in ("another database", "files"):
        other.say("ses_d", 0, "another one")
    mirror.refresh()
    shutil.rmtree(home)
    aside.rename(home)
    mirror.refresh()
    assert {path: path.read_bytes() for path in before} == before
    store = STORES[kind](home)
    store.say("ses_a", 4, "goes on")
    assert live(home, data, "ses_a")[-2:] == ["ses_a 3", "goes on"]


@pytest.mark.parametrize("number", [1, 2], ids=["changed", "added"])
def test_rows_that_were_written_without_an_event_are_found(number: int, tmp_path: Path) -> None:
    """As an import, a migration or a person writes them."""
    store = Events(tmp_path / "opencode")
    for said in range(2):
        store.say("ses_a", said, "hello")
    home, data = tmp_path / "opencode", tmp_path / "data"
    live(home, data, "ses_a")
    Rows(home).say("ses_a", number, "written", 1)
    assert live(home, data, "ses_a")[-1] == "written"


def test_a_pass_that_knows_only_the_logs_adds_what_is_new_alone(store: Store, tmp_path: Path) -> None:
    """After a state that was lost."""
    for number in range(3):
        store.say("ses_a", number, f"said {number}")
    mirror = AgentMirror("opencode", tmp_path / "opencode", tmp_path / "data")
    mirror.refresh()
    (log,) = mirror.root.rglob("*.jsonl")
    for name in ("state.msgpack", "stamps.json"):
        (mirror.root / name).unlink()
    before = log.read_bytes()
    mirror.refresh()
    assert log.read_bytes() == before
    store.say("ses_a", 2, "said otherwise", 1)
    mirror.refresh()
    added = log.read_bytes().removeprefix(before)
    assert added.count(b'"whole":true') == 1
    assert live(tmp_path / "opencode", tmp_path / "data", "ses_a")[-1] == "said otherwise"


PLACES = st.tuples(st.sampled_from(SESSIONS[:2]), st.integers(0, 2))
STEPS = st.one_of(
    st.tuples(st.just("say"), PLACES, st.sampled_from(["new", "old", "longer text"])),
    st.tuples(st.sampled_from(["drop_message", "drop_part"]), PLACES),
    st.tuples(st.just("drop_session"), PLACES),
    st.just(("pass",)),
)


@pytest.mark.parametrize("kind", STORES)
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, max_size=14))
def test_a_mirror_that_followed_says_what_a_fresh_one_says(
    kind: str, steps: Collection[tuple[object, ...]]
) -> None:
    """Whatever happened between the passes, also where the clock went back; and what was mirrored once stays."""
    root = Path(tempfile.mkdtemp())
    try:
        home = root / "opencode"
        store = STORES[kind](home)
        store.say("ses_a", 0, "first")
        mirrored: set[str] = set()
        for at, step in enumerate([*steps, ("pass",)], 1):
            if step[0] == "pass":
                for session in SESSIONS:
                    mirrored |= {f"{session} {text}" for text in live(home, root / "data", session)}
            else:
                name, (session, number), *more = cast(
                    "tuple[str, tuple[str, int], *tuple[object, ...]]", step
                )
                moved = [at * (-1) ** at] if more else []  # each time another one, not always a later one
                rest = () if name == "drop_session" else (number, *more, *moved)
                getattr(store, name)(session, *rest)
        for session in SESSIONS:
            fresh = live(home, root / "fresh", session)
            followed = live(home, root / "data", session)
            assert followed == fresh or not fresh
        kept = b"".join(path.read_bytes() for path in (root / "data").rglob("*.jsonl"))
        assert all(text.split(" ", 1)[1].encode() in kept for text in mirrored)
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize(("age_ms", "is_seen"), [(0, True), (-60_000, True), (60_000, False)])
def test_a_row_that_is_written_twice_within_a_millisecond_is_read_twice(
    age_ms: int, is_seen: bool, tmp_path: Path
) -> None:
    """Same size, same time: where a pass read it in between, the next one compares it. So does one under a clock that was
    set back. An old row that is changed so, which no client does, is found with the next change of its session.
    """
    database = tiny_homes.opencode_database(tmp_path / "home")
    mirror = AgentMirror("opencode", tmp_path / "home", tmp_path / "data")
    written = time.time_ns() // 1_000_000 - age_ms
    change(
        database, *(f"ALTER TABLE {table} ADD COLUMN time_updated INTEGER" for table in ("message", "part"))
    )
    change(database, *(f"UPDATE {table} SET time_updated = {written}" for table in ("message", "part")))
    mirror.refresh()
    change(database, "UPDATE part SET data = replace(data, 'ask ses_0a', 'ask SES_0A')")
    mirror.refresh()
    assert has(mirror, b"ask SES_0A") is is_seen
    change(database, "UPDATE session SET title = 'changed' WHERE id = 'ses_0a'")
    mirror.refresh()
    assert has(mirror, b"ask SES_0A")


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as database:
        for statement in statements:
            database.execute(statement)
        database.commit()


def has(mirror: AgentMirror, text: bytes) -> bool:
    return any(text in log.read_bytes() for log in mirror.root.rglob("*.jsonl"))
