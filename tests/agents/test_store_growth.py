"""Stores that are rewritten in place: what is new is added once, and what a client took back stays as a branch."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path
from typing import Any

from recollect.agents.mirror import AgentMirror
from tests.agents import added_stores
from tests.agents.test_added import _fill, _grok

TEXT = "INSERT INTO messages VALUES (9, '20261116_1', 'user', ?, 1794000009, NULL)"


def _lines(mirror: AgentMirror) -> list[dict[str, Any]]:
    mirror.refresh()
    (log,) = mirror.root.rglob("*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def _do(store: Path, *asked: Any) -> None:
    with contextlib.closing(sqlite3.connect(store)) as connection, connection:
        connection.execute(*asked)


def test_what_is_added_to_a_session_is_written_once(tmp_path: Path) -> None:
    """A message more is one prompt more; what was taken out stays, and is followed no more."""
    store = tmp_path / "goose/sessions/sessions.db"
    store.parent.mkdir(parents=True)
    _fill(store, added_stores.goose())
    mirror = AgentMirror("goose", tmp_path / "goose", tmp_path / "data")
    first = _lines(mirror)
    said = json.dumps([{"type": "text", "text": "And the wall"}])
    _do(store, TEXT, (said,))
    grown = _lines(mirror)
    assert grown[: len(first)] == first
    new = [line for line in grown[len(first) :] if line["type"] != "foreign-record"]
    assert [line["message"]["content"][0]["text"] for line in new] == ["And the wall"]
    assert new[0]["parentUuid"] == next(line["uuid"] for line in reversed(first) if "uuid" in line)
    assert _lines(mirror) == grown
    _do(store, "DELETE FROM messages WHERE id = 9")
    taken_back = _lines(mirror)
    assert taken_back[: len(grown)] == grown
    (end,) = [line for line in taken_back[len(grown) :] if "uuid" in line]
    assert (end["subtype"], end["parentUuid"]) == ("rewound", new[0]["parentUuid"])


def test_pieces_of_an_answer_wait_for_its_end(tmp_path: Path) -> None:
    """What is written of an answer so far is none yet, unless nothing came for a minute."""
    log = tmp_path / ".grok/sessions/%2Fsrv/7b0e4c52-1111-4222-8333-444455556666/updates.jsonl"
    log.parent.mkdir(parents=True)
    records = [json.dumps(record) + "\n" for record in _grok()]
    log.write_text("".join(records[:2]))
    mirror = AgentMirror("grok", tmp_path / ".grok", tmp_path / "data")
    assert [line["type"] for line in _lines(mirror)] == ["foreign-source", "user"]
    log.write_text("".join(records[:3]))
    os.utime(log, (1_794_000_000, 1_794_000_000))
    said = [line["message"]["content"] for line in _lines(mirror) if line["type"] == "assistant"]
    assert said == [[{"type": "text", "text": "I will"}]]
    log.write_text("".join(records))
    every = _lines(mirror)
    assert "".join(line.get("original", "") for line in every) == log.read_text()
    assert sum(line["type"] == "assistant" for line in every) == 3
