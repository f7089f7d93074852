"""Retention on a PostgreSQL of its own (``fsync`` on): the sessions of one day of 5,000 developers expire, and so does their grace.

``python -m bench.retention [SESSIONS]``. 40,000 sessions of six lines of a conversation, each counted and searchable, are marked as
deleted by one sweep and removed by another, as a server does it. Told are the seconds of both, the size of the database before and
after, also after the plain ``VACUUM`` that autovacuum would make, what is left in it, and what the gauge of overdue sessions says.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import NamedTuple

from bench.report import Row, table
from bench.serving import spoken_line
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import AppendRequest, Author, Org, SweepResult, now_ms
from recollect.server.facts import prepare
from recollect.share.sync.wire import START
from tests.server.postgres_cluster import Cluster

SESSIONS, LINES, AT_ONCE = 40_000, 6, 200
_DAY = 86_400_000
_GRACE, _HOUR = 7 * _DAY, 3_600
_LARGEST = """
SELECT string_agg(name || ' ' || round(size / 1000000, 1) || ' MB', ', ') FROM (
  SELECT regexp_replace(relname, '_([0-9]+|y[0-9]+m[0-9]+)$', '') AS name, sum(pg_total_relation_size(oid)) AS size
  FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace GROUP BY 1 ORDER BY 2 DESC LIMIT 6
) AS largest
"""
_ORG, _AUTHOR = "company", Author("ada", "token")


class SweepCost(NamedTuple):
    """What a sweep did, and how long it took."""

    done: SweepResult
    seconds: float


async def _fill(database: PostgresDatabase, sessions: int) -> int:
    await database.add_org(Org(_ORG, "Company", now_ms(), 30), _AUTHOR)
    size = 0
    for first in range(0, sessions, AT_ONCE):
        asked = []
        for number in range(first, min(first + AT_ONCE, sessions)):
            data = b"".join(spoken_line(number * LINES + line) for line in range(LINES))
            size += len(data)
            prepared = prepare(data, START)
            asked.append(AppendRequest(_ORG, f"session-{number}", "", START, prepared, _AUTHOR))
        await asyncio.gather(*map(database.append, asked))
    return size


async def _sweep(database: PostgresDatabase, now: int) -> SweepCost:
    started = time.perf_counter()
    done = await database.sweep(now, _GRACE)
    return SweepCost(done, time.perf_counter() - started)


def _size(cluster: Cluster) -> int:
    cluster.psql("CHECKPOINT")
    return int(cluster.psql("SELECT pg_database_size('recollect')", "recollect"))


async def _play(cluster: Cluster, sessions: int) -> list[Row]:
    # Autovacuum would make the sizes depend on when it comes.
    cluster.psql("ALTER SYSTEM SET autovacuum = off")
    cluster.psql("SELECT pg_reload_conf()")
    await PostgresDatabase(cluster.dsn()).migrate()
    database = PostgresDatabase(cluster.dsn())
    await database.open()
    try:
        empty = _size(cluster)
        raw = await _fill(database, sessions)
        full, now = _size(cluster), now_ms()
        marked = await _sweep(database, now + 40 * _DAY)
        removed = await _sweep(database, now + 50 * _DAY)
        swept = _size(cluster)
        cluster.psql("VACUUM", "recollect")
        cleaned, left = _size(cluster), cluster.psql(_LARGEST, "recollect").strip()
    finally:
        await database.close()
    sizes = f"{_mb(full)}, then {_mb(swept)}, after VACUUM {_mb(cleaned)}"
    return [
        _row(
            f"{sessions:,} sessions, {_mb(raw)} of lines, marked as deleted",
            marked,
            marked.done.deleted == sessions,
        ),
        _row("removed", removed, removed.done.purged == sessions),
        Row(
            "overdue, before the second sweep and after it",
            f"{marked.done.backlog:,}, {removed.done.backlog}",
            "0",
            (marked.done.backlog, removed.done.backlog) == (sessions, 0),
        ),
        Row("size of the database", sizes, "", None, beside=f"{_mb(empty)} while it was empty"),
        Row("left in it", left, "", None),
    ]


def _row(what: str, cost: SweepCost, is_whole: bool) -> Row:
    is_met = is_whole and cost.seconds < _HOUR
    return Row(what, f"{cost.seconds:.0f} s", "within an hour", is_met)


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def main() -> None:
    """Print a small table."""
    cluster = Cluster({"shared_buffers": "256MB"}, is_durable=True)
    try:
        cluster.make()
        rows = asyncio.run(_play(cluster, int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS))
    finally:
        cluster.stop()
    print(table("Retention", rows))


if __name__ == "__main__":
    main()
