"""Slimming: the same conversation in fewer bytes, and back again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.library import Home
from recollect.change import repair, undo
from recollect.change.repair import planned_repair, with_slimming
from tests.model.repair.damaged import damaged_log
from tests.small_home import ONE, call, link, outcome, prompt, put, reply, said, state, written

LONG = "x" * 50_000
COPY = {
    "type": "update",
    "filePath": "/a",
    "originalFile": LONG,
    "structuredPatch": [{"lines": ["-a", "+b"]}],
}
HUGE: list[dict[str, Any]] = [
    {"type": "api-request-blob", "hash": "h", "message": {"role": "user", "content": LONG}},
    prompt(1, None, "Q1"),
    reply(2, 1, call("toolu_1")),
    link(3, 2, type="progress", data={"type": "agent_progress", "text": LONG}),
    link(4, 3, type="progress", data={"type": "agent_progress", "text": LONG}),
    {**outcome(5, 4, "toolu_1", LONG), "toolUseResult": COPY},
    reply(6, 5, said("Done")),
    {"type": "last-prompt", "leafUuid": "00000000-0000-4000-8000-000000000006"},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session, 250 kB of which 50 kB are ever sent."""
    put(tmp_path / "home", ONE, HUGE)
    return tmp_path / "home"


def slim(home: Path, data: Path) -> repair.SessionRepair:
    with planned_repair(Home(home).session(ONE)) as plan:
        return repair.apply_in_place(with_slimming(plan), data)


def test_the_plan_says_what_is_saved_by_kind(home: Path) -> None:
    """Two progress lines, one record of a request, one original file."""
    with planned_repair(Home(home).session(ONE)) as plan:
        light = with_slimming(plan)
    saved = {kind: count // 10_000 for kind, count in light.saved.items()}

    assert {"progress": 10, "request-records": 5, "result-copies": 4} == saved
    assert light.mending.bytes_before == light.mending.bytes_kept + light.mending.bytes_set_aside


def test_the_same_messages_are_sent(home: Path, tmp_path: Path) -> None:
    """Link by link around the progress lines; the result itself is whole."""
    before = Home(home).session(ONE).conversation().to_api()
    slim(home, tmp_path / "data")
    session = Home(home).session(ONE)
    entries = written(session.path)

    assert (before, True) == (session.conversation().to_api(), session.path.stat().st_size < 60_000)
    assert [("1", None), ("2", "1"), ("5", "2"), ("6", "5")] == [
        (one["uuid"][-1], one["parentUuid"] and one["parentUuid"][-1]) for one in entries if "uuid" in one
    ]


def test_the_copy_of_a_result_keeps_its_shape(home: Path, tmp_path: Path) -> None:
    """Clients draw it: only its long texts are cut."""
    slim(home, tmp_path / "data")
    copy = next(one for one in written(Home(home).session(ONE).path) if "toolUseResult" in one)[
        "toolUseResult"
    ]

    assert (set(COPY), COPY["structuredPatch"], "/a") == (
        set(copy),
        copy["structuredPatch"],
        copy["filePath"],
    )
    assert copy["originalFile"].startswith("x" * 200 + "...")


def test_undo_restores_it_byte_for_byte(home: Path, tmp_path: Path) -> None:
    """And all that was taken out lies in quarantine."""
    before, data = state(home), tmp_path / "data"
    originals = Home(home).session(ONE).path.read_bytes().splitlines(keepends=True)
    done = slim(home, data)
    assert done.quarantine is not None
    aside = done.quarantine.read_bytes().splitlines(keepends=True)
    undo.undo(data, undo.found_change(data, done.undo or ""))

    assert ([originals[0], *originals[3:6]], before) == (aside, state(home))


@pytest.mark.parametrize("seed", range(40))
def test_damaged_logs_are_mended_and_then_slimmed(tmp_path: Path, seed: int) -> None:
    """The messages are those of the repair without slimming; sizes add up; nothing is left to repair."""
    home = tmp_path / "home"
    log = put(home, ONE, [])
    log.write_bytes(damaged_log(seed + random.Random(seed).randrange(1000)))
    with planned_repair(Home(home).session(ONE)) as plan:
        light = with_slimming(plan)
        heavy = b"".join(plan.mending.draft.output())
        light_bytes = b"".join(light.mending.draft.output())
        assert light.mending.bytes_before == light.mending.bytes_kept + light.mending.bytes_set_aside

    sent = []
    for content in (heavy, light_bytes):
        log.write_bytes(content)
        session = Home(home).session(ONE)
        sent.append(session.conversation().to_api() if session.graph.active_leaf is not None else [])
    with planned_repair(Home(home).session(ONE)) as again:
        assert ((), sent[0]) == (again.mending.actions, sent[1])
