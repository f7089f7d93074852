"""The page of a running team server: streams, the log of requests, an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.tenancy import GRANTABLE, founded, new_id
from tests.server.team_page import TALKED, PageServer
from tests.server.world import after
from tests.small_home import ONE, lines, prompt

FIFTH = lines([prompt(5, 4, "the fifth")])


class Member:
    """A browser that signed in."""

    def __init__(self, server: PageServer, secret: str) -> None:
        self.client = httpx.Client(base_url=server.url, timeout=120)
        answer = self.client.post("/api/login", json={"token": secret})
        assert answer.status_code == 200, answer.text
        self.bearer = {"Authorization": f"Bearer {secret}"}

    def put(self, data: bytes, before: bytes = b"") -> None:
        headers = {**self.bearer, "X-Recollect-Position": str(after(before))}
        assert self.client.put(f"/v1/sessions/{ONE}/log", content=data, headers=headers).status_code == 200


class AskingServer(PageServer):
    """Before everything it tells, it asks whether the reader still is a member, and not only every few seconds."""

    prelude = "from recollect.server.page import routes as members; members._ASK_AGAIN_SECONDS = 0.0"


def started(directory: Path) -> PageServer:
    path = directory / "team.sqlite"
    asyncio.run(SqliteDatabase(path).migrate())
    return AskingServer(f"sqlite:///{path}", directory)


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """A server for all tests that leave it running; each has an organisation of its own."""
    with started(tmp_path_factory.mktemp("team")) as one:
        yield one


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PageServer]:
    if getattr(request, "param", "shared") == "shared":
        yield request.getfixturevalue("shared_server")
        return
    with started(tmp_path) as one:
        yield one


@pytest.fixture
def secret(server: PageServer) -> str:
    async def made() -> str:
        database = SqliteDatabase(server.log.parent / "team.sqlite")
        await database.open()
        try:
            return await founded(database, f"Acme {new_id()}", "ada", GRANTABLE)
        finally:
            await database.close()

    return asyncio.run(made())


@pytest.fixture
def join(server: PageServer, secret: str) -> Iterator[Callable[..., Member]]:
    """Signs somebody in: the admin, or whoever holds another token."""
    with contextlib.ExitStack() as clients:

        def joined(other: str = "") -> Member:
            member = Member(server, other or secret)
            clients.enter_context(contextlib.closing(member.client))
            return member

        yield joined


def events(stream: httpx.Response) -> Iterator[tuple[str, dict[str, object]]]:
    """What a stream tells, for two minutes at most."""
    name, end = "", time.monotonic() + 120
    for line in stream.iter_lines():
        assert time.monotonic() < end, "nothing more was told"
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def test_a_push_is_told_to_whoever_follows(join: Callable[..., Member]) -> None:
    """The conversation's stream says where something is new, and it is there to be fetched."""
    member = join()
    member.put(TALKED)
    with member.client.stream("GET", f"/api/sessions/{ONE}/events?after=4") as stream:
        told = events(stream)
        assert next(told) == ("live", {"live": False})
        member.put(FIFTH, TALKED)
        name, grown = next(told)
    window = member.client.get(f"/api/sessions/{ONE}/messages?from=-1").json()
    assert (name, grown["from"], grown["total"]) == ("grown", 4, 5)
    assert window["messages"][0]["blocks"][0]["text"] == "the fifth"


def test_one_token_has_sixteen_streams_of_the_page(join: Callable[..., Member]) -> None:
    """The next one is refused with a next step; another token of the same person has its own."""
    member = join()
    me = member.client.get("/v1/users", headers=member.bearer).json()["users"][0]["id"]
    asked = {"user": me, "scopes": ["read"]}
    other = join(member.client.post("/v1/tokens", json=asked, headers=member.bearer).json()["token"])
    with contextlib.ExitStack() as open_streams:
        for _ in range(16):
            stream = open_streams.enter_context(member.client.stream("GET", "/api/events"))
            assert stream.status_code == 200
        late = member.client.get("/api/events")
        assert (late.status_code, late.json()["hint"]) == (503, "close other tabs of this page")
        with other.client.stream("GET", "/api/events") as stream:
            assert stream.status_code == 200


def test_the_list_tells_of_new_and_deleted_sessions(join: Callable[..., Member]) -> None:
    """Within a few seconds, without being asked again."""
    member = join()
    with member.client.stream("GET", "/api/events") as stream:
        told = events(stream)
        next(told)
        member.put(TALKED)
        changed = next(one["changed"] for _, one in told if one["changed"])
        assert member.client.delete(f"/v1/sessions/{ONE}", headers=member.bearer).status_code == 204
        gone = next(one["gone"] for _, one in told if one["gone"])
    assert (changed, gone) == ([ONE], [ONE])


def test_a_stream_ends_when_its_reader_is_no_member_any_more(join: Callable[..., Member]) -> None:
    """Nothing is told after the token was revoked."""
    member = join()
    member.put(TALKED)
    other = join(_another(member))
    with other.client.stream("GET", f"/api/sessions/{ONE}/events?after=0") as stream:
        told = events(stream)
        assert next(told)[0] == "grown"
        tokens = member.client.get("/v1/tokens", headers=member.bearer).json()["tokens"]
        mine = next(one["id"] for one in tokens if one["machine"] == "other")
        assert member.client.delete(f"/v1/tokens/{mine}", headers=member.bearer).status_code == 204
        member.put(FIFTH, TALKED)
        left = [name for name, _ in told]
    assert left in ([], ["live"])  # what was on its way before


def _another(member: Member) -> str:
    whoami = member.client.get("/v1/whoami", headers=member.bearer).json()
    body = {"user": whoami["user"], "scopes": ["read"], "machine": "other"}
    answer = member.client.post("/v1/tokens", json=body, headers=member.bearer)
    return str(answer.json()["token"])


@pytest.mark.parametrize("server", ["own"], indirect=True)
def test_an_open_stream_does_not_keep_the_server_from_ending(
    server: PageServer, join: Callable[..., Member]
) -> None:
    """SIGTERM lets followers go; the exit is an orderly one."""
    member = join()
    member.put(TALKED)
    with member.client.stream("GET", f"/api/sessions/{ONE}/events?after=4") as stream:
        next(events(stream))
        assert server.stop() == 0
    assert "graceful shutdown exceeded" not in server.log.read_text()


@pytest.mark.parametrize("server", ["own"], indirect=True)
def test_the_log_of_requests_names_routes_and_not_sessions(
    server: PageServer, secret: str, join: Callable[..., Member]
) -> None:
    """Of the page as of the API: no session id, no words, no secret, but which token it was."""
    member = join()
    member.put(TALKED)
    assert member.client.get(f"/api/sessions/{ONE}/messages").status_code == 200
    assert member.client.get("/api/search?q=canary").status_code == 200
    server.stop()
    text = server.log.read_text()
    told = {
        (line["route"], bool(line.get("token")))
        for line in server.requests()
        if "/api/" in str(line["route"])
    }
    assert told == {
        ("/api/login", False),
        ("/api/sessions/{session}/messages", True),
        ("/api/search", True),
    }
    assert [word for word in (ONE, "canary", secret, secret[4:]) if word in text] == []
