"""The quick look into the index agrees with what the index and the rule of blocks say."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recollect.ask.cost.report import costs
from recollect.index import glimpse
from recollect.index.access import open_index
from recollect.model.budget import blocks
from recollect.model.cost.prices import PriceList
from tests.made_corpora import SEEDS, make
from tests.small_home import ONE, TWO, lines, link, prompt, put, reply, said

QUARTER = 1_992_000  # 2026-10-23T08:00Z: a full hour
SONNET = "claude-sonnet-4-5"
KEYS = ("session", "day", "block")


def response(number: int, *, session: str = ONE, model: str = SONNET, **usage: int) -> dict[str, Any]:
    """An answer at 10:00:00 plus ``number`` seconds with these token counts."""
    message = {
        "id": f"msg_{number}",
        "model": model,
        "content": [],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    fields = {"type": "assistant", "message": message, "requestId": f"req_{number}"}
    return link(number, None, session, **fields)


def agent_of(log: Path, *entries: dict[str, Any]) -> None:
    """A sub-agent of a session, in the client's present layout."""
    path = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(lines([{**entry, "isSidechain": True, "agentId": "a1"} for entry in entries]))


@pytest.fixture
def index(tmp_path: Path) -> apsw.Connection:
    """The index of a home with one session and one agent; looked at, not refreshed again."""
    home = tmp_path / "home"
    log = put(
        home,
        ONE,
        [
            prompt(1, None, "Go"),
            response(2, input_tokens=1_000, output_tokens=100),
            response(3, input_tokens=10, cache_read_input_tokens=150_000, cache_creation_input_tokens=90_000),
            response(4, input_tokens=7, output_tokens=1, cache_read_input_tokens=3),
            reply(5, 4, said("Nothing"), answer="msg_5"),
        ],
    )
    agent_of(log, response(60, input_tokens=2_000, model="claude-nightly-20261101"))
    with open_index([home], cache=tmp_path / "cache") as opened:
        path = opened.path
    return glimpse.opened(str(path))


def test_what_a_fork_copied_is_counted_where_it_was_said(tmp_path: Path) -> None:
    """The fork has the same answer: it costs nothing there, and its context is as large all the same."""
    home = tmp_path / "home"
    said = response(2, input_tokens=1_000)
    put(home, ONE, [said])
    put(home, TWO, [{**said, "forkedFrom": {"sessionId": ONE, "messageUuid": said["uuid"]}}])
    with open_index([home], cache=tmp_path) as opened:
        index = glimpse.opened(str(opened.path))

    assert [1, 0] == [len(glimpse.session_usage(index, session)) for session in (ONE, TWO)]
    assert (1_000, SONNET, 1_000) == glimpse.newest_context(index, TWO)


def test_the_context_is_that_of_the_newest_answer_of_the_conversation(index: apsw.Connection) -> None:
    """Ten tokens before the last answer; the agent's 2,000 are not the conversation's. Once it held 240,010."""
    assert (10, "claude-sonnet-4-5-20250929", 240_010) == glimpse.newest_context(index, ONE)


def test_a_session_nobody_has_seen_has_no_figures(index: apsw.Connection) -> None:
    """Neither cost nor context, and it is not known."""
    unknown = "00000000-0000-4000-8000-00000000dead"

    assert (False, [], None) == (
        glimpse.knows(index, unknown),
        glimpse.session_usage(index, unknown),
        glimpse.newest_context(index, unknown),
    )
    assert glimpse.knows(index, ONE)


@pytest.mark.parametrize(
    ("model", "most", "window"),
    [
        ("claude-opus-4-8", 200_000, 200_000),
        ("claude-opus-4-8", 200_001, 1_000_000),
        ("claude-opus-4-8[1m]", 5, 1_000_000),
        ("", 0, 200_000),
    ],
)
def test_the_window_is_the_large_one_where_it_was_asked_for_or_needed(
    model: str, most: int, window: int
) -> None:
    """Logs say neither; the client's name for the model may, and what was held."""
    assert window == glimpse.window_of(model, most)


@given(
    responses=st.lists(st.integers(QUARTER, QUARTER + 90), min_size=0, max_size=12),
    untimed=st.sampled_from([[], [0], [-5]]),
    now=st.integers(QUARTER - 10, QUARTER + 110),
)
@example(responses=[QUARTER + 3, QUARTER + 20], untimed=[], now=QUARTER + 20)
@example(responses=[QUARTER + 3, QUARTER + 19], untimed=[0], now=QUARTER + 19)
def test_the_running_block_is_the_one_the_rule_of_blocks_gives(
    responses: list[int], untimed: list[int], now: int
) -> None:
    """``model.cost.calendar`` cuts all of history; the quick look finds the block of one moment in it."""
    index = apsw.Connection(":memory:")
    index.execute("CREATE TABLE rollup(quarter INTEGER PRIMARY KEY) WITHOUT ROWID")
    quarters = sorted({*responses, *untimed})
    index.executemany("INSERT INTO rollup VALUES(?)", [(quarter,) for quarter in quarters])
    running = [start for start, end in blocks([one for one in quarters if one > 0]) if start <= now < end]

    assert (running[0] if running else None) == glimpse.block_start(index, now)


@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_days_and_blocks_cost_what_reports_say(tmp_path: Path, seed: int) -> None:
    """Every session, every UTC day and every block of a generated home, to the pico-dollar; all of it is there."""
    (home, truth), prices = make(tmp_path / "home", seed), PriceList()
    with open_index([home], cache=tmp_path) as opened:
        index = glimpse.opened(str(opened.path))
        reports = {by: costs([by], opened=opened, timezone="UTC", prices=prices).rows for by in KEYS}
    found = {
        "session": [glimpse.session_usage(index, row.keys["session"]) for row in reports["session"]],
        "day": [between(index, row.keys["day"], 96) for row in reports["day"]],
        "block": [between(index, row.keys["block"], 20) for row in reports["block"]],
    }
    costing = {by: [glimpse.priced(usage, prices)[0] for usage in usages] for by, usages in found.items()}

    assert {by: [row.pico_usd for row in rows] for by, rows in reports.items()} == costing
    assert [truth["total"]["cost_nano_usd"] * 1_000] * 3 == [sum(costing[by]) for by in KEYS]


def between(index: apsw.Connection, start: str, quarters: int) -> list[glimpse.GlimpsedUsage]:
    """Usage from a day or moment on."""
    first = int(dt.datetime.fromisoformat(start).replace(tzinfo=dt.UTC).timestamp()) // 900
    return glimpse.usage_between(index, first, first + quarters)
