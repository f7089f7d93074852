"""The page of a team server in a real browser: in, around, live, and out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.tenancy import founded
from recollect.sync.wire import POSITION, START, Position
from tests.browser.chromium import Chromium
from tests.server.team_page import PageServer
from tests.server.world import after
from tests.small_home import ONE, TALK, TWO, lines, prompt

TALKED = lines(TALK)
OTHER = lines([{**entry, "sessionId": TWO, "cwd": "/srv/shop"} for entry in TALK[:2]])
OTHER = OTHER.replace(b"Q1", b"How round is a basket").replace(b"00000000-0000", b"00000000-0001")


class Team(NamedTuple):
    """A server with two sessions, and the token of a member."""

    url: str
    secret: str

    def put(self, session: str, data: bytes, at: Position = START) -> None:
        headers = {"Authorization": f"Bearer {self.secret}", POSITION: str(at)}
        answer = httpx.put(f"{self.url}/v1/sessions/{session}/log", content=data, headers=headers)
        assert answer.status_code == 200, answer.text


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    database = SqliteDatabase(tmp_path / "team.sqlite")

    async def made() -> str:
        await database.migrate()
        await database.open()
        try:
            return await founded(database, "Acme", "ada", ("read", "write"))
        finally:
            await database.close()

    secret = asyncio.run(made())
    with PageServer(f"sqlite:///{tmp_path}/team.sqlite", tmp_path) as server:
        one = Team(server.url, secret)
        one.put(ONE, TALKED)
        one.put(TWO, OTHER)
        yield one


@pytest.mark.slow
def test_a_member_reads_and_follows_and_leaves(chromium: Chromium, team: Team) -> None:
    """Sign in, list, open, a push seen live, search, sign out; nothing to change anywhere, nothing fetched from elsewhere."""
    do = chromium.do
    do("open", url=team.url)
    assert do("count", selector=".sessions") == 0
    do("fill", selector=".signin input", text="rcl_" + "A" * 43)
    do("click", selector=".signin button")
    assert "a valid token is needed" in do("wait", selector=".signin .problem")
    do("fill", selector=".signin input", text=team.secret)
    do("click", selector=".signin button")
    do("wait", selector=".home .figure")
    do("go", hash="#/sessions")
    do("wait", selector=".list .row", text="Q1")
    assert do("texts", selector=".rail a span") == ["Home", "Sessions", "Files", "Cost"]

    do("click", selector=".list .row a", text="Q1")
    do("wait", selector=".message", text="A2")
    # Prompts have the name of who typed them, and no figure that is not known is shown as one.
    do("wait", selector=".message .who", text="ada")
    assert set(do("texts", selector=".message .who")) == {"ada", "Assistant"}
    assert "null" not in do("wait", selector=".head .about", text="messages")
    do("click", selector=".menu summary")
    assert [one.split()[0] for one in do("texts", selector=".menu .items button")] == ["Export…"]
    assert do("count", selector=".message button:has-text('Fork')") == 0
    team.put(ONE, lines([prompt(5, 4, "pushed while you look")]), after(TALKED))
    do("wait", selector=".message", text="pushed while you look")

    do("go", hash="#/sessions", wait="[data-search]")
    do("fill", selector="[data-search]", text="round")
    assert "How round is a basket" in do("wait", selector="[data-hit]", text="basket")
    do("go", hash="#/cost", wait="main table")

    seen = do("told")
    assert {url.split("/")[2] for url in seen["requests"]} == {team.url.split("/")[2]}
    # 409: the home screen asks for figures while the mirror's first index is built, and asks again.
    unasked = [one for one in seen["problems"] if "401" not in one and "409" not in one]
    assert unasked == []

    do("click", selector="[data-leave]")
    do("wait", selector=".signin h1", text="Sign in")
    do("reload", wait=".signin")
    assert do("count", selector=".sessions") == 0
    assert do("problems") == []
