"""An organisation moves between two PostgreSQL clusters while its members write: nothing is lost, nothing is double."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import asyncpg  # type: ignore[import-untyped]  # it has no types
import httpx
import pytest

from recollect.cli.main import main
from recollect.errors import Busy, NotFound, StorageError, UsageError
from recollect.server.clusters.move import KEYS, OrgMove
from recollect.server.clusters.router import ROUTED, ClusterDatabase
from recollect.server.clusters.settings import load_clusters
from recollect.server.database import contract
from recollect.server.database.contract import OrgElsewhere, Unavailable
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.tables.steps import DERIVED_TABLES, TENANT_TABLES
from recollect.server.limits import ServerLimits
from recollect.server.service import Service
from recollect.sync.wire import START, Position
from tests.server.postgres_cluster import Cluster
from tests.server.world import World, after, new_org, prompt, reply

PLENTY = ServerLimits(requests_per_second=1_000_000, failures_per_second=1_000_000)


@pytest.fixture(scope="module")
def addresses(postgres: str) -> Iterator[tuple[str, str]]:
    """Two migrated clusters."""
    second = Cluster()
    try:
        second.make()
        asyncio.run(PostgresDatabase(second.dsn()).migrate())
        yield postgres, second.dsn()
    finally:
        second.stop()


def routed(addresses: tuple[str, str]) -> ClusterDatabase:
    """A server's view of both, without anything that another one has learned."""
    main, east = (PostgresDatabase(address, patience=60.0) for address in addresses)
    return ClusterDatabase({"main": main, "east": east})


class Pair:
    """Two servers over both clusters, and an organisation with one member."""

    def __init__(self, first: World, second: World) -> None:
        self.first, self.second = first, second
        self.org = first.org.id

    @property
    def clusters(self) -> ClusterDatabase:
        assert isinstance(self.first.database, ClusterDatabase)
        return self.first.database

    def move(self, target: str = "east", step: Callable[[str], None] = lambda _: None) -> OrgMove:
        # A busy machine must not make the last step fail; that its time passes is seen where the tool is killed in it.
        return OrgMove(self.clusters, self.org, target, step, fence_ms=30_000)


def played(addresses: tuple[str, str], scene: Callable[[Pair], object]) -> None:
    async def play() -> None:
        first, second = routed(addresses), routed(addresses)
        await first.open()
        await second.open()
        try:
            databases = [one.as_database() for one in (first, second)]
            org = await new_org(databases[0])
            worlds = [World(one, Service(one, limits=PLENTY, remember_ms=0), org) for one in databases]
            secret, _ = await worlds[0].secret(await worlds[0].member("Ada"))
            async with worlds[0].client, worlds[1].client:
                for one in worlds:
                    one.token = secret
                await scene(Pair(*worlds))  # type: ignore[misc]
        finally:
            await first.close()
            await second.close()

    asyncio.run(play())


class Writer:
    """A member's machine: appends to one log, through either server, and repeats what was not acknowledged."""

    def __init__(self, pair: Pair, name: str) -> None:
        self.pair, self.name = pair, name
        self.at: Position = START
        self.sent = b""
        self.refusals: list[httpx.Response] = []

    async def write(self, number: int) -> None:
        data = prompt(f"word{number} of {self.name}", uuid=f"u-{self.name}-{number}") + reply(
            f"m-{self.name}-{number}", uuid=f"a-{self.name}-{number}"
        )
        server = self.pair.first if number % 2 else self.pair.second
        answer = await server.put(self.name, data, self.at)
        while answer.status_code == 503:
            self.refusals.append(answer)
            answer = await server.put(self.name, data, self.at)
        assert answer.status_code == 200, answer.text
        self.at, self.sent = after(data, self.at), self.sent + data

    async def until(self, done: asyncio.Event) -> None:
        number = 0
        while not done.is_set() or number < 4:
            await self.write(number)
            number += 1
        self.written = number


async def rows_of(address: str, org: str) -> dict[str, list[tuple[object, ...]]]:
    """Everything that a cluster holds of an organisation."""
    connection = await asyncpg.connect(address)
    try:
        await connection.execute("SELECT set_config('recollect.org', $1, false)", org)
        found = {}
        for table, keys in KEYS.items():
            column = "id" if table == "orgs" else "org"
            sql = f"SELECT * FROM {table} WHERE {column} = $1 ORDER BY {', '.join(keys)}"
            found[table] = [tuple(row) for row in await connection.fetch(sql, org)]
        return found
    finally:
        await connection.close()


def test_an_organisation_moves_while_its_members_write(addresses: tuple[str, str]) -> None:
    """Two servers, four machines, a killed server's view behind: every line is there once, and so is its cost."""

    async def scene(pair: Pair) -> None:
        done = asyncio.Event()
        writers = [Writer(pair, f"s{number}") for number in range(4)]
        working = [asyncio.create_task(one.until(done)) for one in writers]
        await pair.first.ask("PUT", "/v1/sessions/s0/file", params={"key": "f"}, content=b"side")
        late = Writer(pair, "late")

        def step(name: str) -> None:
            if name == "deciding":  # all was copied: what would be stored now would be lost
                working.append(asyncio.create_task(late.until(done)))

        report = await pair.move(step=step).run()
        done.set()
        await asyncio.gather(*working)
        writers.append(late)
        for one in writers:
            await one.write(one.written)
        assert (report.is_moved, report.source, report.target) == (True, "main", "east")
        assert [len(one.refusals) for one in writers] == [0] * 5
        for server in (pair.first, pair.second):
            for one in writers:
                assert (await server.read(one.name)).content == one.sent
            cost = (await server.ask("GET", "/v1/cost", params={"by": "session"})).json()
            assert sorted(row["responses"] for row in cost["rows"]) == sorted(
                one.written + 1 for one in writers
            )
            found = (await server.ask("GET", "/v1/search", params={"q": "word3"})).json()
            assert {hit["session"] for hit in found["hits"]} == {one.name for one in writers}
            assert (await server.ask("GET", "/v1/sessions/s0/file", params={"key": "f"})).content == b"side"
        audit = [row["id"] for row in (await pair.first.ask("GET", "/v1/audit")).json()["acts"]]
        assert audit == sorted(set(audit), reverse=True)
        assert await pair.clusters.home_of(pair.org) == "east"
        assert [org.id for org in await pair.clusters.orgs()].count(pair.org) == 1

    played(addresses, scene)


def test_every_row_is_equal_and_what_was_left_is_removed(addresses: tuple[str, str]) -> None:
    """Nothing of any table is missing; the old cluster refuses the organisation, then gives its rows up, then takes it
    back."""

    async def scene(pair: Pair) -> None:
        writer = Writer(pair, "s")
        for number in range(6):
            await writer.write(number)
        await pair.first.ask("PATCH", "/v1/sessions/s", json={"title": "told"})
        before = await rows_of(addresses[0], pair.org)
        assert {table for table, rows in before.items() if rows} >= {
            "orgs",
            "segments",
            "texts",
            "usage",
            "audit",
        }
        await pair.move().run()
        assert await rows_of(addresses[1], pair.org) == before
        with pytest.raises(OrgElsewhere):
            await pair.clusters.named("main").users(pair.org)
        with pytest.raises(UsageError, match="still has rows"):
            await pair.move("main").run()
        would = await pair.move("main").remove_left(apply=False)
        assert any((await rows_of(addresses[0], pair.org)).values())
        removed = await pair.move("main").remove_left()
        assert would == removed
        assert sum(removed.rows.values()) == sum(map(len, before.values()))
        assert not any((await rows_of(addresses[0], pair.org)).values())
        await writer.write(6)
        assert (await pair.move("main").run()).is_moved
        await writer.write(7)
        assert (await pair.second.read("s")).content == writer.sent
        with pytest.raises(UsageError, match="already"):
            await pair.move("main").run()

    played(addresses, scene)


_KILLED = """
import asyncio, os, signal, sys
from recollect.server.clusters.move import OrgMove
from recollect.server.clusters.router import ClusterDatabase
from recollect.server.database.postgres import PostgresDatabase

def step(name):
    if name == sys.argv[4]:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    clusters = ClusterDatabase({"main": PostgresDatabase(sys.argv[1]), "east": PostgresDatabase(sys.argv[2])})
    await clusters.open()
    await OrgMove(clusters, sys.argv[3], "east", step).run()

asyncio.run(main())
"""


@pytest.mark.parametrize("where", ["copied segments/7", "fenced", "decided"])
def test_a_move_that_is_killed_goes_on(addresses: tuple[str, str], where: str) -> None:
    """Members write before, between and after, at most two seconds later; the next run ends what was begun."""

    async def scene(pair: Pair) -> None:
        writer = Writer(pair, "s")
        for number in range(4):
            await writer.write(number)
        killed = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", _KILLED, *addresses, pair.org, where],
            check=False,
            capture_output=True,
            env={**os.environ},
        )
        assert killed.returncode == -9, killed.stderr.decode()
        await writer.write(4)  # waits until the fence is over
        assert writer.refusals == []
        if where == "decided":
            assert await pair.clusters.home_of(pair.org) == "east"  # a server finished it
        else:
            assert await pair.clusters.home_of(pair.org) == "main"
            assert (await pair.move().run()).is_moved
        await writer.write(5)
        assert (await pair.second.read("s")).content == writer.sent
        cost = (await pair.second.ask("GET", "/v1/cost", params={"by": "session"})).json()
        assert [row["responses"] for row in cost["rows"]] == [6]

    played(addresses, scene)


def test_a_move_is_given_up(addresses: tuple[str, str]) -> None:
    """The organisation stays where it is, the copy is gone, and nothing is noted any more."""

    class Interrupted(Exception):
        pass

    def stop(name: str) -> None:
        if name == "caught up":
            raise Interrupted

    async def scene(pair: Pair) -> None:
        writer = Writer(pair, "s")
        await writer.write(0)
        with pytest.raises(Interrupted):
            await pair.move(step=stop).run()
        await writer.write(1)
        would = await pair.move().back(apply=False)
        assert any((await rows_of(addresses[1], pair.org)).values())
        assert would == await pair.move().back()
        assert sum(would.rows.values()) > 0
        assert not any((await rows_of(addresses[1], pair.org)).values())
        await writer.write(2)
        assert (await pair.first.read("s")).content == writer.sent
        connection = await asyncpg.connect(addresses[0])
        await connection.execute("SET recollect.org = '*'")
        left = await connection.fetchval("SELECT count(*) FROM org_changes WHERE org = $1", pair.org)
        own = f"move_{crc32(pair.org.encode()):08x}%"
        triggers = await connection.fetchval("SELECT count(*) FROM pg_trigger WHERE tgname LIKE $1", own)
        await connection.close()
        assert (left, triggers) == (0, 0)
        with pytest.raises(UsageError, match="under way"):
            await pair.move().back()

    played(addresses, scene)


def test_what_cannot_be_moved_is_said(addresses: tuple[str, str], tmp_path: Path) -> None:
    async def scene(pair: Pair) -> None:
        with pytest.raises(UsageError, match="not known"):
            pair.move("west")
        with pytest.raises(NotFound, match="not in the cluster"):
            await OrgMove(pair.clusters, "no-such-org", "east").run()
        pair.clusters.clusters["dead"] = PostgresDatabase(f"postgresql://x@/x?host={tmp_path}&port=1")
        with pytest.raises(Busy, match="cannot connect"):
            await pair.move("dead").run()
        del pair.clusters.clusters["dead"]
        assert (await pair.move().plan()).rows["orgs"] == 1

    played(addresses, scene)


def test_a_cluster_that_is_down_takes_only_its_own_organisations_away(
    addresses: tuple[str, str], tmp_path: Path
) -> None:
    """A token of the other cluster works; one that may be of the dead cluster is not refused for good."""

    async def scene(pair: Pair) -> None:
        dead = PostgresDatabase(f"postgresql://x@/x?host={tmp_path}&port=1", patience=0.1)
        pair.clusters.clusters["dead"] = dead
        pair.clusters._tokens.clear()
        assert (await pair.first.ask("GET", "/v1/whoami")).status_code == 200
        unknown = "rct_" + "x" * 43
        answer = await pair.first.ask(
            "GET", "/v1/whoami", token=unknown.replace("rct_", pair.first.token[:4])
        )
        assert answer.status_code == 503
        del pair.clusters.clusters["dead"]

    played(addresses, scene)


def test_every_method_of_the_contract_is_sent_to_a_cluster() -> None:
    """And every table with an organisation is moved."""
    own = {name for name in vars(contract.Database) if not name.startswith("_")}
    assert own - set(ROUTED) == {name for name in own if name in vars(ClusterDatabase)}
    assert not own.isdisjoint(ROUTED)
    assert {*KEYS, *DERIVED_TABLES} == set(TENANT_TABLES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[clusters.main]\naddress = 'postgresql://x'", "cannot be called"),
        ("[clusters.East]\naddress = 'postgresql://x'", "cannot be called"),
        ("[clusters.east]\naddress = 'sqlite:///x'", "not one of PostgreSQL"),
        ("[clusters.east]\n", "address"),
        ("clusters = 1", "clusters.toml"),
    ],
)
def test_a_file_of_clusters_that_is_wrong_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "clusters.toml"
    with pytest.raises(StorageError):
        load_clusters(path)
    path.write_text(text)
    with pytest.raises(UsageError, match=problem):
        load_clusters(path)


def test_a_server_without_the_file_says_what_is_missing(addresses: tuple[str, str]) -> None:
    """It does not answer for an organisation that left."""

    async def scene(pair: Pair) -> None:
        await Writer(pair, "s").write(0)
        await pair.move().run()
        alone = PostgresDatabase(addresses[0])
        await alone.open()
        try:
            with pytest.raises(Unavailable, match="--clusters"):
                await alone.head(pair.org, "s", "")
        finally:
            await alone.close()

    played(addresses, scene)


@pytest.mark.parametrize("words", [["--back"], ["--remove-left"], []], ids=["back", "remove left", "move"])
def test_the_command_tells_the_plan_of_what_was_asked(
    words: list[str], addresses: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not that of a move; and what it says to do next can be pasted as it is."""
    found: list[str] = []
    file = tmp_path / "clusters.toml"
    file.write_text(f'[clusters.east]\naddress = "{addresses[1]}"\n')
    places = ["--clusters", str(file), "--database", addresses[0]]

    async def scene(pair: Pair) -> None:
        await Writer(pair, "s").write(0)
        found.append(pair.org)
        if words == ["--remove-left"]:
            await pair.move().run()
        elif words:
            with contextlib.suppress(InterruptedError):
                await pair.move(step=_stop).run()

    played(addresses, scene)
    where = "main" if words == ["--remove-left"] else "east"
    asked = ["admin", "org", "move", found[0], where, *places, *words]
    assert 0 == main(asked)
    told = capsys.readouterr().out
    assert ("Moving it to" in told, "Would remove" in told) == (not words, bool(words))
    assert 0 == main([*asked, "--apply"])
    told = capsys.readouterr().out
    again = f"recollect admin org move {found[0]} main --clusters {file}"
    assert words or {f"{again} --remove-left --apply", f"{again} --apply"} == set(
        re.findall("recollect .*apply", told)
    )


def _stop(name: str) -> None:
    if name == "caught up":
        raise InterruptedError
