"""Appends that are begun where they are received are answered as the route answers them, and everything else goes to it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
import uvicorn
import zstandard
from opentelemetry import trace
from uvicorn.server import ServerState

from recollect.server import protocol, quick_appends
from recollect.server.database.contract import OrgElsewhere, Unavailable
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.limits import ServerLimits
from recollect.server.quick_appends import QuickAppends
from recollect.server.request_log import RequestLog
from recollect.server.routes import log
from recollect.server.service import Service
from recollect.services.page import http_protocol
from recollect.services.page.http_protocol import BoundedProtocol
from recollect.sync.wire import ORGANIZATION, POSITION, START, Position
from tests.server.conftest import Kind, kind_named
from tests.server.test_tracing import SeenProvider
from tests.server.world import OPERATOR, PLENTY, World, after, in_world, prompt

Result = TypeVar("Result")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Door(protocol.TeamProtocol):
    """Counts what goes to the route."""

    routed = 0
    newest: Door

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        Door.newest = self

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        Door.routed += 1
        super()._start_asgi_task(cycle, app)


class Caller:
    """One connection of a client, and how much of what it asks for went to the route."""

    def __init__(self, made: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made, self.reader, self.writer = made, reader, writer

    def request(self, session: str, data: bytes, at: Position = START, **headers: str) -> tuple[bytes, bytes]:
        """The head and the body of an append."""
        every = {
            "Host": "team",
            "Authorization": f"Bearer {self.made.token}",
            "Content-Length": str(len(data)),
            POSITION: str(at),
            **{name.replace("_", "-"): text for name, text in headers.items()},
        }
        lines = [f"PUT /v1/sessions/{session}/log HTTP/1.1", *(f"{k}: {v}" for k, v in every.items())]
        return "\r\n".join([*lines, "", ""]).encode(), data

    async def put(self, session: str, data: bytes, at: Position = START, **headers: str) -> Answer:
        self.writer.write(b"".join(self.request(session, data, at, **headers)))
        return await self.answer()

    async def answer(self) -> Answer:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(text.split(": ", 1) for text in lines)
        body = await self.reader.readexactly(int(headers["content-length"]))
        return Answer(int(first.split()[1]), headers, json.loads(body))

    async def known(self, session: str) -> bytes:
        """A session of two lines, whose creator the server knows from now on."""
        first, second = prompt("one", "u-1"), prompt("two", "u-2")
        assert (await self.put(session, first)).status == 200
        assert (await self.put(session, second, after(first))).status == 200
        Door.routed = 0
        return first + second


@asynccontextmanager
async def _connected(made: World, **settings: Any) -> AsyncIterator[Caller]:
    config = uvicorn.Config(
        made.app, log_config=None, access_log=False, lifespan="off", ws="none", **settings
    )
    config.load()
    state = ServerState()
    door = partial(Door, QuickAppends(made.service), config=config, server_state=state, app_state={})
    async with await asyncio.get_running_loop().create_server(door, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            async with asyncio.timeout(60):
                yield Caller(made, reader, writer)
        finally:
            writer.close()


def played(
    kind: Kind,
    scene: Callable[[Caller], Awaitable[Result]],
    limits: ServerLimits = PLENTY,
    **settings: Any,
) -> Result:
    """Play a scene with a server that remembers tokens, as it does in earnest. ``settings``: of uvicorn."""

    async def play(made: World) -> Result:
        made.service.doorkeeper = Service(made.database, remember_ms=60_000).doorkeeper
        async with _connected(made, **settings) as caller:
            return await scene(caller)

    return in_world(kind, play, limits)


@pytest.fixture(params=["sqlite", "postgres"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    """The databases that begin appends."""
    return kind_named(request.param, request, tmp_path)


@pytest.fixture
def sqlite(request: pytest.FixtureRequest, tmp_path: Path) -> Kind:
    return kind_named("sqlite", request, tmp_path)


def test_the_answer_is_that_of_the_route(held: Kind) -> None:
    """In every header and in the body, but for the number of the request; so are the log and the audit log."""

    async def scene(caller: Caller) -> tuple[list[Answer], list[int], bytes, list[str]]:
        stored, answers, routed = await caller.known("s1"), [], []
        for number, headers in enumerate(({}, {ORGANIZATION: caller.made.org.id})):
            new = prompt(f"more {number}", f"u-{number + 3}")
            answers.append(await caller.put("s1", new, after(stored), **headers))
            stored += new
            routed.append(Door.routed)
        audit = (await caller.made.ask("GET", "/v1/audit")).json()["acts"]
        log = (await caller.made.read("s1")).content
        assert log == stored
        return answers, routed, stored, [row["detail"] for row in audit if row["act"] == "append"]

    (quick, slow), routed, stored, audit = played(held, scene)
    assert routed == [0, 1]
    assert quick.headers["x-request-id"] != slow.headers["x-request-id"]
    assert list(quick.headers) == list(slow.headers)
    assert (quick.headers["content-type"], quick.headers["x-content-type-options"]) == (
        "application/json",
        "nosniff",
    )
    one = Position(3, after(stored[: stored.index(b"more 1")].rpartition(b"\n")[0] + b"\n").hash)
    assert quick.headers[POSITION.lower()] == str(one)
    assert slow.headers[POSITION.lower()] == str(after(stored))
    assert (
        {**quick.body, "position": 0}
        == {**slow.body, "position": 0}
        == {"position": 0, "stored": 1, "repeated": False}
    )
    assert quick.body["position"].keys() == slow.body["position"].keys()
    assert (quick.body["position"]["lines"], quick.body["position"]["last_uuid"]) == (3, "u-3")
    assert audit == ["3+1", "2+1", "1+1", "0+1"]


def test_a_body_that_comes_apart_or_packed_is_begun_at_once_too(held: Kind) -> None:
    """As clients send it: after the head, in pieces, or compressed."""

    async def scene(caller: Caller) -> tuple[list[int], int, bool]:
        stored, statuses = await caller.known("s1"), []
        new = prompt("in pieces", "u-3")
        head, body = caller.request("s1", new, after(stored))
        for piece in (head[:50], head[50:], body[:10], body[10:]):
            caller.writer.write(piece)
            await asyncio.sleep(0.05)
        statuses.append((await caller.answer()).status)
        stored += new
        new = prompt("packed " * 100, "u-4")
        packed = zstandard.ZstdCompressor().compress(new)
        head, body = caller.request("s1", packed, after(stored), Content_Encoding="zstd")
        caller.writer.write(head + body)
        statuses.append((await caller.answer()).status)
        stored += new
        return statuses, Door.routed, (await caller.made.read("s1")).content == stored

    assert played(held, scene) == ([200, 200], 0, True)


def test_what_the_log_does_not_take_is_answered_by_the_route(held: Kind) -> None:
    """Repeated, elsewhere, deleted: each with the route's answer, and counted and logged once."""

    async def scene(caller: Caller) -> tuple[list[tuple[int, bool | str]], int, list[int]]:
        made = caller.made
        stored, log = await caller.known("s1"), io.BytesIO()
        made.service.notes.log = RequestLog(log)
        new, found = prompt("again", "u-3"), []
        for at in (after(stored), after(stored), Position(1, bytes(range(32)))):
            got = await caller.put("s1", new, at)
            found.append((got.status, got.body.get("repeated", got.body.get("error", {}).get("code"))))
        await made.ask("DELETE", "/v1/sessions/s1")
        got = await caller.put("s1", new, after(stored + new))
        found.append((got.status, got.body["error"]["code"]))
        made.service.notes.log.flush()
        lines = [json.loads(text) for text in log.getvalue().splitlines()]
        told = [one["status"] for one in lines if one["method"] == "PUT" and one["token"]]
        return found, made.service.metrics.value("in_flight"), told

    found, in_flight, told = played(held, scene)
    assert found == [(200, False), (200, True), (409, "position"), (410, "gone")]
    assert (in_flight, told) == (0, [200, 200, 409, 410])


_DEEP = b'{"a":' + b"[" * 600 + b"]" * 600 + b"}\n"


@pytest.mark.parametrize(
    ("data", "headers", "status"),
    [
        (b"no newline", {}, 400),
        (_DEEP, {}, 413),
        (b"{}\n", {POSITION: "x"}, 400),
        (b"{}\n", {"Content_Encoding": "br"}, 415),
        (b"{}\n", {"Content_Encoding": "zstd"}, 415),
        (b"{}\n", {"Authorization": "Bearer rcl_wrong"}, 401),
        (b"{}\n", {"X-Recollect-Encrypted": "2"}, 400),
        (b"{}\n", {ORGANIZATION: "other"}, 404),
    ],
)
def test_nothing_is_refused_but_by_the_route(
    sqlite: Kind, data: bytes, headers: dict[str, str], status: int
) -> None:
    async def scene(caller: Caller) -> tuple[int, int, bool]:
        stored = await caller.known("s1")
        got = await caller.put("s1", data, after(stored), **headers)
        return got.status, Door.routed, (await caller.made.read("s1")).content == stored

    found, routed, is_unchanged = played(sqlite, scene)
    assert (found, routed, is_unchanged) == (status, 1, True)


def test_a_token_that_was_revoked_and_one_that_asks_too_often_are_refused(sqlite: Kind) -> None:
    async def scene(caller: Caller) -> tuple[list[int], int]:
        made = caller.made
        stored, statuses = await caller.known("s1"), []
        for number in range(40):
            new = prompt("often", f"u-{number}")
            statuses.append((await caller.put("s1", new, after(stored))).status)
            stored += new if statuses[-1] == 200 else b""
        made.token, token = await made.secret(await made.member("Eve"))
        revoked = await caller.known("s2")
        await made.database.revoke_token(made.org.id, token.id, OPERATOR)
        made.service.doorkeeper.forget()
        return statuses, (await caller.put("s2", prompt("late"), after(revoked))).status

    limits = ServerLimits(requests_per_second=5, failures_per_second=1_000)
    statuses, revoked = played(sqlite, scene, limits)
    assert set(statuses) == {200, 429}
    assert statuses[:6] == [200] * 6
    assert revoked == 401


def test_the_session_of_another_and_the_cookie_of_a_page_are_for_the_route(sqlite: Kind) -> None:
    """A member who is known, a session that is known: but not each other's."""

    async def scene(caller: Caller) -> tuple[list[int], int]:
        made = caller.made
        stored = await caller.known("s1")
        await made.ask("PATCH", "/v1/sessions/s1", json={"visibility": "private"})
        own = made.token
        made.token, _ = await made.secret(await made.member("Eve", "member"), ("read", "write"))
        await caller.known("s2")
        other = await caller.put("s1", prompt("not mine"), after(stored))
        page = await caller.put("s1", prompt("page"), after(stored), Authorization=f"Page {own}")
        return [other.status, page.status], Door.routed

    assert played(sqlite, scene) == ([404, 401], 2)


def test_requests_that_come_together_are_answered_in_their_order(held: Kind) -> None:
    """Appends in one piece, of which each needs the one before it."""

    async def scene(caller: Caller) -> tuple[list[int], bool]:
        stored, pieces = await caller.known("s1"), list[bytes]()
        for number in range(3):
            new = prompt(f"line {number}", f"u-{number + 3}")
            pieces += caller.request("s1", new, after(stored))
            stored += new
        caller.writer.write(b"".join(pieces))
        lines = [(await caller.answer()).body["position"]["lines"] for _ in range(3)]
        return lines, (await caller.made.read("s1")).content == stored

    assert played(held, scene) == ([3, 4, 5], True)


def test_a_client_that_goes_away_leaves_its_append_and_nothing_else(held: Kind) -> None:
    async def scene(caller: Caller) -> tuple[bool, int]:
        stored = await caller.known("s1")
        new = prompt("last words", "u-3")
        caller.writer.write(b"".join(caller.request("s1", new, after(stored))))
        await caller.writer.drain()
        caller.writer.close()
        for _ in range(200):
            if (await caller.made.read("s1")).content == stored + new:
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)
        return (await caller.made.read("s1")).content == stored + new, caller.made.service.metrics.value(
            "in_flight"
        )

    assert played(held, scene) == (True, 0)


def test_a_body_that_does_not_come_is_waited_for_by_the_route(
    sqlite: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which ends it in its own time; and one that is cut off is noted there."""
    monkeypatch.setattr(protocol, "_BODY_SECONDS", 0.05)

    async def scene(caller: Caller) -> tuple[int, int, int]:
        stored = await caller.known("s1")
        head, body = caller.request("s1", prompt("slow", "u-3"), after(stored))
        caller.writer.write(head + body[:5])
        late = await caller.answer()
        return late.status, Door.routed, caller.made.service.metrics.value("in_flight")

    limits = ServerLimits(slow_grace_seconds=1)
    assert played(sqlite, scene, limits) == (408, 1, 0)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_body_that_is_waited_for_is_not_cut_off_by_the_times_for_what_comes_before_it(
    sqlite: Kind, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """Those of the first head, and of a connection on which nothing comes."""
    monkeypatch.setattr(http_protocol, "HEADER_SECONDS", 1.0)

    async def scene(caller: Caller) -> int:
        if not is_first:
            await caller.put("s1", prompt("one"))
        await asyncio.sleep(0.5)
        head, body = caller.request("s2", prompt("two"))
        caller.writer.write(head)
        await asyncio.sleep(0.8)
        caller.writer.write(body)
        return (await caller.answer()).status

    assert played(sqlite, scene, timeout_keep_alive=1) == 200


def test_an_append_that_is_handed_over_is_taken_from_the_rate_once(sqlite: Kind) -> None:
    async def scene(caller: Caller) -> list[int]:
        first, second = prompt("one", "u-1"), prompt("two", "u-2")
        for data, at in ((first, START), (second, after(first))):
            await caller.put("s1", data, at)
        return [(await caller.put("s1", second, after(first))).status for _ in range(10)]

    assert played(sqlite, scene, ServerLimits(requests_per_second=6)) == [200] * 10


def test_a_fault_of_our_own_is_answered_and_counted_by_the_route(
    sqlite: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(caller: Caller) -> tuple[bytes, int, int]:
        stored = await caller.known("s1")

        def fail(*_: Any, **__: Any) -> None:
            raise ValueError

        for module in (quick_appends, log):
            monkeypatch.setattr(module, "prepare", fail)
        caller.writer.write(b"".join(caller.request("s1", prompt("three", "u-3"), after(stored))))
        head = await caller.reader.readuntil(b"\r\n\r\n")
        return head[:12], Door.routed, caller.made.service.metrics.value("in_flight")

    assert played(sqlite, scene) == (b"HTTP/1.1 500", 1, 0)


def test_a_database_that_fails_is_told_once_and_at_once(
    sqlite: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is not begun again: who waited has waited for long enough."""

    async def scene(caller: Caller) -> tuple[int, str, int, int, int]:
        made = caller.made
        stored, begun = await caller.known("s1"), 0

        def fail(_: Any, waiter: Any) -> bool:
            nonlocal begun
            begun += 1
            asyncio.get_running_loop().call_soon(waiter.set_exception, Unavailable("gone"))
            return True

        monkeypatch.setattr(made.database, "begin_append", fail)
        got = await caller.put("s1", prompt("lost", "u-3"), after(stored))
        return (
            got.status,
            got.headers["retry-after"],
            begun,
            Door.routed,
            made.service.metrics.value("in_flight"),
        )

    assert played(sqlite, scene) == (503, "2", 1, 1, 0)


def test_an_organisation_that_moved_is_followed_by_the_route(
    sqlite: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(caller: Caller) -> tuple[int, int]:
        database = caller.made.database
        stored, begin = await caller.known("s1"), database.begin_append

        def elsewhere(_: Any, waiter: Any) -> bool:
            monkeypatch.setattr(database, "begin_append", begin)
            moved = OrgElsewhere(caller.made.org.id, "east")
            asyncio.get_running_loop().call_soon(waiter.set_exception, moved)
            return True

        monkeypatch.setattr(database, "begin_append", elsewhere)
        return (await caller.put("s1", prompt("there", "u-3"), after(stored))).status, Door.routed

    assert played(sqlite, scene) == (200, 1)


def test_what_comes_behind_an_append_is_answered_after_it(
    held: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends in pieces of their own, sent before the first is answered; and one of them is for the route."""

    async def scene(caller: Caller) -> tuple[list[tuple[int, int]], int, bool]:
        stored, found, database = await caller.known("s1"), [], caller.made.database
        begin = database.begin_append

        def late(ask: Any, waiter: Any) -> bool:
            asyncio.get_running_loop().call_later(0.2, begin, ask, waiter)
            return True

        monkeypatch.setattr(database, "begin_append", late)
        for number in range(4):
            new = prompt(f"line {number}", f"u-{number + 3}")
            at = after(stored) if number != 1 else Position(1, bytes(range(32)))
            caller.writer.write(b"".join(caller.request("s1", new, at)))
            while not Door.newest.is_begun:
                await asyncio.sleep(0)
            stored += b"" if number == 1 else new
        for _ in range(4):
            got = await caller.answer()
            found.append((got.status, got.body["position"]["lines"]))
        return found, Door.routed, (await caller.made.read("s1")).content == stored

    found, routed, is_stored = played(held, scene)
    assert found == [(200, 3), (409, 3), (200, 4), (200, 5)]
    # What came in one piece is the parser's.
    assert routed == 3
    assert is_stored


_WHOLE = b"GET /healthz HTTP/1.1\r\nHost: team\r\n"


@pytest.mark.parametrize(
    ("begun", "statuses"),
    [
        # In the middle of a head, of which a part came together with another request.
        (_WHOLE + b"\r\n" + _WHOLE + b"X: ", [200, 200]),
        # In the middle of a body.
        (b"POST /v1/nothing HTTP/1.1\r\nHost: team\r\nContent-Length: 400\r\n\r\n", [404]),
    ],
    ids=["head", "body"],
)
def test_a_piece_that_looks_like_an_append_within_another_request_is_none(
    sqlite: Kind, begun: bytes, statuses: list[int]
) -> None:
    """What comes next is a part of that, whatever it looks like."""

    async def scene(caller: Caller) -> tuple[list[int], bool]:
        stored, found = await caller.known("s1"), []
        caller.writer.write(begun)
        await asyncio.sleep(0.05)
        caller.writer.write(b"".join(caller.request("s1", prompt("inside", "u-3"), after(stored))))
        for _ in statuses:
            head = await caller.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await caller.reader.readexactly(length)
            found.append(int(head.split()[1]))
        return found, (await caller.made.read("s1")).content == stored

    assert played(sqlite, scene) == (statuses, True)


def test_a_connection_is_closed_when_nothing_comes_for_a_while_and_not_before(sqlite: Kind) -> None:
    async def scene(caller: Caller) -> tuple[list[int], bytes]:
        stored, statuses = await caller.known("s1"), []
        for number in range(4):
            new = prompt(f"line {number}", f"u-{number + 3}")
            statuses.append((await caller.put("s1", new, after(stored))).status)
            stored += new
            await asyncio.sleep(0.6)
        return statuses, await caller.reader.read()

    assert played(sqlite, scene, timeout_keep_alive=1) == ([200] * 4, b"")


@pytest.mark.parametrize(("at", "status"), [(None, 200), (Position(1, bytes(range(32))), 409)])
def test_when_the_server_ends_an_append_is_answered_and_the_connection_closed(
    held: Kind, at: Position | None, status: int
) -> None:
    """Whether it was stored, or is the route's to refuse."""

    async def scene(caller: Caller) -> tuple[int, str, bytes, int]:
        stored = await caller.known("s1")
        caller.writer.write(b"".join(caller.request("s1", prompt("last", "u-3"), at or after(stored))))
        while not Door.newest.is_begun:
            await asyncio.sleep(0)
        Door.newest.shutdown()
        got = await caller.answer()
        return got.status, got.headers.get("connection", ""), await caller.reader.read(), Door.routed

    assert played(held, scene) == (status, "close", b"", int(at is not None))


def test_a_server_that_ends_leaves_the_beginning_of_a_request_to_the_route(sqlite: Kind) -> None:
    """Which answers it once the rest has come, and closes the connection."""

    async def scene(caller: Caller) -> tuple[int, str, int]:
        stored = await caller.known("s1")
        head, body = caller.request("s1", prompt("late", "u-3"), after(stored))
        caller.writer.write(head + body[:5])
        await asyncio.sleep(0.05)
        Door.newest.shutdown()
        caller.writer.write(body[5:])
        got = await caller.answer()
        return got.status, got.headers["connection"], Door.routed

    assert played(sqlite, scene) == (200, "close", 1)


def test_what_the_log_does_not_take_of_a_client_that_is_gone_is_counted_once(held: Kind) -> None:
    async def scene(caller: Caller) -> tuple[list[int], int]:
        made, log = caller.made, io.BytesIO()
        await caller.known("s1")
        made.service.notes.log = RequestLog(log)
        wrong = Position(1, bytes(range(32)))
        caller.writer.write(b"".join(caller.request("s1", prompt("gone", "u-3"), wrong)))
        while not Door.newest.is_begun:
            await asyncio.sleep(0)
        Door.newest.transport.abort()
        for _ in range(500):
            if not made.service.metrics.value("in_flight"):
                break
            await asyncio.sleep(0.02)
        made.service.notes.log.flush()
        told = [json.loads(text)["status"] for text in log.getvalue().splitlines()]
        return told, made.service.metrics.value("in_flight")

    assert played(held, scene) == ([400], 0)


def test_a_server_with_too_many_connections_refuses_appends_too(sqlite: Kind) -> None:
    async def scene(caller: Caller) -> tuple[int, int]:
        stored = await caller.known("s1")
        Door.newest.limit_concurrency = 1
        caller.writer.write(b"".join(caller.request("s1", prompt("one", "u-3"), after(stored))))
        head = await caller.reader.readuntil(b"\r\n\r\n")
        return int(head.split()[1]), Door.routed

    assert played(sqlite, scene) == (503, 1)


def test_requests_that_are_traced_go_through_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(SqliteDatabase(tmp_path / "team.sqlite"))
    assert protocol.protocol_for(service).func is protocol.TeamProtocol
    monkeypatch.setattr(trace, "get_tracer_provider", SeenProvider)
    assert protocol.protocol_for(service) is BoundedProtocol
