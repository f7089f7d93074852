"""Every route refuses everybody it should, and says the same to all of one kind."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from recollect.server.app import ROUTES, Endpoint, make_app
from recollect.server.database.records import OrgTeam, Unavailable, now_ms
from recollect.server.service import ServerLimits, Service
from recollect.server.tenancy import READ, SCOPES, SKEW_MS, new_id, new_secret
from recollect.share.sync.wire import ORGANIZATION, POSITION, START
from tests.server.conftest import Kind
from tests.server.world import OPERATOR, World, in_a_world, in_world, new_org, prompt


def routes_of_the_app() -> list[Endpoint]:
    """Every method of every path the application itself would answer, with the endpoint the table has for it.

    Starlette answers HEAD wherever it answers GET, so there are more of them than rows in the table.
    """
    app: Any = make_app(Service(Kind("sqlite").make()), is_owner=False)
    table = {(route.method, route.path): route for route in ROUTES}
    found = []
    for route in app._app.routes:
        assert isinstance(route, Route), "something that is no plain route stands in the application"
        for method in sorted(route.methods or ()):
            row = table.get((method, route.path)) or table[("GET", route.path)]
            found.append(Endpoint(method, row.path, row.run, row.scope))
    return found


TORTURE = bool(os.environ.get("RECOLLECT_TORTURE"))
ANSWERED = routes_of_the_app()
GUARDED = [route for route in ANSWERED if route.scope is not None]
BODIES: dict[tuple[str, str], dict[str, object]] = {
    ("PATCH", "/v1/sessions/{session_id}"): {"title": "stolen"},
    ("PATCH", "/v1/org"): {"retention_days": 1},
    ("POST", "/v1/users"): {"name": "Mallory"},
    ("PATCH", "/v1/users/{user_id}"): {"role": "viewer"},
    ("POST", "/v1/tokens"): {"user": "USER", "scopes": ["read"]},
    ("POST", "/v1/teams"): {"name": "Thieves"},
    ("PATCH", "/v1/teams/{team_id}"): {"members": []},
    ("POST", "/v1/token/rotate"): {},
    ("POST", "/v1/users/{user_id}/erasure"): {"name": "Eve"},
}
# Scopes with which a route is answered, where it is not the one of the table alone.
SUFFICIENT = {"read": ("read", "read:own"), "cost": ("read", "read:own", "cost"), "any": SCOPES}


async def asked(
    made: World, route: Endpoint, token: str | None, ids: dict[str, str], **headers: str
) -> tuple[int, str]:
    """Ask a route as somebody, in a way that would be answered to the right one."""
    path = re.sub(r"\{(\w+)\}", lambda found: ids[found[1]], route.path)
    parameters = {"key": "f"} if path.endswith("/file") else {"q": "word"} if path.endswith("/search") else {}
    document = BODIES.get((route.method, route.path))
    more: dict[str, object] = {}
    if document is not None:
        more["json"] = {
            name: ids["user_id"] if value == "USER" else value for name, value in document.items()
        }
    elif route.method == "PUT":
        more["content"] = prompt("stolen")
    sent = {POSITION: str(START), **headers}
    if token is not None:
        sent["Authorization"] = token
    answer = await made.client.request(route.method, path, params=parameters, headers=sent, **more)  # type: ignore[arg-type]
    return answer.status_code, answer.text


def test_every_route_refuses_every_bad_token(kind: Kind) -> None:
    """None, malformed, unknown, revoked, expired, of a disabled member: 401, the same words. Wrong scope: 403."""

    async def scene(made: World) -> list[str]:
        user = await made.member("Eve")
        ids = {"session_id": "s1", "user_id": user.id, "token_id": new_id(), "team_id": new_id()}
        await made.put("s1", prompt("x"))
        await made.ask("PUT", "/v1/sessions/s1/file", params={"key": "f"}, content=b"x")
        revoked, token = await made.secret(user, SCOPES)
        await made.database.revoke_token(made.org.id, token.id, OPERATOR)
        expired, _ = await made.secret(user, SCOPES, expires=now_ms() - 301_000)
        gone = await made.member("Gone")
        disabled, _ = await made.secret(gone, SCOPES)
        await made.database.change_user(made.org.id, gone.id, None, True, OPERATOR)
        unknown, _ = new_secret()
        bad = [None, "", "Bearer", "Basic eDp5", "Bearer x", f"Bearer {unknown}", unknown]
        bad += [f"Bearer {secret}" for secret in (revoked, expired, disabled)]
        bad += [f"Bearer {made.token}x", f"Bearer {made.token[:-1]}", f"Token {made.token}"]
        wrong = []
        for number, route in enumerate(GUARDED):
            # Before each database every route and every bad token; every pair of them before one.
            some = bad if TORTURE or kind.name == "sqlite" else [None, bad[number % len(bad)]]
            refused = {await asked(made, route, token, ids) for token in some}
            sufficient = SUFFICIENT.get(route.scope or "", (route.scope,))
            others = tuple(scope for scope in SCOPES if scope not in sufficient)
            narrow, _ = await made.secret(user, others)
            status, _ = await asked(made, route, f"Bearer {narrow}", ids)
            if len(refused) != 1 or {401} != {code for code, _ in refused} or status != 403:
                wrong.append(f"{route.method} {route.path}: {refused}, wrong scope {status}")
        return wrong

    assert in_world(kind, scene) == []


@in_a_world()
async def test_another_tenants_things_are_not_there(made: World) -> None:
    """Ids of another organisation answer as ids that never were, and its name in the header answers 404."""
    user = await made.member("Eve")
    _, token = await made.secret(user)
    red = OrgTeam(new_id(), made.org.id, "red", now_ms())
    await made.database.add_team(red, OPERATOR)
    theirs = {"session_id": "s1", "user_id": user.id, "token_id": token.id, "team_id": red.id}
    await made.put("s1", prompt("mine"))
    await made.ask("PUT", "/v1/sessions/s1/file", params={"key": "f"}, content=b"mine")
    nobodys = {"session_id": "never", "user_id": new_id(), "token_id": new_id(), "team_id": new_id()}
    wrong = []
    for route in GUARDED:
        other = await new_org(made.database)  # each time: a route may change what the thief has
        thief = f"Bearer {(await made.secret(await made.member('Thief', org=other), SCOPES))[0]}"
        found = await asked(made, route, thief, theirs)
        missing = await asked(made, route, thief, nobodys)
        named = await asked(made, route, thief, theirs, **{ORGANIZATION: made.org.id})
        if named[0] != 404 or not _is_hidden(route, found, missing):
            wrong.append(f"{route.method} {route.path}: {found} {missing} {named}")
    kept = [
        (await made.read("s1")).content,
        (await made.ask("GET", "/v1/sessions/s1/file", params={"key": "f"})).content,
        [user.role for user in await made.database.users(made.org.id)],
        [token.revoked for token in await made.database.tokens(made.org.id)],
        [team.name for team in await made.database.teams(made.org.id)],
    ]
    assert kept == [prompt("mine"), b"mine", ["admin", "admin"], [None, None], ["red"]]
    assert wrong == []


def _is_hidden(route: Endpoint, found: tuple[int, str], missing: tuple[int, str]) -> bool:
    """Whether an answer to a stranger tells nothing of what is there."""
    by_id = "{" in route.path or (route.method, route.path) == ("POST", "/v1/tokens")
    if by_id and route.method != "PUT":
        return found == missing and found[0] == 404
    if "{" not in route.path and route.method in ("GET", "HEAD"):
        # Lists are the asker's own: nothing of the other organisation stands in them.
        is_free = "s1" not in found[1] or route.path in ("/metrics", "/v1/audit")
        return found[0] == 200 and is_free and '"mine"' not in found[1]
    return True


@in_a_world()
async def test_a_token_has_what_both_its_scopes_and_the_role_allow(made: World) -> None:
    """A viewer's token with every scope only reads, from the moment the role was lowered."""
    user = await made.member("Eve")
    secret, _ = await made.secret(user)
    before = (await made.put("s1", prompt("x"), token=secret)).status_code
    await made.ask("PATCH", f"/v1/users/{user.id}", json={"role": "viewer"})
    assert [
        before,
        (await made.put("s2", prompt("x"), token=secret)).status_code,
        (await made.ask("GET", "/v1/sessions", token=secret)).status_code,
        (await made.ask("GET", "/v1/tokens", token=secret)).status_code,
    ] == [200, 403, 200, 403]


@in_a_world()
async def test_a_token_is_told_once(made: World) -> None:
    """The answer that makes it holds it; no list does, and it works until its last day."""
    user = await made.member("Eve")
    document = {"user": user.id, "scopes": ["read"], "machine": "laptop", "days": 30}
    created = await made.ask("POST", "/v1/tokens", json=document)
    secret = created.json()["token"]
    listed = await made.ask("GET", "/v1/tokens")
    who = (await made.ask("GET", "/v1/whoami", token=secret)).json()
    assert [created.status_code, secret in listed.text, who["user_name"], who["machine"], who["scopes"]] == [
        201,
        False,
        "Eve",
        "laptop",
        ["read"],
    ]


@in_a_world()
async def test_metrics_scope_is_not_given_by_an_organisation(made: World) -> None:
    """Only the operator's command line makes a token that reads the server's counts."""
    user = await made.member("Eve")
    asked = await made.ask("POST", "/v1/tokens", json={"user": user.id, "scopes": ["metrics"]})
    secret, _ = await made.secret(user, ("metrics",))
    text = (await made.ask("GET", "/metrics", token=secret)).text
    assert [asked.status_code, "recollect_requests_total{" in text, made.org.id in text] == [400, True, False]


@in_a_world(databases=("sqlite",))
async def test_a_revocation_holds_with_the_next_request(made: World) -> None:
    """Through this server and through another one."""
    secret, token = await made.secret(await made.member("Eve"))
    other, second = await made.secret(await made.member("Bob"))
    statuses = [(await made.ask("GET", "/v1/org", token=one)).status_code for one in (secret, other)]
    await made.ask("DELETE", f"/v1/tokens/{token.id}")
    await made.database.revoke_token(made.org.id, second.id, OPERATOR)
    statuses += [(await made.ask("GET", "/v1/org", token=one)).status_code for one in (secret, other)]
    assert statuses == [200, 200, 401, 401]


@pytest.mark.parametrize("is_silent", [False, True], ids=["refuses", "does not answer"])
def test_a_token_whose_use_cannot_be_noted_is_admitted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_silent: bool
) -> None:
    """A date in a list is no reason to refuse a read."""

    async def used(*_: object) -> None:
        if is_silent:
            await asyncio.sleep(60)
        raise Unavailable("read-only")

    async def scene(made: World) -> int:
        monkeypatch.setattr(made.database, "used", used)
        return (await asyncio.wait_for(made.ask("GET", "/v1/sessions"), 10)).status_code

    assert in_world(Kind("sqlite"), scene) == 200
    assert is_silent or any(one.getMessage() == "token use" for one in caplog.records)


def test_a_refusal_does_not_wait_for_its_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that takes no writes is no reason to keep someone waiting for a no."""

    async def silent(*_: object) -> None:
        await asyncio.sleep(60)

    async def scene(made: World) -> int:
        secret, _ = await made.secret(await made.member("Eve"), (READ,))
        monkeypatch.setattr(made.database, "note_refusal", silent)
        return (await asyncio.wait_for(made.ask("GET", "/v1/audit", token=secret), 10)).status_code

    assert in_world(Kind("sqlite"), scene) == 403


@in_a_world(ServerLimits(requests_per_second=10), databases=("sqlite",))
async def test_too_many_requests_are_told_to_wait(made: World) -> None:
    """One token gets its rate and a burst of as much again; another token is not held up by it."""
    answers = [await made.ask("GET", "/v1/org") for _ in range(40)]
    late = next(answer for answer in answers if answer.status_code == 429)
    other, _ = await made.secret(await made.member("Eve"))
    calm = (await made.ask("GET", "/v1/org", token=other)).status_code
    assert (answers[0].status_code, late.status_code, late.headers["retry-after"], calm) == (
        200,
        429,
        "1",
        200,
    )


@in_a_world(ServerLimits(failures_per_second=2), databases=("sqlite",))
async def test_guessing_tokens_is_slowed_down(made: World) -> None:
    """After so many refused tokens an address gets 429 for the next bad ones, also with a new one each time."""
    answers = [await made.client.get("/v1/org") for _ in range(10)]
    another = await made.ask("GET", "/v1/org", token=new_secret()[0])
    assert [answers[0].status_code, answers[-1].status_code, another.status_code] == [401, 429, 429]


@in_a_world(ServerLimits(failures_per_second=2), databases=("sqlite",))
async def test_bad_tokens_lock_nobody_out(made: World) -> None:
    """An office behind one address: 120 requests with an expired token beside those of two good ones, one of
    them new to the server. None of the good ones is refused, and the bad ones are looked up at most twice a time."""
    user = await made.member("Eve")
    expired, _ = await made.secret(user, expires=now_ms() - SKEW_MS - 1)
    fresh, _ = await made.secret(user)
    bad = [asyncio.create_task(made.ask("GET", "/v1/org", token=expired)) for _ in range(120)]
    good = [asyncio.create_task(made.ask("GET", "/v1/org", token=one)) for one in [made.token, fresh] * 20]
    refused = {answer.status_code for answer in await asyncio.gather(*bad)}
    assert [refused <= {401, 429}, {answer.status_code for answer in await asyncio.gather(*good)}] == [
        True,
        {200},
    ]


def test_refused_tokens_are_counted_for_each_address_and_token() -> None:
    """An address whose bucket is empty does not slow another one down."""

    async def scene(made: World) -> list[int]:
        def via(address: str) -> httpx.AsyncClient:
            return httpx.AsyncClient(
                transport=httpx.ASGITransport(made.app, client=(address, 1)), base_url="http://team"
            )

        async with via("10.0.0.1") as first, via("10.0.0.2") as second:
            for _ in range(10):
                last = await first.get("/v1/org")
            return [last.status_code, (await second.get("/v1/org")).status_code]

    assert in_world(Kind("sqlite"), scene, ServerLimits(failures_per_second=2)) == [429, 401]


def test_no_route_stands_beside_the_door() -> None:
    """Without a token: the server's own state, and signing in; they tell nothing of anybody. The table has every route."""
    is_open = {route.path for route in ANSWERED if route.scope is None}
    signing_in = {"/v1/sign-in", "/v1/sign-in/device", "/v1/sign-in/device/token"}
    assert is_open == {"/healthz", "/readyz", "/openapi.json", *signing_in}
    assert {(route.method, route.path) for route in ANSWERED} >= {(row.method, row.path) for row in ROUTES}
    assert {route.path for route in ANSWERED} == {row.path for row in ROUTES}


@in_a_world()
async def test_an_expired_token_has_five_minutes(made: World) -> None:
    """A clock that is a little off locks nobody out; one that is further off does."""
    user = await made.member("Eve")
    now = now_ms()
    secrets = [(await made.secret(user, expires=now - late))[0] for late in (240_000, 310_000)]
    assert ([(await made.ask("GET", "/v1/org", token=secret)).status_code for secret in secrets]) == [
        200,
        401,
    ]
