"""``usage`` by month: what a migration makes of rows of before, what a plan asks, and the disk that a month gives back."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]  # it has no types
import pytest

from recollect.errors import UsageError
from recollect.model.cost.prices import PriceList
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import AppendRequest, Author, Retention
from recollect.server.database.sql_base import now_ms
from recollect.server.database.sql_cost import UsageQuestion, usage_query
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.database.tables.steps import postgres_steps, sqlite_steps
from recollect.server.database.tables.usage_months import month_of, response_ref
from recollect.server.facts import prepare
from tests.server.postgres_cluster import Cluster
from tests.server.test_usage_months import DAY, ms
from tests.server.world import after, new_org, reply

AUTHOR = Author("a", "t")
# Each a response of its own; the last is dated ahead of its arrival.
TIMES = {
    "none": None,
    "1970": 1000,
    "2024": ms("2024-12-31T23:59:59.999"),
    "jan": ms("2026-01-31T23:59:59.999"),
    "feb": ms("2026-02-01"),
    "ahead": ms("2090-01-01"),
}
_OLD_ROW = (
    "INSERT INTO usage(org, message, session, key, request, counted, speaker, has_stop, forked, at, person, model, branch, variant,"
    " input, output, cache_write_5m, cache_write_1h, cache_read, web_searches)"
    " VALUES('o', '{}', 's1', '', 'r', 3, 2, 1, 0, {}, 'p', 'x', '', 0, 1, 2, 3, 4, 5, 6)"
)
_OLD_ROWS = [_OLD_ROW.format(name, "NULL" if at is None else at) for name, at in TIMES.items()]
_HELD = "SELECT message, said FROM usage ORDER BY message"
_KNOWN = "SELECT ref, said FROM responses ORDER BY ref"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster({"shared_buffers": "128MB"})
    try:
        made.make()
        yield made
    finally:
        made.stop()


def _expected() -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    months = {name: month_of(at, now_ms()) for name, at in TIMES.items()}
    return sorted(months.items()), sorted((response_ref("o", name), said) for name, said in months.items())


def test_rows_of_a_file_of_before_are_in_their_months(tmp_path: Path) -> None:
    path = tmp_path / "team.sqlite"
    before = sqlite_steps()[:-1]
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        for step in before:
            connection.execute(step)
        connection.pragma("user_version", len(before))
        for row in _OLD_ROWS:
            connection.execute(row)
    assert asyncio.run(SqliteDatabase(path).migrate()) == 1
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        found = [[tuple(row) for row in connection.execute(sql)] for sql in (_HELD, _KNOWN)]
    assert tuple(found) == _expected()


def test_rows_of_a_database_of_before_are_in_their_months(cluster: Cluster) -> None:
    """Each in the partition of its month, and none of them counted again where it comes once more."""
    cluster.psql("CREATE DATABASE before OWNER recollect")
    dsn = cluster.dsn(database="before")
    before = postgres_steps()[:-1]

    async def play() -> list[Any]:
        connection = await asyncpg.connect(dsn)
        await connection.execute("SELECT set_config('recollect.org', '*', false)")
        await connection.execute(
            "CREATE TABLE recollect_version(version INTEGER PRIMARY KEY, at BIGINT NOT NULL)"
        )
        for number, step in enumerate(before, 1):
            await connection.execute(step)
            await connection.execute("INSERT INTO recollect_version VALUES($1, 0)", number)
        for row in _OLD_ROWS:
            await connection.execute(row)
        assert await PostgresDatabase(dsn).migrate() == 1
        held = [tuple(row) for row in await connection.fetch(_HELD)]
        known = [(row[0].hex, row[1]) for row in await connection.fetch(_KNOWN)]
        parts = await connection.fetch("SELECT message, tableoid::regclass::text FROM usage")
        await connection.close()
        return [(held, known), dict(parts)]

    found, parts = asyncio.run(play())
    assert found == _expected()
    assert parts == {
        "none": "usage_other",
        "1970": "usage_older",
        "2024": "usage_older",
        "jan": "usage_y2026m01",
        "feb": "usage_y2026m02",
        "ahead": "usage_other",
    }


async def _opened(cluster: Cluster, name: str) -> PostgresDatabase:
    cluster.psql(f"CREATE DATABASE {name} OWNER recollect")
    database = PostgresDatabase(cluster.dsn(database=name))
    await database.migrate()
    await database.open()
    return database


async def _append(
    database: PostgresDatabase, org: str, session: str, data: bytes, before: bytes = b""
) -> None:
    at = after(before)
    await database.append(AppendRequest(org, session, "", at, prepare(data, at), AUTHOR))


def test_an_append_asks_the_months_of_its_responses_only(cluster: Cluster) -> None:
    """As PostgreSQL counts it: a new response asks no month, one that is known that month's index for its rows, planned when
    the tables were empty."""

    async def play() -> tuple[dict[str, int], int]:
        database = await _opened(cluster, "plans")
        org = (await new_org(database)).id
        jan, feb = "2026-01-31T12:00:00.000Z", "2026-02-01T12:00:00.000Z"
        first = reply("m-1", at=jan)
        await _append(database, org, "s1", first)
        await _append(database, org, "s2", reply("m-2", at=feb))
        many = b"".join(reply(f"more-{n}", at=jan, uuid=f"b-{n}") for n in range(500))
        await _append(database, org, "s3", many)
        for number in range(8):  # more often than PostgreSQL plans again
            await _append(database, org, f"copy-{number}", reply("m-1", at=jan))
        await _append(database, org, "s1", reply("m-1", at=jan, output=77, uuid="a-2"), first)
        count = sum(row.messages for row in await database.usage(org, None, None))
        await database.close()
        assert count == 1 + 1 + 500
        connection = await asyncpg.connect(cluster.dsn(database="plans"))
        try:
            read = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'usage_y2026m01_pkey'"
            scans = dict(
                await connection.fetch(
                    "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE relname LIKE 'usage\\_%' AND idx_scan > 0"
                    " UNION ALL SELECT relname, seq_scan FROM pg_stat_user_tables WHERE relname LIKE 'usage\\_%' AND seq_tup_read > 0"
                )
            )
            return scans, await connection.fetchval(read)
        finally:
            await connection.close()

    scans, read = asyncio.run(play())
    assert read < 200  # and not 500 for each of nine copies
    # An insert looks for its row as well: once in February.
    assert scans.pop("usage_y2026m01_pkey") >= 10 + 9
    assert scans == {"usage_y2026m02_pkey": 1}


def test_a_question_about_a_span_asks_its_month_only(cluster: Cluster) -> None:
    """At the ends of the span, response by response; amounts of another copy are looked up by the message."""
    cluster.psql("CREATE DATABASE spans OWNER recollect")
    dsn = cluster.dsn(database="spans")
    times = ms("2026-01-31T12:00:01"), ms("2026-03-05T12:00:01")
    sql, values = usage_query(UsageQuestion(times, ["person"], PriceList().changes()))

    async def play() -> str:
        await PostgresDatabase(dsn).migrate()
        connection = await asyncpg.connect(dsn)
        try:
            rows = await connection.fetch(f"EXPLAIN {sql.replace('$1', chr(39) + 'o' + chr(39))}", *values)
            return "\n".join(row[0] for row in rows)
        finally:
            await connection.close()

    plan = asyncio.run(play())
    asked = re.findall(r"on (usage_\w+) own", plan)
    assert set(asked) == {"usage_y2026m01", "usage_y2026m03", "usage_other"}
    assert (
        len(asked) == 2 * 2 * 2
    )  # both ends, with their own amounts and with others, in the month and in none
    assert re.findall(r"Seq Scan on (usage_\w+)", plan) == []


_FILLED = """
INSERT INTO usage(org, message, session, key, request, counted, speaker, has_stop, forked, at, person, model, branch, variant,
    input, output, cache_write_5m, cache_write_1h, cache_read, web_searches, said)
  SELECT '{org}', 'msg_01' || md5('{said}' || i), md5((i / 50)::text), '', 'req_01' || md5(i::text), 3, 2, 1, 0, {said} + i, 'p',
    'claude-sonnet-4-5', 'main', 0, 1, 2, 3, 4, 5, 0, {said} FROM generate_series(1, {rows}) AS i;
INSERT INTO responses(ref, said, org) SELECT md5(org || message)::UUID, said, org FROM usage WHERE said = {said} AND org = '{org}';
INSERT INTO rollup_day(org, day, session, person, model, branch, variant, messages, input, output, cache_write_5m, cache_write_1h, cache_read, web_searches)
  SELECT '{org}', {said} / 86400000, 's', 'p', 'claude-sonnet-4-5', 'main', 0, {rows}, {rows}, 2 * {rows}, 3 * {rows}, 4 * {rows}, 5 * {rows}, 0;
"""


def _month_sizes(cluster: Cluster, database: str) -> dict[str, int]:
    sql = "SELECT relname || ' ' || pg_total_relation_size(oid) FROM pg_class WHERE relname ~ '^usage_y2026m0[1-3]$'"
    return {
        name: int(size) for name, size in (row.split() for row in cluster.psql(sql, database).splitlines())
    }


def test_a_dropped_month_of_responses_gives_its_disk_back(cluster: Cluster) -> None:
    """As a whole where every organisation drops it; row by row for one that does, and then others keep theirs."""
    rows = 20_000

    async def play() -> list[Any]:
        database = await _opened(cluster, "disk")
        one, other = (await new_org(database)).id, (await new_org(database)).id
        for org, month in (
            (one, "2026-01-01"),
            (one, "2026-02-01"),
            (other, "2026-02-01"),
            (other, "2026-03-01"),
        ):
            cluster.psql(_FILLED.format(org=org, said=ms(month), rows=rows), "disk")
        sizes = [_month_sizes(cluster, "disk")]
        sums = [await _sums(database, one, other)]
        done = []
        # Only one of them drops January and February; then the other as well; then all of it.
        for org, days, now in ((one, 62, "2026-05-05"), (other, 62, "2026-05-05"), (other, 62, "2026-06-05")):
            await database.set_retention(org, Retention(usage_days=days), AUTHOR)
            swept = await database.sweep(ms(now), 7 * DAY)
            done.append((swept.usage_rows, swept.months > 0))
            sizes.append(_month_sizes(cluster, "disk"))
            sums.append(await _sums(database, one, other))
        await database.close()
        return [sizes, done, sums]

    sizes, done, sums = asyncio.run(play())
    january, february, march = "usage_y2026m01", "usage_y2026m02", "usage_y2026m03"
    full = rows * 300
    assert min(sizes[0].values()) > full
    assert done == [(2 * rows, True), (0, True), (0, True)]
    assert (sizes[1][january] < 262_144, sizes[1][february] > full, sizes[1][march] > full) == (
        True,
        True,
        True,
    )
    assert (sizes[2][february] < 262_144, sizes[2][march] > full) == (True, True)
    assert max(sizes[3].values()) < 262_144
    assert sums == [sums[0]] * 4
    assert sums[0] == [2 * rows, 2 * rows]


async def _sums(database: PostgresDatabase, *orgs: str) -> list[int]:
    return [sum(row.messages for row in await database.usage(org, None, None, by=["model"])) for org in orgs]


def test_tables_are_not_replaced_during_a_move(cluster: Cluster) -> None:
    """The triggers that say what changed would be lost; an organisation that has left stops nothing."""
    cluster.psql("CREATE DATABASE moving OWNER recollect")
    database = PostgresDatabase(cluster.dsn(database="moving"))
    asyncio.run(database.migrate())
    cluster.psql(
        "DELETE FROM recollect_version WHERE version = (SELECT max(version) FROM recollect_version)", "moving"
    )
    cluster.psql(
        "INSERT INTO org_moves(org, role, other) VALUES('o', 'gone', 'b'), ('p', 'copying', 'b')", "moving"
    )
    with pytest.raises(UsageError, match="p is being moved, from or to b"):
        asyncio.run(database.migrate())
