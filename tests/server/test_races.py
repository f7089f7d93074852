"""Two writers, one place: exactly one wins, on every database, within one server and between two."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from recollect.server.database.records import AppendRequest, Author
from recollect.server.database.sql import Database
from recollect.server.facts import prepare
from recollect.share.sync.wire import START, AppendReply, Position, PositionConflict
from tests.server.conftest import kind_named
from tests.server.world import new_org, prompt, reply

RACES = 10_000 if os.environ.get("RECOLLECT_TORTURE") else 250
AT_ONCE = 25


def ask(org: str, session: str, at: Position, text: str, author: str) -> AppendRequest:
    data = prompt(text, f"u-{text}")
    return AppendRequest(org, session, "", at, prepare(data, at), Author(author, author))


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_of_two_conditional_appends_one_wins(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Racers from two servers on one database, at one position, with different lines: one is stored, one is told where the log is."""
    kind = kind_named(name, request, tmp_path)

    async def race(one: Database, other: Database, org: str, number: int, at: Position) -> Position:
        session = f"s{number % AT_ONCE}"
        asks = [ask(org, session, at, f"{number}-{who}", who) for who in ("a", "b")]
        both = one.append(asks[0]), other.append(asks[1])
        first, second = await asyncio.gather(*both, return_exceptions=True)
        won = [index for index, outcome in enumerate((first, second)) if isinstance(outcome, AppendReply)]
        assert len(won) == 1, (first, second)
        lost = (first, second)[1 - won[0]]
        winner = asks[won[0]].prepared.after
        assert isinstance(lost, PositionConflict)
        assert lost.head.position == winner
        return winner

    async def play() -> list[int]:
        one = kind.make()
        # A second server on the same data.
        other = kind.make()
        await one.open()
        await other.open()
        try:
            org = (await new_org(one)).id
            places = [START] * AT_ONCE
            for round_number in range(RACES // AT_ONCE):
                first = round_number * AT_ONCE
                races = (race(one, other, org, first + n, places[n]) for n in range(AT_ONCE))
                places = list(await asyncio.gather(*races))
            heads = [await other.head(org, f"s{n}", "") for n in range(AT_ONCE)]
            assert [head.position for head in heads if head] == places
            return [head.lines for head in heads if head]
        finally:
            await one.close()
            await other.close()

    assert asyncio.run(play()) == [RACES // AT_ONCE] * AT_ONCE


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_two_servers_that_learn_of_one_response_count_it_once(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The same responses pushed in forks of a session at the same time, through two servers."""
    kind = kind_named(name, request, tmp_path)

    async def play() -> int:
        one = kind.make()
        other = kind.make()
        await one.open()
        await other.open()
        try:
            org = (await new_org(one)).id
            for number in range(20):
                data = b"".join(reply(f"m-{number}-{n}") for n in range(3))
                asks = [
                    AppendRequest(org, f"s{number}-{who}", "", START, prepare(data, START), Author(who, who))
                    for who in ("a", "b", "c")
                ]
                await asyncio.gather(
                    *(db.append(one_ask) for db, one_ask in zip((one, other, one), asks, strict=True))
                )
            return sum(row.messages for row in await one.usage(org))
        finally:
            await one.close()
            await other.close()

    assert asyncio.run(play()) == 60
