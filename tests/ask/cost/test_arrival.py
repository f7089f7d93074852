"""The order in which logs and lines arrive at the index changes no total."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from recollect.ask.cost.report import costs
from recollect.index.access import OpenIndex, open_index

MODEL = "claude-opus-5-5"
OWN, OTHER = "5e551000-0000-4000-8000-000000000001", "5e551000-0000-4000-8000-000000000002"
MAIN, FORK = f"-srv/{OWN}.jsonl", f"-srv/{OTHER}.jsonl"
AGENT = f"-srv/{OWN}/subagents/agent-acompact1.jsonl"
VIEWS = [("session",), ("day",), ("agent",), ("project",), ("model",), ("session", "day", "agent")]


def said(
    output: int, at: str, session: str = OWN, *, stop: bool = True, side: bool = False, **usage: Any
) -> dict[str, Any]:
    """A line of one response: its copies differ in what they counted, and in who speaks."""
    message = {
        "id": "msg_1",
        "model": MODEL,
        "role": "assistant",
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn" if stop else None,
        "usage": {"input_tokens": 10, "output_tokens": output, **usage},
    }
    line = {
        "type": "assistant",
        "uuid": f"u{output}{at}",
        "requestId": "req_1",
        "sessionId": session,
        "timestamp": at,
    }
    return {
        **line,
        "isSidechain": side,
        "cwd": f"/srv/{session[-1]}",
        "version": "2.1.325",
        "message": message,
    }


ADVISOR = {"type": "advisor_message", "model": "claude-opus-4-8", "input_tokens": 7, "output_tokens": 3}
# The conversation's own lines hold the stream's first counts; an agent's log has the last. So has the fork's copy.
LINES: list[tuple[str, dict[str, Any]]] = [
    (MAIN, said(1, "2026-11-14T23:59:00.000Z", stop=False)),
    (MAIN, said(2, "2026-11-15T00:01:00.000Z", stop=False)),
    (AGENT, said(900, "2026-11-15T09:00:00.000Z", side=True, iterations=[ADVISOR])),
    (
        FORK,
        {**said(50, "2026-11-16T10:00:00.000Z", OTHER), "forkedFrom": {"sessionId": OWN, "messageUuid": "u"}},
    ),
    (
        MAIN,
        {
            **said(0, "2026-11-15T09:30:00.000Z"),
            "type": "progress",
            "message": None,
            "data": {"type": "agent_progress", "message": said(70, "2026-11-15T08:00:00.000Z", side=True)},
        },
    ),
]


def arrivals() -> list[list[int]]:
    """Every order of five lines is one too many to read: a fixed choice of them, the first and the last included."""
    orders = [list(order) for order in itertools.permutations(range(len(LINES)))]
    return [orders[0], orders[-1], *random.Random(5).sample(orders, 14)]


def told(home: Path, opened: OpenIndex) -> list[object]:
    found: list[object] = []
    for by in VIEWS:
        report = costs(by, opened=opened, timezone="UTC")
        found.append([(row.keys, row.responses, row.tokens, row.pico_usd) for row in report.rows])
    return found


def append(home: Path, name: str, line: dict[str, Any]) -> None:
    path = home / "projects" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps({key: value for key, value in line.items() if value is not None}) + "\n")


@pytest.mark.parametrize("order", arrivals(), ids=lambda order: "".join(map(str, order)))
def test_any_order_of_arrival_gives_the_same_sums(order: list[int], tmp_path: Path) -> None:
    """A pass of the index after each line; then an index built at once says the same."""
    home, cache = tmp_path / "home", tmp_path / "cache"
    for number in order:
        append(home, *LINES[number])
        with open_index([home], cache=cache) as opened:
            grown = told(home, opened)
    with open_index([home], cache=tmp_path / "other") as opened:
        built = told(home, opened)

    assert grown == built


@pytest.mark.parametrize("order", arrivals()[:2], ids=lambda order: "".join(map(str, order)))
def test_amounts_are_the_agents_and_the_place_is_the_conversations(order: list[int], tmp_path: Path) -> None:
    """900 tokens of output, in the conversation's session, on the day of its last line, spoken by no agent."""
    home = tmp_path / "home"
    for number in order:
        append(home, *LINES[number])
    with open_index([home], cache=tmp_path / "cache") as opened:
        rows = costs(["session", "day", "agent", "model"], opened=opened, timezone="UTC").rows

    assert [("2026-11-16", OWN, MODEL, "main", 900)] != [
        (*row.keys.values(), row.tokens.output) for row in rows
    ]
    assert ("2026-11-15", OWN, MODEL, "main", 900) in [
        (*row.keys.values(), row.tokens.output) for row in rows
    ]
