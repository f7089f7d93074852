"""The page of a team server: who may see what, and that it is what the server keeps."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from recollect.cli.main import main
from recollect.errors import UsageError
from recollect.sample import sample_home
from recollect.server.database import postgres_search
from recollect.server.database.records import Retention
from recollect.server.database.sql_base import now_ms
from recollect.server.limits import ServerLimits
from recollect.server.tenancy import SKEW_MS
from recollect.services.documents.page import ErrorDocument, LoginDocument, SignedOutDocument
from recollect.services.sync.resume_url import session_of
from recollect.services.sync.selection import PushScan
from recollect.sync.wire import ENCRYPTED
from recollect.web.gate import LOGIN
from recollect.web.members import OFFERED, REFUSED, address_of
from tests.documents import require_fit
from tests.server.conftest import Kind
from tests.server.team_page import COOKIE, ORIGIN, TALKED, TeamPage, two_sessions
from tests.server.world import OPERATOR, PLENTY, World, after, in_world, new_org
from tests.small_home import ONE, TWO, lines, prompt

Result = TypeVar("Result")
FIFTH = lines([prompt(5, 4, "the fifth line")])


def on_page(
    kind: Kind,
    place: Path,
    scene: Callable[[World, TeamPage], Awaitable[Result]],
    limits: ServerLimits = PLENTY,
    *,
    is_signed_in: bool = True,
) -> Result:
    """Play a scene with two sessions and a page, signed in."""

    async def play(made: World) -> Result:
        await two_sessions(made)
        page = TeamPage(made, place)
        try:
            async with page.client:
                if is_signed_in:
                    await page.sign_in()
                return await scene(made, page)
        finally:
            await page.close()

    return in_world(kind, play, limits)


# ---- who may come in -------------------------------------------------------------------------------------


def test_signing_in_sets_a_cookie_for_the_page_alone(kind: Kind, tmp_path: Path) -> None:
    """Not for scripts, not for other sites, not in the clear, not beyond /api; signing out takes it away."""

    async def scene(_: World, page: TeamPage) -> tuple[str, str, int]:
        cookie = (await page.sign_in()).headers["set-cookie"]
        gone = (await page.ask("POST", "/api/logout", body={})).headers["set-cookie"]
        return cookie, gone, (await page.ask("GET", "/api/me", cookie="")).status_code

    cookie, gone, status = on_page(kind, tmp_path, scene)
    name, *rest = cookie.split("; ")
    assert (name.partition("=")[0], sorted(rest)) == (
        COOKIE,
        ["HttpOnly", "Path=/api", "SameSite=strict", "Secure"],
    )
    assert gone.startswith(f'{COOKIE}=""; ')
    assert "Max-Age=0" in gone
    assert status == 401


def test_every_route_refuses_whoever_is_no_member(kind: Kind, tmp_path: Path) -> None:
    """Without a cookie, and with every kind of token that is not good, all answers are the same and say how to get in."""

    async def scene(made: World, page: TeamPage) -> set[tuple[int, str]]:
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
        return found

    assert on_page(kind, tmp_path, scene, is_signed_in=False) == {
        (401, "not signed in"),
        (401, "a valid token is needed"),
    }


def test_a_token_that_may_not_read_is_not_let_in(kind: Kind, tmp_path: Path) -> None:
    """By its own scopes, at the entrance; a bad one is refused there too, and a token is no cookie."""

    async def scene(made: World, page: TeamPage) -> list[int]:
        writes, _ = await made.secret(await made.member("Cid"), ("write",))
        bad = await page.sign_in("rcl_" + "B" * 43)
        return [
            (await page.sign_in(writes)).status_code,
            (await page.ask("GET", "/api/sessions", cookie=writes)).status_code,
            bad.status_code,
        ]

    assert on_page(kind, tmp_path, scene, is_signed_in=False) == [403, 401, 401]


def test_revocation_and_disabling_hold_with_the_next_request(kind: Kind, tmp_path: Path) -> None:
    """Also where the server remembers tokens for its API."""

    async def scene(made: World, page: TeamPage) -> list[int]:
        made.service.doorkeeper._remember = 60.0
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
        return found

    assert on_page(kind, tmp_path, scene, is_signed_in=False) == [200, 200, 401, 200, 401]


def test_the_cookie_is_not_the_token_and_ends_with_it(kind: Kind, tmp_path: Path) -> None:
    """A session of its own: shorter than the token where that is long, as long where that is short. The page warns of a
    token that ends soon. Signing out ends the session on the server, and of one member there are at most fifty."""

    async def scene(made: World, page: TeamPage) -> list[object]:
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
        return [*found, kinds.count("page")]

    assert on_page(kind, tmp_path, scene, is_signed_in=False) == [
        (False, None),
        (True, False, True),
        (False, True),
        (True, True, True),
        (False, False),
        (True, False, True),
        401,
        50,
    ]


def test_the_cookie_opens_nothing_but_the_page(kind: Kind, tmp_path: Path) -> None:
    """A request to the API that carries it is a request without a token; and a header does not open the page."""

    async def scene(made: World, page: TeamPage) -> list[int]:
        bearer = {"authorization": f"Bearer {made.token}"}
        return [
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
        ]

    assert on_page(kind, tmp_path, scene) == [401, 401, 401, 401, 200, 401, 401, 401, 401]


def test_guessing_tokens_is_slowed_down(kind: Kind, tmp_path: Path) -> None:
    """By the server's own limit of refused tokens from one address."""

    async def scene(made: World, page: TeamPage) -> set[int]:
        for _ in range(10):
            guesses = await asyncio.gather(*(page.sign_in("rcl_" + "C" * 43) for _ in range(20)))
        return {one.status_code for one in guesses}

    assert 429 in on_page(kind, tmp_path, scene, ServerLimits(failures_per_second=1), is_signed_in=False)


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
def test_only_the_page_itself_is_answered(
    method: str, path: str, headers: dict[str, str], status: int, tmp_path: Path
) -> None:
    """Host, Origin and Sec-Fetch-Site are those of the public address; a link from elsewhere opens the bare page."""

    async def scene(_: World, page: TeamPage) -> tuple[int, str | None]:
        answer = await page.ask(method, path, body={} if method == "POST" else None, **headers)
        return answer.status_code, answer.headers.get("content-security-policy")

    found, policy = on_page(Kind("memory"), tmp_path, scene)
    assert found == status
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'self'")


def test_nothing_can_be_changed_from_the_page(kind: Kind, tmp_path: Path) -> None:
    """Every route that is not for reading is refused, with the token of the page and all; the log stays as it is."""

    async def scene(made: World, page: TeamPage) -> tuple[set[int], bytes]:
        found = set()
        for one in REFUSED:
            path = one.path.format(session=ONE)
            found.add((await page.ask(one.method, path, body={"apply": True})).status_code)
        return found, (await made.read(ONE)).content

    assert on_page(kind, tmp_path, scene) == ({403}, TALKED)


def test_what_is_refused_is_all_that_changes_something() -> None:
    """And what is about one person's machine (health, stars and pins, directories) or needs every transcript; what is left are
    questions, an export and a look."""
    assert {one.path for one in OFFERED if one.method == "POST"} == {
        "/api/sessions/{session}/export",
        "/api/index/refresh",
    }
    assert [one.path for one in REFUSED if one.method == "GET"] == [
        "/api/stats",
        "/api/stats/sessions",
        "/api/edits",
        "/api/directories",
        "/api/health",
        "/api/marks",
    ]


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
    assert main(["serve", "--database", "memory:", "--quiet", *words]) == 2


# ---- what is seen ----------------------------------------------------------------------------------------


def test_organisations_see_nothing_of_each_other(kind: Kind, tmp_path: Path) -> None:
    """Not in the list, not by id, not in search and cost, not in the copies of the other's sessions."""

    async def scene(made: World, page: TeamPage) -> list[object]:
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
        return [seen, found["groups"], cost["rows"], statuses]

    assert on_page(kind, tmp_path, scene) == [["eves"], [], [], [404] * 8]


def test_the_page_shows_what_was_sent(kind: Kind, tmp_path: Path) -> None:
    """The list, a conversation, a search, and the bytes of the copy; where it lies is not told."""

    async def scene(made: World, page: TeamPage) -> list[object]:
        ids = await page.ids()
        head = await page.get(f"/api/sessions/{ONE}")
        window = await page.get(f"/api/sessions/{ONE}/messages")
        found = await page.get("/api/search?q=Q2")
        agents = await page.get(f"/api/sessions/{ONE}/agents")
        me = await page.get("/api/me")
        assert str(tmp_path) not in json.dumps([head, window, found, agents, me])
        logs = sorted(tmp_path.glob(f"{made.org.id}/home/projects/*/*.jsonl"))
        return [
            ids,
            [block["text"] for one in window["messages"] for block in one["blocks"]],
            sorted(group["session"] for group in found["groups"]),
            [path.read_bytes() for path in logs],
            (me["is_read_only"], me["homes"], me["member"]["name"], head["person"]),
        ]

    assert on_page(kind, tmp_path, scene) == [
        [ONE, TWO],
        ["Q1", "A1", "Q2", "A2"],
        [ONE, TWO],
        [TALKED],
        (True, [], "Ada", "Ada"),
    ]


def test_new_lines_are_there_with_the_next_request(kind: Kind, tmp_path: Path) -> None:
    """Of a session, and of the list."""

    async def scene(made: World, page: TeamPage) -> list[object]:
        before = (await page.get(f"/api/sessions/{ONE}/map"))["total"]
        await made.put(ONE, FIFTH, after(TALKED))
        window = await page.get(f"/api/sessions/{ONE}/messages?from=-1")
        await made.put("third", TALKED)
        return [before, window["messages"][0]["blocks"][0]["text"], await page.ids()]

    assert on_page(kind, tmp_path, scene) == [4, "the fifth line", [ONE, TWO, "third"]]


def test_deleted_sessions_are_gone_from_everything(kind: Kind, tmp_path: Path) -> None:
    """From list, search, address and disk. What they cost stays counted, as in `team cost`."""

    async def scene(made: World, page: TeamPage) -> list[object]:
        for session in (ONE, TWO):
            await page.get(f"/api/sessions/{session}")
        before = (await page.get("/api/cost?by="))["totals"]["cost_usd"]
        await made.ask("DELETE", f"/v1/sessions/{ONE}")
        ids = await page.ids()
        found = await page.get("/api/search?q=Q1")
        status = (await page.ask("GET", f"/api/sessions/{ONE}/messages")).status_code
        cost = await page.get("/api/cost?by=")
        return [
            ids,
            [group["session"] for group in found["groups"]],
            status,
            page.copies(),
            cost["totals"]["cost_usd"] == before,
        ]

    assert on_page(kind, tmp_path, scene) == [[TWO], [TWO], 404, [f"{TWO}.jsonl"], True]


def test_a_search_of_the_page_that_ended_early_says_so(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its total is not exact, and a note says how far the search came."""

    async def scene(made: World, page: TeamPage) -> tuple[bool, list[str]]:
        await page.get("/api/search?q=Q1")
        monkeypatch.setattr(postgres_search, "_MOST_BLOCKS", 0)
        found = await page.get("/api/search?q=Q1")
        return found["total_is_exact"], found["notes"]

    is_exact, (note,) = on_page(Kind("postgres", postgres), tmp_path, scene)
    assert not is_exact
    assert "the words are in too many lines: only those after 20" in note


def test_a_session_that_is_opened_again_after_its_deletion_is_gone(kind: Kind, tmp_path: Path) -> None:
    """Without a look at the list in between, and also while its copy is not compared with the server again."""

    async def scene(made: World, page: TeamPage) -> list[int]:
        patient = TeamPage(made, tmp_path / "patient", rest=600)
        patient.page.start()
        await patient.sign_in()
        found = [await one.ask("GET", f"/api/sessions/{ONE}/map") for one in (page, patient)]
        await made.ask("DELETE", f"/v1/sessions/{ONE}")
        found += [await one.ask("GET", f"/api/sessions/{ONE}/map") for one in (page, patient)]
        await patient.close()
        return [one.status_code for one in found]

    assert on_page(kind, tmp_path, scene) == [200, 200, 404, 404]


def test_copies_of_what_was_deleted_go_though_nobody_looks(kind: Kind, tmp_path: Path) -> None:
    """By the hourly sweep of any server at that place; what is still kept stays."""

    async def scene(made: World, page: TeamPage) -> list[str]:
        for session in (ONE, TWO):
            await page.get(f"/api/sessions/{session}")
        await made.ask("DELETE", f"/v1/sessions/{ONE}")
        other = TeamPage(made, tmp_path)
        other.page.start()
        await other.page.tidy()
        return page.copies()

    assert on_page(kind, tmp_path, scene) == [f"{TWO}.jsonl"]


def test_sealed_sessions_are_counted_and_not_shown(kind: Kind, tmp_path: Path) -> None:
    """Their lines are nothing a page could show."""

    async def scene(made: World, page: TeamPage) -> list[object]:
        await made.put("sealed", b'{"sealed":1,"x":"AAAA"}\n', headers={ENCRYPTED: "1"})
        await page.ids()
        ids = await page.ids()
        return [ids, (await page.get("/api/me"))["member"]["sealed"]]

    assert on_page(kind, tmp_path, scene) == [[ONE, TWO], 1]


def test_retention_is_that_of_the_organisation(kind: Kind, tmp_path: Path) -> None:
    """A session expires so many days after its last change; without a limit in a hundred years."""

    async def scene(made: World, page: TeamPage) -> list[int]:
        days = []
        for limit in (None, 45):
            await made.database.set_retention(made.org.id, Retention(limit), OPERATOR)
            row = (await page.get("/api/sessions"))["sessions"][0]
            stored = (await made.ask("GET", f"/v1/sessions/{row['id']}")).json()["session"]["changed"]
            at = dt.datetime.fromisoformat(row["expires_at"]) - dt.datetime.fromtimestamp(
                stored / 1000, dt.UTC
            )
            days.append(round(at / dt.timedelta(days=1)))
        return days

    assert on_page(kind, tmp_path, scene) == [36_500, 45]


def test_resuming_fetches_the_session_and_no_other(tmp_path: Path) -> None:
    """By its address on this page, which `recollect resume` understands. Nothing of this machine's directories is told."""

    async def scene(_: World, page: TeamPage) -> list[str]:
        way = await page.get(f"/api/sessions/{ONE}/resume")
        (group, *_) = (await page.get("/api/search?q=Q1"))["groups"]
        assert group["resume"] == way["line"].replace(ONE, group["session"])
        assert shlex.split(way["line"]) == way["argv"]
        return list(way["argv"])

    *command, url = on_page(Kind("memory"), tmp_path, scene)
    assert (command, url) == (["recollect", "resume"], f"{ORIGIN}/#/s/{ONE}")
    assert session_of(url, ORIGIN) == ONE


def test_a_session_can_be_saved_in_every_format(tmp_path: Path) -> None:
    """As on the local page; where its copy lies is in none of them."""

    async def scene(_: World, page: TeamPage) -> dict[str, tuple[int, bool, bool]]:
        found = {}
        for kind in (await page.get("/api/me"))["exports"]:
            answer = await page.ask("POST", f"/api/sessions/{ONE}/export", body={"format": kind})
            data = answer.content
            found[kind] = (answer.status_code, b"A2" in data, str(tmp_path).encode() in data)
        return found

    saved = (200, True, False)
    formats = ("html", "md", "json", "jsonl", "flat")
    assert on_page(Kind("memory"), tmp_path, scene) == dict.fromkeys(formats, saved)


def test_each_description_is_its_own(tmp_path: Path) -> None:
    """The page's lists what is offered; the server's is as it was."""

    async def scene(_: World, page: TeamPage) -> tuple[set[str], bool]:
        own = (await page.ask("GET", "/api/openapi.json", cookie="")).json()
        team = (await page.ask("GET", "/openapi.json", cookie="")).json()
        return set(own["paths"]), "/v1/sessions" in team["paths"] and "/api/me" not in team["paths"]

    assert on_page(Kind("memory"), tmp_path, scene) == (
        {one.path for one in OFFERED} | {"/api/login", "/api/logout", "/api/openapi.json", "/api/sign-in"},
        True,
    )


def test_every_answer_is_as_the_description_says(tmp_path: Path) -> None:
    """What members get otherwise than on the local page too: who they are, how to resume, refusals."""
    answers = {one.path: one.document for one in OFFERED}
    at = "/api/sessions/{session}"
    paths = [at, f"{at}/resume", f"{at}/messages", f"{at}/map", f"{at}/agents", "/api/me", "/api/sessions"]

    async def scene(_: World, page: TeamPage) -> list[tuple[Any, object]]:
        found = [(answers[path], await page.get(path.format(session=ONE))) for path in paths]
        found += [
            (LoginDocument, (await page.sign_in()).json()),
            (SignedOutDocument, (await page.ask("POST", "/api/logout", body={})).json()),
            (ErrorDocument, (await page.ask("GET", "/api/me", cookie="")).json()),
            (ErrorDocument, (await page.ask("GET", "/api/sessions/none")).json()),
            (ErrorDocument, (await page.ask("GET", "/api/health")).json()),
        ]
        return found

    for kind, document in on_page(Kind("memory"), tmp_path, scene):
        require_fit(kind, document)


# ---- the same numbers ------------------------------------------------------------------------------------


async def _push(made: World, home: Path) -> None:
    """Everything of a home that `recollect sync push` would send, as it is."""
    for file in PushScan(home).files():
        data = Path(file.path).read_bytes()
        session = file.session or json.loads(data.splitlines()[0])["sessionId"]
        if file.is_log:
            whole = data[: data.rfind(b"\n") + 1]
            answer = await made.put(session, whole, key=file.key)
        else:
            answer = await made.ask(
                "PUT", f"/v1/sessions/{session}/file", params={"key": file.key}, content=data
            )
        assert answer.status_code == 200, (file, answer.text)


def test_costs_are_those_of_the_team_and_of_the_home_they_came_from(
    kind: Kind, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The sample home, by session and model: to the last pico-dollar and response."""
    home = sample_home()
    words = ["--home", str(home), "cost", "--by", "session,model", "--timezone", "UTC", "--json"]
    assert main(words) == 0
    local = json.loads(capfdbinary.readouterr().out)

    async def scene(made: World) -> list[object]:
        await _push(made, home)
        page = TeamPage(made, tmp_path / "mirrors")
        await page.sign_in()
        await page.ids()
        shown = await page.get("/api/cost?by=session,model&timezone=UTC")
        listed = (await page.get("/api/sessions"))["total_cost_usd"]
        team = (await made.ask("GET", "/v1/cost", params={"by": "session,model"})).json()
        await page.close()
        return [shown, listed, team]

    shown, listed, team = in_world(kind, scene)
    assert shown["rows"] == local["rows"]  # type: ignore[index]
    assert shown["totals"] == local["totals"]  # type: ignore[index]
    assert listed == local["totals"]["cost_usd"]
    total = team["total"]  # type: ignore[index]
    assert (total["responses"], total["usd"]) == (local["totals"]["messages"], local["totals"]["cost_usd"])


# ---- as a process ----------------------------------------------------------------------------------------


def test_two_servers_share_one_mirror(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Two pages before one database and one place, asked at once: the same sessions, the same bytes."""
    from tests.server.conftest import kind_named

    async def scene(made: World, page: TeamPage) -> list[object]:
        other = TeamPage(made, tmp_path)
        other.cookie, other.token = page.cookie, page.token
        found: list[object] = []
        data = TALKED
        for number in range(6):
            more = lines([prompt(10 + number, 4, f"line {number}")])
            await made.put(ONE, more, after(data))
            data += more
            heads = await asyncio.gather(
                *(one.get(f"/api/sessions/{ONE}") for one in (page, other)), page.ids(), other.ids()
            )
            found.append([heads[0]["bytes"], heads[1]["bytes"]] == [len(data)] * 2)
        await other.close()
        logs = list(tmp_path.glob(f"{made.org.id}/home/projects/*/{ONE}.jsonl"))
        return [found, [path.read_bytes() == data for path in logs]]

    assert on_page(kind_named("sqlite", request, tmp_path), tmp_path, scene) == [[True] * 6, [True]]
