"""A token is replaced by its owner: both work for a while, then only the new one."""

from __future__ import annotations

import pytest

from recollect.server import tenancy
from recollect.server.database.records import Author, now_ms
from recollect.server.tenancy import ROLES, new_id
from tests.server.world import EVERYTHING, World, in_a_world, new_org

HOUR = 3_600_000


async def status(made: World, token: str) -> int:
    return (await made.ask("GET", "/v1/whoami", token=token)).status_code


@in_a_world()
async def test_both_work_for_the_overlap(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old one to the millisecond of its end; the new one has the same rights and lasts as long as the old one did."""
    ahead = [0]
    monkeypatch.setattr(tenancy, "now_ms", lambda: now_ms() + ahead[0])
    user = await made.member("Eve", "member")
    old, token = await made.secret(
        user, ("read", "write"), machine="laptop", expires=now_ms() + 90 * 24 * HOUR
    )
    answer = await made.ask("POST", "/v1/token/rotate", token=old, json={"overlap_hours": 2})
    new = answer.json()["token"]
    who = (await made.ask("GET", "/v1/whoami", token=new)).json()
    found: list[object] = [
        answer.status_code,
        (who["user_name"], who["scopes"], who["machine"]),
        abs(who["expires"] - (token.expires or 0)) < 60_000,
    ]
    until = answer.json()["old_until"]
    for late in (0, 2 * HOUR - 60_000, 2 * HOUR + 1):
        ahead[0] = late
        found.append([await status(made, one) for one in (old, new)])
    ahead[0] = 0
    told = (await made.ask("GET", "/v1/whoami", token=old)).json()["expires"]
    acts = [(row.act, row.target) for row in await made.database.audit(made.org.id, None, 9)]
    assert [*found, told == until, ("token.rotate", token.id) in acts] == [
        201,
        ("Eve", ["read", "write"], "laptop"),
        True,
        [200, 200],
        [200, 200],
        [401, 200],
        True,
        True,
    ]


@in_a_world()
async def test_a_token_is_replaced_once(made: World) -> None:
    """An answer that was lost can be asked for again: the first replacement, which nobody used, ends. Once one is in use
    the old token makes no more, so that a stolen one is noticed; and the end of the old one does not move."""
    old, _ = await made.secret(await made.member("Eve"))

    async def rotate(hours: int) -> tuple[int, dict[str, str]]:
        answer = await made.ask("POST", "/v1/token/rotate", token=old, json={"overlap_hours": hours})
        return answer.status_code, answer.json()

    lost, kept = await rotate(1), await rotate(700)
    used = [await status(made, one["token"]) for _, one in (lost, kept)]
    late = await rotate(1)
    assert [
        lost[0],
        kept[0],
        used,
        late[0],
        late[1]["error"],
        kept[1]["old_until"] <= lost[1]["old_until"],
    ] == [
        201,
        201,
        [401, 200],
        409,
        {
            "code": "exists",
            "message": "the token was replaced before, and its replacement is in use",
            "hint": "use that one; if it is not yours, ask an admin to revoke both",
        },
        True,
    ]


@pytest.mark.parametrize("role", list(ROLES))
@in_a_world()
async def test_everyone_replaces_their_own(made: World, role: str) -> None:
    """In both organisations, whatever the role: the caller's token and no other, with no right more."""
    other = await new_org(made.database)
    found: list[object] = []
    for org in (made.org, other):
        user = await made.member("Eve", role, org=org)
        old, token = await made.secret(user, EVERYTHING)
        before = (await made.ask("GET", "/v1/whoami", token=old)).json()
        new = (await made.ask("POST", "/v1/token/rotate", token=old, json={})).json()["token"]
        after = (await made.ask("GET", "/v1/whoami", token=new)).json()
        ended = [one.id for one in await made.database.tokens(org.id) if one.retires is not None]
        same = [before[name] == after[name] for name in ("organization", "user", "role", "scopes")]
        found += [all(same), ended == [token.id]]
    assert found == [True] * 4


@in_a_world()
async def test_the_page_that_a_token_opened_ends_with_it(made: World) -> None:
    """A session of a browser does not outlive a token that was replaced."""
    user = await made.member("Eve")
    old, token = await made.secret(user)
    await tenancy.opened_page(made.database, user, Author(user.id, token.id), 12 * HOUR, token)
    await made.ask("POST", "/v1/token/rotate", token=old, json={"overlap_hours": 1})
    ends = {one.kind: one.retires for one in await made.database.tokens(made.org.id) if one.retires}
    assert (set(ends), len(set(ends.values()))) == ({"token", "page"}, 1)


@in_a_world()
async def test_members_see_and_revoke_their_own_tokens_only(made: World) -> None:
    """Of a lost machine, without an admin; another member's is not there, in the same words as one that never was."""
    eve, bob = await made.member("Eve", "contributor"), await made.member("Bob", "member")
    mine, this = await made.secret(eve, ("read:own",), machine="laptop")
    lost, gone = await made.secret(eve, ("write",), machine="phone")
    theirs, other = await made.secret(bob)

    async def listed() -> list[tuple[object, ...]]:
        found = (await made.ask("GET", "/v1/whoami/tokens", token=mine)).json()
        return [
            (one["machine"], one["id"] == found["this"], one["revoked"] is None) for one in found["tokens"]
        ]

    before = sorted(await listed())
    answers = [
        (await made.ask("DELETE", f"/v1/whoami/tokens/{one}", token=mine)).status_code
        for one in (gone.id, gone.id, other.id, new_id())
    ]
    states = [await status(made, one) for one in (mine, lost, theirs)]
    acts = [(row.act, row.target, row.user) for row in await made.database.audit(made.org.id, None, 9)]
    await made.ask("DELETE", f"/v1/whoami/tokens/{this.id}", token=mine)
    assert [before, answers, states, ("token.revoke", gone.id, eve.id) in acts, await status(made, mine)] == [
        [("laptop", True, True), ("phone", False, True)], [204, 404, 404, 404], [200, 401, 200], True, 401,
    ]  # fmt: skip
