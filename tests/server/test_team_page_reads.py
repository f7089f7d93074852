"""What a team's page reads: the server's own answers for what is about all sessions, and one transcript for each that is opened."""

from __future__ import annotations

import asyncio
import datetime as dt
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx
import pytest

from recollect.cli.main import main
from recollect.sample import sample_home
from recollect.server.database.records import OrgUser, Unavailable, now_ms
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.page import routes as members
from recollect.server.tenancy import new_id, new_secret
from recollect.share.sync.selection import PushScan
from recollect.share.sync.wire import POSITION, START, ApiToken
from tests.server.team_page import TALKED, PageServer, TeamPage, on_a_page
from tests.server.world import EVERYTHING, OPERATOR, World, new_org
from tests.small_home import ONE, TWO, lines, prompt
from tests.web.pages import Browser, served

Result = TypeVar("Result")
MEMBERS = ("Ada", "Bea", "Cid")
# What is about the machine on which a session is shown.
_OF_A_MACHINE = ("path", "home", "modified_at", "live", "expires_at", "is_archived", "commands", "person")


class CountingServer(PageServer):
    """Notes every piece of a log and every side file that the page fetches."""

    prelude = """
import os
from recollect.server.page import access as page_access
source = page_access.OrganizationSource
read, file = source.read, source.file
def note(session, key, size):
    with open(os.environ["HOME"] + "/fetched", "a") as noted:
        print(session, key or "-", size, file=noted)
def read_noted(self, session, key, after):
    for piece in read(self, session, key, after):
        note(session, key, len(piece))
        yield piece
def file_noted(self, session, key):
    found = file(self, session, key)
    note(session, key, len(found or b""))
    return found
source.read, source.file = read_noted, file_noted
"""

    def fetched(self) -> dict[str, int]:
        """The bytes that were fetched of each session."""
        noted, found = self.log.parent / "fetched", dict[str, int]()
        for line in noted.read_text().splitlines() if noted.exists() else ():
            session, _, size = line.split()
            found[session] = found.get(session, 0) + int(size)
        return found


class Team(NamedTuple):
    """A server with the sample home's sessions, of three members in turn; a browser of each, and their tokens."""

    server: CountingServer
    browsers: list[httpx.Client]
    tokens: list[str]
    owners: dict[str, int]


async def _tokens(path: Path) -> list[str]:
    database = SqliteDatabase(path)
    await database.migrate()
    await database.open()
    try:
        org, found = await new_org(database), []
        for name in MEMBERS:
            user = OrgUser(new_id(), org.id, name, "admin", False, now_ms())
            await database.add_user(user, OPERATOR)
            secret, hashed = new_secret()
            await database.add_token(
                ApiToken(new_id(), org.id, user.id, EVERYTHING, None, now_ms(), None), hashed, OPERATOR
            )
            found.append(secret)
        return found
    finally:
        await database.close()


def _push(url: str, tokens: list[str]) -> dict[str, int]:
    """Each session of the sample home by one of three members, as `recollect team push` would send it."""
    owners: dict[str, int] = {}
    with httpx.Client(base_url=url, timeout=60) as client:
        for file in PushScan(sample_home()).files():
            data = Path(file.path).read_bytes()
            session = file.session or json.loads(data.splitlines()[0])["sessionId"]
            owner = owners.setdefault(session, len(owners) % len(tokens))
            headers = {"Authorization": f"Bearer {tokens[owner]}", POSITION: str(START)}
            what, body = ("log", data[: data.rfind(b"\n") + 1]) if file.is_log else ("file", data)
            key = {"key": file.key} if file.key else {}
            answer = client.put(f"/v1/sessions/{session}/{what}", params=key, content=body, headers=headers)
            assert answer.status_code == 200, answer.text
    return owners


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    tokens = asyncio.run(_tokens(tmp_path / "team.sqlite"))
    with CountingServer(f"sqlite:///{tmp_path}/team.sqlite", tmp_path) as server:
        owners = _push(server.url, tokens)
        browsers = [httpx.Client(base_url=server.url, timeout=60) for _ in tokens]
        for browser, token in zip(browsers, tokens, strict=True):
            assert browser.post("/api/login", json={"token": token}).status_code == 200
        yield Team(server, browsers, tokens, owners)
        for browser in browsers:
            browser.close()


def got(browser: httpx.Client, path: str) -> Any:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def told(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """What a command of the team prints."""
    capsys.readouterr()
    assert main(["team", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _agent(key: str) -> str | None:
    return key.rpartition("agent-")[2] if "agent-" in key else None


def test_the_page_opens_without_a_transcript_and_says_what_the_commands_of_the_team_say(
    team: Team, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """List, total, cost by person and model, and hits, for each of three members; not one byte of a log was fetched."""
    for browser, token in zip(team.browsers, team.tokens, strict=True):
        monkeypatch.setattr(sys, "stdin", io.StringIO(token))
        assert main(["team", "login", team.server.url]) == 0
        got(browser, "/api/me")
        listed, costs = got(browser, "/api/sessions?count=500"), told(capsys, "cost", "--by", "person,model")
        shown = got(browser, "/api/cost?by=person,model")
        commanded = told(capsys, "list", "--limit", "1000")["sessions"]
        rows = {(row["id"], row["person"], row["title"]) for row in listed["sessions"]}
        assert rows == {(one["id"], one["person"], one["title"] or "") for one in commanded}
        assert {person for _, person, _ in rows} == set(MEMBERS)
        assert (listed["total"], listed["total_cost_usd"]) == (len(team.owners), costs["total"]["usd"])
        assert (listed["unlisted_cost_usd"], shown["totals"]["cost_usd"]) == ("0", costs["total"]["usd"])
        assert {
            (row["person"], row["model"], row["responses"], row["cost_usd"]) for row in shown["rows"]
        } == {
            (row["keys"]["person"], row["keys"]["model"], row["responses"], row["usd"])
            for row in costs["rows"]
        }
        for words in ("order", "the", "order module", "nothing-has-this"):
            found = got(browser, f"/api/search?q={words}&limit=200")
            capsys.readouterr()
            main(["team", "search", *words.split(), "--limit", "200", "--json"])
            hits = json.loads(capsys.readouterr().out)["hits"]
            places = {
                (group["session"], hit["agent"], hit["line"])
                for group in found["groups"]
                for hit in group["hits"]
            }
            assert places == {(hit["session"], _agent(hit["key"]), hit["line"]) for hit in hits}, words
            assert found["total"] == len(hits)
        assert got(browser, "/api/projects")["projects"]
    assert found["total"] == 0  # of the last words; the others have some
    assert team.server.fetched() == {}
    assert list(team.server.log.parent.glob("mirrors/*/*/home/projects/*")) == []


def test_opening_a_session_fetches_that_one_and_its_head_is_the_one_of_the_log(
    team: Team, tmp_path: Path
) -> None:
    """By a member who did not send it. Every figure of the head, and the messages, are those of the home it was pushed from."""
    with Browser(served(sample_home(), tmp_path / "own")) as local:
        for number, (session, owner) in enumerate(team.owners.items(), 1):
            browser = team.browsers[(owner + 1) % 3]
            head = got(browser, f"/api/sessions/{session}")
            expected = local.get(f"/api/sessions/{session}")
            for name in _OF_A_MACHINE:
                head.pop(name), expected.pop(name, None)
            for one in (head, expected):
                one["models"].sort()
            assert head == expected, session
            window = got(browser, f"/api/sessions/{session}/messages?count=200")
            assert [(one["uuid"], one["cost"]) for one in window["messages"]] == [
                (one["uuid"], one["cost"])
                for one in local.get(f"/api/sessions/{session}/messages?count=200")["messages"]
            ]
            assert len(team.server.fetched()) == number
            assert session in team.server.fetched()
            # Again, and by another member: it is there.
            before = team.server.fetched()
            assert (
                got(team.browsers[owner], f"/api/sessions/{session}/costs")["session"]["cost_usd"]
                == head["cost_usd"]
            )
            assert team.server.fetched() == before


def test_a_hit_leads_to_its_line(team: Team) -> None:
    """The position of a hit's line is a message that has the words, also in the log of a sub-agent."""
    browser, agents = team.browsers[0], set[bool]()
    for words in ("order", "query"):
        for group in got(browser, f"/api/search?q={words}&limit=200")["groups"]:
            for hit in group["hits"]:
                at = f"/api/sessions/{group['session']}"
                agent = f"&agent={hit['agent']}" if hit["agent"] else ""
                answer = browser.get(f"{at}/position?line={hit['line']}{agent}")
                if hit["kind"] not in ("user", "assistant"):
                    continue
                assert answer.status_code == 200, (hit, answer.text)
                place = answer.json()
                view = (
                    f"agent={hit['agent']}"
                    if hit["agent"]
                    else f"whole={str(place['view']['whole']).lower()}"
                )
                view += f"&branch={place['view']['branch']}" if place["view"]["branch"] else ""
                message = got(browser, f"{at}/messages/{place['index']}?{view}")
                assert words in json.dumps(message).lower(), hit
                agents.add(hit["agent"] is not None)
    assert agents == {False, True}


# ---- who sees what ---------------------------------------------------------------------------------------


async def _seen(page: TeamPage) -> tuple[list[str], list[str], list[int]]:
    """The list, the sessions with hits, and what opening either session answers."""
    found = (await page.get("/api/search?q=Q1"))["groups"]
    opened = [
        (await page.ask("GET", f"/api/sessions/{session}/{part}")).status_code
        for session in (ONE, TWO)
        for part in ("messages", "hits?q=Q1")
    ]
    return await page.ids(), sorted(group["session"] for group in found), opened


@on_a_page(is_signed_in=False)
async def test_each_member_sees_on_the_page_what_that_member_may_see(made: World, page: TeamPage) -> None:
    """A session that becomes private is gone for others at the next request, though its copy is there; its creator keeps it.
    It comes back when it is shared with a team that both are in."""
    bea = await made.member("Bea", "member")
    secret, _ = await made.secret(bea, ("read",))
    found: list[object] = []
    await page.sign_in(secret)
    found.append(await _seen(page))
    for visibility in ("private", "team"):
        await made.ask("PATCH", f"/v1/sessions/{ONE}", json={"visibility": visibility})
        await page.sign_in(secret)
        found.append(await _seen(page))
        await page.sign_in()
        found.append(await _seen(page))
    users = [one.id for one in await made.database.users(made.org.id)]
    team = (await made.ask("POST", "/v1/teams", json={"name": "both"})).json()["id"]
    await made.ask("PATCH", f"/v1/teams/{team}", json={"members": users})
    await page.sign_in(secret)
    found.append(await _seen(page))
    both = ([ONE, TWO], [ONE, TWO], [200] * 4)
    only = ([TWO], [TWO], [404, 404, 200, 200])
    assert found == [both, only, both, only, both, both]


@on_a_page(is_signed_in=False)
async def test_what_was_purged_or_erased_is_gone_with_its_copy(made: World, page: TeamPage) -> None:
    """A session, and everything of a person; the cost of both stays in the total, as in `team cost`."""
    bea = await made.member("Bea", "member")
    secret, _ = await made.secret(bea)
    await made.put("beas", TALKED.replace(b"msg_", b"bea_").replace(b"req_", b"bea_"), token=secret)
    await page.sign_in()
    total = (await page.get("/api/sessions"))["total_cost_usd"]
    for session in (ONE, TWO, "beas"):
        await page.get(f"/api/sessions/{session}")
    found: list[object] = [page.copies()]
    await made.ask("DELETE", f"/v1/sessions/{ONE}", params={"purge": "true"})
    erased = await made.ask("POST", f"/v1/users/{bea.id}/erasure", json={"name": "Bea"})
    assert erased.status_code == 200, erased.text
    document = await page.get("/api/sessions")
    gone = (await page.ask("GET", "/api/sessions/beas")).status_code
    found += [sorted(row["id"] for row in document["sessions"]), gone, page.copies()]
    cents = [float(document[name]) for name in ("total_cost_usd", "unlisted_cost_usd")]
    team = (await made.ask("GET", "/v1/cost")).json()["total"]["usd"]
    copies = [f"{ONE}.jsonl", f"{TWO}.jsonl", "beas.jsonl"]
    assert [*found, abs(sum(cents) - float(team)) < 1e-12, float(total) >= float(team)] == [
        copies,
        [TWO],
        404,
        [f"{TWO}.jsonl"],
        True,
        True,
    ]


@on_a_page(is_signed_in=False)
async def test_names_that_no_session_can_have_are_not_found(
    made: World, page: TeamPage, tmp_path: Path
) -> None:
    """In an address and in a search; nothing is written."""
    await page.sign_in()
    names = ("%00", "a%00b", "agent-1", "%2e%2e%2fother", "%ED%A0%80", "a" * 200)
    paths = [f"/api/sessions/{name}" for name in names] + [
        f"/api/search?q=Q1&session={name}" for name in names
    ]
    assert ({(await page.ask("GET", path)).status_code for path in paths}) == {404}
    assert list(tmp_path.rglob("*.jsonl")) == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/stats", 403),
        ("/api/stats/sessions", 403),
        ("/api/edits", 403),
        ("/api/search?q=Q1&how=best", 400),
        ("/api/search?q=Q1&how=regex", 400),
        ("/api/search?q=Q1&kinds=prose", 400),
        ("/api/search?q=Q1&rank=true", 400),
        ("/api/sessions?damaged=true", 400),
        ("/api/sessions?tag=*", 400),
        ("/api/sessions?sort=messages", 400),
        ("/api/cost?by=tool", 400),
        ("/api/cost?by=block", 400),
        ("/api/cost?by=day&mode=auto", 400),
        ("/api/cost?by=day&timezone=Europe/Berlin", 400),
    ],
)
@on_a_page(is_signed_in=False, databases=("sqlite",))
async def test_what_only_transcripts_tell_is_refused_and_not_nothing(
    made: World, page: TeamPage, path: str, status: int
) -> None:
    """With the way to it; and where a value of a row is not known, it is null."""
    await page.sign_in()
    answer = await page.ask("GET", path)
    row = (await page.get("/api/sessions"))["sessions"][0]
    problem = answer.json()
    assert (answer.status_code, row["messages"], row["agents"], row["damaged"], row["agent"]) == (
        status,
        *[None] * 4,
    )
    assert "UTC" in problem["error"] or "recollect team pull" in problem["hint"]


@on_a_page(is_signed_in=False, databases=("sqlite",))
async def test_filters_and_sums_of_the_list_are_over_what_the_server_says(
    made: World, page: TeamPage
) -> None:
    """Project, cost, text, time; a search in some sessions asks on until it has enough."""
    await page.sign_in()
    for number in range(3):
        await made.put(f"more-{number}", lines([prompt(number + 50, None, f"Q1 again {number}")]))
    filters = ("project=shop", "text=shop", "min_cost=1", "since=2099-01-01", "model=sonnet&sort=title")
    listed = [(await page.get(f"/api/sessions?{asked}"))["sessions"] for asked in filters]
    found: list[object] = [sorted(row["id"] for row in rows) for rows in listed]
    for limit in (1, 50):
        answer = await page.get(f"/api/search?q=Q1&project=shop&limit={limit}")
        found.append(([group["session"] for group in answer["groups"]], answer["total_is_exact"]))
    week = await page.get("/api/cost?by=week,person&project=shop")
    found.append([(row["week"], row["person"], row["responses"]) for row in week["rows"]])
    assert found == [
        [TWO],
        [TWO],
        [],
        [],
        [ONE, TWO],
        ([TWO], True),
        ([TWO], True),
        [("2026-W46", "Ada", 2)],
    ]


# ---- while the database does not answer ------------------------------------------------------------------


@on_a_page(is_signed_in=False, databases=("sqlite",))
async def test_what_was_opened_stays_readable_while_the_database_does_not_answer(
    made: World, page: TeamPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last list and the copies, for who was let in before, with the time they are from; all else is refused. When it
    answers again, a session that is private by then, and a token that was revoked, open nothing."""
    monkeypatch.setattr(members, "_SILENT_SECONDS", 0.0)

    async def silent(*_: object, **__: object) -> Any:
        raise Unavailable("no connection")

    secret, token = await made.secret(await made.member("Bea", "member"), ("read",))
    await page.sign_in(secret)
    left = page.cookie
    await page.get(f"/api/sessions/{ONE}")
    assert (await page.ask("POST", "/api/logout", body={})).status_code == 200
    await page.sign_in(secret)
    found: list[object] = [(await page.get("/api/me"))["member"]["not_current_since"]]
    with monkeypatch.context() as patched:
        for name in ("grant", "sessions", "session", "access", "usage", "search", "head", "token"):
            patched.setattr(made.database, name, silent)
        window = await page.get(f"/api/sessions/{ONE}/messages")
        since = (await page.get("/api/me"))["member"]["not_current_since"]
        found += [window["total"], await page.ids(), dt.datetime.fromisoformat(since).tzinfo is not None]
        for path in (f"/api/sessions/{TWO}", "/api/search?q=Q1", "/api/cost", "/api/sessions/unknown"):
            found.append((await page.ask("GET", path)).status_code)
        for cookie in ("rcp_" + "A" * 43, left):
            found.append((await page.ask("GET", "/api/sessions", cookie=cookie)).status_code)
    await made.ask("PATCH", f"/v1/sessions/{ONE}", json={"visibility": "private"})
    found.append((await page.ask("GET", f"/api/sessions/{ONE}/messages")).status_code)
    found.append((await page.get("/api/me"))["member"]["not_current_since"])
    await made.database.revoke_token(made.org.id, token.id, OPERATOR)
    found.append((await page.ask("GET", "/api/sessions")).status_code)
    opened, ids = 4, [ONE, TWO]
    assert found == [None, opened, ids, True, *(409, 409, 409, 404), *(503, 503), 404, None, 401]
