"""A client of OpenCode that writes to one session of a database, as clients and people do."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Self

BEGAN = 1_790_000_000_000
TABLES = """
CREATE TABLE session(id TEXT PRIMARY KEY, directory TEXT, title TEXT, version TEXT, revert TEXT, time_created INTEGER, time_updated INTEGER);
CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE todo(session_id TEXT, content TEXT, position INTEGER, time_updated INTEGER);
INSERT INTO session VALUES ('ses_a', '/w', 'one', '1.2.27', NULL, 1790000000000, 1790000000000);
"""
EVENTS = """
CREATE TABLE event_sequence(aggregate_id TEXT PRIMARY KEY, seq INTEGER);
CREATE TABLE event(id TEXT PRIMARY KEY, aggregate_id TEXT, seq INTEGER, type TEXT, data TEXT);
"""


class WritingClient:
    """Does what clients do to one session, and what people do to databases."""

    def __init__(self, database: Path, chance: random.Random, *, has_events: bool) -> None:
        self._db = sqlite3.connect(database, isolation_level=None)
        self._db.executescript(TABLES + EVENTS * has_events)
        self._chance, self._has_events = chance, has_events
        self._count, self._now = 0, BEGAN

    @classmethod
    def at(cls, database: Path, chance: random.Random) -> Self:
        """One that goes on with a database without an event log."""
        client = cls.__new__(cls)
        client._db = sqlite3.connect(database, isolation_level=None)
        client._chance, client._has_events = chance, False
        ((client._count,),) = client._db.execute("SELECT count(*) FROM part")
        ((client._now,),) = client._db.execute("SELECT max(time_updated) FROM part")
        return client

    def close(self) -> None:
        self._db.close()

    def write(self) -> None:
        usual = [self.prompt, self.answer, self.answer, self.step, self.change_last, self.change_last]
        usual += [self.end_call, self.sum_up_prompt, self.plan, self.rename, self.nothing]
        odd = [
            self.drop_part,
            self.drop_message,
            self.revert,
            self.take_back,
            self.compact,
            self.move,
            self.lose,
        ]
        odd += [self.insert_before, self.change_any, self.say_again, self.touch, self.come_and_go]
        odd += [self.change_prompt, self.change_prompt]
        for _ in range(self._chance.choice([1, 1, 1, 2, 5])):
            steps: list[Callable[[], None]] = odd if self._chance.random() < 0.12 else usual
            self._chance.choice(steps)()

    # ---- what clients do -----------------------------------------------------------------------------

    def prompt(self) -> None:
        self._message("user")
        self._part({"type": "text", "text": f"do {self._count}"})

    def answer(self) -> None:
        self._message("assistant")
        self._part({"type": "step-start"})
        if self._chance.random() < 0.7:
            self._part({"type": "text", "text": f"said {self._count}"})
        if self._chance.random() < 0.7:
            call = {"status": "running", "input": {"filePath": "/w/a", "content": str(self._count)}}
            self._part({"type": "tool", "tool": "write", "callID": f"call_{self._count}", "state": call})

    def step(self) -> None:
        tokens = {"input": self._count, "output": 7, "reasoning": 0, "cache": {"read": 1, "write": 0}}
        self._part({"type": "step-finish", "tokens": tokens, "cost": 0})

    def end_call(self) -> None:
        for name, data in self._db.execute("SELECT id, data FROM part ORDER BY id DESC LIMIT 12").fetchall():
            part = json.loads(data)
            if part["type"] == "tool" and part["state"]["status"] == "running":
                part["state"] |= {"status": "completed", "output": "ok", "time": {"end": self._later()}}
                self._rewrite("part", name, part)

    def change_last(self) -> None:
        self._change(self._recent("part", 6))

    def sum_up_prompt(self) -> None:
        """Clients note what a turn has changed at its prompt, long after it."""
        for name, data in self._db.execute(
            "SELECT id, data FROM message ORDER BY id DESC LIMIT 30"
        ).fetchall():
            message = json.loads(data)
            if message["role"] == "user":
                self._rewrite("message", name, message | {"summary": {"diffs": [str(self._count)]}})
                return

    def plan(self) -> None:
        self._db.execute("DELETE FROM todo")
        self._db.execute("INSERT INTO todo VALUES ('ses_a', ?, 0, ?)", (f"plan {self._count}", self._later()))

    def rename(self) -> None:
        self._db.execute(
            "UPDATE session SET title = ?, time_updated = ?", (f"name {self._count}", self._later())
        )

    def nothing(self) -> None:
        self._db.execute("UPDATE session SET time_updated = ?", (self._later(),))

    def compact(self) -> None:
        self._message("user")
        first = self._db.execute("SELECT id FROM message ORDER BY id DESC LIMIT 1 OFFSET 3").fetchone()
        self._part({"type": "compaction", "auto": True, **({"tail_start_id": first[0]} if first else {})})
        self._message("assistant", summary=True, finish="stop")
        self._part({"type": "text", "text": f"summary {self._count}"})

    def revert(self) -> None:
        for (name,) in self._recent("message", 5):
            self._db.execute("UPDATE session SET revert = ?", (json.dumps({"messageID": name}),))

    def take_back(self) -> None:
        self._db.execute("UPDATE session SET revert = NULL")

    # ---- what happens seldom -------------------------------------------------------------------------

    def drop_part(self) -> None:
        for (name,) in self._recent("part", 20):
            self._db.execute("DELETE FROM part WHERE id = ?", (name,))
            self._event("message.part.removed.1", {"partID": name})

    def drop_message(self) -> None:
        for (name,) in self._recent("message", 20):
            self._db.execute("DELETE FROM part WHERE message_id = ?", (name,))
            self._db.execute("DELETE FROM message WHERE id = ?", (name,))
            self._event("message.removed.1", {"messageID": name})

    def come_and_go(self) -> None:
        """What only the event log has, or no one."""
        self.answer()
        (last,) = self._db.execute("SELECT max(id) FROM message").fetchone()
        self._db.execute("DELETE FROM part WHERE message_id = ?", (last,))
        self._db.execute("DELETE FROM message WHERE id = ?", (last,))

    def move(self) -> None:
        self._db.execute("UPDATE session SET directory = ?", (f"/w{self._count}",))

    def lose(self) -> None:
        part = json.dumps({"type": "text", "text": "lost"})
        row = (
            f"prt_lost{self._count}",
            self._chance.choice([None, "msg_gone", "zzz"]),
            "ses_a",
            BEGAN,
            BEGAN,
            part,
        )
        self._db.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)

    def insert_before(self) -> None:
        now, self._now = self._now, BEGAN + self._chance.randrange(self._now - BEGAN + 1)
        self.answer()
        self._now = now

    def change_any(self) -> None:
        self._change(self._recent("part", 10_000))

    def change_prompt(self) -> None:
        """One that other messages stand behind."""
        asked = "SELECT part.id FROM part JOIN message ON message.id = message_id WHERE message.data LIKE '%user%' ORDER BY message.id DESC LIMIT 1 OFFSET ?"
        self._change(self._db.execute(asked, (self._chance.randrange(2),)).fetchall())

    def say_again(self) -> None:
        """As it was before."""
        for (name,) in self._recent("part", 4):
            (before,) = self._db.execute("SELECT data FROM part WHERE id = ?", (name,)).fetchone()
            self._change([(name,)])
            self._rewrite("part", name, json.loads(before))

    def touch(self) -> None:
        for (name,) in self._recent("message", 30):
            self._db.execute("UPDATE message SET time_updated = ? WHERE id = ?", (self._later(), name))

    # ---- rows ------------------------------------------------------------------------------------------

    def _later(self) -> int:
        self._now += 1000
        return self._now

    def _recent(self, table: str, most: int) -> list[tuple[str]]:
        place = self._chance.randrange(most)
        asked = f"SELECT id FROM {table} ORDER BY id DESC LIMIT 1 OFFSET ? % max(1, (SELECT count(*) FROM {table}))"
        return self._db.execute(asked, (place,)).fetchall()

    def _change(self, names: list[tuple[str]]) -> None:
        for (name,) in names:
            (data,) = self._db.execute("SELECT data FROM part WHERE id = ?", (name,)).fetchone()
            part = json.loads(data)
            self._rewrite("part", name, part | {"text": f"one of {self._chance.randrange(2)}"})

    def _message(self, role: str, **more: object) -> None:
        self._count += 1
        at = self._later()
        name = f"msg_{at * 4096 % (1 << 48):012x}{self._count:06d}"
        data = {"role": role, "time": {"created": at}, "modelID": "m", "providerID": "p", **more}
        self._db.execute("INSERT INTO message VALUES (?, 'ses_a', ?, ?, ?)", (name, at, at, json.dumps(data)))
        self._event("message.updated.1", {"info": {"id": name, "sessionID": "ses_a", **data}})

    def _part(self, data: dict[str, object]) -> None:
        self._count += 1
        (message,) = self._db.execute("SELECT max(id) FROM message").fetchone()
        if message is None:
            return
        at = self._later()
        name = f"prt_{at * 4096 % (1 << 48):012x}{self._count:06d}"
        row = (name, message, at, at, json.dumps(data))
        self._db.execute("INSERT INTO part VALUES (?, ?, 'ses_a', ?, ?, ?)", row)
        self._event(
            "message.part.updated.1",
            {"part": {"id": name, "messageID": message, "sessionID": "ses_a", **data}},
        )

    def _rewrite(self, table: str, name: str, data: dict[str, object]) -> None:
        at = self._later()
        self._db.execute(
            f"UPDATE {table} SET data = ?, time_updated = ? WHERE id = ?", (json.dumps(data), at, name)
        )
        kind, key = ("message", "info") if table == "message" else ("message.part", "part")
        self._event(f"{kind}.updated.1", {key: {"id": name, "sessionID": "ses_a", **data}})

    def _event(self, kind: str, data: object) -> None:
        if self._has_events:
            asked = "INSERT INTO event_sequence VALUES ('ses_a', 0) ON CONFLICT DO UPDATE SET seq = seq + 1 RETURNING seq"
            ((number,),) = self._db.execute(asked).fetchall()
            row = (f"evt_{number}", number, kind, json.dumps(data))
            self._db.execute("INSERT INTO event VALUES (?, 'ses_a', ?, ?, ?)", row)
