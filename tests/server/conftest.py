"""One database of each kind, and a server before it, for every test of the contract."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.sql import Database
from recollect.server.database.sqlite import SqliteDatabase, migrate

if TYPE_CHECKING:
    from tests.server.object_store import TestStore

KINDS = ("sqlite", "postgres")
Result = TypeVar("Result")
_FILES = tempfile.TemporaryDirectory(
    prefix="recollect-team-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
)


class Kind:
    """Makes databases of one kind; those made by one ``Kind`` hold the same data. Without an address: a new SQLite file."""

    def __init__(self, name: str, address: str = "") -> None:
        self.name, self._address = name, address

    @property
    def address(self) -> str:
        if not self._address:
            self._address = str(Path(tempfile.mkdtemp(dir=_FILES.name)) / "team.sqlite")
            migrate(self._address)
        return self._address

    def make(self) -> Database:
        if self.name == "sqlite":
            return SqliteDatabase(self.address)
        return PostgresDatabase(self.address, patience=10.0)

    def run(self, scene: Coroutine[Any, Any, Result]) -> Result:
        """Play a scene that uses databases of this kind."""
        return asyncio.run(scene)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a migrated PostgreSQL database: the one the environment names, or one of our own."""
    named = os.environ.get("RECOLLECT_TEST_POSTGRES")
    if named:
        asyncio.run(PostgresDatabase(named).migrate())
        yield named
        return
    from tests.server.postgres_cluster import Cluster

    cluster = Cluster()
    try:
        cluster.make()
        asyncio.run(PostgresDatabase(cluster.dsn()).migrate())
        yield cluster.dsn()
    finally:
        cluster.stop()


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
    """Each of the databases in turn."""
    return kind_named(str(request.param), request, tmp_path)


def kind_named(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    if name == "postgres":
        return Kind(name, request.getfixturevalue("postgres"))
    path = tmp_path / "team.sqlite"
    migrate(str(path))
    return Kind(name, str(path))
