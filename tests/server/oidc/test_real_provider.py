"""Signing in at a certified provider that runs here: the page by code, a machine by device code."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from recollect.server.identity_provider import IdentityProvider
from recollect.server.sign_in import SignIns
from tests.server.conftest import Kind
from tests.server.oidc.browser import Browser
from tests.server.oidc.conftest import RealProvider
from tests.server.team_page import ORIGIN, TeamPage, two_sessions
from tests.server.world import World, in_world

Scene = Callable[[World, TeamPage], Awaitable[Any]]


def signing_in(kind: Kind, place: Path, provider: RealProvider, scene: Scene, **more: object) -> Any:
    async def play(made: World) -> Any:
        settings = provider.settings(made.org.name, **more)
        known = IdentityProvider(settings, provider.client_secret)
        made.service.sign_in = SignIns(made.database, [known], ORIGIN)
        page = TeamPage(made, place)
        try:
            return await scene(made, page)
        finally:
            await page.close()

    return in_world(kind, play)


async def through(page: TeamPage, provider: RealProvider, person: str, to: str = "") -> httpx.Response:
    """A whole sign-in of the page, as a browser does it."""
    organisation = (await page.get("/api/sign-in"))["organisation"]
    started = await page.client.get(
        "/oidc/start", params={"organisation": organisation, "to": to}, headers={"sec-fetch-mode": "navigate"}
    )
    assert started.status_code == 303, started.text
    browser = Browser(person)
    try:
        back = await asyncio.to_thread(browser.visit, started.headers["location"], provider.issuer)
    finally:
        browser.close()
    assert back.startswith(f"{ORIGIN}/oidc/callback?"), back
    headers = {"sec-fetch-mode": "navigate", "sec-fetch-site": "cross-site"}
    return await page.client.get(back.removeprefix(ORIGIN), headers=headers)


def cookie_of(answer: httpx.Response) -> str:
    found = [one for one in answer.headers.get_list("set-cookie") if one.startswith("__Secure-recollect=")]
    assert len(found) == 1
    return found[0]


def test_a_person_signs_in_and_sees_the_sessions(
    kind: Kind, tmp_path: Path, real_provider: RealProvider
) -> None:
    """Role and team come from the groups; the cookie is a session of its own that signing out ends."""

    async def scene(made: World, page: TeamPage) -> dict[str, object]:
        await two_sessions(made)
        done = await through(page, real_provider, "ada-1", "#/s/abc")
        cookie = cookie_of(done)
        page.cookie = cookie.partition(";")[0].partition("=")[2]
        me = await page.get("/api/me")
        page.token = me["token"]
        found: dict[str, object] = {
            "to": (done.status_code, done.headers["location"]),
            "cookie": sorted(cookie.split("; ")[1:]),
            "who": (me["member"]["name"], me["member"]["role"]),
            "sessions": len(await page.ids()),
            "teams": [(team.name, len(team.members)) for team in await made.database.teams(made.org.id)],
            "api": (await made.ask("GET", "/v1/sessions", token=page.cookie)).status_code,
        }
        await page.ask("POST", "/api/logout", body={})
        found["after"] = (await page.ask("GET", "/api/me")).status_code
        return found

    assert signing_in(kind, tmp_path, real_provider, scene) == {
        "to": (303, "/#/s/abc"),
        "cookie": ["HttpOnly", "Path=/api", "SameSite=strict", "Secure"],
        "who": ("ada", "admin"),
        "sessions": 2,
        "teams": [("Search", 1)],
        "api": 401,
        "after": 401,
    }


def test_who_is_in_no_group_is_refused_and_the_attempt_is_noted(
    tmp_path: Path, real_provider: RealProvider
) -> None:
    async def scene(made: World, page: TeamPage) -> tuple[int, bool, list[str]]:
        done = await through(page, real_provider, "eve-3")
        acts = [f"{row.act} {row.detail}" for row in await made.database.audit(made.org.id, None, 5)]
        return done.status_code, "none of your groups" in done.text, [act for act in acts if "refused" in act]

    status, is_told, noted = signing_in(Kind("sqlite"), tmp_path, real_provider, scene)
    assert (status, is_told) == (403, True)
    assert noted == ["refused forbidden: none of your groups may use this server"]


def test_a_callback_works_once(tmp_path: Path, real_provider: RealProvider) -> None:
    """The same code and state again, with the same cookie: the provider refuses the code."""

    async def scene(_: World, page: TeamPage) -> list[int]:
        organisation = (await page.get("/api/sign-in"))["organisation"]
        started = await page.client.get("/oidc/start", params={"organisation": organisation})
        pending = started.headers["set-cookie"].partition(";")[0]
        browser = Browser("bob-2")
        back = await asyncio.to_thread(browser.visit, started.headers["location"], real_provider.issuer)
        browser.close()
        found = []
        for cookie in ("", pending, pending):
            page.client.cookies.clear()
            answer = await page.client.get(back.removeprefix(ORIGIN), headers={"cookie": cookie})
            found.append(answer.status_code)
        return found

    assert signing_in(Kind("sqlite"), tmp_path, real_provider, scene) == [400, 303, 403]


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_machine_gets_a_token(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, real_provider: RealProvider
) -> None:
    """RFC 8628: the machine waits until the person has agreed in a browser elsewhere; the code works once."""
    from tests.server.conftest import kind_named

    async def scene(made: World, _: TeamPage) -> list[object]:
        organisation = (await made.client.get("/v1/sign-in")).json()["organisation"]
        code = (await made.client.post("/v1/sign-in/device", json={"organisation": organisation})).json()
        asked = {"organisation": organisation, "device_code": code["device_code"], "machine": "laptop"}
        waiting = await made.client.post("/v1/sign-in/device/token", json=asked)
        browser = Browser("bob-2")
        await asyncio.to_thread(browser.visit, code["verification_uri_complete"], real_provider.issuer)
        browser.close()
        done = await made.client.post("/v1/sign-in/device/token", json=asked)
        again = await made.client.post("/v1/sign-in/device/token", json=asked)
        who = (await made.ask("GET", "/v1/whoami", token=done.json()["token"])).json()
        return [
            (waiting.status_code, waiting.json()["waiting"]),
            (done.status_code, again.status_code),
            (who["user_name"], who["role"], who["machine"], who["scopes"], who["expires"] is not None),
        ]

    assert signing_in(kind_named(name, request, tmp_path), tmp_path / "page", real_provider, scene) == [
        (202, "authorization_pending"),
        (201, 403),
        ("bob", "member", "laptop", ["read", "write"], True),
    ]
