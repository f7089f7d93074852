"""The page of a team server: who may see what, and that it is what the server keeps."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import shlex
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.server.database import postgres_search
from recollect.server.database.records import now_ms
from recollect.server.page.routes import OFFERED, REFUSED, SignedOutDocument, address_of
from recollect.server.tenancy import SKEW_MS
from recollect.share.sync.sync import session_of
from recollect.share.sync.wire import ENCRYPTED
from recollect.web.answers import ErrorDocument
from recollect.web.app import LoginDocument, document_of
from recollect.web.gate import LOGIN
from tests.documents import require_fit
from tests.server.team_page import COOKIE, ORIGIN, TALKED, TeamPage, on_a_page
from tests.server.world import OPERATOR, World, after, new_org
from tests.small_home import ONE, TWO, lines, prompt

Result = TypeVar("Result")
FIFTH = lines([prompt(5, 4, "the fifth line")])


# ---- who may come in -------------------------------------------------------------------------------------


@on_a_page()
async def test_signing_in_sets_a_cookie_for_the_page_alone(made: World, page: TeamPage) -> None:
    """Not for scripts, not for other sites, not in the clear, not beyond /api; signing out takes it away."""
    cookie = (await page.sign_in()).headers["set-cookie"]
    gone = (await page.ask("POST", "/api/logout", body={})).headers["set-cookie"]
    name, *rest = cookie.split("; ")
    assert (name.partition("=")[0], sorted(rest)) == (
        COOKIE,
        ["HttpOnly", "Path=/api", "SameSite=strict", "Secure"],
    )
    assert gone.startswith(f'{COOKIE}=""; ')
    assert "Max-Age=0" in gone
    assert (await page.ask("GET", "/api/me", cookie="")).status_code == 401


@on_a_page(is_signed_in=False)
async def test_every_route_refuses_whoever_is_no_member(made: World, page: TeamPage) -> None:
    """Without a cookie, and with every kind of token that is not good, all answers are the same and say how to get in."""
    ada = await made.member("Bea")
    expired, _ = await made.secret(ada, expires=now_ms() - SKEW_MS - 1)
    revoked, token = await made.secret(ada)
    await made.database.revoke_token(made.org.id, token.id, OPERATOR)
    found = set()
    for cookie in ("", "rubbish", "rcl_" + "A" * 43, expired, revoked):
        page.cookie = ""
        for one in (*OFFERED, *REFUSED):
            path = one.path.format(session=ONE, index=0, uuid="u", number=0)
            answer = await page.ask(one.method, path, cookie=cookie, body={} if one.body else None)
            assert answer.json()["sign_in"] is True, path
            found.add((answer.status_code, answer.json()["error"]))
    assert found == {
        (401, "not signed in"),
        (401, "a valid token is needed"),
    }


@on_a_page(is_signed_in=False)
async def test_a_token_that_may_not_read_is_not_let_in(made: World, page: TeamPage) -> None:
    """By its own scopes, at the entrance; a bad one is refused there too, and a token is no cookie."""
    writes, _ = await made.secret(await made.member("Cid"), ("write",))
    bad = await page.sign_in("rcl_" + "B" * 43)
    assert [
        (await page.sign_in(writes)).status_code,
        (await page.ask("GET", "/api/sessions", cookie=writes)).status_code,
        bad.status_code,
    ] == [403, 401, 401]


@on_a_page(is_signed_in=False)
async def test_revocation_and_disabling_hold_with_the_next_request(made: World, page: TeamPage) -> None:
    dee = await made.member("Dee", "viewer")
    secret, token = await made.secret(dee, ("read",))
    other, _ = await made.secret(dee, ("read",))
    found, cookies = [], []
    for one in (secret, other):
        await page.sign_in(one)
        cookies.append(page.cookie)
        found.append((await page.ask("GET", "/api/me")).status_code)
    await made.database.revoke_token(made.org.id, token.id, OPERATOR)
    found += [(await page.ask("GET", "/api/me", cookie=one)).status_code for one in cookies]
    await made.database.change_user(made.org.id, dee.id, None, True, OPERATOR)
    found.append((await page.ask("GET", "/api/me", cookie=cookies[1])).status_code)
    assert found == [200, 200, 401, 200, 401]


@on_a_page(is_signed_in=False)
async def test_the_cookie_is_not_the_token_and_ends_with_it(made: World, page: TeamPage) -> None:
    """A session of its own: shorter than the token where that is long, as long where that is short. The page warns of a
    token that ends soon. Signing out ends the session on the server, and of one member there are at most fifty."""
    dee = await made.member("Dee", "viewer")
    found: list[object] = []
    for left in (None, 3_600_000, 30 * 86_400_000):
        end = None if left is None else now_ms() + left
        secret, token = await made.secret(dee, ("read",), expires=end)
        await page.sign_in(secret)
        me = (await page.get("/api/me"))["member"]
        tokens = await made.database.tokens(made.org.id)
        session = next(one for one in tokens if one.parent == token.id)
        found.append((secret in page.cookie, me["token_ends"] == end if left else me["token_ends"]))
        found.append(
            (session.kind == "page", me["ends"] == end, me["ends"] - session.created < 13 * 3_600_000)
        )
    cookie = page.cookie
    await page.ask("POST", "/api/logout", body={})
    found.append((await page.ask("GET", "/api/me", cookie=cookie)).status_code)
    for _ in range(52):
        await page.sign_in(secret)
    kinds = [token.kind for token in await made.database.tokens(made.org.id) if token.user == dee.id]
    assert [*found, kinds.count("page")] == [
        (False, None),
        (True, False, True),
        (False, True),
        (True, True, True),
        (False, False),
        (True, False, True),
        401,
        50,
    ]


@on_a_page()
async def test_the_cookie_opens_nothing_but_the_page(made: World, page: TeamPage) -> None:
    """A request to the API that carries it is a request without a token; and a header does not open the page."""
    bearer = {"authorization": f"Bearer {made.token}"}
    assert [
        (await page.ask("GET", "/v1/sessions")).status_code,
        (await page.ask("DELETE", f"/v1/sessions/{ONE}")).status_code,
        (await page.ask("GET", "/metrics")).status_code,
        (await page.ask("GET", "/api/sessions", cookie="", **bearer)).status_code,
        (await page.ask("GET", "/v1/sessions", cookie="", **bearer)).status_code,
        *[
            (
                await page.ask("GET", "/v1/sessions", cookie="", authorization=f"{scheme} {page.cookie}")
            ).status_code
            for scheme in ("Bearer", "Page", "page")
        ],
        (await page.ask("GET", "/api/sessions", cookie=made.token)).status_code,
    ] == [401, 401, 401, 401, 200, 401, 401, 401, 401]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/api/me", {"host": "evil.example"}, 421),
        ("GET", "/", {"host": "team.example:8787"}, 421),
        ("GET", "/api/me", {"host": "team.example:443"}, 200),
        ("GET", "/api/me", {"origin": "https://evil.example"}, 403),
        ("GET", "/api/me", {"origin": "http://team.example"}, 403),
        ("GET", "/api/me", {"origin": "null"}, 403),
        ("GET", "/api/me", {"origin": ORIGIN, "sec_fetch_site": "same-origin"}, 200),
        ("GET", "/api/me", {"sec_fetch_site": "cross-site"}, 403),
        ("GET", "/api/me", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
        ("GET", "/", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),
        ("GET", "/", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ("POST", "/api/index/refresh", {"sec_fetch_site": "same-site"}, 403),
        ("POST", "/api/index/refresh", {"x_recollect_token": "wrong"}, 403),
        ("POST", "/api/logout", {"x_recollect_token": ""}, 403),
        ("POST", "/api/index/refresh", {"content_type": "text/plain"}, 415),
        ("POST", LOGIN, {"origin": "https://evil.example"}, 403),
        ("POST", LOGIN, {"content_type": "application/x-www-form-urlencoded"}, 415),
        ("PUT", "/api/me", {}, 405),
        ("OPTIONS", "/api/sessions", {}, 405),
    ],
)
@on_a_page(databases=("sqlite",))
async def test_only_the_page_itself_is_answered(
    made: World, page: TeamPage, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """Host, Origin and Sec-Fetch-Site are those of the public address; a link from elsewhere opens the bare page."""
    answer = await page.ask(method, path, body={} if method == "POST" else None, **headers)
    found, policy = (answer.status_code, answer.headers.get("content-security-policy"))
    assert found == status
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'self'")


@on_a_page()
async def test_nothing_can_be_changed_from_the_page(made: World, page: TeamPage) -> None:
    """Every route that is not for reading is refused, with the token of the page and all; the log stays as it is."""
    found = set()
    for one in REFUSED:
        path = one.path.format(session=ONE)
        found.add((await page.ask(one.method, path, body={"apply": True})).status_code)
    assert (found, (await made.read(ONE)).content) == ({403}, TALKED)


def test_what_is_refused_is_all_that_changes_something() -> None:
    """And what is about one person's machine (health, stars and pins, directories) or needs every transcript; what is left are
    questions, an export and a look."""
    assert {one.path for one in OFFERED if one.method == "POST"} == {
        "/api/sessions/{session}/export",
        "/api/index/refresh",
    }
    assert {one.path for one in REFUSED if one.method == "GET"} == {
        "/api/stats",
        "/api/stats/sessions",
        "/api/edits",
        "/api/directories",
        "/api/health",
        "/api/marks",
    }


def test_an_address_is_https_or_this_machine() -> None:
    """Anything else would send tokens in the clear, or is no address of a page."""
    assert address_of("https://Team.Example/").origin == "https://team.example"
    assert address_of("https://team.example:8443").hosts == {"team.example:8443"}
    assert address_of("http://127.0.0.1:8787").cookie == "recollect_team_8787"
    assert address_of("http://[::1]:8787").origin == "http://[::1]:8787"
    for bad in (
        "http://team.example",
        "team.example",
        "https://team.example/below",
        "ftp://x",
        "https://",
        "https://x:y",
    ):
        with pytest.raises(UsageError):
            address_of(bad)


@pytest.mark.parametrize(
    "words", [["--page", "http://team.example"], ["--page", "nonsense"], ["--page-cache", "/somewhere"]]
)
def test_the_command_refuses_a_page_without_a_good_address(words: list[str]) -> None:
    """Before anything listens, with the status of a wrong command line."""
    assert main(["team", "serve", "--database", "memory:", "--quiet", *words]) == 2


# ---- what is seen ----------------------------------------------------------------------------------------


@on_a_page()
async def test_organisations_see_nothing_of_each_other(made: World, page: TeamPage, tmp_path: Path) -> None:
    """Not in the list, not by id, not in search and cost, not in the copies of the other's sessions."""
    org = await new_org(made.database)
    stranger, _ = await made.secret(await made.member("Eve", org=org))
    hers = lines([prompt(1, None, "hers alone")])
    await made.put("eves", hers, token=stranger)
    assert await page.ids() == [ONE, TWO]
    await page.get(f"/api/sessions/{ONE}")
    await page.sign_in(stranger)
    seen = await page.ids()
    await page.get("/api/sessions/eves")
    found = await page.get("/api/search?q=Q1")
    cost = await page.get("/api/cost?by=session")
    statuses = [
        (await page.ask("GET", f"/api/sessions/{ONE}{rest}")).status_code
        for rest in ("", "/messages", "/map", "/resume", "/files", "/todos", "/findings", "/agents")
    ]
    mirrors = {
        name: sorted(path.name for path in (tmp_path / name).rglob("*.jsonl"))
        for name in (org.id, made.org.id)
    }
    assert mirrors == {org.id: ["eves.jsonl"], made.org.id: [f"{ONE}.jsonl"]}
    assert [seen, found["groups"], cost["rows"], statuses] == [["eves"], [], [], [404] * 8]


@on_a_page()
async def test_the_page_shows_what_was_sent(made: World, page: TeamPage, tmp_path: Path) -> None:
    """The list, a conversation, a search, and the bytes of the copy; where it lies is not told."""
    ids = await page.ids()
    head = await page.get(f"/api/sessions/{ONE}")
    window = await page.get(f"/api/sessions/{ONE}/messages")
    found = await page.get("/api/search?q=Q2")
    agents = await page.get(f"/api/sessions/{ONE}/agents")
    me = await page.get("/api/me")
    assert str(tmp_path) not in json.dumps([head, window, found, agents, me])
    logs = sorted(tmp_path.glob(f"{made.org.id}/*/home/projects/*/*.jsonl"))
    assert [
        ids,
        [block["text"] for one in window["messages"] for block in one["blocks"]],
        sorted(group["session"] for group in found["groups"]),
        [path.read_bytes() for path in logs],
        (me["is_read_only"], me["homes"], me["member"]["name"], head["person"]),
    ] == [
        [ONE, TWO],
        ["Q1", "A1", "Q2", "A2"],
        [ONE, TWO],
        [TALKED],
        (True, [], "Ada", "Ada"),
    ]


@on_a_page()
async def test_new_lines_are_there_with_the_next_request(made: World, page: TeamPage) -> None:
    """Of a session, and of the list."""
    before = (await page.get(f"/api/sessions/{ONE}/map"))["total"]
    await made.put(ONE, FIFTH, after(TALKED))
    window = await page.get(f"/api/sessions/{ONE}/messages?from=-1")
    await made.put("third", TALKED)
    assert [before, window["messages"][0]["blocks"][0]["text"], await page.ids()] == [
        4,
        "the fifth line",
        [ONE, TWO, "third"],
    ]


@on_a_page(databases=("postgres",))
async def test_a_search_of_the_page_that_ended_early_says_so(
    made: World, page: TeamPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its total is not exact, and a note says how far the search came."""
    await page.get("/api/search?q=Q1")
    monkeypatch.setattr(postgres_search, "_MOST_BLOCKS", 0)
    found = await page.get("/api/search?q=Q1")
    assert not found["total_is_exact"]
    assert "the words are in too many lines: only those after 20" in found["notes"][0]


@on_a_page()
async def test_a_session_that_is_opened_again_after_its_deletion_is_gone(
    made: World, page: TeamPage, tmp_path: Path
) -> None:
    """Without a look at the list in between, and also while its copy is not compared with the server again."""
    patient = TeamPage(made, tmp_path / "patient", rest=600)
    patient.page.start()
    await patient.sign_in()
    found = [await one.ask("GET", f"/api/sessions/{ONE}/map") for one in (page, patient)]
    await made.ask("DELETE", f"/v1/sessions/{ONE}")
    found += [await one.ask("GET", f"/api/sessions/{ONE}/map") for one in (page, patient)]
    await patient.close()
    assert ([one.status_code for one in found]) == [200, 200, 404, 404]


@on_a_page()
async def test_copies_of_what_was_deleted_go_though_nobody_looks(made: World, page: TeamPage) -> None:
    """By the hourly sweep; what is still kept stays."""
    for session in (ONE, TWO):
        await page.get(f"/api/sessions/{session}")
    await made.ask("DELETE", f"/v1/sessions/{ONE}")
    await page.page.tidy()
    assert page.copies() == [f"{TWO}.jsonl"]


@on_a_page()
async def test_sealed_sessions_are_counted_and_not_shown(made: World, page: TeamPage) -> None:
    """Their lines are nothing a page could show."""
    await made.put("sealed", b'{"sealed":1,"x":"AAAA"}\n', headers={ENCRYPTED: "1"})
    await page.ids()
    ids = await page.ids()
    assert [ids, (await page.get("/api/me"))["member"]["sealed"]] == [[ONE, TWO], 1]


@on_a_page()
async def test_retention_is_that_of_the_organisation(made: World, page: TeamPage) -> None:
    """A session expires so many days after its last change; without a limit never."""
    days = []
    for limit in (None, 45):
        await made.database.change_org(replace(made.org, retention_days=limit), OPERATOR)
        row = (await page.get("/api/sessions"))["sessions"][0]
        stored = (await made.ask("GET", f"/v1/sessions/{row['id']}")).json()["session"]["changed"]
        expires = row["expires_at"] and dt.datetime.fromisoformat(row["expires_at"])
        kept = expires and expires - dt.datetime.fromtimestamp(stored / 1000, dt.UTC)
        days.append(kept and round(kept / dt.timedelta(days=1)))
    assert days == [None, 45]


@on_a_page(databases=("sqlite",))
async def test_resuming_fetches_the_session_and_no_other(made: World, page: TeamPage) -> None:
    """By its address on this page, which `recollect resume` understands. Nothing of this machine's directories is told."""
    way = await page.get(f"/api/sessions/{ONE}/resume")
    (group, *_) = (await page.get("/api/search?q=Q1"))["groups"]
    assert group["resume"] == way["line"].replace(ONE, group["session"])
    assert shlex.split(way["line"]) == way["argv"]
    *command, url = list(way["argv"])
    assert (command, url) == (["recollect", "resume"], f"{ORIGIN}/#/s/{ONE}")
    assert session_of(url, ORIGIN) == ONE


@on_a_page(databases=("sqlite",))
async def test_a_session_can_be_saved_in_every_format(made: World, page: TeamPage, tmp_path: Path) -> None:
    """As on the local page; where its copy lies is in none of them."""
    exports = (await page.get("/api/me"))["exports"]
    assert sorted(exports) == ["flat", "html", "json", "jsonl", "md"]
    for kind in exports:
        answer = await page.ask("POST", f"/api/sessions/{ONE}/export", body={"format": kind})
        assert answer.status_code == 200, kind
        assert b"A2" in answer.content, kind
        assert str(tmp_path).encode() not in answer.content, kind


@on_a_page(databases=("sqlite",))
async def test_each_description_is_its_own(made: World, page: TeamPage) -> None:
    """The page's lists what is offered; the server's is as it was."""
    own = (await page.ask("GET", "/api/openapi.json", cookie="")).json()
    team = (await page.ask("GET", "/openapi.json", cookie="")).json()
    assert (set(own["paths"]), "/v1/sessions" in team["paths"] and "/api/me" not in team["paths"]) == (
        {one.path for one in OFFERED} | {"/api/login", "/api/logout", "/api/openapi.json", "/api/sign-in"},
        True,
    )


@on_a_page(databases=("sqlite",))
async def test_every_answer_is_as_the_description_says(made: World, page: TeamPage) -> None:
    """What members get otherwise than on the local page too: who they are, how to resume, refusals."""
    answers = {one.path: document_of(one) for one in OFFERED}
    at = "/api/sessions/{session}"
    for path in (
        at,
        *(f"{at}/{part}" for part in ("resume", "messages", "map", "agents")),
        "/api/me",
        "/api/sessions",
    ):
        require_fit(answers[path], await page.get(path.format(session=ONE)))
    require_fit(LoginDocument, (await page.sign_in()).json())
    require_fit(SignedOutDocument, (await page.ask("POST", "/api/logout", body={})).json())
    for path in ("/api/me", "/api/sessions/none", "/api/health"):
        require_fit(ErrorDocument, (await page.ask("GET", path, cookie="")).json())


# ---- as a process ----------------------------------------------------------------------------------------


@on_a_page(databases=("sqlite",))
async def test_two_servers_share_a_place_and_no_copy(made: World, page: TeamPage, tmp_path: Path) -> None:
    """Two pages before one database, asked at once: each has what was sent. What a killed one left goes when another starts."""
    left = tmp_path / "org/copies-left/home"
    left.mkdir(parents=True)
    other = TeamPage(made, tmp_path)
    other.cookie, other.token = page.cookie, page.token
    data, found = TALKED, list[bool]()
    for number in range(3):
        more = lines([prompt(10 + number, 4, f"line {number}")])
        await made.put(ONE, more, after(data))
        data += more
        heads = await asyncio.gather(*(one.get(f"/api/sessions/{ONE}") for one in (page, other)))
        found.append([head["bytes"] for head in heads] == [len(data)] * 2)
    await other.close()
    assert found == [True] * 3
    assert not left.exists()
