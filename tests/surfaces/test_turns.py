"""What the turns of a conversation cost on the page is what `cost` says of its session, for sessions of every agent."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from recollect import Home
from tests.agents import tiny_homes
from tests.made_corpora import make_agents
from tests.surfaces import homes
from tests.surfaces.case import Case
from tests.web.pages import Browser, served

TINY = (tiny_homes.codex, tiny_homes.gemini_lines, tiny_homes.qwen, tiny_homes.opencode_database)
COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens")


def made(place: Path) -> list[Path]:
    """Small homes of each agent, and real ones where they are at hand."""
    found = list(make_agents(place).homes.values())
    for make in TINY:
        found.append(place / make.__name__)
        make(found[-1])
    return found + [one.make(place) for one in homes.cases() if one.name.startswith("agents/")]


def counted(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[name] for name in COUNTS)


def test_the_turns_of_a_session_cost_together_what_the_session_costs(tmp_path: Path) -> None:
    """Where all that was said is one conversation. What was taken back or compacted was paid for, too, but is no turn of it.
    What a fork copied was paid for elsewhere.
    """
    compared = 0
    for number, home in enumerate(made(tmp_path)):
        case = Case(home, tmp_path / str(number))
        with Browser(served(home, case.data)) as browser:
            for session in Home(home, data=case.data).sessions():
                tree = case.document("show", session.id, "--tree")
                if len(tree["leaves"]) != 1 or tree["compactions"]:
                    continue
                rows = case.document("cost", "--session", session.id, "--by", "agent")["rows"]
                own = [row for row in rows if row["agent"] == "main"]
                turns = browser.get(f"/api/sessions/{session.id}/costs")["turns"]
                together = tuple(map(sum, zip(*map(counted, turns), strict=True))) or (0, 0, 0)
                if own:
                    assert together == counted(own[0]), session.path
                    compared += 1
    assert compared >= 20


def test_messages_cost_together_what_their_turns_and_their_session_cost(tmp_path: Path) -> None:
    """In every view: of sessions, of sub-agents. What was called before all messages is with none of them."""
    compared = 0
    for number, home in enumerate(made(tmp_path)):
        case = Case(home, tmp_path / str(number))
        with Browser(served(home, case.data)) as browser:
            for session in Home(home, data=case.data).sessions():
                at = f"/api/sessions/{session.id}"
                rows = case.document("cost", "--session", session.id, "--by", "agent")["rows"]
                names = [row["agent"] for row in rows if row["agent"] != "main"]
                views = {"main": "whole=true", **{name: f"agent={name}" for name in names}}
                own = {row["agent"]: row for row in rows}
                for agent, view in views.items():
                    turns = browser.get(f"{at}/costs?{view}")["turns"]
                    shown = browser.get(f"{at}/messages?{view}&count=200")
                    assert shown["total"] <= 200
                    costs = {one["index"]: one["cost"] for one in shown["messages"] if one["cost"]}
                    for turn in turns:
                        within = [costs[index] for index in range(turn["from"], turn["to"]) if index in costs]
                        assert summed(within) == summed([turn]), (session.path, agent, turn["from"])
                    tree = case.document("show", session.id, "--tree")
                    if agent in own and len(tree["leaves"]) == 1:
                        assert summed(list(costs.values())) == summed([own[agent]]), (session.path, agent)
                        compared += 1
    assert compared >= 20


def summed(spent: list[dict[str, Any]]) -> tuple[object, ...]:
    """Tokens and dollars; dollars only where all is priced."""
    tokens = tuple(map(sum, zip(*map(counted, spent), strict=True))) or (0, 0, 0)
    is_priced = all(one["cost_usd"] is not None for one in spent)
    return *tokens, sum(Decimal(one["cost_usd"]) for one in spent) if is_priced and any(tokens) else None


def test_turns_of_a_session_without_recorded_usage_cost_what_is_unknown(tmp_path: Path) -> None:
    home = homes.made_unrecorded(tmp_path / "home")
    with Browser(served(home, tmp_path / "data")) as browser:
        listed = browser.get("/api/sessions")
        (row,) = listed["sessions"]
        costs = browser.get(f"/api/sessions/{row['id']}/costs")
    assert listed["total_cost_usd"] is None
    assert costs["turns"]
    assert {costs["cost_usd"], *(one["cost_usd"] for one in costs["turns"])} == {None}
