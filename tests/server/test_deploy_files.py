"""The files below deploy/ name commands and options that exist, and the backup that they make can be restored."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

from recollect.cli.main import command_parser
from recollect.model.search.query import WordQuery
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import LineSearch
from tests.server.conftest import Kind
from tests.server.postgres_cluster import PROGRAMS, Cluster
from tests.server.world import World, in_world, prompt, reply

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def test_every_option_is_one_of_the_server() -> None:
    """In the image, the Compose file, the units and the chart."""
    known = {option for action in command_parser("serve")._actions for option in action.option_strings}
    served = [path for path in FILES if path.name not in ("recollect-backup.service", "compose-role.sh")]
    lines = [
        line
        for path in served
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith(("#", "RUN", "HEALTHCHECK"))
    ]
    named = set(re.findall(r"--[a-z][a-z-]+", " ".join(lines)))

    assert {"--behind-proxy", "--migrate", "--host", "--trusted-proxy"} <= named
    assert named <= known


def test_the_compose_file_is_yaml_with_a_plain_role() -> None:
    """A superuser would see through row-level security."""
    yaml = pytest.importorskip("yaml")
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())

    assert set(document["services"]) == {"database", "migrate", "server"}
    assert document["services"]["server"]["environment"]["RECOLLECT_DATABASE"].startswith(
        "postgresql://recollect@"
    )
    assert "SUPERUSER" not in (DEPLOY / "compose-role.sh").read_text()


def test_a_dump_as_the_documented_role_is_restored_whole() -> None:
    """As the backup unit makes it; without naming every organisation, pg_dump refuses."""
    if os.environ.get("RECOLLECT_TEST_POSTGRES"):
        pytest.skip("RECOLLECT_TEST_POSTGRES names a database that is not ours to dump")
    unit = (DEPLOY / "systemd" / "recollect-backup.service").read_text()
    setting = re.search(r"^Environment=PGOPTIONS=(.*)$", unit, re.MULTILINE)
    assert setting is not None
    assert "--enable-row-security" in unit
    cluster = Cluster()

    async def fill(made: World) -> str:
        await made.put("s1", prompt("needle") + reply("m-1"))
        return made.org.id

    async def found(org: str) -> list[object]:
        database = PostgresDatabase(cluster.dsn(database="restored"))
        await database.open()
        try:
            hits = await database.search(org, LineSearch(WordQuery.parse("needle"), 5))
            head = await database.head(org, "s1", "")
            return [head and head.lines, len(await database.usage(org, None, None)), len(hits)]
        finally:
            await database.close()

    try:
        cluster.make()
        asyncio.run(PostgresDatabase(cluster.dsn()).migrate())
        org = in_world(Kind("postgres", cluster.dsn()), fill)
        cluster.psql("CREATE DATABASE restored OWNER recollect")
        reached = ("-h", str(cluster.directory), "-p", str(cluster.port), "-U", "recollect")
        dump = [str(PROGRAMS / "pg_dump"), *reached, "--enable-row-security", "-Fc", "recollect"]
        bare = subprocess.run([PROGRAMS / "pg_dump", *reached, "recollect"], capture_output=True, check=False)
        made = subprocess.run(
            dump, capture_output=True, check=True, env={**os.environ, "PGOPTIONS": setting[1]}
        )
        subprocess.run(
            [PROGRAMS / "pg_restore", *reached, "--no-owner", "-d", "restored"], input=made.stdout, check=True
        )
        assert bare.returncode != 0
        assert asyncio.run(found(org)) == [2, 1, 1]
        policies = "SELECT count(*) FROM pg_policies"
        assert cluster.psql(policies, "restored") == cluster.psql(policies, "recollect")
    finally:
        cluster.stop()
