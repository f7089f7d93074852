"""A database that a client writes to, and copies its log into, while it is read: what a pass reads of it fits together."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import recollect
from recollect.agents.mirror import AgentMirror
from recollect.agents.opencode_database import RowStore
from recollect.agents.opencode_store import OpenCodeRecord
from recollect.system.locations import MIRRORS

SECONDS = 60 if os.environ.get("RECOLLECT_TORTURE") else 2
# Long texts, which stand in pages that a list does not read. Messages come with their parts in one transaction, and every fifth
# is written again: so does the client. Its log is copied into the database every few pages, and begun again.
CLIENT = """
import json, sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = OFF",
    "PRAGMA wal_autocheckpoint = 8",
    "CREATE TABLE session(id TEXT PRIMARY KEY, directory TEXT, title TEXT, version TEXT, time_created INTEGER, time_updated INTEGER)",
    "CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT)",
    "CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT)",
    "INSERT INTO session VALUES ('ses_a', '/w', 'live', '1.2.27', 1, 1)",
):
    database.execute(statement)

def say(number):
    now = int(time.time() * 1000)
    name, role = f"msg_{now * 4096 % (1 << 48) + number % 4096:012x}{number:06d}", "assistant" if number % 2 else "user"
    database.execute("BEGIN")
    database.execute("INSERT INTO message VALUES (?, 'ses_a', ?, ?, ?)", (name, now + number, now, json.dumps({"role": role, "time": {"created": now + number}})))
    part = json.dumps({"type": "text", "text": f"said {number}" + f" {number}" * (number * 37 % 1500)})
    database.execute("INSERT INTO part VALUES (?, ?, 'ses_a', ?, ?, ?)", (f"prt_{name}", name, now, now, part))
    if number % 5 == 4:
        database.execute("UPDATE part SET data = replace(data, 'said', 'told'), time_updated = ? WHERE rowid = ?", (now, number - 2))
    database.execute("COMMIT")

said = 0
for line in sys.stdin:
    for _ in range(int(line)):
        say(said)
        said += 1
        time.sleep(0.001)
    print("done", flush=True)
"""


class LiveClient:
    """A client that writes so many messages when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.written = 0

    def begin(self, messages: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{messages}\n")
        self._process.stdin.flush()
        self.written += messages

    def is_writing(self) -> bool:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], 0)[0]:
            return True
        assert self._process.stdout.readline() == "done\n"
        return False

    def write(self, messages: int) -> None:
        self.begin(messages)
        while self.is_writing():
            time.sleep(0.002)

    def write_next(self, bursts: Iterator[int]) -> None:
        """Nothing after the last of them."""
        self.write(next(bursts, 0))


class LiveHome:
    """A home whose client runs, and its mirror."""

    def __init__(self, directory: Path, client: LiveClient) -> None:
        self.client, self._home, self._directory = client, directory / "opencode", directory

    def refresh(self, data: str = "data") -> list[str]:
        """One pass; what could not be mirrored."""
        mirror = AgentMirror("opencode", self._home, self._directory / data)
        mirror.refresh()
        return [problem.reason for problem in mirror.problems]

    def said(self, data: str = "data") -> list[int]:
        """The numbers of the messages that the last pass wrote, without another one; one that is made of two is wrong."""
        (mirror,) = (self._directory / data / MIRRORS).iterdir()
        found = recollect.Home(mirror, data=self._directory / "looking", index=False).sessions()
        words = [message.text.split() for one in found for message in one.conversation().messages]
        assert all(len({*one[1:]}) == 1 for one in words)
        return [int(one[1]) for one in words]

    def kept(self) -> bytes:
        return b"".join(path.read_bytes() for path in (self._directory / "data").rglob("*.jsonl"))


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveHome]:
    (tmp_path / "opencode").mkdir()
    command = [sys.executable, "-c", CLIENT, str(tmp_path / "opencode/opencode.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            client = LiveClient(process)
            client.write(3)
            yield LiveHome(tmp_path, client)
        finally:
            process.kill()


@contextmanager
def between_list_and_rows(happens: Callable[[], object]) -> Iterator[None]:
    """Each time that the rows of sessions are read, after what sessions there are."""
    of = RowStore.of

    def later(store: RowStore, session: str) -> list[OpenCodeRecord]:
        happens()
        return of(store, session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowStore, "of", later)
        yield


@pytest.mark.parametrize("times", [1, 4])
def test_what_a_client_writes_while_its_database_is_read_has_it_read_again(
    live: LiveHome, times: int
) -> None:
    for _ in range(6):
        live.client.write(10)
        bursts = iter([15] * times)
        with between_list_and_rows(partial(live.client.write_next, bursts)):
            assert live.refresh() == []
        assert live.said() == [*range(live.client.written)]


def test_a_database_that_changes_all_the_time_is_said_to_and_read_later(live: LiveHome) -> None:
    assert live.refresh() == []
    before = live.kept()
    with between_list_and_rows(lambda: live.client.write(15)):
        live.client.write(10)
        assert live.refresh() == ["it changes all the time; it is read at the next call"]
    assert live.kept() == before
    assert live.refresh() == []
    assert live.said() == [*range(live.client.written)]


def test_every_pass_beside_a_writing_client_sees_a_state_that_it_committed(live: LiveHome) -> None:
    """Whether one gets through while the client writes depends on the machine; after that it must."""
    assert live.refresh() == []
    longest, end = 0, time.monotonic() + SECONDS
    while time.monotonic() < end:
        live.client.begin(100)
        while live.client.is_writing():
            live.refresh()
            said = live.said()
            # All messages so far, each with its part, none twice.
            assert said == [*range(len(said))]
            assert len(said) >= longest
            longest = len(said)
        assert live.refresh() == []
        assert live.said() == [*range(live.client.written)]
    live.refresh("fresh")
    assert live.said() == live.said("fresh")
    # What the first pass saw, and what the client wrote in its place.
    assert all(f"{word} 1 1 ".encode() in live.kept() for word in ("said", "told"))
