"""Lookups of sessions that come together share a query, and each gets its own answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from recollect.server.database.contract import Unavailable
from recollect.server.database.records import SessionAccess, SessionReader
from tests.server.conftest import Kind
from tests.server.world import World, in_world, prompt


def test_many_lookups_at_once_are_few_queries(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sessions that are there and of others, by two readers who see different ones."""

    async def scene(made: World) -> tuple[list[SessionAccess | None], list[SessionAccess | None], int]:
        database: Any = made.database
        for number in range(10):
            await made.put(f"s{number}", prompt("words"))
        await made.ask("PATCH", "/v1/sessions/s1", json={"visibility": "private"})
        user = (await made.database.users(made.org.id))[0].id
        asked, read = 0, database._read_now

        async def counted(*values: Any) -> Any:
            nonlocal asked
            asked += 1
            return await read(*values)

        monkeypatch.setattr(database, "_read_now", counted)
        names = [f"s{number}" for number in range(20)]
        own, other = SessionReader(user), SessionReader("someone")
        found = await asyncio.gather(
            *(database.access(made.org.id, name, reader) for reader in (own, other) for name in names)
        )
        return found[:20], found[20:], asked

    own, other, asked = in_world(Kind("postgres", postgres), scene)
    assert [one is not None for one in own] == [True] * 10 + [False] * 10
    assert {one.is_visible for one in own if one is not None} == {True}
    assert [one.is_visible for one in other if one is not None] == [True, False] + [True] * 8
    assert asked <= 4


def test_a_lookup_that_fails_fails_for_all_that_shared_it_and_the_next_one_works(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(made: World) -> tuple[list[Any], SessionAccess | None]:
        database: Any = made.database
        reader, read = SessionReader("someone"), database._read_now

        async def fail(*_: Any) -> Any:
            monkeypatch.setattr(database, "_read_now", read)
            raise Unavailable("gone")

        monkeypatch.setattr(database, "_read_now", fail)
        lookups = [database.access(made.org.id, name, reader) for name in ("s1", "s2")]
        failed = await asyncio.gather(*lookups, return_exceptions=True)
        return failed, await database.access(made.org.id, "s1", reader)

    failed, found = in_world(Kind("postgres", postgres), scene)
    assert [type(one) for one in failed] == [Unavailable, Unavailable]
    assert found is None
