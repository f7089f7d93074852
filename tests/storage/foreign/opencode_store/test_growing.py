"""Sessions of OpenCode that go on: what is told of their ends alone is what is told of all of it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from recollect.storage.foreign import opencode
from recollect.storage.foreign.mirror import AgentMirror
from recollect.storage.foreign.opencode_store import growing as opencode_growing
from recollect.storage.foreign.opencode_store.database import _RowStore
from tests.storage.foreign.opencode_store.writing_client import WritingClient

SEEDS = range(60 if os.environ.get("RECOLLECT_TORTURE") else 8)
STEPS = 40


@pytest.fixture
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sessions are told as a whole otherwise."""
    monkeypatch.setattr(opencode, "SMALLEST", 0)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch, every_size: None) -> list[bool]:
    """Of each session that changed: whether its end was enough."""
    found: list[bool] = []
    went_on = opencode._StorePass._went_on

    def noted(one: opencode._StorePass, session: str) -> bool:
        found.append(went_on(one, session))
        return found[-1]

    monkeypatch.setattr(opencode._StorePass, "_went_on", noted)
    return found


def logs(data: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in data.rglob("*.jsonl")}


def mirrored(home: Path, data: Path, *, by_end: bool = True) -> dict[str, bytes]:
    with pytest.MonkeyPatch.context() as patch:
        if not by_end:
            patch.setattr(opencode._StorePass, "_went_on", lambda *_: False)
        mirror = AgentMirror("opencode", home, data)
        mirror.refresh()
    return logs(data)


@pytest.mark.parametrize("has_events", [False, True])
def test_an_end_that_is_told_alone_is_told_as_with_all_before_it(
    tmp_path: Path, taken: list[bool], has_events: bool
) -> None:
    """After every pass both mirrors have the same bytes."""
    for seed in SEEDS:
        place = tmp_path / str(seed)
        (place / "opencode").mkdir(parents=True)
        chance = random.Random(seed)
        client = WritingClient(place / "opencode" / "opencode.db", chance, has_events=has_events)
        with closing(client):
            for step in range(STEPS):
                client.write()
                now = mirrored(place / "opencode", place / "ends")
                whole = mirrored(place / "opencode", place / "whole", by_end=False)
                assert now == whole, f"seed {seed}, step {step}"
    # Enough of both ways.
    assert len(taken) * 0.3 < sum(taken) < len(taken) * 0.95


def test_of_a_session_that_goes_on_only_its_end_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: list[bool]
) -> None:
    home = tmp_path / "opencode"
    home.mkdir()
    read: list[str] = []
    rows = _RowStore._rows

    def noted(store: _RowStore, table: str, *given: object) -> Iterator[object]:
        for record in rows(store, table, *given):  # type: ignore[arg-type]
            read.append(record.source)
            yield record

    monkeypatch.setattr(_RowStore, "_rows", noted)
    with closing(WritingClient(home / "opencode.db", random.Random(1), has_events=False)) as client:
        for _ in range(100):
            client.prompt()
            client.answer()
        for _ in range(2):
            client.change_last()
            mirrored(home, tmp_path / "data")
        read.clear()
        client.change_last()
        client.answer()
        mirrored(home, tmp_path / "data")
    assert taken[-1]
    assert 10 < len([one for one in read if one.startswith("part/")]) < 40


def test_a_log_that_someone_wrote_to_is_told_from_its_beginning(tmp_path: Path, taken: list[bool]) -> None:
    """A name that a user gave, or what was redacted: what was left there is compared again."""
    home = tmp_path / "opencode"
    home.mkdir()
    with closing(WritingClient(home / "opencode.db", random.Random(1), has_events=False)) as client:
        for _ in range(4):
            client.prompt()
            client.answer()
            mirrored(home, tmp_path / "data")
        assert taken[-1]
        (log,) = (tmp_path / "data").rglob("*.jsonl")
        with log.open("ab") as file:
            file.write(b'{"type":"custom-title","customTitle":"mine","sessionId":"x"}\n')
        client.prompt()
        mirrored(home, tmp_path / "data")
        assert not taken[-1]
        client.prompt()
        mirrored(home, tmp_path / "data")
        assert taken[-1]


def last_text(client: WritingClient, behind: int = 0) -> str:
    """The id of a text, so many texts before the last one."""
    asked = "SELECT id FROM part WHERE data LIKE '%\"text\"%' ORDER BY id DESC LIMIT 1 OFFSET ?"
    (name,) = client._db.execute(asked, (behind,)).fetchone()
    return str(name)


def both(place: Path) -> None:
    now, whole = (
        mirrored(place / "opencode", place / "ends"),
        mirrored(place / "opencode", place / "whole", by_end=False),
    )
    assert now == whole


@pytest.mark.parametrize("has_events", [False, True])
def test_a_text_that_is_again_as_it_was_is_not_written_twice(
    tmp_path: Path, taken: list[bool], has_events: bool
) -> None:
    (tmp_path / "opencode").mkdir()
    database = tmp_path / "opencode" / "opencode.db"
    with closing(WritingClient(database, random.Random(1), has_events=has_events)) as client:
        for _ in range(3):
            client.prompt()
            both(tmp_path)
        for text in ("a", "b", "a", "b", "c"):
            client._rewrite("part", last_text(client), {"type": "text", "text": text})
            both(tmp_path)
    assert taken[-5:] == [True, True, False, False, True]


def test_a_prompt_that_changes_far_above_the_end_has_all_behind_it_told_again(
    tmp_path: Path, taken: list[bool]
) -> None:
    (tmp_path / "opencode").mkdir()
    with closing(
        WritingClient(tmp_path / "opencode" / "opencode.db", random.Random(1), has_events=False)
    ) as client:
        client.prompt()
        name = last_text(client)
        for _ in range(30):
            client.answer()
        for _ in range(3):
            client.answer()
            both(tmp_path)
        assert taken[-1]
        client._rewrite("part", name, {"type": "text", "text": "do something else"})
        both(tmp_path)
        assert not taken[-1]


def test_ends_are_kept_of_few_sessions() -> None:
    growing: dict[str, opencode_growing.GrowingSession] = {}
    one = opencode_growing.GrowingSession("", [], {}, frozenset())
    for name in range(20):
        opencode_growing.keep_growing(growing, str(name), one)
    opencode_growing.keep_growing(growing, "13", one)
    assert [*growing] == ["12", "14", "15", "16", "17", "18", "19", "13"]
