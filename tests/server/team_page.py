"""A team server with its page, asked as a browser would ask it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any

import httpx

from recollect.cli.web import exports
from recollect.server.app import make_app
from recollect.server.page.members import MirrorBackends
from recollect.server.page.routes import MembersApp, address_of
from recollect.server.service import ServerLimits
from recollect.web.answers import BuiltFiles
from tests.server.conftest import KINDS
from tests.server.live import LiveServer
from tests.server.world import PLENTY, World, in_a_world
from tests.small_home import ONE, TALK, TWO, lines

ORIGIN = "https://team.example"
COOKIE = "__Secure-recollect"
TALKED = lines(TALK)
OTHER = lines([{**entry, "sessionId": TWO, "cwd": "/srv/shop"} for entry in TALK])
for mine, others in ((b"msg_", b"other_"), (b"req_", b"other_"), (b"00000000-0000", b"00000000-0001")):
    OTHER = OTHER.replace(mine, others)


class PageServer(LiveServer):
    """``recollect team serve --page`` at its own address."""

    def command(self) -> list[str]:
        cache = str(self._directory / "mirrors")
        return [*super().command(), "--page", self.url, "--page-cache", cache]


class TeamPage:
    """The page of a world's server."""

    def __init__(self, made: World, place: Path, origin: str = ORIGIN, rest: float = 0) -> None:
        self.world, self.place = made, place
        self.page = MembersApp(
            made.service,
            MirrorBackends(place, made.service, rest=rest),
            address_of(origin),
            version="0.0.0",
            exports=exports(),
            built=BuiltFiles(place / "no-static"),
        )
        app = make_app(made.service, is_owner=False, page=self.page)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=origin)
        self.cookie = self.token = ""

    async def close(self) -> None:
        """End it."""
        self.page.stop()

    async def ask(
        self, method: str, path: str, *, body: object = None, cookie: str | None = None, **headers: str
    ) -> httpx.Response:
        """One request; the cookie as it was set, or another one."""
        self.client.cookies.clear()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        value = self.cookie if cookie is None else cookie
        if value:
            sent["cookie"] = f"{COOKIE}={value}"
        if method == "POST":
            sent = {"content-type": "application/json", "x-recollect-token": self.token, **sent}
        content = None if body is None else json.dumps(body).encode()
        return await self.client.request(method, path, headers=sent, content=content)

    async def sign_in(self, secret: str | None = None) -> httpx.Response:
        answer = await self.ask("POST", "/api/login", body={"token": secret or self.world.token}, cookie="")
        if answer.status_code == 200:
            self.cookie = answer.headers["set-cookie"].partition(";")[0].partition("=")[2]
            self.token = answer.json()["token"]
        return answer

    async def get(self, path: str) -> Any:
        answer = await self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def copies(self) -> list[str]:
        """The logs that were copied."""
        return sorted(path.name for path in self.place.rglob("*.jsonl"))

    async def ids(self) -> list[str]:
        return sorted(row["id"] for row in (await self.get("/api/sessions"))["sessions"])


async def two_sessions(made: World) -> None:
    """Two conversations, in two directories."""
    for session, data in ((ONE, TALKED), (TWO, OTHER)):
        answer = await made.put(session, data)
        assert answer.status_code == 200, answer.text


def on_a_page(
    limits: ServerLimits = PLENTY, *, is_signed_in: bool = True, databases: Sequence[str] = KINDS
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """A test that is given a world with two sessions and a page, on each of the databases."""

    def play(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        rest = [one for one in list(signature(test).parameters.values())[2:] if one.name != "tmp_path"]
        needs_place = "tmp_path" in signature(test).parameters

        async def run(made: World, tmp_path: Path, **given: Any) -> None:
            if needs_place:
                given["tmp_path"] = tmp_path
            await two_sessions(made)
            page = TeamPage(made, tmp_path)
            try:
                async with page.client:
                    if is_signed_in:
                        await page.sign_in()
                    await test(made, page, **given)
            finally:
                await page.close()

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        made, place = (Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("made", "tmp_path"))
        run.__signature__ = Signature([made, place, *rest])  # type: ignore[attr-defined]
        return in_a_world(limits, databases=databases)(run)

    return play
