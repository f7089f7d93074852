"""Appends that share a commit: many rows a statement must come to the same as one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from recollect.server.database.records import AppendConflict, AppendRequest, Author, StoredAppend
from recollect.server.database.sql import SqlDatabase
from recollect.server.database.sql_usage import Row
from recollect.server.facts import prepare
from recollect.server.limits import TaskTimeouts
from recollect.server.tenancy import secret_hash
from recollect.sync.wire import START, Position
from tests.server.conftest import Kind, kind_named
from tests.server.world import World, in_world, prompt, reply

ELSEWHERE = Position(1, bytes(range(32)))


def ask(made: World, session: str, data: bytes, key: str = "", at: Position = START) -> AppendRequest:
    return AppendRequest(
        made.org.id, session, key, at, prepare(data, at, path=f"{session}/{key}"), Author("a", "t")
    )


def test_many_appends_at_once_are_all_stored_and_one_that_is_elsewhere_disturbs_nobody(kind: Kind) -> None:
    """More than a statement takes, to sessions of their own; every tenth at a wrong position. Each log has its bytes."""
    datas = {f"s{number}": prompt(f"words{number}", f"u-{number}") for number in range(150)}
    wrong = {f"s{number}" for number in range(0, 150, 10)}

    async def scene(made: World) -> tuple[set[str], set[str], list[bool], int]:
        asks = [
            ask(made, name, data, at=ELSEWHERE if name in wrong else START) for name, data in datas.items()
        ]
        outcomes = await asyncio.gather(*(made.database.append(one) for one in asks))
        by_name = dict(zip(datas, outcomes, strict=True))
        stored = {name for name, outcome in by_name.items() if isinstance(outcome, StoredAppend)}
        refused = {name for name, outcome in by_name.items() if isinstance(outcome, AppendConflict)}
        whole = [(await made.read(name)).content == datas[name] for name in sorted(stored)]
        found = (await made.ask("GET", "/v1/search", params={"q": "words1*", "limit": "100"})).json()["hits"]
        return stored, refused, whole, len(found)

    stored, refused, whole, found = in_world(kind, scene)
    assert (stored, refused) == (set(datas) - wrong, wrong)
    assert whole == [True] * 135
    # words1, words10 to words19, words100 to words149 without those of every tenth.
    assert found == 1 + 9 + 45


def test_logs_of_one_session_in_one_batch_all_tell_of_it(kind: Kind) -> None:
    """The session's times and title are those of its own log alone, and each response counts once."""
    days = [f"2026-01-{day:02d}T12:00:00.000Z" for day in range(1, 21)]

    async def scene(made: World) -> list[object]:
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
        return [*(session[name] for name in names), cost["responses"], len(appends), "s1" in appends]

    # 2026-01-11 at noon, in milliseconds.
    own = 1_767_268_800_000 + 10 * 86_400_000
    assert in_world(kind, scene) == ["The title", own, own, 1, 10, 22, True]


def test_a_loser_tells_nothing_of_the_session_it_shares_with_a_winner(kind: Kind) -> None:
    """Two logs of one session in one batch, one at a wrong position: its time and its words are not taken."""

    async def scene(made: World) -> list[object]:
        good = ask(made, "s1", prompt("good words", at="2026-01-10T12:00:00.000Z"))
        wrong = ask(
            made, "s1", prompt("bad words", at="2026-01-20T12:00:00.000Z"), "subagents/agent-1", ELSEWHERE
        )
        outcomes = await asyncio.gather(*(made.database.append(one) for one in (good, wrong)))
        session = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]
        found = (await made.ask("GET", "/v1/search", params={"q": "words"})).json()["hits"]
        return [*map(type, outcomes), session["last_at"], [hit["key"] for hit in found]]

    # 2026-01-10 at noon.
    assert in_world(kind, scene) == [StoredAppend, AppendConflict, 1_768_046_400_000, [""]]


def test_an_append_of_many_responses_counts_each_once(kind: Kind) -> None:
    """More than a statement takes and more than are locked one by one; sent again with more output they count again, once."""

    async def scene(made: World) -> list[tuple[int, int]]:
        totals = []
        for session, output in (("s1", 10), ("s2", 12)):
            data = b"".join(reply(f"m-{number}", output=output) for number in range(300))
            assert isinstance(await made.database.append(ask(made, session, data)), StoredAppend)
            total = (await made.ask("GET", "/v1/cost")).json()["total"]
            totals.append((total["responses"], total["tokens"]["output"]))
        return totals

    assert in_world(kind, scene) == [(300, 3_000), (300, 3_600)]


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_token_that_many_ask_for_at_once_is_looked_up_once(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every waiting request gets the answer; whoever asks after a revocation does not get one from before it."""

    async def scene(made: World) -> tuple[set[bool], int, bool]:
        database, questions = made.database, list[str]()
        assert isinstance(database, SqlDatabase)
        read = database._read_now

        async def counted(org: str, sql: str, *values: object) -> Sequence[Row]:
            questions.append(sql)
            rows = await read(org, sql, *values)
            await asyncio.sleep(0.05)
            return rows

        monkeypatch.setattr(database, "_read_now", counted)
        secret = secret_hash(made.token)
        grants = await asyncio.gather(*(database.grant(secret) for _ in range(20)))
        asked = len(questions)
        before = asyncio.create_task(database.grant(secret))
        await asyncio.sleep(0.02)
        token = next(grant.token for grant in grants if grant is not None)
        await database.revoke_token(made.org.id, token.id, Author("a", "t"))
        after = await database.grant(secret)
        await before
        return (
            {grant is not None for grant in grants},
            asked,
            after is not None and after.token.revoked is None,
        )

    assert in_world(kind_named(name, request, tmp_path), scene) == ({True}, 1, False)


def test_who_waits_too_long_is_ended_and_nobody_else() -> None:
    """A wait past its time is cut off and says so; one that ended before, or was ended by others, does not."""

    async def wait(impatience: TaskTimeouts, seconds: float, patience: float) -> str:
        task = impatience.until(asyncio.get_running_loop().time() + patience)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            return "late" if impatience.over(task) else "ended by another"
        return "late" if impatience.over(task) else "in time"

    async def play() -> list[str]:
        impatience = TaskTimeouts()
        waits = [
            asyncio.create_task(wait(impatience, *times))
            for times in ((0.0, 600.0), (600.0, 0.1), (600.0, 600.0))
        ]
        await asyncio.wait(waits[:2])
        waits[2].cancel()
        return list(await asyncio.gather(*waits))

    assert asyncio.run(play()) == ["in time", "late", "ended by another"]
