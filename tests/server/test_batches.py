"""Appends that share a commit come to the same as one after the other."""

from __future__ import annotations

import asyncio

from recollect.server.database.records import AppendRequest, Author
from recollect.server.facts import prepare
from recollect.share.sync.wire import START, AppendReply, Position, PositionConflict
from tests.server.world import World, in_a_world, prompt, reply

ELSEWHERE = Position(1, bytes(range(32)))


def ask(made: World, session: str, data: bytes, key: str = "", at: Position = START) -> AppendRequest:
    return AppendRequest(
        made.org.id, session, key, at, prepare(data, at, path=f"{session}/{key}"), Author("a", "t")
    )


@in_a_world()
async def test_logs_of_one_session_in_one_batch_all_tell_of_it(made: World) -> None:
    """The session's times and title are those of its own log alone, and each response counts once."""
    days = [f"2026-01-{day:02d}T12:00:00.000Z" for day in range(1, 21)]
    own = ask(made, "s1", prompt("The title", at=days[10]))
    agents = [
        ask(made, "s1", reply(f"m-{number % 10}", at=day), f"subagents/agent-{number}")
        for number, day in enumerate(days)
    ]
    agents.append(
        ask(made, "s1", prompt("Zero of them: what an agent was asked", at=days[3]), "subagents/agent-z")
    )
    await asyncio.gather(*(made.database.append(one) for one in (*agents, own)))
    session = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]
    cost = (await made.ask("GET", "/v1/cost")).json()["total"]
    audit = (await made.ask("GET", "/v1/audit")).json()["acts"]
    appends = [row["target"] for row in audit if row["act"] == "append"]
    names = ("title", "first_at", "last_at", "lines")
    at = 1_767_268_800_000 + 10 * 86_400_000  # 2026-01-11 at noon
    assert [*(session[name] for name in names), cost["responses"], len(appends), "s1" in appends] == [
        "The title",
        at,
        at,
        1,
        10,
        22,
        True,
    ]


@in_a_world()
async def test_a_loser_tells_nothing_of_the_session_it_shares_with_a_winner(made: World) -> None:
    """Two logs of one session in one batch, one at a wrong position: its time and its words are not taken."""
    good = ask(made, "s1", prompt("good words", at="2026-01-10T12:00:00.000Z"))
    wrong = ask(
        made, "s1", prompt("bad words", at="2026-01-20T12:00:00.000Z"), "subagents/agent-1", ELSEWHERE
    )
    outcomes = await asyncio.gather(
        *(made.database.append(one) for one in (good, wrong)), return_exceptions=True
    )
    session = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]
    found = (await made.ask("GET", "/v1/search", params={"q": "words"})).json()["hits"]
    assert [*map(type, outcomes), session["last_at"], [hit["key"] for hit in found]] == [
        AppendReply,
        PositionConflict,
        1_768_046_400_000,
        [""],
    ]


@in_a_world()
async def test_an_append_of_many_responses_counts_each_once(made: World) -> None:
    """More than are locked one by one; sent again with more output they count again, once."""
    totals = []
    for session, output in (("s1", 10), ("s2", 12)):
        data = b"".join(reply(f"m-{number}", output=output) for number in range(300))
        await made.database.append(ask(made, session, data))
        total = (await made.ask("GET", "/v1/cost")).json()["total"]
        totals.append((total["responses"], total["tokens"]["output"]))
    assert totals == [(300, 3_000), (300, 3_600)]
