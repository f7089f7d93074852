"""A small world to test in: an organisation with members and tokens, a server in this process, and made lines."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

import httpx
import pytest

from recollect.server.app import make_app
from recollect.server.database.records import Author, Org, OrgUser, now_ms
from recollect.server.database.sql import Database
from recollect.server.service import ServerLimits, Service
from recollect.server.tenancy import new_id, new_secret
from recollect.share.sync.wire import POSITION, START, ApiToken, Position, lines_of
from tests.server.conftest import KINDS, Kind

Result = TypeVar("Result")
OPERATOR = Author("operator", "test")
EVERYTHING = ("read", "write", "delete", "admin")
PLENTY = ServerLimits(requests_per_second=1_000_000, failures_per_second=1_000_000)


class World:
    """One organisation on a server. Every method speaks HTTP, as a client would."""

    def __init__(self, database: Database, service: Service, org: Org) -> None:
        self.database, self.service, self.org = database, service, org
        self.app = make_app(service, is_owner=False)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://team")
        self.token = ""

    async def member(self, name: str, role: str = "admin", org: Org | None = None) -> OrgUser:
        user = OrgUser(new_id(), (org or self.org).id, name, role, False, now_ms())
        await self.database.add_user(user, OPERATOR)
        return user

    async def secret(
        self,
        user: OrgUser,
        scopes: tuple[str, ...] = EVERYTHING,
        *,
        machine: str | None = None,
        expires: int | None = None,
    ) -> tuple[str, ApiToken]:
        token = ApiToken(new_id(), user.org, user.id, scopes, machine, now_ms(), expires)
        secret, hashed = new_secret()
        await self.database.add_token(token, hashed, OPERATOR)
        return secret, token

    async def ask(self, method: str, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.token}", **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def put(
        self, session: str, data: bytes, at: Position = START, *, key: str = "", **more: Any
    ) -> httpx.Response:
        headers = {POSITION: str(at), **more.pop("headers", {})}
        parameters = {"key": key} if key else {}
        return await self.ask(
            "PUT", f"/v1/sessions/{session}/log", params=parameters, content=data, headers=headers, **more
        )

    async def read(self, session: str, **parameters: str) -> httpx.Response:
        return await self.ask("GET", f"/v1/sessions/{session}/log", params=parameters)


@asynccontextmanager
async def world(kind: Kind, limits: ServerLimits = PLENTY) -> AsyncIterator[World]:
    """An organisation of its own, with one admin, on a database of that kind."""
    database = kind.make()
    await database.open()
    try:
        service = Service(database, limits=limits)
        made = World(database, service, await new_org(database))
        made.token, _ = await made.secret(await made.member("Ada"))
        async with made.client:
            yield made
    finally:
        await database.close()


async def new_org(database: Database) -> Org:
    org = Org(new_id(), f"org {new_id()}", now_ms())
    await database.add_org(org, OPERATOR)
    return org


def in_world(
    kind: Kind, scene: Callable[[World], Awaitable[Result]], limits: ServerLimits = PLENTY
) -> Result:
    """Play a scene in a world of its own."""

    async def play() -> Result:
        async with world(kind, limits) as made:
            return await scene(made)

    return kind.run(play())


def in_a_world(
    limits: ServerLimits = PLENTY, *, databases: Sequence[str] = KINDS
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """A test that is given a world of its own, on each of the databases."""

    def play(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        @wraps(test)
        def run(kind: Kind, **given: Any) -> None:
            in_world(kind, lambda made: test(made, **given), limits)

        parameters = list(signature(test).parameters.values())[1:]
        kind = Parameter("kind", Parameter.KEYWORD_ONLY)
        run.__signature__ = Signature([*parameters, kind])  # type: ignore[attr-defined]
        mark: Callable[[Callable[..., None]], Callable[..., None]] = pytest.mark.parametrize(
            "kind", databases, indirect=True
        )
        return mark(run)

    return play


def after(data: bytes, at: Position = START) -> Position:
    """Where a log is after these lines."""
    return at.after(lines_of(data))


def line(**fields: Any) -> bytes:
    """One line of a log."""
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def prompt(text: str, uuid: str = "u-1", at: str = "2026-01-31T12:00:00.000Z", **more: Any) -> bytes:
    """A line a user typed."""
    return line(
        type="user", uuid=uuid, timestamp=at, sessionId="s", message={"role": "user", "content": text}, **more
    )


def reply(
    message: str,
    request: str = "r-1",
    *,
    output: int = 10,
    model: str = "claude-sonnet-4-5-20250929",
    at: str = "2026-01-31T12:00:01.000Z",
    uuid: str = "a-1",
    **more: Any,
) -> bytes:
    """A line of a response that used 1,000 input tokens and some of output."""
    return line(
        type="assistant",
        uuid=uuid,
        timestamp=at,
        sessionId="s",
        requestId=request,
        message={
            "id": message,
            "model": model,
            "role": "assistant",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Done."}],
            "usage": {"input_tokens": 1000, "output_tokens": output},
        },
        **more,
    )
