"""Who may do what with a session of a colleague, and what is noted of those who may not, on every database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import pytest

from recollect.server.app import ROUTES
from recollect.server.database.records import now_ms
from recollect.server.tenancy import SKEW_MS
from recollect.share.sync.wire import ORGANIZATION, START, TOKEN_PREFIX
from tests.server.world import EVERYTHING, OPERATOR, World, after, in_a_world, new_org, prompt

OURS, MORE = prompt("Ada began", "u-1"), prompt("and went on", "u-2")
FILE = "/v1/sessions/s1/file"


async def _appended(made: World, token: str) -> httpx.Response:
    return await made.put("s1", MORE, after(OURS), token=token)


async def _in_the_middle(made: World, token: str) -> httpx.Response:
    return await made.put("s1", MORE, START, token=token)


def _asked(method: str, path: str, **more: object) -> Callable[[World, str], Awaitable[httpx.Response]]:
    async def ask(made: World, token: str) -> httpx.Response:
        return await made.ask(method, path, token=token, **more)

    return ask


# The decision, act by act: the creator, a colleague, a viewer and an admin. Lines and files are added by every
# member; what is there is replaced or removed by those who stored it, the creator, or an admin.
ACTS: dict[str, tuple[Callable[[World, str], Awaitable[httpx.Response]], tuple[int, int, int, int]]] = {
    "add lines": (_appended, (200, 200, 403, 200)),
    "put lines in place of others": (_in_the_middle, (409, 409, 403, 409)),
    "add a side file": (
        _asked("PUT", FILE, params={"key": "new"}, content=b"n"),
        (200, 200, 403, 200),
    ),
    "replace a side file": (
        _asked("PUT", FILE, params={"key": "f"}, content=b"other"),
        (200, 409, 403, 200),
    ),
    "store the same side file": (
        _asked("PUT", FILE, params={"key": "f"}, content=b"ours"),
        (200, 200, 403, 200),
    ),
    "remove a side file": (_asked("DELETE", FILE, params={"key": "f"}), (204, 403, 403, 204)),
    "describe it": (
        _asked("PATCH", "/v1/sessions/s1", json={"title": "T"}),
        (200, 200, 403, 200),
    ),
    "delete it": (_asked("DELETE", "/v1/sessions/s1"), (204, 403, 403, 204)),
    "read it": (_asked("GET", "/v1/sessions/s1/log"), (200, 200, 200, 200)),
}


@pytest.mark.parametrize("act", ACTS)
@in_a_world()
async def test_what_members_may_do_with_a_colleagues_session(made: World, act: str) -> None:
    """Each act by each of the four, on a session of its own; lines that were there are there in every case."""
    doing, expected = ACTS[act]
    ada = await made.member("Creator", "member")
    members = [
        ada,
        *[await made.member(role.title(), role) for role in ("member", "viewer", "admin")],
    ]
    statuses, begins = [], []
    for number, member in enumerate(members):
        creator, _ = await made.secret(ada)
        token, _ = await made.secret(member)
        await made.put("s1", OURS, token=creator)
        await made.ask("PUT", FILE, params={"key": "f"}, content=b"ours", token=creator)
        statuses.append((await doing(made, token)).status_code)
        answer = await made.read("s1")
        begins.append(answer.content[: len(OURS)] if answer.status_code == 200 else b"")
        await made.ask("DELETE", "/v1/sessions/s1", params={"purge": "true"})
        assert (await made.read("s1")).status_code == 404, number
    assert tuple(statuses) == expected
    assert set(begins) == ({b"", OURS} if act == "delete it" else {OURS})


@in_a_world()
async def test_a_colleague_replaces_and_removes_what_the_colleague_stored(made: World) -> None:
    """A file of one's own in another's session is one's own; under legal hold it is nobody's."""
    await made.put("s1", OURS)
    bob, _ = await made.secret(await made.member("Bob", "member"))
    put = [await made.ask("PUT", FILE, params={"key": "b"}, content=data, token=bob) for data in (b"1", b"2")]
    await made.ask("PATCH", "/v1/sessions/s1", json={"held": True})
    held = [
        await made.ask("PUT", FILE, params={"key": "b"}, content=b"3", token=bob),
        await made.ask("PUT", FILE, params={"key": "b"}, content=b"3"),
        await made.ask("PUT", FILE, params={"key": "new"}, content=b"3", token=bob),
        await made.ask("DELETE", FILE, params={"key": "b"}, token=bob),
    ]
    await made.ask("PATCH", "/v1/sessions/s1", json={"held": False})
    gone = await made.ask("DELETE", FILE, params={"key": "b"}, token=bob)
    assert ([answer.status_code for answer in (*put, *held, gone)]) == [200, 200, 409, 409, 200, 409, 204]


async def _audited(made: World) -> list[tuple[str, str, str, str]]:
    acts = (await made.ask("GET", "/v1/audit", params={"limit": "1000"})).json()["acts"]
    return [
        (act["user"], act["token"], act["target"], act["detail"]) for act in acts if act["act"] == "refused"
    ]


@in_a_world()
async def test_refused_attempts_are_in_the_audit_log(made: World) -> None:
    """For every route: a token without the scope, a revoked, an expired one and a disabled member's."""
    guarded = [route for route in ROUTES if route.scope is not None]
    expected = set()
    for why in ("scope", "revoked", "expired", "disabled"):
        user = await made.member(why, "viewer" if why == "scope" else "admin")
        expires = now_ms() - SKEW_MS - 1 if why == "expired" else None
        secret, token = await made.secret(user, ("write",) if why == "scope" else EVERYTHING, expires=expires)
        if why == "revoked":
            await made.database.revoke_token(made.org.id, token.id, OPERATOR)
        if why == "disabled":
            await made.database.change_user(made.org.id, user.id, None, True, OPERATOR)
        for route in guarded:
            path = (
                route.path.replace("{session_id}", "s1")
                .replace("{user_id}", "u")
                .replace("{token_id}", "t")
                .replace("{team_id}", "t")
            )
            answer = await made.ask(route.method, path, token=secret)
            assert answer.status_code in (401, 403), (route.path, answer.text)
            expected.add((user.id, token.id, f"{route.method} {path}"))
    assert {row[:3] for row in await _audited(made)} == expected


@in_a_world()
async def test_refused_for_rights_held_or_another_organisation_is_noted_once_a_minute(made: World) -> None:
    """A hundred of one kind are one row; rights, holds and a foreign organisation are kinds of their own."""
    await made.put("s1", OURS)
    bob, _ = await made.secret(await made.member("Bob", "member"))
    for _ in range(100):
        await made.ask("DELETE", "/v1/sessions/s1", token=bob)
    await made.ask("PATCH", "/v1/sessions/s1", json={"held": True})
    await made.ask("DELETE", "/v1/sessions/s1")
    await made.ask(
        "GET", "/v1/sessions", token=bob, headers={ORGANIZATION: (await new_org(made.database)).id}
    )
    # What is no attempt on rights is not noted.
    await made.ask("GET", "/v1/sessions/nobody", token=bob)
    await made.put("s1", MORE, START, token=bob)
    noted = await _audited(made)
    assert (sorted(detail.partition(":")[0] for *_, detail in noted), len(noted)) == (
        ["forbidden", "held", "not_found"],
        3,
    )


@in_a_world(databases=("sqlite",))
async def test_attempts_that_were_not_noted_are_counted_in_the_next_row(made: World) -> None:
    """After a minute (here: at once, then never again) the row says how many came between."""
    bob, _ = await made.secret(await made.member("Bob", "member"))
    await made.put("s1", OURS)
    for every in (60.0, 60.0, 60.0, 0.0):
        made.service.refused._every = every
        await made.ask("DELETE", "/v1/sessions/s1", token=bob)
    assert ([detail.rpartition("member")[2] for *_, detail in await _audited(made)]) == [
        " (2 more before)",
        "",
    ]


@in_a_world(databases=("sqlite",))
async def test_an_unknown_token_is_in_no_organisations_log(made: World) -> None:
    """It is counted in the metrics, and a database that does not answer changes no refusal."""
    await made.ask("GET", "/v1/sessions", token=TOKEN_PREFIX + "x" * 43)
    noted, metrics = (await _audited(made), made.service.metrics.text((0, 0)))
    assert noted == []
    assert "recollect_refused_tokens_total 1" in metrics
