"""A live server for the tests that need one: started once, with an organisation and a token for each who asks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import Org, OrgUser, now_ms
from recollect.server.database.sql import Database
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.tenancy import new_id, new_secret
from recollect.share.sync.wire import ApiToken
from tests.server.conftest import postgres
from tests.server.live import LiveServer
from tests.server.world import EVERYTHING, OPERATOR, new_org

__all__ = ["postgres"]


class Team:
    """A server and its database."""

    def __init__(self, url: str, address: str) -> None:
        self.url, self.address = url, address

    def token(self, name: str = "ada", role: str = "admin") -> str:
        """A token of a member of an organisation of its own."""
        return self.tokens(1, name, role)[0]

    def tokens(self, count: int, name: str = "ada", role: str = "admin") -> list[str]:
        """So many, each of another organisation."""
        return [token for [token] in asyncio.run(_tokens(self.address, [[name]] * count, role))]

    def colleagues(self, *names: str) -> list[str]:
        """A token for each name, all of one new organisation."""
        return asyncio.run(_tokens(self.address, [names], "admin"))[0]


async def _tokens(address: str, members: Sequence[Sequence[str]], role: str) -> list[list[str]]:
    database = _database(address)
    await database.open()
    try:
        return [await _tokens_of_one(database, names, role) for names in members]
    finally:
        await database.close()


async def _tokens_of_one(database: Database, names: Sequence[str], role: str) -> list[str]:
    org = await new_org(database)
    return [await _token(database, org, name, role) for name in names]


async def _token(database: Database, org: Org, name: str, role: str) -> str:
    user = OrgUser(new_id(), org.id, name, role, False, now_ms())
    await database.add_user(user, OPERATOR)
    secret, hashed = new_secret()
    token = ApiToken(new_id(), org.id, user.id, EVERYTHING, None, now_ms(), None)
    await database.add_token(token, hashed, OPERATOR)
    return secret


def _database(address: str) -> Database:
    if address.startswith("sqlite:///"):
        return SqliteDatabase(address.removeprefix("sqlite:///"))
    return PostgresDatabase(address)


def sqlite_at(directory: Path) -> str:
    """The address of a new database."""
    path = directory / "team.sqlite"
    asyncio.run(SqliteDatabase(path).migrate())
    return f"sqlite:///{path}"


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A server on SQLite, for as long as the tests run."""
    place = tmp_path_factory.mktemp("team")
    yield from served(sqlite_at(place), place)


def served(address: str, place: Path) -> Iterator[Team]:
    """A server on a database."""
    with LiveServer(address, place) as server:
        yield Team(server.url, address)
