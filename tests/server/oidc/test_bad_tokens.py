"""What a provider must not get past: tokens that are expired, for others, unsigned, or used before."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt

from recollect.server.database.records import OrgUser, now_ms
from recollect.server.identity_provider import SKEW_SECONDS, IdentityProvider
from recollect.server.sign_in import SignIns
from recollect.server.tenancy import new_id
from tests.server.conftest import Kind
from tests.server.oidc.conftest import provider_settings
from tests.server.oidc.odd_provider import OddProvider, new_key
from tests.server.team_page import ORIGIN, TeamPage
from tests.server.world import OPERATOR, World, in_world

MEMORY = Kind("sqlite")
NOW = int(time.time())


class OddPage:
    """A page whose provider says what the test wants."""

    def __init__(self, made: World, page: TeamPage, odd: OddProvider) -> None:
        self.made, self.page, self.odd = made, page, odd
        self.clock = [0.0]

    async def begin(self) -> tuple[str, str]:
        """Start in a browser; the state that comes back, and the cookie."""
        answer = await self.page.client.get("/oidc/start", params={"organisation": self.made.org.name})
        assert answer.status_code == 303, answer.text
        asked = parse_qs(urlsplit(answer.headers["location"]).query)
        assert asked["code_challenge_method"] == ["S256"]
        self.odd.nonce = asked["nonce"][0]
        return asked["state"][0], answer.headers["set-cookie"].partition(";")[0]

    async def back(self, state: str, cookie: str, **more: str) -> httpx.Response:
        self.page.client.cookies.clear()
        query = {"code": "c", "state": state, **more}
        return await self.page.client.get("/oidc/callback", params=query, headers={"cookie": cookie})

    async def sign_in(self) -> httpx.Response:
        return await self.back(*await self.begin())


def odd_page(
    odd: OddProvider,
    place: Path,
    scene: Callable[[OddPage], Awaitable[Any]],
    kind: Kind = MEMORY,
    **more: object,
) -> Any:
    async def play(made: World) -> Any:
        page = TeamPage(made, place)
        scenery = OddPage(made, page, odd)

        def clock() -> float:
            return time.time() + scenery.clock[0]

        settings = provider_settings(made.org.name, odd.issuer, **more)
        known = IdentityProvider(settings, None, clock)
        made.service.sign_in = SignIns(made.database, [known], ORIGIN, clock)
        try:
            return await scene(scenery)
        finally:
            await page.close()

    return in_world(kind, play)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": NOW - 120, "iat": NOW - 600}, "it has expired"),
        ({"aud": "another"}, "it is for another application"),
        ({"aud": ["recollect", "another"]}, "it is for another application"),
        ({"aud": ["recollect", "another"], "azp": "another"}, "it is for another application"),
        ({"azp": "another"}, "it is for another application"),
        ({"aud": None}, "it is for another application"),
        ({"iss": "http://127.0.0.1:1"}, "it is from another issuer"),
        ({"nonce": "of another sign-in"}, "it belongs to another sign-in"),
        ({"nonce": None}, "it belongs to another sign-in"),
        ({"iat": NOW + 3_600, "exp": NOW + 7_200}, "it is from the future"),
        ({"nbf": NOW + 3_600}, "it is from the future"),
        ({"exp": None}, "it does not say when it is valid"),
        ({"exp": "soon"}, "it does not say when it is valid"),
        ({"sub": None}, "it does not say who signed in"),
        ({"sub": "x" * 256}, "it does not say who signed in"),
        ({"groups": ["strangers"]}, "none of your groups may use this server"),
        ({"groups": {"staff": 1}}, "none of your groups may use this server"),
        ({"preferred_username": 7}, "does not say"),
    ],
)
def test_a_token_that_says_something_else_is_refused(
    odd_provider: OddProvider, tmp_path: Path, claims: dict[str, Any], why: str
) -> None:
    """A page says why; no member and no session come of it, and the audit log has it."""

    async def scene(odd: OddPage) -> tuple[int, str, int, int, list[str]]:
        odd_provider.claims = claims
        answer = await odd.sign_in()
        rows = await odd.made.database.audit(odd.made.org.id, None, 3)
        return (
            answer.status_code,
            answer.text,
            len(await odd.made.database.users(odd.made.org.id)),
            len(await odd.made.database.tokens(odd.made.org.id)),
            [row.detail for row in rows if row.act == "refused"],
        )

    status, text, users, tokens, noted = odd_page(odd_provider, tmp_path, scene)
    assert (status, users, tokens) == (403, 1, 1)
    assert why in text
    assert len(noted) == 1
    assert why in noted[0]


@pytest.mark.parametrize("how", ["none", "shared secret", "another key", "cut", "text", "altered"])
def test_a_token_that_the_provider_did_not_sign_is_refused(
    odd_provider: OddProvider, tmp_path: Path, how: str
) -> None:
    async def scene(odd: OddPage) -> int:
        state, cookie = await odd.begin()
        good = odd_provider.signed()
        head, body, signature = good.split(".")
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        if how == "none":
            unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
            odd_provider.token = f"{unsigned}.{body}."
        elif how == "shared secret":
            # The public key of the provider as the secret of an HMAC: the confusion of the two kinds.
            public = odd_provider.key.as_pem(private=False)
            said = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"one"}').decode().rstrip("=") + f".{body}"
            mac = base64.urlsafe_b64encode(hmac.digest(public, said.encode(), "sha256")).decode().rstrip("=")
            odd_provider.token = f"{said}.{mac}"
        elif how == "another key":
            odd_provider.token = jwt.encode({"alg": "ES256", "kid": "one"}, claims, new_key("one"))
        elif how == "altered":
            claims["groups"] = ["bosses"]
            text = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
            odd_provider.token = f"{head}.{text}.{signature}"
        else:
            odd_provider.token = good[:40] if how == "cut" else "no token"
        return (await odd.back(state, cookie)).status_code

    assert odd_page(odd_provider, tmp_path, scene) == 403


@pytest.mark.parametrize("seconds", [SKEW_SECONDS - 20, -(SKEW_SECONDS - 20), 3_600, -3_600])
def test_clocks_may_differ_by_a_minute(odd_provider: OddProvider, tmp_path: Path, seconds: int) -> None:
    """This server's clock jumps between the start and the end of a sign-in."""

    async def scene(odd: OddPage) -> int:
        odd_provider.claims = {"exp": int(time.time()) + 10}
        state, cookie = await odd.begin()
        odd.clock[0] = seconds
        return (await odd.back(state, cookie)).status_code

    expected = 303 if abs(seconds) < SKEW_SECONDS else 400
    assert odd_page(odd_provider, tmp_path, scene) == expected


def test_a_new_key_is_fetched_once(odd_provider: OddProvider, tmp_path: Path) -> None:
    """Keys are kept; one that is unknown is looked for again, and is refused where it is not published."""

    async def scene(odd: OddPage) -> list[tuple[int, int]]:
        found = []
        for step in ("known", "known", "rotated", "unpublished"):
            if step == "rotated":
                odd_provider.key = new_key("two")
                odd_provider.published = [odd_provider.key]
            elif step == "unpublished":
                odd_provider.key = new_key("three")
            odd_provider.asked.clear()
            status = (await odd.sign_in()).status_code
            found.append((status, odd_provider.asked.count("/keys")))
        return found

    assert odd_page(odd_provider, tmp_path, scene) == [(303, 1), (303, 0), (303, 1), (403, 1)]


def test_a_sign_in_works_once(kind: Kind, odd_provider: OddProvider, tmp_path: Path) -> None:
    """A provider that takes a code twice does not make two sessions; nor does a state of another browser make one."""

    async def scene(odd: OddPage) -> list[int]:
        state, cookie = await odd.begin()
        first = await odd.back(state, cookie)
        again = await odd.back(state, cookie)
        nonce = odd_provider.nonce
        other_state, other_cookie = await odd.begin()
        odd_provider.nonce = nonce
        mixed = [await odd.back(state, other_cookie), await odd.back(other_state, cookie)]
        replayed = await odd.back(other_state, other_cookie)
        none = await odd.back(state, "")
        return [one.status_code for one in (first, again, *mixed, replayed, none)]

    assert odd_page(odd_provider, tmp_path, scene, kind) == [303, 403, 400, 400, 403, 400]


def test_the_code_is_bound_to_the_browser(odd_provider: OddProvider, tmp_path: Path) -> None:
    """PKCE: the verifier that the cookie has is sent with the code; the answer of another issuer is not used."""

    async def scene(odd: OddPage) -> tuple[int, bool, int]:
        state, cookie = await odd.begin()
        done = await odd.back(state, cookie)
        form = next(form for form in odd_provider.forms if form.get("grant_type") == "authorization_code")
        other = await odd.back(*await odd.begin(), iss="https://evil.example")
        return done.status_code, len(form["code_verifier"]) >= 43, other.status_code

    assert odd_page(odd_provider, tmp_path, scene) == (303, True, 403)


def test_a_provider_that_fails_is_named(odd_provider: OddProvider, tmp_path: Path) -> None:
    """Another issuer in its description, an address that is not https, a refused code, a denial of the person."""

    async def scene(odd: OddPage) -> list[tuple[int, bool]]:
        denied = await odd.back(*await odd.begin(), error="access_denied")
        odd_provider.errors = ["invalid_grant"]
        refused = await odd.sign_in()
        found = [(denied.status_code, "access_denied" in denied.text)]
        found.append((refused.status_code, "invalid_grant" in refused.text))
        for wrong in ({"issuer": "http://127.0.0.1:1"}, {"token_endpoint": "http://evil.example/token"}):
            odd_provider.description = wrong
            settings = provider_settings(odd.made.org.name, odd_provider.issuer)
            known = IdentityProvider(settings, None)
            odd.made.service.sign_in = SignIns(odd.made.database, [known], ORIGIN)
            answer = await odd.page.client.get("/oidc/start", params={"organisation": odd.made.org.name})
            found.append((answer.status_code, "the identity provider: it names" in answer.text))
        return found

    assert odd_page(odd_provider, tmp_path, scene) == [(403, True), (403, True), (503, True), (503, True)]


def test_groups_decide_at_every_sign_in(kind: Kind, odd_provider: OddProvider, tmp_path: Path) -> None:
    """Role and teams follow them, also downwards; teams that the settings do not name stay; a disabled member does too.
    Groups may come from the userinfo endpoint, if it is about the same person."""

    async def scene(odd: OddPage) -> list[object]:
        found: list[object] = []
        database, org = odd.made.database, odd.made.org.id
        for groups in (["staff", "bosses", "search"], ["staff"], None):
            odd_provider.claims = {"groups": groups}
            odd_provider.userinfo = {"sub": "ada-1", "groups": ["staff", "search"]}
            status = (await odd.sign_in()).status_code
            user = next(user for user in await database.users(org) if user.name == "ada")
            teams = {team.name: user.id in team.members for team in await database.teams(org)}
            found.append((status, user.role, teams))
        odd_provider.userinfo = {"sub": "another", "groups": ["bosses"]}
        found.append((await odd.sign_in()).status_code)
        await database.change_user(org, user.id, None, True, OPERATOR)
        odd_provider.claims = {}
        found.append((await odd.sign_in()).status_code)
        return found

    assert odd_page(odd_provider, tmp_path, scene, kind) == [
        (303, "admin", {"Search": True}),
        (303, "member", {"Search": False}),
        (303, "member", {"Search": True}),
        403,
        403,
    ]


@pytest.mark.parametrize("is_adopted", [True, False])
def test_a_name_alone_makes_nobody_a_member_that_is_there(
    odd_provider: OddProvider, tmp_path: Path, is_adopted: bool
) -> None:
    """A member of that name is joined only where the settings say so, and only once: then it is someone."""

    async def scene(odd: OddPage) -> tuple[list[int], int]:
        ada = OrgUser(new_id(), odd.made.org.id, "ada", "viewer", False, now_ms())
        await odd.made.database.add_user(ada, OPERATOR)
        first = (await odd.sign_in()).status_code
        odd_provider.claims = {"sub": "ada-2"}
        second = (await odd.sign_in()).status_code
        return [first, second], len(await odd.made.database.users(odd.made.org.id))

    statuses, users = odd_page(odd_provider, tmp_path, scene, adopt_members=is_adopted)
    assert (statuses, users) == ([303 if is_adopted else 403, 403], 2)


def test_a_session_ends_by_itself(kind: Kind, odd_provider: OddProvider, tmp_path: Path) -> None:
    """After the hours of the settings, whatever the browser does; or when it is revoked, as every token."""

    async def scene(odd: OddPage) -> list[object]:
        done = await odd.sign_in()
        found = [one for one in done.headers.get_list("set-cookie") if one.startswith("__Secure-recollect=")]
        odd.page.cookie = found[0].partition(";")[0].partition("=")[2]
        me = await odd.page.get("/api/me")
        tokens = await odd.made.database.tokens(odd.made.org.id)
        session = next(token for token in tokens if token.kind == "page")
        await odd.made.ask("DELETE", f"/v1/tokens/{session.id}")
        return [
            session.expires == me["member"]["ends"] and (session.expires or 0) - session.created,
            session.scopes,
            (await odd.page.ask("GET", "/api/me")).status_code,
        ]

    lasting = odd_page(odd_provider, tmp_path, scene, kind, session_hours=2)
    assert lasting == [7_200_000, ("read",), 401]


@pytest.mark.parametrize("answer", ["slow_down", "access_denied", "expired_token"])
def test_a_device_code_may_be_refused(odd_provider: OddProvider, tmp_path: Path, answer: str) -> None:
    """A machine that asks too often waits; one whose code was denied or is too old is told so. An id token of a device
    works once."""

    async def scene(odd: OddPage) -> list[int]:
        odd_provider.errors = [answer]
        odd_provider.token = odd_provider.signed()
        body = {"organisation": odd.made.org.name, "device_code": "dc"}
        ask = odd.made.client.post
        return [(await ask("/v1/sign-in/device/token", json=body)).status_code for _ in range(3)]

    first = 202 if answer == "slow_down" else 403
    assert odd_page(odd_provider, tmp_path, scene) == [first, 201, 403]


def test_of_several_organisations_none_is_named(odd_provider: OddProvider, tmp_path: Path) -> None:
    """A stranger does not learn who uses the server; a name that has no provider is not found."""

    async def scene(odd: OddPage) -> list[object]:
        known = [
            IdentityProvider(provider_settings(name, odd_provider.issuer), None)
            for name in (odd.made.org.name, "Other")
        ]
        before = (await odd.page.get("/api/sign-in"))["organisation"] == odd.made.org.name
        odd.made.service.sign_in = SignIns(odd.made.database, known, ORIGIN)
        start = await odd.page.client.get("/oidc/start", params={"organisation": "Other"})
        return [before, await odd.page.get("/api/sign-in"), start.status_code]

    assert odd_page(odd_provider, tmp_path, scene) == [
        True,
        {"is_offered": True, "organisation": None},
        404,
    ]
