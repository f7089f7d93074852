"""Named sums are those of days under the names of their sessions, whoever changed either, and in any order."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from typing import Any

from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.sql_cost import UsageQuestion, usage_query
from recollect.server.tenancy import new_id
from tests.server.conftest import Kind
from tests.server.world import EVERYTHING, World, after, in_world, new_org, prompt, reply

_DAYS = ("2025-12-31", "2026-01-01", "2026-01-07", "2026-01-08", "2026-03-30")
_SUMS = "sum(messages), sum(input), sum(output)"
_WEEKS = (
    f"SELECT days, period, person, branch, model, user_id, visibility, project, repository, machine, {_SUMS} FROM rollup_named"
    " WHERE org = $1 AND messages <> 0 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
)
# Written once more, in other words: PostgreSQL rounds down with ``floor``.
_EXPECTED = (
    "SELECT days, floor(day / days::NUMERIC)::BIGINT, person, r.branch, model, user_id,"
    f" CASE WHEN s.id IS NULL THEN 'private' ELSE visibility END, project, repository, machine, {_SUMS}"
    " FROM (VALUES (1), (7)) AS units(days), rollup_day r LEFT JOIN sessions s ON s.org = r.org AND s.id = r.session"
    " WHERE r.org = $1 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10"
)


def _told(rows: Sequence[Any]) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


async def _both(made: World) -> tuple[list[str], list[str]]:
    database: Any = made.database
    assert isinstance(database, PostgresDatabase)
    weeks = await database._read_now(made.org.id, _WEEKS, made.org.id)
    return _told(weeks), _told(await database._read_now(made.org.id, _EXPECTED, made.org.id))


class Team:
    """Three members whose sessions share responses, as forks do."""

    def __init__(self, made: World, seed: int) -> None:
        self.made, self.dice = made, random.Random(seed)
        self.ends: dict[str, Any] = {}
        self.tokens: list[str] = []
        self.sessions = [new_id() for _ in range(6)]

    async def arrive(self) -> None:
        for number in range(3):
            user = await self.made.member(f"m{number}-{new_id()}")
            self.tokens.append((await self.made.secret(user, EVERYTHING, machine=f"mac{number}"))[0])

    async def append(self, session: str) -> None:
        dice, at = self.dice, self.ends.get(session)
        lines = b"".join(
            reply(
                f"m-{dice.randrange(12)}",
                output=dice.randrange(1, 50),
                at=f"{dice.choice(_DAYS)}T12:00:0{dice.randrange(10)}.000Z",
                uuid=new_id(),
                gitBranch=dice.choice(("main", "topic")),
            )
            for _ in range(dice.randrange(1, 5))
        )
        headers = {"X-Recollect-Project": f"p{dice.randrange(3)}"} if dice.random() < 0.3 else {}
        token = dice.choice(self.tokens)
        answer = await (
            self.made.put(session, lines, headers=headers, token=token)
            if at is None
            else self.made.put(session, lines, at, headers=headers, token=token)
        )
        assert answer.status_code in (200, 410), answer.text
        if answer.status_code == 200:
            self.ends[session] = after(lines) if at is None else after(lines, at)

    async def change(self, session: str) -> None:
        dice = self.dice
        changes: list[dict[str, object]] = [
            {"project": f"p{dice.randrange(3)}"},
            {"repository": f"r{dice.randrange(3)}"},
            {"machine": f"mac{dice.randrange(3)}"},
            {"visibility": dice.choice(("private", None))},
        ]
        new = dice.choice(changes)
        await self.made.ask("PATCH", f"/v1/sessions/{session}", json=new)

    async def remove(self, session: str) -> None:
        await self.made.ask("DELETE", f"/v1/sessions/{session}", params={"purge": "true"})
        self.ends.pop(session, None)


def test_named_sums_are_those_of_days_after_any_change(postgres: str) -> None:
    """Appends that take responses over from other sessions, new names, purges and an erased member."""

    async def scene(made: World) -> list[tuple[list[str], list[str]]]:
        team = Team(made, 7)
        await team.arrive()
        found = []
        for number in range(60):
            session = team.dice.choice(team.sessions)
            act = team.dice.choices((team.append, team.change, team.remove), (6, 3, 1))[0]
            await act(session)
            if number % 6 == 0:
                found.append(await _both(made))
        users = [user for user in await made.database.users(made.org.id) if user.name.startswith("m0")]
        for user in users:
            await made.ask("POST", f"/v1/users/{user.id}/erasure", json={"name": user.name})
        return [*found, await _both(made)]

    found = in_world(Kind("postgres", postgres), scene)
    assert all(weeks == days for weeks, days in found)
    assert len(found[-1][0]) > 5
    assert len({len(weeks) for weeks, _ in found}) > 2


def test_names_and_sums_that_change_at_the_same_time_meet(postgres: str) -> None:
    """Two servers: one takes responses over from sessions that the other renames."""

    async def scene(made: World) -> tuple[list[str], list[str]]:
        team = Team(made, 3)
        await team.arrive()
        for session in team.sessions:
            await team.append(session)
        for _ in range(12):
            changes = [team.change(session) for session in team.sessions]
            await asyncio.gather(*(team.append(session) for session in team.sessions), *changes)
        return await _both(made)

    weeks, days = in_world(Kind("postgres", postgres), scene)
    assert weeks == days


def test_a_report_over_months_reads_weeks_and_its_ends_by_smaller_units() -> None:
    """90 days from noon to noon: quarters, days, weeks, and no day of them twice."""
    day = 86_400_000
    since, until = 20_450 * day + day // 2, 20_540 * day + day // 2
    sql, _ = usage_query(UsageQuestion((since, until), ("person", "repository"), (20_500 * 96,)))
    parts = re.findall(r"days = (\d) AND messages <> 0 AND period >= (\d+) AND period < (\d+)", sql)
    assert [days for days, *_ in parts].count("7") == 2  # before and after prices change
    covered = [
        number
        for days, first, last in parts
        for number in range(int(first) * int(days), int(last) * int(days))
    ]
    assert sorted(covered) == list(range(20_451, 20_540))
    assert f"quarter >= {20_450 * 96 + 48} AND quarter < {20_451 * 96}" in sql
    assert f"quarter >= {20_540 * 96} AND quarter < {20_540 * 96 + 48}" in sql


def test_another_organisations_named_sums_are_not_seen(postgres: str) -> None:
    """Row-level security holds for what triggers write."""

    async def scene(made: World) -> list[int]:
        await made.put(new_id(), prompt("x") + reply("m-1"))
        other = (await new_org(made.database)).id
        database: Any = made.database
        sql = "SELECT count(*) FROM rollup_named"
        return [(await database._read_now(org, sql))[0][0] for org in (made.org.id, other)]

    assert in_world(Kind("postgres", postgres), scene) == [2, 0]
