"""Who sees what: two organisations, two teams, five roles, on every route and every database."""

from __future__ import annotations

import httpx

from recollect.server.app import ROUTES
from recollect.server.database.records import OrgTeam, now_ms
from recollect.server.tenancy import ROLES, new_id
from tests.server.world import OPERATOR, PLENTY, World, after, in_a_world, new_org, prompt, reply

# Role and team; Bob is whose sessions the others look at. Eve is of another organisation.
PEOPLE = {
    "ada": ("admin", "red"),
    "bob": ("member", "red"),
    "cy": ("member", "blue"),
    "vi": ("viewer", ""),
    "con": ("contributor", "red"),
    "tot": ("totals", "red"),
    "eve": ("admin", ""),
}
SESSIONS = ("private", "team", "organisation")
SEEN = {
    "ada": {"team", "organisation"},
    "bob": set(SESSIONS),
    "cy": {"organisation"},
    "vi": {"organisation"},
    "con": set[str](),
    "tot": set[str](),
    "eve": set[str](),
}
BY_SESSION = {
    ("GET", "/v1/sessions/{session_id}/log"),
    ("HEAD", "/v1/sessions/{session_id}/log"),
    ("GET", "/v1/sessions/{session_id}"),
    ("GET", "/v1/sessions/{session_id}/file"),
}
LISTS = {("GET", "/v1/heads"), ("GET", "/v1/sessions"), ("GET", "/v1/search"), ("GET", "/v1/cost")}
# The archive of oneself: tests/server/test_people.py.
ABOUT_ONESELF = {("GET", "/v1/whoami"), ("GET", "/v1/org"), ("GET", "/v1/whoami/export")}
WRITES = {
    ("PUT", "/v1/sessions/{session_id}/log"),
    ("PATCH", "/v1/sessions/{session_id}"),
    ("PUT", "/v1/sessions/{session_id}/file"),
    ("DELETE", "/v1/sessions/{session_id}/file"),
    ("DELETE", "/v1/sessions/{session_id}"),
}


class Company:
    """The people with their tokens, and Bob's three sessions."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.tokens: dict[str, str] = {}
        self.ids: dict[str, str] = {}

    async def found(self) -> None:
        other = await new_org(self.made.database)
        teams: dict[str, list[str]] = {"red": [], "blue": []}
        for name, (role, team) in PEOPLE.items():
            user = await self.made.member(name, role, org=other if name == "eve" else None)
            self.ids[name] = user.id
            # Every scope: what is left is what the role allows.
            self.tokens[name] = (await self.made.secret(user))[0]
            if team:
                teams[team].append(user.id)
        for name, members in teams.items():
            team_made = await self.made.ask("POST", "/v1/teams", json={"name": name})
            number = team_made.json()["id"]
            answer = await self.made.ask("PATCH", f"/v1/teams/{number}", json={"members": members})
            assert sorted(answer.json()["members"]) == sorted(members)
        for name in SESSIONS:
            lines = prompt(f"{name}word common") + reply(f"m-{name}", gitBranch=f"branch-{name}")
            put = await self.made.put(name, lines, token=self.tokens["bob"])
            assert put.status_code == 200, put.text
            await self.ask("bob", "PUT", f"/v1/sessions/{name}/file", params={"key": "f"}, content=b"x")
            await self.ask(
                "bob", "PATCH", f"/v1/sessions/{name}", json={"visibility": name, "project": f"p-{name}"}
            )

    async def ask(self, who: str, method: str, path: str, **more: object) -> httpx.Response:
        return await self.made.ask(method, path, token=self.tokens[who], **more)

    async def status(self, who: str, method: str, path: str, session: str) -> int:
        """Whether a route answers: 200, or 404 as for a session that never was."""
        parameters = {"key": "f"} if path.endswith("/file") else {}
        answer = await self.ask(who, method, path.replace("{session_id}", session), params=parameters)
        return answer.status_code


def test_every_route_that_shows_sessions_is_in_the_matrix() -> None:
    """A new route is not forgotten here."""
    reading = {(route.method, route.path) for route in ROUTES if route.scope in ("read", "cost")}
    writing = {(route.method, route.path) for route in ROUTES if "{session_id}" in route.path} - BY_SESSION

    assert reading == BY_SESSION | LISTS | ABOUT_ONESELF
    assert writing == WRITES
    # Tokens are replaced, listed and revoked by their owner: tests/server/test_tokens.py.
    assert {route.path for route in ROUTES if route.scope == "any"} == {
        "/v1/token/rotate",
        "/v1/whoami/tokens",
        "/v1/whoami/tokens/{token_id}",
    }
    # Without a token nothing of an organisation is told: tests/server/oidc/.
    assert {route.path for route in ROUTES if route.scope is None} == {
        *("/healthz", "/readyz", "/openapi.json"),
        *("/v1/sign-in", "/v1/sign-in/device", "/v1/sign-in/device/token"),
    }
    assert {role for role, _ in PEOPLE.values()} == set(ROLES)


@in_a_world(PLENTY)
async def test_reading_a_session_is_for_those_who_see_it(made: World) -> None:
    """Every route by id, for everyone: what is not visible is not there, in the same words as what never was."""
    company = Company(made)
    await company.found()
    found = {}
    for who in PEOPLE:
        for method, path in BY_SESSION:
            for session in (*SESSIONS, "never"):
                found[who, f"{method} {path}", session] = await company.status(who, method, path, session)
    expected = {
        (who, route, session): 403 if who == "tot" else 200 if session in SEEN[who] else 404
        for who, route, session in found
    }
    assert found == expected


@in_a_world(PLENTY)
async def test_lists_and_searches_have_what_is_visible(made: World) -> None:
    """Heads, sessions and hits of everyone; and nothing of the words of others."""
    company = Company(made)
    await company.found()
    found: dict[str, list[set[str] | int]] = {}
    for who in PEOPLE:
        answers = [
            await company.ask(who, "GET", "/v1/heads"),
            await company.ask(who, "GET", "/v1/sessions"),
            await company.ask(who, "GET", "/v1/search", params={"q": "common"}),
        ]
        if who == "tot":
            found[who] = [answer.status_code for answer in answers]
            continue
        heads, sessions, hits = (answer.json() for answer in answers)
        found[who] = [
            {head["session"] for head in heads["heads"]},
            {one["id"] for one in sessions["sessions"]},
            {hit["session"] for hit in hits["hits"]},
        ]
    assert found == {who: [403] * 3 if who == "tot" else [seen] * 3 for who, seen in SEEN.items()}


@in_a_world(PLENTY)
async def test_costs_are_told_without_what_is_private(made: World) -> None:
    """Totals for all who may see totals; own ones for a contributor; names of hidden sessions for no one."""
    company = Company(made)
    await company.found()
    await made.put("mine", reply("m-own"), token=company.tokens["con"])
    found: dict[str, object] = {}
    for who in PEOPLE:
        total, by_session, by_project = [
            (await company.ask(who, "GET", "/v1/cost", params={"by": by})).json()
            for by in ("person", "session,branch", "project")
        ]
        found[who] = [
            total["total"]["responses"],
            {row["keys"]["session"] for row in by_session["rows"]} & set(SESSIONS),
            {row["keys"]["branch"].removeprefix("branch-") for row in by_session["rows"]} & set(SESSIONS),
            {row["keys"]["project"] for row in by_project["rows"]} & {"p-private"},
        ]
    for who, seen in SEEN.items():
        count = {"con": 1, "eve": 0}.get(who, 4)
        assert found[who] == [count, seen, seen, {"p-private"} if who == "bob" else set()], who


@in_a_world(PLENTY)
async def test_adding_to_a_session_is_for_those_who_see_it(made: World) -> None:
    """A new log in it, a side file, its description: 404 for those who do not see it. An admin, who puts sessions under
    legal hold and deletes them, may do so by id; and is told nothing of what is in a private one."""
    company = Company(made)
    await company.found()
    found = {}
    for who in PEOPLE:
        path = "/v1/sessions/private"
        log = await made.put("private", prompt("mine"), key=f"subagents/{who}", token=company.tokens[who])
        file = await company.ask(who, "PUT", f"{path}/file", params={"key": who}, content=b"x")
        patch = await company.ask(who, "PATCH", path, json={"title": "mine"})
        gone = await company.ask(who, "DELETE", f"{path}/file", params={"key": who})
        shown = await company.ask(who, "PATCH", path, json={"visibility": "private"})
        found[who] = [one.status_code for one in (log, file, patch, gone, shown)]
    found["wider"] = [
        (await company.ask("ada", "PATCH", "/v1/sessions/private", json={"visibility": wider})).status_code
        for wider in ("team", "organisation", None)
    ]
    found["removal"] = [
        (await company.ask(who, "DELETE", "/v1/sessions/private")).status_code for who in ("cy", "con", "ada")
    ]
    assert found.pop("removal") == [404, 404, 204]
    # An admin may narrow, never widen: what is private stays unread.
    assert found.pop("wider") == [403, 403, 403]
    # In the other organisation there was no such session: it is a new one of its own.
    assert found.pop("eve") == [200, 200, 200, 204, 200]
    assert found == {
        "ada": [200, 200, 204, 204, 204],
        "bob": [200, 200, 200, 204, 200],
        "cy": [404] * 5,
        "vi": [403] * 5,
        "con": [404] * 5,
        "tot": [403] * 5,
    }


@in_a_world()
async def test_the_organisation_chooses_the_default(made: World) -> None:
    """Sessions for which no one chose follow it at once, those for which one did stay; only the creator
    chooses, and a team without its members sees nothing more."""
    bob, cy = await made.member("bob", "member"), await made.member("cy", "member")
    tokens = {name: (await made.secret(user))[0] for name, user in (("bob", bob), ("cy", cy))}
    await made.put("s1", prompt("x"), token=tokens["bob"])
    red = OrgTeam(new_id(), made.org.id, "red", now_ms())
    await made.database.add_team(red, OPERATOR)
    await made.database.set_team(made.org.id, red.id, [bob.id, cy.id], OPERATOR)

    async def seen() -> int:
        return (await made.ask("GET", "/v1/sessions/s1", token=tokens["cy"])).status_code

    found: list[object] = [await seen()]
    for default in ("private", "team"):
        await made.ask("PATCH", "/v1/org", json={"visibility": default})
        found.append(await seen())
    await made.ask("PATCH", f"/v1/teams/{red.id}", json={"members": [bob.id]})
    found.append(await seen())
    chosen = await made.ask(
        "PATCH", "/v1/sessions/s1", json={"visibility": "organisation"}, token=tokens["bob"]
    )
    found += [chosen.json()["session"]["visibility"], await seen()]
    tried = await made.ask("PATCH", "/v1/sessions/s1", json={"visibility": "private"}, token=tokens["cy"])
    back = await made.ask("PATCH", "/v1/sessions/s1", json={"visibility": None}, token=tokens["bob"])
    bad = await made.ask("PATCH", "/v1/sessions/s1", json={"visibility": "all"}, token=tokens["bob"])
    assert [
        *found,
        tried.status_code,
        back.json()["session"]["visibility"],
        await seen(),
        bad.status_code,
    ] == [200, 404, 200, 404, "organisation", 200, 403, None, 404, 400]


@in_a_world()
async def test_a_token_that_reads_its_own_sees_its_own(made: World) -> None:
    """Whatever the role allows: read:own for a machine, cost for a report."""
    bob = await made.member("bob", "member")
    own, _ = await made.secret(bob, ("read:own", "write"))
    totals, _ = await made.secret(bob, ("cost",))
    await made.put("theirs", reply("m-1"))
    await made.put("mine", reply("m-2"), token=own)
    listed = (await made.ask("GET", "/v1/sessions", token=own)).json()["sessions"]
    costs = [
        (await made.ask("GET", "/v1/cost", token=one)).json()["total"]["responses"] for one in (own, totals)
    ]
    more = await made.put("mine", prompt("more"), after(reply("m-2")), token=own)
    assert [
        [one["id"] for one in listed],
        costs,
        more.status_code,
        (await made.ask("GET", "/v1/sessions", token=totals)).status_code,
        (await made.ask("GET", "/v1/whoami", token=totals)).json()["scopes"],
    ] == [["mine"], [1, 2], 200, 403, ["cost"]]
