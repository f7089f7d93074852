"""A page over a small home, asked without a network; and what a browser would send."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import httpx

from recollect.ask.library import Home
from recollect.cli.web import exports
from recollect.web.answers import BuiltFiles
from recollect.web.app import ServedPage
from recollect.web.desk import PageBackend
from tests.small_home import ONE, TWO, call, outcome, prompt, put, reply, said

PORT = 8123
BASE = f"http://127.0.0.1:{PORT}"


def two_sessions(home: Path) -> None:
    """One that talks, one that calls a tool."""
    talk = [
        prompt(1, None, "Q1"),
        reply(2, 1, said("A1"), answer="one_a"),
        prompt(3, 2, "Q2"),
        reply(4, 3, said("A2"), answer="one_b"),
    ]
    put(home, ONE, talk)
    put(
        home,
        TWO,
        [
            prompt(1, None, "Read it", gitBranch="main"),
            reply(2, 1, said("Reading"), call("toolu_1"), answer="two_a", gitBranch="main"),
            outcome(3, 2, "toolu_1", "the text"),
            reply(4, 3, said("Done"), answer="two_b", gitBranch="main"),
        ],
        cwd="/srv/shop",
    )


def served(
    home: Path, data: Path, *, is_built: bool = True, static: Path | None = None, cookie: str | None = None
) -> ServedPage:
    """A page over a home, its index brought up to date where wanted; ``cookie``: of an address that is kept."""
    desk = PageBackend(Home(home, data=data), data=data, cache=data / "cache", words=["--home", str(home)])
    if is_built:
        desk.index.refresh()
        desk.index.wait(60)
    return ServedPage(desk, PORT, "0.0.0", exports(), BuiltFiles(static or data / "no-static"), cookie=cookie)


class Browser:
    """Sends requests as the page's own script does, one at a time."""

    def __init__(self, page: ServedPage) -> None:
        self.page = page
        self.headers: dict[str, str] = {}

    def __enter__(self) -> Self:
        answer = self.ask("POST", "/api/login", body={"key": self.page.keys.key})
        assert answer.status_code == 200
        cookie = answer.headers["set-cookie"].partition(";")[0]
        self.headers = {"cookie": cookie, "x-recollect-token": answer.json()["token"]}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.page.stop()

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        headers: dict[str, str] | None = None,
        without: tuple[str, ...] = (),
        raw: bytes | None = None,
    ) -> httpx.Response:
        """One request; ``without`` leaves out headers the browser would send."""
        sent = {**self.headers, **(headers or {})}
        if body is not None or raw is not None:
            sent.setdefault("content-type", "application/json")
        sent = {name: value for name, value in sent.items() if name not in without}
        content = raw if raw is not None else (None if body is None else json.dumps(body).encode())
        return anyio.run(self._asked, method, path, sent, content)

    async def _asked(
        self, method: str, path: str, headers: dict[str, str], content: bytes | None
    ) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.page.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, headers=headers, content=content)

    def get(self, path: str) -> Any:
        """A document."""
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, /, **body: object) -> Any:
        """A change, or its plan."""
        answer = self.ask("POST", path, body=body)
        assert answer.status_code == 200, answer.text
        return answer.json()
