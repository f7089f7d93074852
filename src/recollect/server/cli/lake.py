"""Write an organisation's data as Iceberg tables to S3, for analytic engines.

Tables responses, messages, tool_calls and sessions (docs/reference/lake.md),
partitioned by day, in a namespace of the organisation. The catalogue is in
PostgreSQL: in the server's database, or in the one of --catalogue. Another run
writes what changed since. --text adds titles, prose, tool inputs and results,
without the credentials in them. Spark, Trino, Polars, ClickHouse, DuckDB and
others read the tables; sum(usd) of responses is the total of `team cost`.

Needs the server's PostgreSQL, and the store's credentials in AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY and AWS_REGION (AWS_ENDPOINT_URL for stores other than
Amazon's). One job at a time writes the lake of an organisation.

Example:
  recollect team lake Acme --to s3://company-lake/recollect
  recollect team lake Acme --to s3://company-lake/recollect --json
"""

from __future__ import annotations

import asyncio
import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from recollect.cli.terminal import output
from recollect.cli.terminal.options import own_data
from recollect.cli.terminal.text import padded, visible
from recollect.errors import Busy, DamagedData, MissingExtra, NotFound, UsageError
from recollect.server.cli.serve import DATABASE, OBJECTS, add_database, asked_database

if TYPE_CHECKING:
    from recollect.server.database.postgres import PostgresDatabase
    from recollect.server.lake import LakeJobReport


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("organization", metavar="ORG", help="name or id of the organisation")
    parser.add_argument("--to", required=True, metavar="ADDRESS", help="s3://BUCKET/PREFIX for the files")
    add_database(parser)
    parser.add_argument(
        "--catalogue",
        metavar="ADDRESS",
        help="postgresql://… for the catalogue (default: the server's database)",
    )
    parser.add_argument(
        "--objects", metavar="ADDRESS", help="where the server's lines are (default: $RECOLLECT_OBJECTS)"
    )
    parser.add_argument("--text", action="store_true", help="with texts, without the credentials in them")
    parser.add_argument("--rebuild", action="store_true", help="delete all rows and write them again")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    database = asked_database(options)
    try:
        from recollect.server.database.postgres import PostgresDatabase
        from recollect.server.database.records import BodyLost, Unavailable
    except ImportError as missing:
        raise MissingExtra("a lake of the team server", missing.name or "asyncpg", "server", "data") from None
    if not isinstance(database, PostgresDatabase):
        raise UsageError(
            "lake: needs the server's PostgreSQL",
            hint="give --database postgresql://…; for one machine: recollect data parquet",
        )
    parts = urlsplit(options.to)
    if parts.scheme not in ("s3", "file") or not (parts.netloc or parts.scheme == "file"):
        raise UsageError(f"--to {options.to!a}: the address is not valid", hint="write s3://BUCKET/PREFIX")
    try:
        report = asyncio.run(_written(options, database))
    except BodyLost as lost:
        raise DamagedData(str(lost), hint="restore it in the object store") from None
    except (Unavailable, OSError) as problem:
        raise Busy(
            f"cannot read the server's data: {problem}", hint="check the addresses, then repeat"
        ) from None
    if options.json:
        return output.print_json(report)
    for name, count in report.rows.items():
        output.say(f"{padded(name, 12)} {count:>12,} rows")
    for note in report.notes:
        output.note(visible(note))
    output.say(f"wrote {report.sessions} changed sessions, removed {report.removed}")
    return 0


async def _written(options: Namespace, database: PostgresDatabase) -> LakeJobReport:
    from recollect.server.iceberg import IcebergLake, LakePlace, drop_texts_setting
    from recollect.server.lake import LakeJob
    from recollect.server.objects import open_store
    from recollect.store.own_settings import price_list

    objects = options.objects or os.environ.get(OBJECTS)
    if objects:
        database.objects = open_store(objects, os.environ)
    await database.open()
    try:
        found = [org for org in await database.orgs() if options.organization in (org.id, org.name)]
        if not found:
            raise NotFound(
                f"organisation {options.organization!a}: not found",
                hint="`recollect team admin org list` lists them",
            )
        address = options.catalogue or options.database or os.environ.get(DATABASE) or ""
        place, org = LakePlace(address, options.to, os.environ), found[0].id
        if options.rebuild:
            await asyncio.to_thread(drop_texts_setting, place, org)
        lake = await asyncio.to_thread(lambda: IcebergLake(place, org, with_text=options.text))
        if options.rebuild:
            await asyncio.to_thread(lake.clear)
        data: Path | None = own_data(options).absolute() if options.text else None
        return await LakeJob(database, org, lake, price_list(), data).run()
    finally:
        await database.close()
