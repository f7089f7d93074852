"""The page of a team server in a real browser: in, around, live, and out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.tenancy import founded
from recollect.share.sync.wire import POSITION, START, Position
from tests.browser.chromium import Chromium
from tests.browser.home import HOSTILE, hostile, own
from tests.browser.test_hostile import stays_text
from tests.server.team_page import PageServer
from tests.server.world import after
from tests.server.world import reply as priced
from tests.small_home import ONE, TALK, TWO, lines, prompt

TALKED = lines(TALK)
OTHER = lines([{**entry, "sessionId": TWO, "cwd": "/srv/shop"} for entry in TALK[:2]])
OTHER = OTHER.replace(b"Q1", b"How round is a basket").replace(b"00000000-0000", b"00000000-0001")


class Team(NamedTuple):
    """A server with two sessions, the token of a member, and where copies lie."""

    url: str
    secret: str
    place: Path

    def copies(self) -> list[str]:
        """The sessions that were copied."""
        return sorted(path.name for path in self.place.rglob("mirrors/**/*.jsonl"))

    def delete(self, session: str) -> None:
        headers = {"Authorization": f"Bearer {self.secret}"}
        assert httpx.delete(f"{self.url}/v1/sessions/{session}", headers=headers).status_code == 204

    def put(self, session: str, data: bytes, at: Position = START) -> None:
        headers = {"Authorization": f"Bearer {self.secret}", POSITION: str(at)}
        answer = httpx.put(f"{self.url}/v1/sessions/{session}/log", content=data, headers=headers)
        assert answer.status_code == 200, answer.text


class SilencedServer(PageServer):
    """Its database does not answer as long as there is a file named silent."""

    prelude = """
import os
from recollect.server.database.records import Unavailable
from recollect.server.database.sqlite import SqliteDatabase
def silenced(name):
    asked = getattr(SqliteDatabase, name)
    async def answer(self, *words, **more):
        if os.path.exists(os.environ["HOME"] + "/silent"):
            raise Unavailable("silent")
        return await asked(self, *words, **more)
    setattr(SqliteDatabase, name, answer)
for name in ("grant", "sessions", "session", "access", "usage", "search", "head", "token"):
    silenced(name)
"""


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    database = SqliteDatabase(tmp_path / "team.sqlite")

    async def made() -> str:
        await database.migrate()
        await database.open()
        try:
            return await founded(database, "Acme", "ada", ("read", "write", "delete"))
        finally:
            await database.close()

    secret = asyncio.run(made())
    with SilencedServer(f"sqlite:///{tmp_path}/team.sqlite", tmp_path) as server:
        one = Team(server.url, secret, tmp_path)
        one.put(ONE, TALKED)
        one.put(TWO, OTHER)
        yield one


def test_a_member_reads_and_follows_and_leaves(chromium: Chromium, team: Team) -> None:
    """Sign in, list, open, a push seen live, search, a deletion, sign out; nothing to change anywhere, nothing fetched from
    elsewhere, and only what was opened is copied."""
    do = chromium.do
    do("open", url=team.url)
    assert do("count", selector=".sessions") == 0
    do("fill", selector=".signin input", text="rcl_" + "A" * 43)
    do("click", selector=".signin button")
    assert "a valid token is needed" in do("wait", selector=".signin .problem")
    do("fill", selector=".signin input", text=team.secret)
    do("click", selector=".signin button")
    do("wait", selector=".home .figure")
    # What only transcripts tell is named, and not shown as nothing.
    assert "recollect report" in do("wait", selector="[data-unknown]")
    do("go", hash="#/files")
    do("wait", selector=".waiting", text="not known here")
    do("go", hash="#/sessions")
    do("wait", selector=".list .row", text="Q1")
    assert do("texts", selector=".rail a span") == ["Home", "Sessions", "Cost"]
    assert team.copies() == []

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
    assert team.copies() == [f"{ONE}.jsonl"]

    # A hit of the server's search leads to its message, in a session that nobody opened before.
    do("go", hash="#/sessions", wait="[data-search]")
    do("fill", selector="[data-search]", text="round")
    assert "How round is a basket" in do("wait", selector="[data-hit]", text="basket")
    assert team.copies() == [f"{ONE}.jsonl"]
    do("click", selector="[data-hit]", text="basket")
    do("wait", selector=".message", text="How round is a basket")
    assert team.copies() == [f"{ONE}.jsonl", f"{TWO}.jsonl"]
    do("go", hash="#/cost", wait="main table")
    do("wait", selector="main table", text="ada")

    # What is deleted on the server leaves the list, and what one is reading.
    do("go", hash=f"#/s/{TWO}")
    do("wait", selector=".message", text="How round is a basket")
    team.delete(TWO)
    do("go", hash="#/sessions")
    do("wait", selector=".list[data-total='1']")
    do("go", hash=f"#/s/{TWO}")
    do("wait", selector=".waiting", text="not found")

    seen = do("told")
    assert {url.split("/")[2] for url in seen["requests"]} == {team.url.split("/")[2]}
    # 404: of the session that was deleted.
    unasked = [one for one in seen["problems"] if "401" not in one and "404" not in one]
    assert unasked == []

    do("click", selector="[data-leave]")
    do("wait", selector=".signin h1", text="Sign in")
    do("reload", wait=".signin")
    assert do("count", selector=".sessions") == 0
    assert do("problems") == []


def test_the_first_figures_of_a_member_are_the_server_s(chromium: Chromium, team: Team) -> None:
    """Nothing has to be copied first: the very first total, the list and Cost have every response the server counts."""
    for number in range(30):
        session = f"00000000-0000-4000-9000-{number:012d}"
        team.put(session, priced(f"msg_{session}", f"req_{session}", output=9_000, uuid=f"a-{number}"))
    headers = {"Authorization": f"Bearer {team.secret}"}
    total = httpx.get(f"{team.url}/v1/cost?by=person", headers=headers).json()["total"]
    assert total["responses"] > 30
    wanted = f"${Decimal(total['usd']).quantize(Decimal('0.01'))}"

    do = chromium.do
    do("open", url=team.url)
    do("fill", selector=".signin input", text=team.secret)
    do("click", selector=".signin button")
    first = do("wait", selector=".home .figure", text="All time")
    assert [wanted in first, f"{total['responses']} responses" in first] == [True, True]
    do("go", hash="#/sessions")
    do("wait", selector=".list .row")
    assert wanted in do("wait", selector="main", text="32 sessions")
    do("go", hash="#/cost?since=all")
    assert wanted in do("wait", selector="main", text=f"exactly ${total['usd']}")
    assert team.copies() == []


def test_while_the_database_is_silent_what_was_opened_can_be_read(chromium: Chromium, team: Team) -> None:
    """The page says since when it is not current, and when it is again; a session that nobody opened is not invented."""
    do, silent = chromium.do, team.place / "silent"
    do("open", url=team.url)
    do("fill", selector=".signin input", text=team.secret)
    do("click", selector=".signin button")
    do("wait", selector=".home .figure")
    do("go", hash=f"#/s/{ONE}")
    do("wait", selector=".message", text="A2")
    assert do("count", selector="[data-not-current]") == 0
    silent.touch()
    assert "Not current since 20" in do("wait", selector="[data-not-current]")
    do("reload", wait=".message")
    do("wait", selector=".message", text="A2")
    do("wait", selector="[data-not-current]")
    do("go", hash="#/sessions")
    do("wait", selector=".list[data-total='2']")
    do("go", hash=f"#/s/{TWO}")
    do("wait", selector=".waiting", text="database is not available")
    silent.unlink()
    do("go", hash="#/sessions")
    do("wait", selector="main:not(:has([data-not-current])) .list")
    do("click", selector="[data-leave]")
    do("wait", selector=".signin h1", text="Sign in")


def test_hostile_text_of_a_colleague_stays_text(chromium: Chromium, team: Team) -> None:
    """The payloads of the local page's test, sent by another member, on every screen that a member has."""
    team.put(
        HOSTILE, lines([{**own(one, "evil"), "sessionId": HOSTILE, "cwd": "/srv/evil"} for one in hostile()])
    )
    do = chromium.do
    do("size", width=1280, height=820)
    do("open", url=team.url)
    do("fill", selector=".signin input", text=team.secret)
    do("click", selector=".signin button")
    do("wait", selector=".home .figure")
    more = [("#/files", ".waiting"), ("#/cost?since=all&by=session", ".numbers td")]
    stays_text(chromium, team.url, more)
    do("click", selector="[data-leave]")
    do("wait", selector=".signin h1", text="Sign in")
