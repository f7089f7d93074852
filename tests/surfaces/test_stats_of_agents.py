"""Statistics of other agents' sessions say what `agents`, `files`, `list` and `cost` say of them."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from recollect.model.cost.calendar import UNKNOWN
from tests.agents import tiny_homes
from tests.needs import TRANSCRIPTS
from tests.surfaces.case import Case
from tests.surfaces.homes import TORTURE, made_copied
from tests.surfaces.test_edits import changes, patched, qwen, together
from tests.web.pages import Browser, served

_SAMPLES = TRANSCRIPTS / "dialects" / "samples"
# Daily one of each kind: agents nested, forked, of no call, of an unknown type; edits through a shell; forks.
_DAILY = (
    "codex/0.166.0/agents_nested/.codex",
    "codex/0.166.0/guardian/.codex",
    "codex/0.117.0/agents_nested/.codex",
    "codex/0.58.0/tools/.codex",
    "codex/0.98.0/tui/.codex",
    "codex/0.166.0/exec_fork/.codex",
    "gemini-0.61.0/.gemini",
    "qwen-0.24.4/.qwen",
    "opencode-1.18.33/data/opencode",
)
_TOKENS = (
    "input_tokens",
    "output_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
    "cache_read_tokens",
)


def _samples() -> list[str]:
    found = (*_SAMPLES.glob("codex/*/*/.codex"), *_SAMPLES.glob("*/.gemini"), *_SAMPLES.glob("*/.qwen"))
    every = sorted(str(one.relative_to(_SAMPLES)) for one in (*found, *_SAMPLES.glob("*/data/opencode")))
    return every if TORTURE else [name for name in _DAILY if (_SAMPLES / name).is_dir()]


def _homes() -> list[Any]:
    made = (patched, tiny_homes.gemini_lines, qwen, tiny_homes.opencode_database, together, made_copied)
    return [*(pytest.param(one, id=one.__name__) for one in made), *_samples()]


@pytest.fixture(params=_homes())
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A small home of each agent, and homes that their clients wrote where they are at hand."""
    if isinstance(request.param, str):
        return Case(_SAMPLES / request.param, tmp_path)
    request.param(tmp_path / "home")
    return Case(tmp_path / "home", tmp_path)


def test_sub_agents_are_those_of_agents(case: Case) -> None:
    """How many there are, and how many of each type; each type leads to its sessions."""
    told = case.document("report", "--figures")["agents"]
    found: Counter[str] = Counter()
    sessions: dict[str, set[str]] = {}
    for session in case.document("list")["sessions"]:
        for agent in case.document("show", session["id"], "--sub-agents")["agents"]:
            found[agent["agent_type"] or UNKNOWN] += 1
            sessions.setdefault(agent["agent_type"] or UNKNOWN, set()).add(session["id"])

    assert told["agents"] == found.total()
    assert {one["name"]: one["calls"] for one in told["types"]} == found
    assert {one["name"]: one["sessions"] for one in told["types"]} == {
        kind: len(own) for kind, own in sessions.items()
    }
    with Browser(served(case.home, case.data)) as browser:
        assert browser.get("/api/stats")["agents"] == told
        for kind, own in sessions.items():
            behind = browser.get(f"/api/stats/sessions?work=calls&kind={kind}")["sessions"]
            assert {one["id"]: one["count"] for one in behind}.keys() == own


def test_edits_are_those_of_files(case: Case) -> None:
    """Calls that changed files, each once: what a fork copied was done by the session it was made of."""
    told = case.document("report", "--figures")
    with Browser(served(case.home, case.data)) as browser:
        edits = browser.get("/api/edits?count=200")["edits"]
    listed: list[tuple[str, int, int]] = []
    for session in case.document("list")["sessions"]:
        own = [one for one in edits if one["session"] == session["id"]]
        known = changes(case.document("files", session["id"])["files"])
        shown = [(one["path"], one["added"], one["removed"]) for one in own if one["agent"] is None]
        assert not Counter(shown) - Counter(known)
        listed += known
    # A call may change several files, in one line of the log.
    calls = {(one["session"], one["agent"], one["uuid"], one["tool"]) for one in edits}
    done = sum(one["edits"] for one in told["days"])
    assert len(calls) <= done <= len(edits) <= len(listed)
    assert bool(done) == bool(listed)


def test_money_and_counts_are_those_of_cost(case: Case) -> None:
    """By day, model, project and agent, in all; forks and sub-agents included."""
    told = case.document("report", "--figures", "--timezone", "UTC")
    whole = case.document("cost", "--timezone", "UTC")
    (period,) = (one for one in told["periods"] if one["name"] == "all_time")
    assert period["cost_usd"] == told["total_cost_usd"] == whole["totals"]["cost_usd"]
    assert period["responses"] == whole["totals"]["responses"]
    assert period["unpriced_responses"] == whole["totals"]["unpriced_responses"]
    assert period["tokens"] == sum(whole["totals"][name] for name in _TOKENS)
    assert told["uncertainty"]["unrecorded_sessions"] == len(whole["unrecorded_sessions"])
    for key, name, rows in (
        ("day", "day", [one for one in told["days"] if one["responses"]]),
        ("model", "name", told["models"]),
        ("project", "name", told["projects"]),
        ("repo", "name", told["repositories"]),
    ):
        said = case.document("cost", "--by", key, "--timezone", "UTC")["rows"]
        assert {one[name]: _amounts(one) for one in rows} == {one[key]: _amounts(one) for one in said}, key
    by_agent = case.document("cost", "--by", "agent")["rows"]
    own = [one for one in by_agent if one["agent"] != "main"]
    assert told["agents"]["responses"] == sum(one["responses"] for one in own)
    spent = [Decimal(one["cost_usd"]) for one in own if one["cost_usd"] is not None]
    if spent:
        assert Decimal(told["agents"]["cost_usd"]) == sum(spent)


def _amounts(row: dict[str, Any]) -> tuple[object, ...]:
    return row["responses"], row["unpriced_responses"], row["cost_usd"]
