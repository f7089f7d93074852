"""What every database must do with sessions and side files: list, describe, keep, hold, delete, purge."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from recollect.server.database import sql
from recollect.server.database.records import now_ms
from recollect.share.sync.wire import MACHINE, PROJECT, REPOSITORY, described
from tests.server.conftest import Kind
from tests.server.world import OPERATOR, World, after, in_a_world, in_world, line, prompt, reply

DAY = 86_400_000


async def listed(made: World, **parameters: str) -> list[str]:
    answer = await made.ask("GET", "/v1/sessions", params=parameters)
    assert answer.status_code == 200, answer.text
    return [one["id"] for one in answer.json()["sessions"]]


async def pushed(made: World, *names: str) -> None:
    for name in names:
        assert (await made.put(name, prompt(name, f"u-{name}"))).status_code == 200
        # The list is by time, in milliseconds.
        await asyncio.sleep(0.002)


@in_a_world()
async def test_a_session_tells_what_its_lines_say(made: World) -> None:
    """Title, branch, directory and times come from the lines; project, repository and machine from the headers."""
    data = prompt("Fix the parser", cwd="/home/ada/app", gitBranch="main") + reply("m-1", gitBranch="dev")
    headers = {PROJECT: "-home-ada-app", REPOSITORY: described("github.com/ada/äpp"), MACHINE: "laptop"}
    await made.put("s1", data, headers=headers)
    shown: dict[str, object] = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]
    assert ({name: value for name, value in shown.items() if name not in ("created", "changed")}) == {
        "id": "s1",
        "project": "-home-ada-app",
        "repository": "github.com/ada/äpp",
        "machine": "laptop",
        "person": "Ada",
        "title": "Fix the parser",
        "branch": "dev",
        "cwd": "/home/ada/app",
        "first_at": 1769860800000,
        "last_at": 1769860801000,
        "lines": 2,
        "bytes": len(data),
        "held": False,
        "encrypted": False,
        "visibility": None,
    }


@in_a_world()
async def test_the_strongest_title_wins(made: World) -> None:
    """A user's title goes before the model's, that before the prompt, and one set by request before all."""
    chosen = line(type="custom-title", customTitle="Chosen", sessionId="s")
    made_up = line(type="ai-title", aiTitle="Made up", sessionId="s")
    data, titles = b"", []
    for new in (prompt("First"), prompt("Second", "u-2"), made_up, chosen, made_up):
        assert (await made.put("s1", new, after(data))).status_code == 200
        data += new
        titles.append((await made.ask("GET", "/v1/sessions/s1")).json()["session"]["title"])
    patched = await made.ask("PATCH", "/v1/sessions/s1", json={"title": "By request"})
    await made.put("s1", chosen, after(data))
    last = (await made.ask("GET", "/v1/sessions/s1")).json()["session"]["title"]
    assert [*titles, patched.json()["session"]["title"], last] == [
        "First",
        "First",
        "Made up",
        "Chosen",
        "Chosen",
        "By request",
        "By request",
    ]


@in_a_world()
async def test_a_first_prompt_that_many_sessions_share_is_no_title(made: World) -> None:
    """The second one is, though it came later; of three sessions the first still was."""
    titles, begin = [], "Load the rules of the project and do what they say, every time, without a word"
    for number in range(4):
        first = prompt(f"{begin} {number}", f"a-{number}")
        assert (await made.put(f"s{number}", first)).status_code == 200
        for later in (prompt(f"Job {number}", f"b-{number}"), prompt("Thanks", f"c-{number}")):
            assert (await made.put(f"s{number}", later, after(first))).status_code == 200
            first += later
        titles.append((await made.ask("GET", "/v1/sessions/s0")).json()["session"]["title"])
    assert [f"{begin} 0"] * 3 + ["Job 0"] == titles


@in_a_world()
async def test_titles_are_those_of_the_local_lists(made: World) -> None:
    """What the client says in the user's name is no title; a title that was taken away uncovers the one below."""
    clear = prompt("<command-name>/clear</command-name>")
    last = line(type="last-prompt", lastPrompt="The last prompt", sessionId="s")
    chosen = line(type="custom-title", customTitle="Chosen", sessionId="s")
    taken_away = line(type="custom-title", customTitle="", sessionId="s")
    data, titles = b"", []
    for new in (clear, prompt("Now write the tests", "u-2"), last, chosen, taken_away):
        assert (await made.put("s1", new, after(data))).status_code == 200
        data += new
        titles.append((await made.ask("GET", "/v1/sessions/s1")).json()["session"]["title"])
    assert titles == [
        None,
        "Now write the tests",
        "The last prompt",
        "Chosen",
        "The last prompt",
    ]


def test_the_list_is_by_change_and_in_pages(kind: Kind) -> None:
    """Newest change first; a cursor goes on where the page ended."""

    async def scene(made: World) -> tuple[list[str], list[str]]:
        await pushed(made, "s1", "s2", "s3")
        await made.put("s1", prompt("more"), after(prompt("s1", "u-s1")))
        found, cursor = [], None
        while True:
            parameters = {"limit": "1"} | ({"cursor": cursor} if cursor else {})
            page = (await made.ask("GET", "/v1/sessions", params=parameters)).json()
            found += [one["id"] for one in page["sessions"]]
            cursor = page["next"]
            if cursor is None:
                return await listed(made), found

    assert in_world(kind, scene) == (["s1", "s3", "s2"],) * 2


@in_a_world()
async def test_sessions_are_found_by_the_beginning_of_their_id(made: World) -> None:
    """Of those that the caller sees, whatever follows; an underscore or a dot stands for itself."""
    ids = ("3f2a-0001", "3f2a-0002", "3f2azzzz", "3F2A-0001", "3f2", "3f2_0001", "3f2.0001", "4f2a-0001")
    for session in ids:
        await made.put(session, prompt("hello"))
    eve, _ = await made.secret(await made.member("Eve", "member"))
    await made.ask("PATCH", "/v1/sessions/3f2a-0002", json={"visibility": "private"})

    async def found(beginning: str, token: str | None = None) -> object:
        answer = await made.ask("GET", "/v1/sessions", params={"id": beginning}, token=token)
        document = answer.json()
        return sorted(one["id"] for one in document["sessions"]) if answer.is_success else answer.status_code

    beginnings = ("3f2a", "3f2a-", "3f2a-0002", "3f2_", "3f2.", "9999", "3f2", "3f2%", "a" * 129)
    assert ([await found(one) for one in beginnings] + [await found("3f2a", eve)]) == [
        ["3f2a-0001", "3f2a-0002", "3f2azzzz"], ["3f2a-0001", "3f2a-0002"], ["3f2a-0002"], ["3f2_0001"],
        ["3f2.0001"], [], 400, 400, 400, ["3f2a-0001", "3f2azzzz"],
    ]  # fmt: skip


@in_a_world()
async def test_filters_are_exact(made: World) -> None:
    """By project, repository, machine, person and time; a filter that is not known is refused."""
    await pushed(made, "s1")
    between = now_ms()
    await asyncio.sleep(0.002)
    await made.put("s2", prompt("x"), headers={PROJECT: "p", REPOSITORY: "r", MACHINE: "m"})
    wrong = await made.ask("GET", "/v1/sessions", params={"projekt": "p"})
    assert [
        await listed(made, project="p"),
        await listed(made, project="q"),
        await listed(made, repository="r", machine="m"),
        await listed(made, person="Ada"),
        await listed(made, since=str(between)),
        await listed(made, until=str(between)),
        wrong.status_code,
    ] == [["s2"], [], ["s2"], ["s2", "s1"], ["s2"], ["s1"], 400]


@in_a_world()
async def test_a_deleted_session_is_gone_for_everybody(made: World) -> None:
    """Not listed, not read, not appended to (410); deleting again is 404. After a purge the id may begin anew."""
    await pushed(made, "s1")
    gone = await made.ask("DELETE", "/v1/sessions/s1")
    answers = [
        gone.status_code,
        await listed(made),
        (await made.read("s1")).status_code,
        (await made.ask("GET", "/v1/heads")).json()["heads"],
        (await made.ask("GET", "/v1/search", params={"q": "s1"})).json()["hits"],
        (await made.put("s1", prompt("x"))).status_code,
        (await made.put("s1", prompt("x"), key="subagents/agent-1")).status_code,
        (await made.ask("PUT", "/v1/sessions/s1/file", params={"key": "f"}, content=b"x")).status_code,
        (await made.ask("DELETE", "/v1/sessions/s1")).status_code,
    ]
    purged = await made.ask("DELETE", "/v1/sessions/s1", params={"purge": "true"})
    again = await made.put("s1", prompt("new life"))
    assert [*answers, purged.status_code, again.status_code, (await made.read("s1")).content] == [
        204,
        [],
        404,
        [],
        [],
        410,
        410,
        410,
        404,
        204,
        200,
        prompt("new life"),
    ]


@in_a_world()
async def test_a_held_session_cannot_be_deleted(made: World) -> None:
    """Neither by request nor by retention, until the hold ends."""
    await pushed(made, "s1")
    held = await made.ask("PATCH", "/v1/sessions/s1", json={"held": True})
    refused = await made.ask("DELETE", "/v1/sessions/s1")
    purge = await made.ask("DELETE", "/v1/sessions/s1", params={"purge": "true"})
    await made.ask("PATCH", "/v1/org", json={"retention_days": 1})
    await made.database.sweep(now_ms() + 30 * DAY, 0)
    kept = await listed(made)
    await made.ask("PATCH", "/v1/sessions/s1", json={"held": False})
    gone = await made.ask("DELETE", "/v1/sessions/s1")
    codes = [refused.json()["error"]["code"], purge.status_code]
    assert [held.json()["session"]["held"], refused.status_code, *codes, kept, gone.status_code] == [
        True,
        409,
        "held",
        409,
        ["s1"],
        204,
    ]


@in_a_world()
async def test_retention_deletes_what_is_old_and_purges_it_later(made: World) -> None:
    """After so many days without a change it is hidden; after the grace its bytes are gone."""
    await pushed(made, "s1")
    await made.ask("PATCH", "/v1/org", json={"retention_days": 10})
    now = now_ms()
    await made.database.sweep(now + 9 * DAY, 7 * DAY)
    before = await listed(made)
    await made.database.sweep(now + 11 * DAY, 7 * DAY)
    hidden = [await listed(made), (await made.put("s1", prompt("x"))).status_code]
    await made.database.sweep(now + 30 * DAY, 7 * DAY)
    assert [before, *hidden, (await made.put("s1", prompt("x"))).status_code] == [["s1"], [], 410, 200]


@in_a_world()
async def test_a_member_deletes_only_what_is_theirs(made: World) -> None:
    """Another member's session is 403 for a member and goes for an admin."""
    await pushed(made, "s1")
    bob, _ = await made.secret(await made.member("Bob", "member"))
    await made.put("s2", prompt("b"), token=bob)
    assert [
        (await made.ask("DELETE", "/v1/sessions/s1", token=bob)).status_code,
        (await made.ask("DELETE", "/v1/sessions/s2", params={"purge": "true"}, token=bob)).status_code,
        (await made.ask("PATCH", "/v1/sessions/s2", json={"held": True}, token=bob)).status_code,
        (await made.ask("DELETE", "/v1/sessions/s2", token=bob)).status_code,
        (await made.ask("DELETE", "/v1/sessions/s1")).status_code,
    ] == [403, 403, 403, 204, 204]


@in_a_world()
async def test_a_side_file_is_kept_whole(made: World) -> None:
    """Any bytes; its ETag is its sha256; the same bytes again are no conflict, others need the right condition."""
    first, second = bytes(range(256)) * 100, b"second"
    tag = f'"{sha256(first).hexdigest()}"'

    async def put(data: bytes, **headers: str) -> int:
        answer = await made.ask(
            "PUT",
            "/v1/sessions/s1/file",
            params={"key": "tool-results/a.txt"},
            content=data,
            headers=headers,
        )
        return answer.status_code

    statuses = [
        await put(first, **{"If-None-Match": "*"}),
        await put(first, **{"If-None-Match": "*"}),
        await put(second, **{"If-None-Match": "*"}),
        await put(second, **{"If-Match": f'"{"0" * 64}"'}),
    ]
    got = await made.ask("GET", "/v1/sessions/s1/file", params={"key": "tool-results/a.txt"})
    statuses.append(await put(second, **{"If-Match": tag}))
    files = (await made.ask("GET", "/v1/sessions/s1")).json()["files"]
    gone = await made.ask("DELETE", "/v1/sessions/s1/file", params={"key": "tool-results/a.txt"})
    missing = await made.ask("GET", "/v1/sessions/s1/file", params={"key": "tool-results/a.txt"})
    shown = [[file["key"], file["bytes"]] for file in files]
    assert [
        statuses,
        got.content == first,
        got.headers["etag"],
        shown,
        gone.status_code,
        missing.status_code,
    ] == [
        [200, 200, 409, 409, 200],
        True,
        tag,
        [["tool-results/a.txt", 6]],
        204,
        404,
    ]


def test_every_write_and_admin_act_is_in_the_audit_log(kind: Kind) -> None:
    """Who, what and on what, newest first, in pages; never a secret."""

    async def scene(made: World) -> tuple[list[str], bool]:
        await pushed(made, "s1")
        await made.ask("PATCH", "/v1/sessions/s1", json={"title": "T"})
        await made.ask("PUT", "/v1/sessions/s1/file", params={"key": "f"}, content=b"x")
        await made.ask("DELETE", "/v1/sessions/s1/file", params={"key": "f"})
        await made.ask("DELETE", "/v1/sessions/s1")
        user = (await made.ask("POST", "/v1/users", json={"name": "Eve"})).json()
        await made.ask("PATCH", f"/v1/users/{user['id']}", json={"role": "viewer"})
        token = (await made.ask("POST", "/v1/tokens", json={"user": user["id"], "scopes": ["read"]})).json()
        await made.ask("DELETE", f"/v1/tokens/{token['id']}")
        await made.ask("PATCH", "/v1/org", json={"retention_days": 30})
        acts, cursor = [], None
        while True:
            parameters = {"limit": "4"} | ({"cursor": cursor} if cursor else {})
            page = (await made.ask("GET", "/v1/audit", params=parameters)).json()
            acts += page["acts"]
            cursor = page["next"]
            if cursor is None:
                return [act["act"] for act in acts], token["token"] in str(acts)

    acts, leaked = in_world(kind, scene)
    assert acts == [
        "org.change",
        "token.revoke",
        "token.add",
        "user.change",
        "user.add",
        "session.delete",
        "file.delete",
        "file.put",
        "session.change",
        "append",
        "token.add",
        "user.add",
        "org.add",
    ]
    assert not leaked


@in_a_world()
async def test_an_organisations_name_and_a_members_name_are_used_once(made: World) -> None:
    """The second one is refused, by the routes with 409."""
    import pytest

    from recollect.server.database.records import Taken

    with pytest.raises(Taken):
        await made.database.add_org(made.org, OPERATOR)
    assert ((await made.ask("POST", "/v1/users", json={"name": "Ada"})).status_code) == 409


@in_a_world()
async def test_a_sweep_goes_on_until_nothing_is_left(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are more sessions than one question asks for; one under legal hold stops nothing. Old rows of the
    audit log go by a retention of their own. (Other tests leave sessions in the same PostgreSQL; they are swept too.)"""
    monkeypatch.setattr(sql, "_NEXT", sql._NEXT.replace("LIMIT 1000", "LIMIT 3"))
    for number in range(10):
        await made.put(f"s{number}", prompt("x"))
    await made.ask("PATCH", "/v1/sessions/s4", json={"held": True})
    changed = await made.ask("PATCH", "/v1/org", json={"retention_days": 10, "audit_days": 40})
    now = now_ms()
    done = await made.database.sweep(now + 11 * DAY, 7 * DAY)
    left = [one["id"] for one in (await made.ask("GET", "/v1/sessions")).json()["sessions"]]
    again = await made.database.sweep(now + 11 * DAY, 7 * DAY)
    acts = len((await made.ask("GET", "/v1/audit", params={"limit": "1000"})).json()["acts"])
    last = await made.database.sweep(now + 50 * DAY, 7 * DAY)
    kept = (await made.ask("GET", "/v1/audit", params={"limit": "1000"})).json()["acts"]
    assert [
        changed.json()["audit_days"],
        (left, done.deleted >= 9, done.audit_rows),
        (again.deleted, again.purged >= 9, again.backlog),
        last.audit_rows >= acts,
        [act for act in kept if act["at"] < now],
    ] == [40, (["s4"], True, 0), (0, True, 0), True, []]
