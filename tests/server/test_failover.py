"""A primary with two synchronous standbys under load: killed, followed by a standby, and no acknowledged line is lost.

Three clusters on the loopback; two real servers that were given all three addresses; clients that repeat a request until
it is answered, as ``recollect team`` does. ``RECOLLECT_TORTURE=1`` plays it longer and more often.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from recollect.cli.main import main
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import AppendRequest, Author, Unavailable
from recollect.server.facts import prepare
from recollect.share.sync.wire import POSITION, START, Position
from tests.server.live import LiveServer, free_port, until
from tests.server.postgres_cluster import Cluster
from tests.server.test_live import token_for
from tests.server.world import line, new_org

TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
CLIENTS, LINES = 8, 400 if TORTURE else 20
KILLS = 20 if TORTURE else 2
NAMES = ("standby1", "standby2")
pytestmark = [
    pytest.mark.skipif(
        "RECOLLECT_TEST_POSTGRES" in os.environ, reason="the database that is named is not ours to kill"
    ),
]


@contextlib.contextmanager
def replicated(*names: str) -> Iterator[list[Cluster]]:
    """A primary, migrated, and standbys one of which every commit waits for."""
    clusters = [Cluster(is_durable=True, port=free_port())]
    try:
        primary = clusters[0]
        primary.make()
        clusters.extend(primary.standby(name, free_port()) for name in names)
        primary.wait_for(*names)
        assert main(["team", "serve", "--migrate", "--database", primary.dsn()]) == 0
        yield clusters
    finally:
        for cluster in clusters:
            cluster.stop()


def _is_beyond(clients: Sequence[Client], goal: int) -> bool:
    return sum(len(client.acknowledged) for client in clients) > goal


@pytest.fixture
def trio() -> Iterator[list[Cluster]]:
    """A primary and two standbys."""
    with replicated(*NAMES) as clusters:
        yield clusters


@pytest.fixture
def pair() -> Iterator[list[Cluster]]:
    """A primary and one standby."""
    with replicated(NAMES[0]) as clusters:
        yield clusters


def address(clusters: list[Cluster]) -> str:
    """All hosts, and the wish for the one that takes writes: as in docs/deploy.md."""
    hosts = ",".join(f"127.0.0.1:{cluster.port}" for cluster in clusters)
    return f"postgresql://recollect@{hosts}/recollect?target_session_attrs=read-write"


class Client(threading.Thread):
    """Appends lines to its own session, one after the other; repeats each until it is acknowledged."""

    def __init__(self, number: int, urls: list[str], token: str, lines: int) -> None:
        super().__init__(daemon=True)
        self.session, self.stored, self.repeats = f"s{number}", b"", 0
        self._urls, self._token, self._lines, self._number = urls, token, lines, number
        self.acknowledged: list[float] = []
        self.problem = ""

    def run(self) -> None:
        at = START
        with httpx.Client(headers={"Authorization": f"Bearer {self._token}"}, timeout=120) as client:
            for number in range(self._lines):
                data = line(
                    type="user", uuid=f"{self.session}-{number}", message={"content": f"line {number}"}
                )
                if not self._append(client, data, at):
                    return
                at = at.after([data])
                self.stored += data
                self.acknowledged.append(time.monotonic())

    def _append(self, client: httpx.Client, data: bytes, at: Position) -> bool:
        deadline, tries = time.monotonic() + 180, self._number
        while time.monotonic() < deadline:
            url = self._urls[tries % len(self._urls)]
            try:
                answer = client.put(
                    f"{url}/v1/sessions/{self.session}/log", content=data, headers={POSITION: str(at)}
                )
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code == 200:
                return True
            if answer is not None and answer.status_code != 503:
                self.problem = f"{answer.status_code} {answer.text}"
                return False
            tries += 1
            self.repeats += 1
            time.sleep(0.1)
        self.problem = "nobody answered for three minutes"
        return False


def test_no_acknowledged_line_is_lost_when_the_primary_is_killed(
    trio: list[Cluster], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """kill -9 of the whole primary under load, the standby that has most promoted: clients go on by themselves, and every log is what was sent, once."""
    primary, *standbys = trio
    token = token_for(primary.dsn(), capsys)
    where = address(trio)
    with LiveServer(where, tmp_path, "--quiet") as one, LiveServer(where, tmp_path, "--quiet") as other:
        clients = [Client(number, [one.url, other.url], token, LINES) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        until(lambda: sum(len(client.acknowledged) for client in clients) > CLIENTS * LINES // 4)
        primary.kill_all()
        killed = time.monotonic()
        # With ANY 1 a commit is on one of the two, not on each: the one that has more has everything.
        heir, rest = sorted(standbys, key=Cluster.received, reverse=True)
        heir.promote()
        rest.follow(heir, NAMES[0])
        heir.wait_for(*NAMES)
        for client in clients:
            client.join(600)
        problems = [client.problem for client in clients if client.problem]
        assert problems == []
        before = [sum(at < killed for at in client.acknowledged) for client in clients]
        assert 0 < sum(before) < CLIENTS * LINES
        with httpx.Client(
            base_url=one.url, headers={"Authorization": f"Bearer {token}"}, timeout=120
        ) as reader:
            found = [reader.get(f"/v1/sessions/{client.session}/log").content for client in clients]
    assert found == [client.stored for client in clients]
    assert [data.count(b"\n") for data in found] == [LINES] * CLIENTS


def test_a_repeat_is_acknowledged_no_sooner_than_a_standby_has_it(pair: list[Cluster]) -> None:
    """No standby answers: the append is on the primary and can be seen there, but it is not acknowledged, nor is its repeat."""
    primary, standby = pair

    async def play() -> list[object]:
        patient = PostgresDatabase(primary.dsn(), patience=60.0)
        database = PostgresDatabase(primary.dsn(), patience=0.2, statement_seconds=1.0)
        await patient.open()
        await database.open()
        try:
            org = (await new_org(patient)).id
            first = prepare(line(type="user", uuid="u-1"), START)
            await patient.append(AppendRequest(org, "s1", "", START, first, Author("a", "t")))
            second = prepare(line(type="user", uuid="u-2"), first.after)
            ask = AppendRequest(org, "s1", "", first.after, second, Author("a", "t"))
            await asyncio.to_thread(standby.kill)
            outcomes: list[object] = [await _tried(database, ask), await _tried(database, ask)]
            seen = await database.head(org, "s1", "")
            await asyncio.to_thread(standby.start)
            deadline = time.monotonic() + 120
            while (last := await _tried(database, ask)) == "not acknowledged" and time.monotonic() < deadline:
                await asyncio.sleep(0.1)
            return [*outcomes, seen is not None and seen.lines, last]
        finally:
            await patient.close()
            await database.close()

    assert asyncio.run(play()) == ["not acknowledged", "not acknowledged", 2, "repeated"]


async def _tried(database: PostgresDatabase, ask: AppendRequest) -> str:
    try:
        outcome = await database.append(ask)
    except Unavailable:
        return "not acknowledged"
    return "repeated" if outcome.repeated else "stored"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_servers_and_databases_that_die_again_and_again_lose_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SIGKILL of the server, and `pg_ctl stop -m immediate` of its PostgreSQL, under load: every acknowledged line is there, once."""
    cluster = Cluster(is_durable=True) if kind == "postgres" else None
    try:
        if cluster is not None:
            cluster.make()
        where = cluster.dsn() if cluster is not None else f"sqlite:///{tmp_path / 'team.sqlite'}"
        assert main(["team", "serve", "--migrate", "--database", where]) == 0
        token = token_for(where, capsys)
        with LiveServer(where, tmp_path, "--quiet") as server:
            clients = [Client(number, [server.url], token, LINES) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            for number in range(KILLS):
                goal = CLIENTS * LINES * (number + 1) // (KILLS + 2)
                until(partial(_is_beyond, clients, goal))
                if cluster is not None and number % 2 == 0:
                    cluster.kill()
                    cluster.start()
                else:
                    server.stop(signal.SIGKILL)
                    server.start()
            for client in clients:
                client.join(600)
            assert [client.problem for client in clients if client.problem] == []
            with httpx.Client(
                base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=120
            ) as reader:
                found = [reader.get(f"/v1/sessions/{client.session}/log").content for client in clients]
    finally:
        if cluster is not None:
            cluster.stop()
    assert found == [client.stored for client in clients]
    assert [data.count(b"\n") for data in found] == [LINES] * CLIENTS
