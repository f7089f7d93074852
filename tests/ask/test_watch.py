"""What is going on: open sessions, what they cost, and nothing new where nothing happened."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from recollect.ask import watch
from recollect.ask.watch import ActiveBlock, WatchedSession, Watcher
from recollect.index.access import open_index
from recollect.model.cost.prices import PriceList
from recollect.model.lines.blocks import Tokens
from recollect.store.home import ClaudeHome
from tests.small_home import ONE, TWO, lines, link, open_in_this_process, prompt, put

NOW = 1_794_744_420  # 2026-11-15T12:07:00Z
SONNET = "claude-sonnet-4-5-20250929"
CENT = 10**10


def answer(number: int, at: int, model: str = SONNET, tokens: int = 100_000) -> dict[str, Any]:
    """An answer to so many tokens of input: 0.30 dollars for a hundred thousand with Sonnet 4.5."""
    usage = {"input_tokens": tokens, "output_tokens": 0}
    message = {
        "id": f"msg_{number}",
        "model": model,
        "content": [],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    entry = link(number, None, type="assistant", message=message, requestId=f"req_{number}", gitBranch="main")
    return {**entry, "timestamp": dt.datetime.fromtimestamp(at, dt.UTC).isoformat()}


@pytest.fixture(autouse=True)
def in_greenwich(monkeypatch: pytest.MonkeyPatch) -> None:
    """Days begin at midnight UTC: seven minutes past twelve is the same day everywhere we might run."""
    monkeypatch.setattr(watch, "today", lambda now: (now // 86_400 * 96, now // 86_400 * 96 + 96))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A session that is open in this process, with answers yesterday, at eleven, and twice just now; and one that is not."""
    home = tmp_path / "home"
    log = put(
        home,
        ONE,
        [prompt(1, None, "Why?"), answer(2, NOW - 86_400), answer(3, NOW - 4_020), answer(4, NOW - 60)],
    )
    agent = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(lines([{**answer(5, NOW - 599), "isSidechain": True, "agentId": "a1"}]))
    put(home, TWO, [answer(6, NOW - 3_600)])
    open_in_this_process(home, ONE)
    return home


def watcher(home: Path, cache: Path, prices: PriceList | None = None) -> Watcher:
    return Watcher([ClaudeHome(home)], lambda: open_index([home], cache=cache), prices or PriceList())


def test_a_look_has_every_figure(home: Path, tmp_path: Path) -> None:
    """Four answers of 0.30 dollars in the session, its agent's included; two of them in the last ten minutes.

    Today: all but yesterday's and with the other session's. The block began at eleven, its first
    answer came at 11:00: 400,000 tokens and 1.20 dollars in 67 minutes, 233 are left.
    """
    seen = watcher(home, tmp_path / "cache").look(NOW + 59)

    assert (
        WatchedSession(
            id=ONE,
            pid=os.getpid(),
            is_certain=False,
            state="open",
            title="Why?",
            cwd="/srv/app",
            branch="main",
            model=SONNET,
            tokens=Tokens(input=400_000),
            pico_usd=120 * CENT,
            recent_pico_usd=60 * CENT,
            pico_usd_per_hour=360 * CENT,
            context_tokens=100_000,
            context_window=200_000,
        ),
    ) == seen.sessions
    assert 120 * CENT == seen.today_pico_usd
    assert (
        ActiveBlock(
            start=NOW - 67 * 60,
            end=NOW + 233 * 60,
            pico_usd=120 * CENT,
            minutes_left=233,
            tokens_per_minute=400_000 // 67,
            pico_usd_per_hour=120 * CENT * 60 // 67,
            projected_pico_usd=120 * CENT + 120 * CENT * 233 // 67,
        )
        == seen.block
    )
    assert () == seen.notes


def test_what_the_client_says_of_itself_is_told(home: Path, tmp_path: Path) -> None:
    """State and name from its marker; a session without a log yet has a place, and costs nothing yet."""
    marker = home / "sessions" / f"{os.getpid()}.json"
    fresh = "00000000-0000-4000-8000-00000000aaaa"
    said = {"pid": os.getpid(), "sessionId": fresh, "status": "busy", "name": "New", "cwd": "/srv/new"}
    marker.write_text(json.dumps(said))

    (session,) = watcher(home, tmp_path / "cache").look(NOW).sessions

    assert ("busy", "New", "/srv/new", "", 0) == (
        session.state,
        session.title,
        session.cwd,
        session.model,
        session.pico_usd,
    )


def test_a_title_that_was_given_goes_before_the_prompt(home: Path, tmp_path: Path) -> None:
    """And is followed when it changes, or is taken away."""
    log = next(home.glob(f"projects/*/{ONE}.jsonl"))
    looking = watcher(home, tmp_path / "cache")
    titles = []
    for text in ("First", "Second", ""):
        with log.open("ab") as file:
            file.write(lines([{"type": "custom-title", "customTitle": text, "sessionId": ONE}]))
        titles.append(looking.look(NOW).sessions[0].title)

    assert ["First", "Second", "Why?"] == titles


def test_what_was_added_is_seen_by_the_next_look(home: Path, tmp_path: Path) -> None:
    """One more answer of 0.30 dollars."""
    looking = watcher(home, tmp_path / "cache")
    before = looking.look(NOW)
    with next(home.glob(f"projects/*/{ONE}.jsonl")).open("ab") as file:
        file.write(lines([{**answer(9, NOW - 30), "cwd": "/srv/app"}]))
    after = looking.look(NOW)

    assert [120 * CENT, 150 * CENT] == [look.sessions[0].pico_usd for look in (before, after)]


def test_models_without_a_price_are_named(home: Path, tmp_path: Path) -> None:
    """In the session that used them and for the day."""
    with next(home.glob(f"projects/*/{ONE}.jsonl")).open("ab") as file:
        file.write(lines([{**answer(9, NOW, "claude-nightly-20261101"), "cwd": "/srv/app"}]))

    seen = watcher(home, tmp_path / "cache").look(NOW)

    assert (("claude-nightly-20261101",),) * 2 == (seen.unpriced, seen.sessions[0].unpriced)
    assert 120 * CENT == seen.sessions[0].pico_usd


def test_an_index_that_is_replaced_under_the_view_is_seen(home: Path, tmp_path: Path) -> None:
    """Each look opens it anew: one that was removed is built again, and nothing is held open."""
    looking = watcher(home, tmp_path / "cache")
    before = looking.look(NOW)
    for path in (tmp_path / "cache").iterdir():
        path.unlink()

    assert before == looking.look(NOW)


@pytest.mark.parametrize(
    ("problem", "note"),
    [
        (apsw.CorruptError("page 7"), "damaged (page 7)"),
        (apsw.IOError("disk"), "read index "),
        (apsw.BusyError("locked"), "the index cannot be read: locked"),
    ],
)
def test_an_index_that_fails_while_it_is_asked_is_said(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: apsw.Error, note: str
) -> None:
    """What the client says of itself is known; the next look has an index again, a new one if need be."""
    looking = watcher(home, tmp_path / "cache")

    def failing(*_: object) -> None:
        raise problem

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Watcher, "_from_index", failing)
        seen = looking.look(NOW)

    assert (ONE, None, True, None) == (
        seen.sessions[0].id,
        seen.sessions[0].pico_usd,
        note in seen.notes[0],
        seen.today_pico_usd,
    )
    assert 120 * CENT == looking.look(NOW).today_pico_usd


def test_what_the_index_has_to_say_is_passed_on(home: Path, tmp_path: Path) -> None:
    """A log that cannot be read is named."""
    (home / "projects" / "-srv-app" / "x.jsonl").symlink_to(tmp_path / "nowhere")

    (note,) = watcher(home, tmp_path / "cache").look(NOW).notes

    assert note.startswith(f"could not be read: {home}/projects/-srv-app/x.jsonl: ")
