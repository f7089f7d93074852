"""What is special about PostgreSQL: row-level security, restarts under the server, a replica, migrations, its dump."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import time
from collections.abc import Awaitable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it has no types
import httpx
import pytest

from recollect.server.database import postgres_search
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.postgres_search import BLOCKS, SETTINGS
from recollect.server.database.records import AppendRequest, Author, Transaction, Unavailable, now_ms
from recollect.server.database.sql import DAY_MS
from recollect.server.database.tables import PARTITIONED, PARTITIONS, TENANT_TABLES, session_ref
from recollect.server.facts import prepare
from recollect.server.tenancy import READ
from recollect.share.sync.wire import START
from tests.server.conftest import Kind
from tests.server.postgres_cluster import Cluster
from tests.server.world import World, after, in_world, new_org, prompt, reply


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster that may be stopped and started."""
    if os.environ.get("RECOLLECT_TEST_POSTGRES"):
        pytest.skip("RECOLLECT_TEST_POSTGRES names a database that is not ours to stop")
    made = Cluster(is_durable=True)
    try:
        made.make()
        asyncio.run(PostgresDatabase(made.dsn()).migrate())
        yield made
    finally:
        made.stop()


def test_row_level_security_is_a_second_line(postgres: str) -> None:
    """A query that names no tenant, or another, finds nothing in any table; nor may it write there."""

    async def fill(made: World) -> str:
        await made.put("s1", reply("m-1") + prompt("words"))
        await made.ask("PUT", "/v1/sessions/s1/file", params={"key": "f"}, content=b"x")
        team = (await made.ask("POST", "/v1/teams", json={"name": "red"})).json()["id"]
        members = [user.id for user in await made.database.users(made.org.id)]
        await made.ask("PATCH", f"/v1/teams/{team}", json={"members": members})
        assert isinstance(made.database, PostgresDatabase)
        log = made.org.id, session_ref(made.org.id, "s1"), ""
        body = await made.database.movable_body(log, now_ms() + 1_000)
        assert body is not None
        assert await made.database.claim_body(made.org.id, body, now_ms())
        await made.database.add_identity(
            made.org.id, "https://idp", "ada", members[0], Author(members[0], "t")
        )
        assert await made.database.first_use(made.org.id, b"a sign-in", now_ms())

        async def drop(tx: Transaction) -> None:
            await tx.rows("INSERT INTO dropped(org, message) VALUES($1, 'm')", made.org.id)

        await made.database._write(made.org.id, drop)
        return made.org.id

    org = in_world(Kind("postgres", postgres), fill)

    async def seen(setting: str | None) -> dict[str, int]:
        connection = await asyncpg.connect(postgres)
        try:
            if setting is not None:
                await connection.fetch("SELECT set_config('recollect.org', $1, false)", setting)
            return {
                table: await connection.fetchval(
                    f"SELECT count(*) FROM {table} WHERE {'id' if table == 'orgs' else 'org'} = $1", org
                )
                for table in TENANT_TABLES
            }
        finally:
            await connection.close()

    async def stolen() -> None:
        connection = await asyncpg.connect(postgres)
        try:
            await connection.fetch("SELECT set_config('recollect.org', 'somebody else', false)")
            await connection.execute(
                "INSERT INTO users(id, org, name, role, disabled, created) VALUES('x', $1, 'Mallory', 'admin', 0, 0)",
                org,
            )
        finally:
            await connection.close()

    async def play() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await stolen()
        return await seen(None), await seen("somebody else"), await seen(org)

    nobody, other, own = asyncio.run(play())
    nothing = dict.fromkeys(TENANT_TABLES, 0)
    assert (nobody, other) == (nothing, nothing)
    assert min(own.values()) > 0


# Every table and partition of ours, with the column that names its organisation.
# Without the lake's catalogue, which another test may have put into the same database: it is pyiceberg's, and has no text.
_RELATIONS = """
SELECT c.relname, CASE WHEN c.relname = 'orgs' THEN 'id' ELSE 'org' END, c.relrowsecurity AND c.relforcerowsecurity
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
AND c.relname <> 'recollect_version' AND c.relname NOT LIKE 'iceberg%' ORDER BY c.relname
"""


def test_row_level_security_holds_for_every_table_and_partition(postgres: str) -> None:
    """Named directly, a partition shows, changes and takes no row of an organisation that is not the caller's."""

    async def fill(made: World) -> str:
        for number in range(12):
            await made.put(f"s{number}", reply(f"m-{number}") + prompt("words"))
            await made.ask("PUT", f"/v1/sessions/s{number}/file", params={"key": "f"}, content=b"x")
        return made.org.id

    org = in_world(Kind("postgres", postgres), fill)

    async def tried(connection: Any, table: str, column: str) -> list[int]:
        """Rows of the organisation that are read, changed and taken away, and those that are put in."""
        statements = (
            f"SELECT 1 FROM {table} WHERE {column} = $1",
            f"UPDATE {table} SET {column} = {column} WHERE {column} = $1 RETURNING 1",
            f"DELETE FROM {table} WHERE {column} = $1 RETURNING 1",
        )
        counts = []
        for statement in statements:
            async with connection.transaction():
                counts.append(len(await connection.fetch(statement, org)))
        return counts

    async def play() -> tuple[list[str], dict[str, list[int]], int]:
        connection = await asyncpg.connect(postgres)
        try:
            relations = await connection.fetch(_RELATIONS)
            unprotected = [name for name, _, is_forced in relations if not is_forced]
            seen: dict[str, list[int]] = {}
            for setting in (None, "somebody else"):
                if setting is not None:
                    await connection.fetch("SELECT set_config('recollect.org', $1, false)", setting)
                for name, column, _ in relations:
                    counts = await tried(connection, name, column)
                    if any(counts):
                        seen[name] = counts
            await connection.fetch("SELECT set_config('recollect.org', $1, false)", org)
            own = 0
            for name in PARTITIONED:
                for part in range(PARTITIONS):
                    own += await connection.fetchval(
                        f"SELECT count(*) FROM {name}_{part} WHERE org = $1", org
                    )
            return unprotected, seen, own
        finally:
            await connection.close()

    unprotected, seen, own = asyncio.run(play())
    assert (unprotected, seen) == ([], {})
    assert own >= 3 * 12  # there was something to see, in partitions


def test_the_server_knows_whether_it_sees_through_row_level_security(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A superuser does, and its log says so; the role that deploy.md makes does not."""

    async def told(role: str) -> bool:
        database = PostgresDatabase(cluster.dsn(role))
        await database.open()
        try:
            return await database.bypasses_row_security()
        finally:
            await database.close()

    with caplog.at_level("WARNING", "recollect.server"):
        assert asyncio.run(told("recollect")) is False
        quiet = [record.message for record in caplog.records]
        assert asyncio.run(told("postgres")) is True
    assert quiet == []
    assert [record.message[:36] for record in caplog.records] == ["the role bypasses row-level security"]


def test_a_migration_is_done_once_and_by_one(postgres: str) -> None:
    """Servers that start together do not disturb each other; there is nothing left to do."""

    async def play() -> list[int]:
        return await asyncio.gather(*(PostgresDatabase(postgres).migrate() for _ in range(4)))

    assert asyncio.run(play()) == [0, 0, 0, 0]


def test_appends_go_on_when_the_database_comes_back(cluster: Cluster) -> None:
    """Killed at once and started again under an open server: no acknowledged line is lost, and nobody notices but by waiting."""

    async def play() -> tuple[bytes, bytes]:
        database = PostgresDatabase(cluster.dsn(), patience=60.0)
        await database.open()
        try:
            org = (await new_org(database)).id
            data, killing = b"", None
            for number in range(30):
                new = prompt(f"line {number}", f"u-{number}")
                at = after(data)
                if number in (10, 20):
                    killing = asyncio.create_task(asyncio.to_thread(_restart, cluster))
                await database.append(AppendRequest(org, "s1", "", at, prepare(new, at), Author("a", "t")))
                data += new
                if killing is not None and number in (12, 22):
                    await killing
            head = await database.head(org, "s1", "")
            assert head is not None
            found = [one.data async for one in database.segments(org, "s1", "", 0, head.lines)]
            return data, b"".join(found)
        finally:
            await database.close()

    stored, found = asyncio.run(play())
    assert found == stored


def _restart(cluster: Cluster) -> None:
    cluster.kill()
    cluster.start()


def test_a_database_that_stays_away_is_said_to(tmp_path: Any) -> None:
    """Not an endless wait: Unavailable, which the routes answer with 503."""

    async def play() -> None:
        await PostgresDatabase(f"postgresql://x@/x?host={tmp_path}", patience=0.1).open()

    with pytest.raises(Unavailable):
        asyncio.run(play())


@pytest.mark.parametrize("more", ["", "&target_session_attrs=read-write"], ids=["any server", "read-write"])
def test_answers_come_within_two_seconds_while_the_database_is_read_only(cluster: Cluster, more: str) -> None:
    """As after a disk that filled up, or an operator's ALTER SYSTEM: a read needs no note of its token, a refusal none of the
    attempt. Writes are a 503 that may be repeated, also those that come together, and go on when the database accepts them again."""

    async def scene(made: World) -> list[object]:
        await made.put("s1", prompt("needle") + reply("m-1"))
        user = await made.member("Eve")
        secrets = [(await made.secret(user, (READ,)))[0] for _ in range(4)]
        found: list[object] = []
        paths = ("/v1/search?q=needle", "/v1/sessions", "/v1/cost", "/v1/sessions/s1/log")
        # What the machine takes for as many that nothing stops: on a loaded one all takes longer.
        began = time.monotonic()
        await asyncio.gather(*(made.put(f"s3-{number}", prompt("more")) for number in range(25)))
        most = 2 + 5 * (time.monotonic() - began)
        _set_read_only(cluster, "on")

        async def timed(answer: Awaitable[httpx.Response]) -> object:
            started = time.monotonic()
            status = (await answer).status_code
            return status, time.monotonic() - started < most

        try:
            for _ in range(2):  # the second time over connections that were made meanwhile
                asked = [
                    made.ask("GET", path, token=secret) for path, secret in zip(paths, secrets, strict=True)
                ]
                asked += [made.put(f"s2-{number}", prompt("more")) for number in range(20)]
                asked += [made.ask("GET", "/v1/audit", token=secrets[0])]
                found += await asyncio.gather(*map(timed, asked))
        finally:
            _set_read_only(cluster, "off")
        found.append((await made.put("s2-0", prompt("more"))).status_code)
        return found

    found = in_world(Kind("postgres", cluster.dsn() + more), scene)
    assert found == [*[(200, True)] * 4, *[(503, True)] * 20, (403, True)] * 2 + [200]


def _set_read_only(cluster: Cluster, value: str) -> None:
    cluster.psql(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    cluster.psql("SELECT pg_reload_conf()")


def test_reads_go_to_the_replica_and_come_back_where_it_is_gone(cluster: Cluster) -> None:
    """Lists, costs and searches are asked of the replica; what decides is asked of the primary."""
    cluster.psql("CREATE DATABASE copy OWNER recollect")
    copy = cluster.dsn(database="copy")

    async def play() -> list[object]:
        await PostgresDatabase(copy).migrate()
        database = PostgresDatabase(cluster.dsn(), replica=copy)
        await database.open()
        try:
            org = (await new_org(database)).id
            await database.append(
                AppendRequest(org, "s1", "", START, prepare(reply("m-1"), START), Author("a", "t"))
            )
            # The copy is empty: whoever answers "nothing" was asked there.
            away = [len(await database.heads(org, ("", ""), 10)), len(await database.usage(org))]
            head = await database.head(org, "s1", "")
            await database._replica.close()
            back = [len(await database.heads(org, ("", ""), 10)), len(await database.usage(org))]
            return [away, head is not None, back]
        finally:
            await database.close()

    assert asyncio.run(play()) == [[0, 0], True, [1, 1]]


async def _fill_with_blocks(connection: Any, org: str, other: str) -> None:
    """Two organisations with four thousand blocks each, over some weeks; one block of each has the rare word."""
    now = now_ms()
    await connection.execute("SELECT set_config('recollect.org', '*', false)")
    for number, name in enumerate((org, other)):
        ref = bytes([number]) * 16
        await connection.execute(
            "INSERT INTO sessions(ref, org, id, created, changed) VALUES($1, $2, 's', 0, 0)", ref, name
        )
        await connection.execute(
            "INSERT INTO texts SELECT $1, '', n, 1, $2, $3::bigint - n * 1000000::bigint, $3::bigint - n * 1000000::bigint,"
            " array_to_tsvector(ARRAY['common', CASE n WHEN 77 THEN 'rare' ELSE 'plain' END]"
            "   || ARRAY(SELECT 'w' || (n * 7 + k * 13) % 5000 FROM generate_series(1, 50) AS k))"
            " FROM generate_series(1, 4000) AS n",
            ref,
            name,
            now,
        )
    await connection.execute("VACUUM (ANALYZE) texts, sessions")


def test_search_uses_its_index_under_row_level_security(cluster: Cluster) -> None:
    """As the plain role, with forced security: rare and absent words are looked up in the index of words, and only
    rows of the caller's organisation are found. A frequent word is read from the newest month on."""
    cluster.psql("CREATE DATABASE planned OWNER recollect")
    dsn = cluster.dsn(database="planned")

    async def play() -> dict[str, tuple[str, int]]:
        await PostgresDatabase(dsn).migrate()
        connection = await asyncpg.connect(dsn)
        try:
            org = "o-1"
            await _fill_with_blocks(connection, org, "o-2")
            plans = {}
            sql = BLOCKS.format(more="", limit=64, offset=0)
            for words in ("'rare'", "'absent'", "'common'"):
                async with connection.transaction():
                    await connection.fetch("SELECT set_config('recollect.org', $1, true)", org)
                    await connection.fetch(SETTINGS, words)
                    rows = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}", org)
                    found = await connection.fetch(sql, org)
                    plans[words] = "\n".join(row[0] for row in rows), len(found)
            return plans
        finally:
            await connection.close()

    plans = asyncio.run(play())
    for words, count in (("'rare'", 1), ("'absent'", 0)):
        plan, found = plans[words]
        assert found == count
        assert "Bitmap Index Scan on texts_y" in plan
        assert "Index Cond: (words @@ " in plan
        assert "Seq Scan on texts_y" not in plan
    plan, found = plans["'common'"]
    assert found == 64
    assert "_org_newest_idx" in plan, "all rows with the word were read for the newest ones"
    assert "Bitmap" not in plan


def test_a_search_that_ends_early_says_how_far_it_came(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both words are everywhere, the phrase is in the oldest session only: not found is no answer before all was looked at."""
    monkeypatch.setattr(postgres_search, "_MOST_BLOCKS", 10)
    monkeypatch.setattr(postgres_search, "_AT_ONCE", 4)
    minutes = [f"2026-01-31T12:{n:02d}:00.000Z" for n in range(21)]

    async def scene(made: World) -> list[tuple[list[str], bool, int | None]]:
        for n, at in enumerate(minutes):
            await made.put(f"s{n}", prompt("alpha beta" if n == 0 else "alpha x beta", f"u-{n}", at))
        answers, until = [], dict[str, str]()
        for _ in range(3):
            found = (await made.ask("GET", "/v1/search", params={"q": '"alpha beta"', **until})).json()
            answers.append(
                ([hit["session"] for hit in found["hits"]], found["more"], found.get("searched_to"))
            )
            until = {"until": str((found.get("searched_to") or 0) + 1)}
        return answers

    ms = [int(dt.datetime.fromisoformat(at).timestamp() * 1000) for at in minutes]
    found = in_world(Kind("postgres", postgres), scene)
    assert found == [([], True, ms[10]), ([], True, ms[0]), (["s0"], False, None)]


def test_words_that_are_asked_for_never_show_another_organisations_rows(cluster: Cluster) -> None:
    """The policy compares words besides the organisation, never instead of it: whatever the setting, in every
    partition, by name too."""
    cluster.psql("CREATE DATABASE guarded OWNER recollect")
    dsn = cluster.dsn(database="guarded")

    async def play() -> list[int]:
        await PostgresDatabase(dsn).migrate()
        connection = await asyncpg.connect(dsn)
        try:
            await _fill_with_blocks(connection, "o-1", "o-2")
            rows = await connection.fetch(
                "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'texts'::regclass"
            )
            tables = ["texts", *(row[0] for row in rows)]
            seen: list[int] = []
            for org in ("o-3", ""):
                await connection.fetch("SELECT set_config('recollect.org', $1, false)", org)
                for words in ("'common'", "!'x'", ""):
                    await connection.fetch("SELECT set_config('recollect.words', $1, false)", words)
                    seen += [await connection.fetchval(f"SELECT count(*) FROM {table}") for table in tables]
            return seen
        finally:
            await connection.close()

    seen = asyncio.run(play())
    assert len(seen) > 100
    assert set(seen) == {0}


def test_months_that_are_coming_exist_before_they_begin(cluster: Cluster) -> None:
    cluster.psql("CREATE DATABASE months OWNER recollect")
    dsn = cluster.dsn(database="months")

    async def play() -> None:
        database = PostgresDatabase(dsn)
        await database.migrate()
        await database.open()
        try:
            await database.sweep(now_ms() + 50 * DAY_MS, 7 * DAY_MS)
        finally:
            await database.close()

    asyncio.run(play())
    coming = dt.datetime.fromtimestamp((now_ms() + 80 * DAY_MS) / 1000, dt.UTC)
    names = cluster.psql("SELECT relname FROM pg_class WHERE relname LIKE 'texts_y%'", "months").split()
    assert f"texts_y{coming:%Ym%m}" in names
