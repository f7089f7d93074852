"""Walks over a home: everything once, lazily, in constant memory, adding up to what the cost report says."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import recollect
from recollect import Home
from recollect.errors import MissingExtra, UsageError
from tests.small_home import call, lines, link, outcome, prompt, put, reply, said

SESSIONS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(1, 7)]
CUT = {"trigger": "auto", "preTokens": 1000}


def agent_talk(name: str, first: int, count: int) -> list[dict[str, Any]]:
    """What a sub-agent and the model said to each other."""
    talk = [prompt(first, None, "look around", agentId=name)]
    talk += [
        reply(number, number - 1, said("found"), answer=f"{name}_{number}", agentId=name)
        for number in range(first + 1, first + count)
    ]
    return [{**line, "isSidechain": True} for line in talk]


def session_talk(number: int) -> list[dict[str, Any]]:
    """A conversation with two branches and a compaction; three responses that it alone has, one forked."""
    own = f"s{number}"
    cached = reply(4, 3, said("A2"), answer=f"{own}_2")
    cached["message"]["usage"]["cache_read_input_tokens"] = 3  # seven digits behind the point
    return [
        prompt(1, None, "Q1"),
        reply(2, 1, said("A1"), call(f"t{number}"), answer=f"{own}_1"),
        outcome(3, 2, f"t{number}", "done"),
        cached,
        prompt(5, 2, "another way"),
        reply(6, 5, said("A3"), answer=f"{own}_3"),
        link(7, None, type="system", subtype="compact_boundary", content="cut", compactMetadata=CUT,
             logicalParentUuid="00000000-0000-4000-8000-000000000006"),
        prompt(8, 7, "summary of it", isCompactSummary=True),
        reply(9, 8, said("A4"), said("more"), answer="shared"),
    ]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Six sessions, each with an agent of two responses; one response is copied into all of them."""
    root = tmp_path / "home"
    for number, session in enumerate(SESSIONS):
        talk = [{**line, "sessionId": session} for line in session_talk(number)]
        log = put(root, session, talk)
        agents = log.with_suffix("") / "subagents"
        agents.mkdir(parents=True)
        spoken = agent_talk(f"a{number}", 20, 3)
        (agents / f"agent-a{number}.jsonl").write_bytes(
            lines([{**line, "sessionId": session} for line in spoken])
        )
    return Home(root, data=tmp_path / "data")


def test_each_response_is_there_once(home: Home) -> None:
    """Three of each session, two of each agent, and one that all sessions have a copy of."""
    found = [response.message_id for response in home.responses()]

    assert 6 * (3 + 2) + 1 == len(found) == len(set(found))


def test_responses_add_up_to_the_cost_report(home: Home) -> None:
    """To the pico-dollar, in tokens and in number; with filters too."""
    session = SESSIONS[2]
    for options in ({}, {"session": session}, {"model": "sonnet"}, {"project": "app"}):
        totals = home.costs(**options).totals  # type: ignore[arg-type]
        found = list(home.responses(**options))

        assert found
        assert totals.responses == len(found)
        assert totals.pico_usd == sum(response.pico_usd or 0 for response in found)
        assert totals.usd == sum((response.usd or Decimal(0) for response in found), Decimal(0))
        assert totals.tokens == sum((response.tokens for response in found), recollect.Tokens())


def test_a_time_filters_responses_as_it_filters_costs(home: Home) -> None:
    """``until`` is no longer meant."""
    since, until = (dt.datetime(2026, 11, 15, 10, 0, second, tzinfo=dt.UTC) for second in (4, 9))
    found = list(home.responses(since=since, until=until))

    assert {4, 6} == {response.at.second for response in found if response.at}
    assert home.costs(since=since, until=until).totals.pico_usd == sum(one.pico_usd or 0 for one in found)


def test_a_response_says_where_it_belongs(home: Home) -> None:
    """Session, agent, project, model and the first tool it called."""
    by_id = {response.message_id: response for response in home.responses()}
    own, sent = by_id["s1_1"], by_id["a1_21"]

    assert (SESSIONS[1], None, "/srv/app", "Read") == (own.session, own.agent, own.project, own.tool)
    assert (SESSIONS[1], "a1", None) == (sent.session, sent.agent, sent.tool)
    assert (20, 10, False, False) == (own.tokens.output, own.tokens.input, own.is_deleted, own.is_uncertain)
    assert own.at == dt.datetime(2026, 11, 15, 10, 0, 2, tzinfo=dt.UTC)


def test_a_model_without_a_price_is_not_free(tmp_path: Path) -> None:
    """Its price is None, never 0, and its tokens count."""
    answer = reply(2, 1, said("A"))
    answer["message"]["model"] = "model-of-nobody"
    put(tmp_path / "home", SESSIONS[0], [prompt(1, None, "Q"), answer])

    (response,) = Home(tmp_path / "home", data=tmp_path / "data").responses()

    assert (None, None, 20) == (response.pico_usd, response.usd, response.tokens.output)


def test_messages_of_all_branches_and_agents(home: Home) -> None:
    """The active conversation, with what compactions hide; all branches; what agents said."""
    active = Counter(message.session for message in home.messages())
    everything = list(home.messages(branches="all", agents=True))

    assert dict.fromkeys(SESSIONS, 8) == active
    assert dict.fromkeys(SESSIONS, 9 + 3) == Counter(message.session for message in everything)
    assert 6 * 3 == sum(message.agent is not None for message in everything)
    assert {"a0", "a1", "a2", "a3", "a4", "a5"} == {one.agent for one in everything if one.agent}
    with pytest.raises(UsageError, match="every"):
        home.messages(branches="every")  # type: ignore[arg-type]


def test_a_conversation_alone_is_not_everything(home: Home) -> None:
    """What made a program count wrong: the client's view leaves out branches, cuts and agents."""
    session = home.session(SESSIONS[0])

    shown = [message for message in session.conversation().messages if message.role == "assistant"]
    said_in_all = [
        message for message in session.messages(branches="all", agents=True) if message.role == "assistant"
    ]

    assert (1, 4 + 2) == (len(shown), len(said_in_all))


def test_an_agent_in_the_sessions_own_log_is_known_by_its_first_line(tmp_path: Path) -> None:
    """Older clients wrote sub-agents into the session's log."""
    inside = [
        {**prompt(5, None, "look"), "isSidechain": True},
        {**reply(6, 5, said("x")), "isSidechain": True},
    ]
    put(tmp_path / "home", SESSIONS[0], [prompt(1, None, "Q"), reply(2, 1, said("A")), *inside])
    home = Home(tmp_path / "home", data=tmp_path / "data")

    assert 2 == sum(1 for _ in home.messages(branches="all"))
    agents = [message.agent for message in home.messages(agents=True)]
    assert [None, None, inside[0]["uuid"], inside[0]["uuid"]] == agents


def test_archived_sessions_are_walked_over_too(home: Home) -> None:
    """A session that the client deleted is still everything that was said."""
    gone = home.session(SESSIONS[3])
    assert SESSIONS[3] in {one.manifest.session for one in home.archive().archived}
    before = Counter(message.session for message in home.messages(branches="all", agents=True))
    gone.path.unlink()
    for agent in gone.agents():
        agent.path.unlink()

    assert before == Counter(message.session for message in home.messages(branches="all", agents=True))
    assert SESSIONS[3] not in {message.session for message in home.messages(archived=False)}
    assert home.session(SESSIONS[3]).is_archived


def test_tool_calls_of_all_sessions(home: Home) -> None:
    """Each with its session and what became of it."""
    found = {(one.id, one.session, one.name, one.status) for one in home.tool_calls()}

    assert {(f"t{n}", SESSIONS[n], "Read", recollect.ToolCallStatus.OK) for n in range(6)} == found


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    """A walk can be made over a home that cannot be read, and ended before it began."""
    home = Home(tmp_path / "none", data=tmp_path / "data")
    walk = home.responses()

    assert "not begun" in repr(walk)
    walk.close()
    assert [] == list(walk)
    assert not (tmp_path / "data").exists()


def many(root: Path, count: int) -> Home:
    """So many sessions of twenty long messages."""
    for number in range(count):
        talk = [prompt(1, None, "Q")]
        talk += [
            reply(place, place - 1, said("word " * 400), answer=f"m{number}_{place}")
            for place in range(2, 21)
        ]
        session = f"{number + 1:08x}-0000-4000-8000-000000000000"
        put(root / "home", session, [{**line, "sessionId": session} for line in talk])
    return Home(root / "home", data=root / "data")


def peak(walk: Iterator[Any]) -> int:
    """The most memory a walk takes."""
    next(walk)  # modules, connections
    tracemalloc.start()
    try:
        for _ in walk:
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_sessions(tmp_path: Path) -> None:
    """Four times the sessions take no more: messages one log at a time, responses one row at a time."""
    few, more = many(tmp_path / "few", 10), many(tmp_path / "more", 40)
    for home in (few, more):
        home.costs()  # builds the index

    for name in ("messages", "responses"):
        small, large = (peak(getattr(home, name)()) for home in (few, more))
        assert large < 1.3 * small + 60_000, (name, small, large)


def test_price_of_an_entry_and_of_a_message(home: Home) -> None:
    """As the report prices it; None for what is no response."""
    messages = list(home.session(SESSIONS[0]).messages())
    answer = next(message for message in messages if message.role == "assistant")
    question = next(message for message in messages if message.role == "user")
    expected = next(one for one in home.responses() if one.message_id == "s0_1")

    of_message, of_entry = recollect.price(answer), recollect.price(answer.entries[0])
    assert of_message == of_entry
    assert of_message is not None
    assert (expected.pico_usd, expected.tokens) == (of_message.pico_usd, of_message.tokens)
    assert recollect.price(question) is None
    assert recollect.price(question.entries[0]) is None


# --- tables -----------------------------------------------------------------------------------------------


def test_a_table_of_responses_has_the_same_money(home: Home) -> None:
    """Summed by Arrow in both columns: exact."""
    compute = import_module("pyarrow.compute")
    table, totals = home.responses().to_arrow(), home.costs().totals

    assert totals.responses == table.num_rows
    assert totals.usd == compute.sum(table["usd"]).as_py()
    assert totals.pico_usd == compute.sum(table["pico_usd"]).as_py()
    assert totals.tokens.output == compute.sum(table["output"]).as_py()


def test_tables_of_messages_tool_calls_and_sessions(home: Home) -> None:
    """One row each; sessions with the cost the report gives them."""
    messages, calls, sessions = (
        home.messages(branches="all", agents=True).to_arrow(),
        home.tool_calls().to_arrow(),
        home.sessions().to_arrow(),
    )

    assert (72, 6, 6) == (messages.num_rows, calls.num_rows, sessions.num_rows)
    assert {"A4\nmore"} <= set(messages["text"].to_pylist())
    assert {"done"} == set(calls["result"].to_pylist())
    by_session = {row.keys["session"]: row for row in home.costs("session").rows}
    for row in sessions.to_pylist():
        cost = by_session[row["id"]]
        assert (cost.usd, cost.responses, 1) == (row["usd"], row["responses"], row["agents"])
        assert "/srv/app" == row["project"]
    assert home.costs().totals.usd == sum(sessions["usd"].to_pylist())


def test_batches_are_the_table_in_parts(home: Home) -> None:
    """No batch is longer than asked for, and nothing is missing."""
    batches = list(home.messages(branches="all").to_batches(rows=10))

    assert [10, 10, 10, 10, 10, 4] == [batch.num_rows for batch in batches]
    assert 0 == Home(home.roots[0].path / "none").messages().to_arrow().num_rows


def test_without_pyarrow_the_extra_is_named(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typed error that says how to get it."""
    from recollect.ask import tables

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(tables, "import_module", missing)
    with pytest.raises(MissingExtra, match="pyarrow") as refused:
        home.responses().to_arrow()
    assert ("data",) == refused.value.extras
