"""The lake of an organisation: Iceberg tables in a real S3, with their catalogue in a real PostgreSQL.

That S3 takes as long to answer as all the rest: what a job does with its tables, whatever they lie in, is tried daily in
a directory, and in a torture run in a bucket too.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from copy import copy
from decimal import Decimal
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from recollect.ask.tables import LakeTable
from recollect.cli.main import main
from recollect.errors import Busy, UsageError
from recollect.model.cost.prices import PriceList
from recollect.server import lake as job
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import UsageQuestion
from recollect.server.iceberg import IcebergLake, LakePlace
from recollect.server.lake import LakeJob, LakeJobReport
from recollect.server.routes.team import TeamCosts
from tests.server.conftest import Kind
from tests.server.object_store import Bucket, TestStore
from tests.server.world import OPERATOR, World, after, in_a_world, in_world, line, prompt, reply

SECRET = "AKIA" + "QYLPMN5HHHFPZAM2"


class Directory(NamedTuple):
    """Where files may lie instead of a bucket."""

    address: str
    environment: dict[str, str]


class Lake:
    """The lake of a world's organisation."""

    def __init__(self, made: World, postgres: str, files: Bucket | Directory) -> None:
        assert isinstance(made.database, PostgresDatabase)
        self.database, self.org = made.database, made.org.id
        self.place = LakePlace(postgres, f"{files.address}/lake", files.environment)

    def opened(self, *, with_text: bool = False) -> IcebergLake:
        return IcebergLake(self.place, self.org, with_text=with_text)

    async def run(self, data: Path | None = None) -> LakeJobReport:
        opened = await asyncio.to_thread(lambda: self.opened(with_text=data is not None))
        return await LakeJob(self.database, self.org, opened, PriceList(), data).run()

    def table(self, name: str) -> Any:
        return self.opened()._tables[name]

    def rows(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table(name).scan().to_arrow().to_pylist()
        return found

    async def total(self) -> tuple[Decimal, int]:
        """What `team cost` says."""
        sums = await self.database.usage(self.org, UsageQuestion(by=["model"], changes=PriceList().changes()))
        total = TeamCosts(["model"], PriceList()).add(sums).report().total
        return Decimal(total.usd or 0), total.responses


def talk(number: int, day: int = 10, tokens: int = 3) -> bytes:
    at = f"2026-01-{day:02}T12:00:00.000Z"
    call = {"type": "tool_use", "id": f"t-{number}", "name": "Bash", "input": {"command": "ls"}}
    said = json.loads(reply(f"m-{number}", f"r-{number}", output=tokens, at=at, uuid=f"a-{number}"))
    said["message"]["content"].append(call)
    return prompt(f"question {number} {SECRET}", f"u-{number}", at) + line(**said)


def in_a_lake(where: str = "files") -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """A test in a world on PostgreSQL with a lake, whose files are where that fixture says."""

    def play(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        async def run(made: World, postgres: str, **given: Any) -> None:
            await test(made, Lake(made, postgres, given.pop(where)), **given)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        known = ("made", "postgres", where)
        own = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in known]
        run.__signature__ = Signature([*own, *list(signature(test).parameters.values())[2:]])  # type: ignore[attr-defined]
        return in_a_world(databases=("postgres",))(run)

    return play


@pytest.fixture
def bucket(s3: TestStore) -> Bucket:
    return s3.bucket()


@pytest.fixture
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket | Directory:
    if os.environ.get("RECOLLECT_TORTURE"):
        made: Bucket = request.getfixturevalue("bucket")
        return made
    return Directory(f"file://{tmp_path}/files", {})


def _duckdb(lake: Lake) -> tuple[Decimal, int]:
    # DuckDB's own reader of Iceberg is an extension that has to be fetched; it is given the rows.
    found = lake.table("responses").scan().to_duckdb("responses")
    total, count = found.execute("SELECT sum(usd), count(*) FILTER (counted) FROM responses").fetchall()[0]
    return Decimal(total), count


def _polars(lake: Lake) -> tuple[Decimal, int]:
    polars = import_module("polars")
    known = lake.place.environment
    options = {
        "aws_endpoint_url": known["AWS_ENDPOINT_URL"],
        "aws_access_key_id": known["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": known["AWS_SECRET_ACCESS_KEY"],
        "aws_region": known["AWS_REGION"],
        "aws_allow_http": "true",
    }
    rows = polars.scan_iceberg(lake.table("responses"), storage_options=options)
    found = rows.select(polars.col("usd").sum(), polars.col("counted").sum()).collect()
    return Decimal(found["usd"][0]), int(found["counted"][0])


def _chdb(lake: Lake) -> tuple[Decimal, int]:
    known = lake.place.environment
    where = lake.table("responses").location().removeprefix("s3://")
    found = import_module("chdb").query(
        f"SELECT sum(usd), countIf(counted) FROM icebergS3('{known['AWS_ENDPOINT_URL']}/{where}',"
        f" '{known['AWS_ACCESS_KEY_ID']}', '{known['AWS_SECRET_ACCESS_KEY']}')",
        "TSV",
    )
    total, count = str(found).split()
    return Decimal(total), int(count)


@in_a_lake("bucket")
async def test_every_engine_comes_to_the_total_of_team_cost_after_every_run(
    made: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    first = talk(1, 10, 7) + talk(2, 11, 77_777)
    await made.put("s1", first)
    codex = line(type="foreign-source", agent="codex")
    await made.put("s2", codex + talk(2, 11, 77_777) + talk(3, 12, 31))  # with a copy of a response
    await made.put("s2", talk(9, 12, 5), key="subagents/agent-x")
    unknown = json.loads(talk(4).splitlines()[1]) | {"timestamp": "no time"}
    unknown["message"]["model"] = "nobody-knows"
    await made.put("s3", line(**unknown))
    report = await lake.run()
    assert (report.sessions, report.removed) == (3, 0)
    assert report.rows == {"responses": 6, "messages": 11, "tool_calls": 6, "sessions": 3}
    # One more line, with a better copy of a response that counted elsewhere.
    await made.put("s1", talk(3, 12, 4_000), after(first))
    report = await lake.run()
    # The minute before is looked at again: what was written is replaced, not added to.
    assert report.rows == {"responses": 7, "messages": 13, "tool_calls": 7, "sessions": 3}
    for engine in (_duckdb, _polars, _chdb):
        assert await asyncio.to_thread(engine, lake) == await lake.total()
    sessions = {row["id"]: row for row in lake.rows("sessions")}
    assert sum(row["usd"] or 0 for row in sessions.values()) == (await lake.total())[0]
    assert (sessions["s3"]["unpriced_responses"], sessions["s3"]["usd"], sessions["s2"]["agents"]) == (
        1,
        None,
        1,
    )
    clients = {name: row["client"] for name, row in sessions.items()}
    assert clients == {"s1": "claude", "s2": "codex", "s3": "claude"}
    assert [field.name for field in lake.table("messages").spec().fields] == ["day"]
    assert {row["agent"] for row in lake.rows("messages")} == {None, "x"}


@in_a_lake("bucket")
async def test_a_session_that_only_shares_a_response_keeps_what_its_logs_said(
    made: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its logs are not read again: sub-agents and client are those that the lake has."""
    codex = line(type="foreign-source", agent="codex")
    await made.put("s1", codex + talk(1, 10, 7))
    await made.put("s1", talk(9, 12, 5), key="subagents/agent-x")
    await lake.run()
    monkeypatch.setattr(job, "_OVERLAP_MS", -1)  # what was written is not looked at again
    await made.put("s2", talk(1, 10, 70))  # a better copy
    report = await lake.run()
    assert report.sessions == 1
    found = {row["id"]: (row["client"], row["agents"]) for row in lake.rows("sessions")}
    assert found == {"s1": ("codex", 1), "s2": ("claude", 0)}


@in_a_lake()
async def test_a_fork_of_copies_cost_nothing_and_a_session_without_usage_is_unknown(
    made: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a fork calls may be copied, or answers alone; where it is not read again, its cost stays known."""
    codex = line(type="foreign-source", agent="codex")
    asked, said = talk(1).splitlines(keepends=True)
    copy = json.loads(said) | {"forkedFrom": {"sessionId": "s1", "messageUuid": "a-1"}}
    bare = copy | {"message": {key: copy["message"][key] for key in ("role", "content")}}
    logs = {"s1": asked + said, "s2": asked + line(**copy), "s3": asked + line(**bare), "s4": asked}
    for name, lines in logs.items():
        await made.put(name, codex + lines)
    known = {"s1": True, "s2": True, "s3": True, "s4": False}
    await lake.run()
    found = {row["id"]: row["usd"] for row in lake.rows("sessions")}
    assert {name: usd is not None for name, usd in found.items()} == known
    assert (found["s1"] > 0, found["s2"], found["s3"]) == (True, 0, 0)
    monkeypatch.setattr(job, "_OVERLAP_MS", -1)
    await made.put("s5", talk(1, 10, 70))  # a better copy: s1 and s2 are summed up again
    await lake.run()
    found = {row["id"]: row["usd"] for row in lake.rows("sessions")}
    assert {name: found[name] is not None for name in known} == known


@in_a_lake()
async def test_a_killed_job_is_finished_by_the_next_with_nothing_twice(
    made: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    data = talk(1)
    await made.put("s1", data)
    at = after(data)
    real = IcebergLake.replace
    for number, table in enumerate(("messages", "tool_calls", "responses", "sessions"), 2):
        for is_after in (False, True):
            if is_after and table == "sessions":
                continue

            def killed(self: IcebergLake, name: str, *given: Any, **more: Any) -> None:
                if name != table or is_after:  # noqa: B023 - called in this round only
                    real(self, name, *given, **more)
                if name == table:  # noqa: B023
                    raise Killed

            monkeypatch.setattr(IcebergLake, "replace", killed)
            with pytest.raises(Killed):
                await lake.run()
            monkeypatch.setattr(IcebergLake, "replace", real)
        await made.put("s1", talk(number), at)
        at = after(talk(number), at)
        report = await lake.run()
        assert report.rows == {
            "responses": number,
            "messages": 2 * number,
            "tool_calls": number,
            "sessions": 1,
        }
    assert _duckdb(lake) == await lake.total()


@in_a_lake()
async def test_deleted_sessions_leave_the_tables_and_their_cost_stays(made: World, lake: Lake) -> None:
    await made.put("s1", talk(1))
    await made.put("s2", talk(2))
    await lake.run()
    await made.database.delete(made.org.id, "s1", purge=True, only_own=False, author=OPERATOR)
    report = await lake.run()
    assert report.removed == 1
    assert report.rows == {"responses": 2, "messages": 2, "tool_calls": 1, "sessions": 1}
    assert {row["session"]: row["is_deleted"] for row in lake.rows("responses")} == {
        "s1": True,
        "s2": False,
    }
    assert _duckdb(lake) == await lake.total()


@in_a_lake()
async def test_months_that_were_dropped_stay_in_the_lake(made: World, lake: Lake) -> None:
    """A session that goes on after a month of it was dropped has the sums of before, and its old responses are left alone."""
    first = talk(1, tokens=7) + talk(2).replace(b"2026-01-", b"2026-03-")
    await made.put("s1", first)
    await lake.run()
    await made.ask("PATCH", "/v1/org", json={"usage_days": 62})
    await made.database.sweep(1_776_211_200_000, 604_800_000)  # 2026-04-15
    held = "SELECT count(*) FROM usage WHERE org = $1"
    assert (await lake.database._read_now(lake.org, held, lake.org))[0][0] == 1
    # A response of this spring, one of the dropped month that was not known, and a copy of one that was.
    more = talk(3).replace(b"2026-01-", b"2026-04-") + talk(4, 11)
    await made.put("s1", more, after(first))
    await made.put("s2", talk(1, tokens=7))
    await lake.run()
    (row,) = [row for row in lake.rows("sessions") if row["id"] == "s1"]
    assert (row["usd"], row["responses"]) == await lake.total()
    assert _duckdb(lake) == await lake.total()


@in_a_lake()
async def test_texts_only_if_asked_for_and_without_secrets(made: World, lake: Lake, tmp_path: Path) -> None:
    await made.put("s1", talk(1))
    await lake.run()
    assert all("text" not in row for row in lake.rows("messages"))
    with pytest.raises(UsageError, match="has no texts"):
        await lake.run(tmp_path)
    other = copy(lake)
    other.place = lake.place._replace(files=f"{lake.place.files}/texts")
    catalogue = lake.opened()
    for table in ("responses", "messages", "tool_calls", "sessions"):
        catalogue._catalog.drop_table((catalogue._namespace, table))
    await other.run(tmp_path)
    texts = [
        row["text"] for row in other.opened(with_text=True)._tables["messages"].scan().to_arrow().to_pylist()
    ]
    assert any("question 1" in text for text in texts)
    assert all(SECRET not in text for text in texts)


@in_a_lake()
async def test_a_catalogue_that_is_behind_is_brought_up_to_date(made: World, lake: Lake) -> None:
    """As after the restore of a backup: it names an older snapshot, and rows since are written again."""
    data = talk(1)
    await made.put("s1", data)
    await lake.run()
    opened = lake.opened()
    old = {name: table.metadata_location for name, table in opened._tables.items()}
    await made.put("s1", talk(2), after(data))
    await lake.run()
    sql = "UPDATE iceberg_tables SET metadata_location = $1 WHERE table_name = $2 AND table_namespace = $3"
    for name, place in old.items():
        await lake.database._read_now("*", sql, place, name, opened._namespace)
    report = await lake.run()
    assert report.rows["responses"] == 2
    assert _duckdb(lake) == await lake.total()


@in_a_lake()
async def test_one_job_at_a_time(made: World, lake: Lake) -> None:
    async with lake.database.turn(job._LAKE_LOCK, lake.org) as is_ours:
        assert is_ours
        with pytest.raises(Busy, match="another job"):
            await lake.run()


@in_a_lake()
async def test_a_new_column_is_added_to_tables_that_exist(
    made: World, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = IcebergLake._schema

    def without(self: IcebergLake, table: LakeTable) -> Any:
        found = real(self, table)
        place = found.get_field_index("branch")
        return found if place < 0 else found.remove(place)

    monkeypatch.setattr(IcebergLake, "_schema", without)
    assert "branch" not in [one.name for one in lake.table("responses").schema().fields]
    monkeypatch.setattr(IcebergLake, "_schema", real)
    assert "branch" in [one.name for one in lake.table("responses").schema().fields]


def test_the_command(
    postgres: str,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name, value in {**bucket.environment, "RECOLLECT_DATABASE": postgres}.items():
        monkeypatch.setenv(name, value)

    async def scene(made: World) -> str:
        await made.put("s1", talk(1))
        return made.org.id

    org = in_world(Kind("postgres", postgres), scene)
    for words in (["--json"], ["--rebuild", "--json"]):
        assert main(["team", "lake", org, "--to", f"{bucket.address}/l", *words]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["rows"] == {"responses": 1, "messages": 2, "tool_calls": 1, "sessions": 1}
    assert main(["team", "lake", "nobody", "--to", f"{bucket.address}/l"]) == 3
    assert main(["team", "lake", org, "--to", "bucket"]) == 2
    assert (
        main(["team", "lake", org, "--to", f"{bucket.address}/l", "--database", f"sqlite:///{tmp_path}/x"])
        == 2
    )
