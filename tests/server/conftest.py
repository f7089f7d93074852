"""One database of each kind, and a server before it, for every test of the contract."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from recollect.server.database.contract import Database
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.sqlite import SqliteDatabase
from tests.server.kept_connections import KeptConnections, KeptPostgres
from tests.server.memory_database import MemoryDatabase

if TYPE_CHECKING:
    from tests.server.object_store import TestStore

KINDS = ("memory", "sqlite", "postgres")
Result = TypeVar("Result")
# By address: the databases that live as long as the run.
_KEPT: dict[str, KeptConnections] = {}


class Kind:
    """Makes databases of one kind; those made by one ``Kind`` hold the same data where they are not in memory."""

    def __init__(self, name: str, address: str = "") -> None:
        self.name, self.address = name, address

    def make(self) -> Database:
        if self.name == "memory":
            return MemoryDatabase()
        if self.name == "sqlite":
            return SqliteDatabase(self.address)
        kept = _KEPT.get(self.address)
        return KeptPostgres(kept, patience=10.0) if kept else PostgresDatabase(self.address, patience=10.0)

    def run(self, scene: Coroutine[Any, Any, Result]) -> Result:
        """Play a scene that uses databases of this kind."""
        kept = _KEPT.get(self.address)
        return kept.run(scene) if kept else asyncio.run(scene)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a migrated PostgreSQL database: the one the environment names, or one of our own."""
    named = os.environ.get("RECOLLECT_TEST_POSTGRES")
    if named:
        asyncio.run(PostgresDatabase(named).migrate())
        with _kept(named):
            yield named
        return
    from tests.server.postgres_cluster import Cluster

    cluster = Cluster()
    try:
        cluster.make()
        asyncio.run(PostgresDatabase(cluster.dsn()).migrate())
        with _kept(cluster.dsn()):
            yield cluster.dsn()
    finally:
        cluster.stop()


@contextlib.contextmanager
def _kept(address: str) -> Iterator[None]:
    kept = _KEPT[address] = KeptConnections(address)
    try:
        yield
    finally:
        del _KEPT[address]
        kept.end()


@pytest.fixture(scope="session")
def s3() -> Iterator[TestStore]:
    """An object store, started once for each process of the tests."""
    from tests.server.object_store import TestStore

    store = TestStore()
    try:
        yield store
    finally:
        store.stop()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """Each of the three databases in turn."""
    return kind_named(str(request.param), request, tmp_path)


def kind_named(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    if name == "memory":
        return Kind(name)
    if name == "postgres":
        return Kind(name, request.getfixturevalue("postgres"))
    path = tmp_path / "team.sqlite"
    asyncio.run(SqliteDatabase(path).migrate())
    return Kind(name, str(path))
