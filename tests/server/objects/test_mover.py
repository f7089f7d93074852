"""Bodies of logs in a real S3: moved with nothing lost, whatever is killed, and never other bytes than were stored."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import wraps
from typing import Any

import obstore
import pytest
from msgspec.structs import replace

from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.model.text.query import WordQuery
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.postgres_bodies import MovableLog
from recollect.server.database.records import BodyUnavailable, LineSearch, now_ms
from recollect.server.database.sql import Database
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.objects import NEWEST_MS, BlobStore, BodyMover, open_store, with_objects
from tests.server.object_store import Bucket, TestStore
from tests.server.world import OPERATOR as AUTHOR
from tests.server.world import World, after, in_a_world, prompt, reply

HOUR = NEWEST_MS
# Later than anything that was stored, and than every claim and grace.
LATER = 3 * HOUR


class DownStore(BlobStore):
    """A store that does not answer."""

    def __init__(self) -> None:
        super().__init__(None)

    async def put(self, name: str, data: bytes) -> bool:
        raise BodyUnavailable("down")

    async def get(self, name: str) -> bytes:
        raise BodyUnavailable("down")

    async def delete(self, names: Sequence[str]) -> None:
        raise BodyUnavailable("down")


def lines_of_a_day(count: int) -> list[bytes]:
    return [prompt(f"word{number} " + "x" * 200, f"u-{number}") for number in range(count)]


async def filled(made: World, session: str = "s1", parts: int = 5) -> bytes:
    """A log in several appends; its bytes."""
    whole, at = b"", after(b"")
    for number in range(parts):
        data = b"".join(lines_of_a_day(4)) + reply(f"m-{number}-{session}")
        answer = await made.put(session, data, at)
        assert answer.status_code == 200, answer.text
        whole, at = whole + data, after(data, at)
    return whole


async def rows(database: Database, sql: str, *values: object) -> list[Any]:
    assert isinstance(database, PostgresDatabase)
    return [tuple(row) for row in await database._read_now("*", sql, *values)]


def mover_of(made: World, bucket: Bucket, store: BlobStore | None = None) -> BodyMover:
    assert isinstance(made.database, PostgresDatabase)
    made.database.objects = store or bucket.opened()
    return BodyMover(made.database, made.database.objects)


@pytest.fixture
def bucket(s3: TestStore) -> Bucket:
    return s3.bucket()


def moving(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test in a world on PostgreSQL, whose lines alone are moved."""

    @in_a_world(databases=("postgres",))
    @wraps(test)
    async def run(made: World, **given: Any) -> None:
        database = made.database
        assert isinstance(database, PostgresDatabase)
        await rows(database, "DELETE FROM bodies")  # of tests with other buckets
        every = database.movable_logs

        async def own(before: int) -> AsyncIterator[MovableLog]:
            """Other tests have lines in this database too: they must not be moved to this test's bucket."""
            async for log in every(before):
                if log[0] == made.org.id:
                    yield log

        database.movable_logs = own  # type: ignore[method-assign]
        await test(made, **given)

    return run


@moving
async def test_lines_read_the_same_before_and_after_they_were_moved(made: World, bucket: Bucket) -> None:
    whole = await filled(made)
    mover = mover_of(made, bucket)
    assert await mover.once(now_ms()) == (0, 0, 0, 0, 0, None)  # the newest hour stays
    done = await mover.once(now_ms() + LATER)
    assert (done.objects, done.lines, done.raw_bytes) == (1, whole.count(b"\n"), len(whole))
    assert done.stored_bytes < len(whole) / 2
    assert len(bucket.names()) == 1
    assert await rows(made.database, "SELECT count(*) FROM segments WHERE org = $1", made.org.id) == [(0,)]
    assert (await made.read("s1")).content == whole
    for line in (1, 7, 24):
        rest = b"".join(whole.splitlines(keepends=True)[line:])
        assert (await made.read("s1", after=str(line))).content == rest
        at = after(whole[: len(whole) - len(rest)])
        assert (await made.read("s1", after=str(at))).content == rest
    # The log goes on: what is new is a row, and one answer has both.
    more = prompt("afterwards", "u-99")
    assert (await made.put("s1", more, after(whole))).status_code == 200
    assert (await made.read("s1")).content == whole + more
    # A repeat of an append that was moved long ago is recognised.
    first = b"".join(whole.splitlines(keepends=True)[:5])
    assert (await made.put("s1", first)).json()["repeated"] is True
    hits = await made.database.search(made.org.id, LineSearch(WordQuery.parse("word3"), 50))
    assert len(hits.hits) == 5


@moving
async def test_a_growing_log_keeps_few_lines_as_rows_and_a_closed_one_none(
    made: World, bucket: Bucket
) -> None:
    whole = await filled(made)
    mover = mover_of(made, bucket)
    await rows(
        made.database,
        "UPDATE segments SET at = at - $1 WHERE first_line < 10 AND org = $2",
        2 * HOUR,
        made.org.id,
    )
    assert (await mover.once(now_ms())).objects == 0
    await rows(made.database, "UPDATE segments SET at = at - $1 WHERE org = $2", 2 * HOUR, made.org.id)
    assert (await mover.once(now_ms())).objects == 1
    assert (await made.read("s1")).content == whole


_WORKER = """
import asyncio, os, signal, sys
from recollect.server.database import postgres
from recollect.server.database.records import now_ms
from recollect.server.objects import with_objects

address, bucket, org, later, left = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])

def counted(real):
    async def call(*values, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return await real(*values, **named)
    return call

async def main():
    database = postgres.PostgresDatabase(address)
    mover = with_objects(database, bucket, os.environ)
    every = database.movable_logs

    async def own(before):
        async for log in every(before):
            if log[0] == org:
                yield log

    database.movable_logs = own
    await database.open()
    # From here on every statement of a transaction, its end, and every call to the store may be the last.
    postgres._PostgresTransaction.rows = counted(postgres._PostgresTransaction.rows)
    database._write = counted(database._write)
    for name in ("put", "get", "delete"):
        setattr(mover._store, name, counted(getattr(mover._store, name)))
    await mover.once(now_ms() + later)
    await database.close()

asyncio.run(main())
"""
# One log is moved with ten such steps; all of them where there is time.
_STEPS = range(1, 16) if os.environ.get("RECOLLECT_TORTURE") else (2, 4, 5, 7, 9)


@moving
async def test_a_worker_that_is_killed_as_a_process_loses_nothing_and_doubles_nothing(
    made: World, bucket: Bucket, postgres: str
) -> None:
    """With SIGKILL: also within the transaction that removes rows and records the object."""
    whole = {}
    killed = 0
    for step in _STEPS:
        session = f"k{step}"
        whole[session] = await filled(made, session, parts=2)
        command = [
            sys.executable,
            "-c",
            _WORKER,
            postgres,
            bucket.address,
            made.org.id,
            str(LATER),
            str(step),
        ]
        done = await asyncio.to_thread(
            subprocess.run,
            command,
            env={**os.environ, **bucket.environment},
            capture_output=True,
            check=False,
        )
        assert done.returncode in (0, -9), done.stderr.decode()
        killed += done.returncode == -9
        made.database.objects = bucket.opened()  # type: ignore[attr-defined]
        for name, data in whole.items():
            assert (await made.read(name)).content == data
    assert killed >= 3
    await mover_of(made, bucket).once(now_ms() + 2 * LATER)
    for name, data in whole.items():
        assert (await made.read(name)).content == data
    counts = await rows(
        made.database, "SELECT sum(lines), count(*) FROM bodies WHERE org = $1 AND state = 1", made.org.id
    )
    assert counts == [(sum(data.count(b"\n") for data in whole.values()), len(bucket.names()))]
    assert await rows(made.database, "SELECT count(*) FROM segments WHERE org = $1", made.org.id) == [(0,)]


@moving
async def test_two_workers_at_once_move_every_line_once(made: World, bucket: Bucket, postgres: str) -> None:
    texts = {f"s{number}": await filled(made, f"s{number}", parts=2) for number in range(6)}
    other = PostgresDatabase(postgres)
    await other.open()
    try:
        other.objects, other.movable_logs = bucket.opened(), made.database.movable_logs  # type: ignore[method-assign,attr-defined]
        done = await asyncio.gather(
            mover_of(made, bucket).once(now_ms() + LATER),
            BodyMover(other, other.objects).once(now_ms() + LATER),
        )
    finally:
        await other.close()
    assert [one.problem for one in done] == [None, None]
    assert sum(one.lines for one in done) == sum(text.count(b"\n") for text in texts.values())
    assert len(bucket.names()) == 6
    for session, text in texts.items():
        assert (await made.read(session)).content == text


@moving
async def test_without_the_object_store_appends_go_on_and_moved_lines_are_a_503(
    made: World, bucket: Bucket
) -> None:
    whole = await filled(made)
    await mover_of(made, bucket).once(now_ms() + LATER)
    down = mover_of(made, bucket, DownStore())
    answer = await made.put("s1", prompt("more", "u-77"), after(whole))
    assert answer.status_code == 200
    answer = await made.read("s1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "object_store")
    assert "repeat" in answer.json()["error"]["hint"]
    assert answer.headers["Retry-After"] == "5"
    assert (await made.read("s1", after=str(whole.count(b"\n")))).content == prompt("more", "u-77")
    await made.database.delete(made.org.id, "s1", purge=True, only_own=False, author=AUTHOR)
    done = await down.once(now_ms() + LATER)
    assert done.problem == "down"
    await filled(made, "s2")
    waiting, gone = await down.database.body_backlog(now_ms() + LATER)
    assert (waiting > LATER // 2, gone) == (True, 1)  # lines to move, and an object to be removed
    await mover_of(made, bucket).once(now_ms() + LATER)
    assert (await down.database.body_backlog(now_ms() + LATER))[1] == 0


@pytest.mark.parametrize("what", ["missing", "altered"])
@moving
async def test_an_object_that_is_not_the_one_that_was_written_is_a_typed_error(
    made: World, bucket: Bucket, what: str
) -> None:
    await filled(made)
    await filled(made, "s2")
    await mover_of(made, bucket).once(now_ms() + LATER)
    rows_of = await rows(made.database, "SELECT name FROM bodies ORDER BY name")
    one, two = (name for (name,) in rows_of)
    if what == "missing":
        obstore.delete(bucket.raw, [one, two])
    else:  # the bytes of another object, which would be a whole log
        other = bytes(obstore.get(bucket.raw, two).bytes())
        obstore.put(bucket.raw, two, bytes(obstore.get(bucket.raw, one).bytes()))
        obstore.put(bucket.raw, one, other)
    answer = await made.read("s1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "body_lost")
    assert "restore" in answer.json()["error"]["hint"]


@pytest.mark.parametrize("how", ["purge", "retention"])
@moving
async def test_what_removes_a_session_removes_its_objects_and_it_may_begin_again(
    made: World, bucket: Bucket, how: str
) -> None:
    whole = await filled(made)
    kept = await filled(made, "s2")
    mover = mover_of(made, bucket)
    await mover.once(now_ms() + LATER)
    names = bucket.names()
    if how == "purge":
        assert (await made.ask("DELETE", "/v1/sessions/s1", params={"purge": "true"})).status_code == 204
    else:
        await made.database.change_org(replace(made.org, retention_days=1), AUTHOR)
        await rows(
            made.database, "UPDATE sessions SET changed = changed - $1 WHERE id = 's1'", 40 * 86_400_000
        )
        await made.database.sweep(now_ms(), 0)
        await made.database.sweep(now_ms() + 1000, 0)
    assert (await mover.once(now_ms() + LATER)).removed == 1
    assert len(bucket.names()) == 1 < len(names)
    assert (await made.read("s1")).status_code == 404
    assert (await made.read("s2")).content == kept
    if how == "purge":  # the same lines again are the same object again
        assert await filled(made) == whole
        await mover.once(now_ms() + LATER)
        assert bucket.names() == names
        assert (await made.read("s1")).content == whole


@moving
async def test_lines_that_move_while_they_are_read_are_read_once(made: World, bucket: Bucket) -> None:
    whole = await filled(made)
    database = made.database
    found = b""
    is_moved = False
    async for segment in database.segments(made.org.id, "s1", "", 0, whole.count(b"\n")):
        found += b"".join(segment.data.splitlines(keepends=True)[found.count(b"\n") - segment.first_line :])
        if not is_moved:
            is_moved = True
            await mover_of(made, bucket).once(now_ms() + LATER)
    assert found == whole


def test_sqlite_and_bad_addresses_are_refused_in_plain_words(s3: TestStore, bucket: Bucket) -> None:
    with pytest.raises(UsageError, match="needs PostgreSQL"):
        with_objects(SqliteDatabase("x"), bucket.address, bucket.environment)
    for address in ("bucket", "s3://", "gs://bucket", "s3://bucket?x=1"):
        with pytest.raises(UsageError, match="not valid"):
            open_store(address, {})


def test_the_worker_is_a_role_of_serve(
    postgres: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {**bucket.environment, "RECOLLECT_DATABASE": postgres}.items():
        monkeypatch.setenv(name, value)
    assert main(["team", "serve", "worker", "--once", "--objects", bucket.address]) == 0
    assert "Moved 0 lines into 0 objects" in capsys.readouterr().out
    for words, told in (
        (["team", "serve", "--once"], "--once: is for `team serve worker`"),
        (["team", "serve", "worker"], "needs an object store"),
        (
            ["team", "serve", "worker", "--migrate", "--objects", bucket.address],
            "--migrate: is not for a worker",
        ),
    ):
        assert main(words) == 2
        assert told in capsys.readouterr().err
