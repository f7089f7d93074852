"""Homes that real clients wrote, and some of our own making, read through their mirrors: what is true of every agent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import recollect
from bench.bills import count_home, homes_of_agent
from recollect.agents.growth import content
from recollect.agents.mirror import AgentMirror, dialect_of
from recollect.agents.mirror_files import originals
from recollect.ask.sessions.messages import agents_of
from recollect.ask.sessions.originals import original_files
from recollect.errors import UsageError
from recollect.sample import sample_home
from tests.agents.samples import counted, tree_state
from tests.made_corpora import make_agents
from tests.needs import MADE_AND_REAL, TRANSCRIPTS

# Model calls that left a record; the streams of some were cut, and their counts are those of the last chunk.
CALLS = {"codex": (265, 0), "gemini": (71, 12), "opencode": (170, 0), "qwen": (31, 0)}
# Homes of which all sub-agents have a call that sent them.
WITH_SUB_AGENTS = {
    *("codex/0.98.0/agents_slow/.codex", "codex/0.166.0/agents_v2/.codex", "qwen-0.24.4/.qwen"),
    *("gemini-0.38.2/.gemini", "gemini-0.61.0/.gemini"),
    *(f"opencode-{version}/data/opencode" for version in ("0.5.29", "1.1.34", "1.18.33")),
}


@pytest.mark.transcripts
@pytest.mark.parametrize("agent", CALLS)
def test_every_call_that_left_a_record_is_counted_once_as_it_was_billed(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its thread where the stub knows it, with its model; also calls that a revert deleted, and no copy in a fork."""
    oracle = TRANSCRIPTS / "dialects" / "oracle"
    for place in ("codex", "opencode-gemini-qwen"):
        monkeypatch.syspath_prepend(oracle / place)
    homes = [count_home(sample, oracle, None) for sample in homes_of_agent(TRANSCRIPTS, agent)]
    assert (sum(home.right for home in homes), sum(home.cut for home in homes)) == CALLS[agent]
    for home in homes:
        assert home.is_exact, home
        assert (home.not_billed, home.model_wrong, home.thread_wrong) == (0, 0, 0), home


@pytest.fixture(params=MADE_AND_REAL)
def homes(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, list[Path]]:
    """Of each agent: of our own making; those of clients, and of Codex two from public repositories."""
    if request.param == "made":
        made = make_agents(tmp_path / "made").homes
        return {agent: [made[agent]] for agent in CALLS if agent in made}
    public = sorted((TRANSCRIPTS / "dialects/corpus/codex").iterdir())
    chosen = [home for home in public if home.name.startswith(("Hoper-J", "savekirk"))]
    real = {agent: [sample.home for sample in homes_of_agent(TRANSCRIPTS, agent)] for agent in CALLS}
    return {**real, "codex": [*real["codex"], *chosen]}


def files_of(agent: str, home: Path) -> dict[str, bytes]:
    """Every file that a home has records in, by its name below it."""
    if agent == "opencode":
        return {
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in home.glob("storage/part/**/*.json")
        }
    units = [unit for unit in dialect_of(agent).units(home) if unit.source != "session_index.jsonl"]
    return {unit.source.removesuffix(".zst"): content(unit.path) for unit in units}


def lines_in(mirror: AgentMirror) -> Iterator[dict[str, object]]:
    for log in sorted(mirror.root.rglob("*.jsonl")):
        yield from map(json.loads, log.read_bytes().splitlines())


def test_homes_are_untouched_and_every_file_is_read_back_byte_for_byte(
    homes: dict[str, list[Path]], tmp_path: Path
) -> None:
    """From the mirror alone."""
    read = 0
    for agent, own in homes.items():
        for number, home in enumerate(own):
            before = tree_state(home)
            mirror = AgentMirror(agent, home, tmp_path / f"{agent}{number}")
            mirror.refresh()
            assert tree_state(home) == before
            assert not mirror.problems
            back = originals(lines_in(mirror))
            for name, data in files_of(agent, home).items():
                assert b"".join(back[name]) == data, name
                read += 1
    assert read >= 8


def said(agent: str, home: Path, data: Path) -> tuple[object, ...]:
    """Conversations, calls and files."""
    mirror = AgentMirror(agent, home, data)
    mirror.refresh()
    found = recollect.Home(home, data=data, index=False)
    talks = {one.id: [message.uuid for message in one.conversation().messages] for one in found.sessions()}
    files = {name: b"".join(records) for name, records in originals(lines_in(mirror)).items()}
    return talks, counted(found), files


@pytest.mark.parametrize("agent", ["codex", "gemini", "qwen"])
def test_a_growing_file_says_what_a_whole_one_says(agent: str, tmp_path: Path) -> None:
    """Cut anywhere, also within a line."""
    whole = make_agents(tmp_path).homes[agent]
    grown = tmp_path / "grown"
    shutil.copytree(whole, grown)
    for share in (0.1, 0.3, 0.37, 0.8, 1.0):
        for path in whole.rglob("*.jsonl"):
            data = path.read_bytes()
            (grown / path.relative_to(whole)).write_bytes(data[: int(len(data) * share)])
        AgentMirror(agent, grown, tmp_path / "data").refresh()
    assert said(agent, grown, tmp_path / "data") == said(agent, whole, tmp_path / "fresh")


@pytest.mark.transcripts
@pytest.mark.parametrize("name", sorted(WITH_SUB_AGENTS))
def test_sub_agents_are_tied_to_their_calls(name: str, tmp_path: Path) -> None:
    home = recollect.Home(TRANSCRIPTS / "dialects/samples" / name, data=tmp_path, index=False)
    found = [agent for session in home.sessions() for agent in agents_of(session)]
    assert found
    assert all(agent.spawned_by for agent in found)
    if name.startswith("codex"):
        # One of 0.166 began with a copy of the conversation, the other's call in it: that is no call of its own.
        assert {agent.parent_agent for agent in found} == {None}


def test_a_session_of_claude_has_no_other_original(tmp_path: Path) -> None:
    session = next(iter(recollect.Home(sample_home(), data=tmp_path, index=False).sessions()))
    with pytest.raises(UsageError, match="Claude's own log"):
        original_files(session)
