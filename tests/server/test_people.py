"""A person is erased and exported: nothing that names them is in any table afterwards, and others keep what is theirs."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import apsw
import pytest

from recollect.cli.main import main
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import OrgTeam, now_ms
from recollect.server.database.sqlite import SqliteDatabase
from recollect.server.tenancy import ROLES, new_id
from tests.server.conftest import Kind
from tests.server.world import (
    EVERYTHING,
    OPERATOR,
    World,
    after,
    in_a_world,
    in_world,
    new_org,
    prompt,
    reply,
)

# Found nowhere else, also in a database that several tests share.
SECRET = f"z{new_id().replace('-', '')}"
MINE = (
    prompt(f"{SECRET} hello")
    + reply("m-shared", gitBranch=f"branch-{SECRET}")
    + reply("m-mine", "r-2", uuid="a-2")
)
THEIRS = reply("m-shared", uuid="b-1", gitBranch="main") + reply("m-theirs", "r-9", uuid="b-2")


async def every_row(made: World) -> dict[str, list[str]]:
    """All rows of all tables, as text."""
    database: Any = made.database
    found: dict[str, list[str]] = {}
    if isinstance(database, SqliteDatabase):
        connection = apsw.Connection(database._path)
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            found[name] = [repr(row) for row in connection.execute(f"SELECT * FROM {name}")]
        connection.close()
        return found
    assert isinstance(database, PostgresDatabase)
    tables = await database._read_now(
        "*",
        "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace",
    )
    for (name,) in tables:
        rows = await database._read_now("*", f"SELECT t.*::text FROM {name} AS t")
        found[name] = [repr(tuple(row)) for row in rows]
    return found


class Two:
    """Ada, who is erased, and Bob, who stays; each wrote into the other's session too."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.words: list[str] = []
        self.name, self.subject = f"ada-{new_id()}", f"sub-{new_id()}"

    async def settle(self) -> None:
        made = self.made
        self.ada = await made.member(self.name, "member")
        self.bob = await made.member("bob", "member")
        self.ada_token, token = await made.secret(self.ada, EVERYTHING)
        self.bob_token, _ = await made.secret(self.bob, EVERYTHING)
        mine, theirs = f"mine-{new_id()}", f"theirs-{new_id()}"
        await made.put(theirs, THEIRS, token=self.bob_token)
        await made.put(mine, MINE, token=self.ada_token)
        await made.put(mine, reply("m-agent", "r-3"), key="subagents/agent-zz", token=self.ada_token)
        more = prompt("of a colleague") + reply("m-late", "r-4", uuid="c-1")
        await made.put(mine, more, after(MINE), token=self.bob_token)
        added = prompt("added by ada", uuid="d-1") + reply("m-added", "r-5", uuid="d-2")
        await made.put(theirs, added, after(THEIRS), token=self.ada_token)
        await made.ask(
            "PUT",
            f"/v1/sessions/{mine}/file",
            params={"key": "f"},
            content=SECRET.encode(),
            token=self.ada_token,
        )
        team = OrgTeam(new_id(), made.org.id, "red", now_ms())
        await made.database.add_team(team, OPERATOR)
        await made.database.set_team(made.org.id, team.id, [self.ada.id, self.bob.id], OPERATOR)
        await made.database.add_identity(made.org.id, "https://idp", self.subject, self.ada.id, OPERATOR)
        await made.ask("DELETE", f"/v1/sessions/{theirs}", token=self.ada_token)  # refused, and noted
        self.mine, self.theirs = mine, theirs
        self.words = [self.name, self.subject, self.ada.id, token.id, mine]

    async def costs(self) -> dict[str, int]:
        report = (await self.made.ask("GET", "/v1/cost", params={"by": "person"})).json()
        return {row["keys"]["person"]: row["pico_usd"] for row in report["rows"]} | {
            "all": report["total"]["pico_usd"]
        }


@pytest.mark.parametrize("is_dropped", [False, True])
def test_nothing_of_a_person_is_found_afterwards(kind: Kind, is_dropped: bool) -> None:
    """In no row of any table; the colleague's session, cost and right to write stay, and so does the organisation's total.
    A response of both is not counted again when the colleague sends it once more. Also where the month of the responses was
    dropped before, and only their sums are left."""

    async def scene(made: World) -> None:
        two = Two(made)
        await two.settle()
        if is_dropped:
            await made.ask("PATCH", "/v1/org", json={"usage_days": 62})
            await made.database.sweep(1_776_211_200_000, 604_800_000)  # 2026-04-15
        before, rows = await two.costs(), await every_row(made)
        named = {
            table
            for table, texts in rows.items()
            if any(word in text for text in texts for word in two.words)
        }
        held = set() if is_dropped else {"usage"}
        assert {"sessions", "users", "tokens", "rollup", "audit", "identities"} | held <= named
        assert not is_dropped or "usage" not in named
        path = f"/v1/users/{two.ada.id}/erasure"
        plan = (await made.ask("GET", path)).json()
        assert await two.costs() == before
        answer = await made.ask("POST", path, json={"name": two.ada.name})
        assert answer.status_code == 200, answer.text
        report = answer.json()
        assert (plan["applied"], report["applied"], report["is_complete"]) == (False, True, True)
        assert [part for part in report["erased"] if part["what"] != "audit_rows"] == [
            part for part in plan["erased"] if part["what"] != "audit_rows"
        ]
        counts = {part["what"]: part["count"] for part in report["erased"]}
        assert (counts["sessions"], counts["lines"], counts["files"], counts["tokens"]) == (1, 6, 1, 1)
        kept = {part["what"]: part["count"] for part in report["kept"]}
        assert (kept["lines_elsewhere"], kept["responses"]) == (2, 4)
        for table, texts in (await every_row(made)).items():
            # The words of the conversation too; on PostgreSQL another test may have left its own.
            for word in (*two.words, *([SECRET] if kind.name == "sqlite" else [])):
                assert not [text for text in texts if word in text], (table, word)
        now = await two.costs()
        assert (now["all"], now["bob"]) == (before["all"], before["bob"])
        assert (await made.ask("GET", "/v1/whoami", token=two.ada_token)).status_code == 401
        # The lines that Ada added are part of Bob's session, and he goes on with it.
        log = (await made.ask("GET", f"/v1/sessions/{two.theirs}/log", token=two.bob_token)).content
        assert b"added by ada" in log
        again = await made.put(f"copy-{new_id()}", reply("m-mine", "r-2", uuid="a-2"), token=two.bob_token)
        assert again.status_code == 200
        assert (await two.costs())["all"] == before["all"]
        missing = await made.ask("GET", path)
        assert missing.status_code == 404

    in_world(kind, scene)


@in_a_world()
async def test_a_legal_hold_is_kept_and_said(made: World) -> None:
    """The held session and its member stay, disabled; the rest goes. Once the hold ends, the rest of it goes too."""
    two = Two(made)
    await two.settle()
    held = f"held-{new_id()}"
    await made.put(held, prompt("evidence"), token=two.ada_token)
    await made.ask("PATCH", f"/v1/sessions/{held}", json={"held": True})
    path, body = f"/v1/users/{two.ada.id}/erasure", {"name": two.ada.name}
    first = (await made.ask("POST", path, json=body)).json()
    found: list[object] = [
        first["is_complete"],
        (await made.read(held)).content == prompt("evidence"),
        (await made.read(two.mine)).status_code,
        [user.disabled for user in await made.database.users(made.org.id) if user.id == two.ada.id],
    ]
    await made.ask("PATCH", f"/v1/sessions/{held}", json={"held": False})
    second = (await made.ask("POST", path, json=body)).json()
    rows = await every_row(made)
    left = [
        table for table, texts in rows.items() if any(two.ada.id in text or held in text for text in texts)
    ]
    assert [*found, second["is_complete"], left] == [False, True, 404, [True], True, []]


@in_a_world()
async def test_an_archive_has_everything_of_a_person(made: World) -> None:
    """Logs byte for byte, side files, lines in sessions of others, tokens without secrets, usage and acts; and
    nothing of others."""
    two = Two(made)
    await two.settle()
    answer = await made.ask("GET", "/v1/whoami/export", token=two.ada_token)
    assert answer.headers["content-type"] == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        files = {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]
    own = f"sessions/{two.mine}"
    assert files[f"{own}/logs/main.jsonl"].startswith(MINE)
    assert files[f"{own}/logs/subagents/agent-zz.jsonl"] == reply("m-agent", "r-3")
    assert files[f"{own}/files/f"] == SECRET.encode()
    assert b"added by ada" in files[f"elsewhere/{two.theirs}/main/from-line-3.jsonl"]
    about = json.loads(files["person.json"])
    assert (about["member"]["id"], about["teams"], len(about["tokens"])) == (two.ada.id, ["red"], 1)
    assert about["identities"] == [{"issuer": "https://idp", "subject": two.subject}]
    messages = {json.loads(row)["message"] for row in files["usage.jsonl"].splitlines()}
    assert messages >= {"m-mine", "m-agent", "m-added"}
    assert not messages & {"m-theirs", "m-late"}
    assert {json.loads(row)["user"] for row in files["audit.jsonl"].splitlines()} == {two.ada.id}
    assert not any(two.ada_token.encode() in data for data in files.values())
    assert not [name for name in files if name.startswith(f"sessions/{two.theirs}")]


@pytest.mark.parametrize("role", list(ROLES))
@in_a_world()
async def test_who_may_erase_and_export(made: World, role: str) -> None:
    """An admin erases members of the own organisation, and not themselves; all who read get their own archive only."""
    other = await new_org(made.database)
    eve = await made.member("eve", "member")
    asker = await made.member("asker", role)
    token, _ = await made.secret(asker)
    stranger, _ = await made.secret(await made.member("stranger", role, org=other))
    found = []
    for who in (token, stranger):
        found.append((await made.ask("GET", f"/v1/users/{eve.id}/erasure", token=who)).status_code)
        body = {"name": "eve"}
        found.append(
            (await made.ask("POST", f"/v1/users/{eve.id}/erasure", json=body, token=who)).status_code
        )
    own = await made.ask("POST", f"/v1/users/{asker.id}/erasure", json={"name": "asker"}, token=token)
    wrong = await made.ask("POST", f"/v1/users/{asker.id}/erasure", json={"name": "other"})
    export = await made.ask("GET", "/v1/whoami/export", token=token)
    erasing = [200, 200, 404, 404, 400] if role == "admin" else [403, 403, 403, 403, 403]
    assert [*found, own.status_code, wrong.status_code, export.status_code] == [
        *erasing,
        400,
        403 if role == "totals" else 200,
    ]


def test_the_command_plans_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing changes without --apply; the archive is written once, for its owner only."""
    address = f"sqlite:///{tmp_path / 'team.sqlite'}"
    asyncio.run(SqliteDatabase(tmp_path / "team.sqlite").migrate())

    def say(*words: str) -> tuple[int, str]:
        status = main(["team", "admin", *words, "--database", address])
        said = capsys.readouterr()
        return status, said.out + said.err

    say("org", "add", "Acme")
    say("user", "add", "Acme", "ada")
    say("token", "add", "Acme", "ada")
    plan = json.loads(say("user", "erase", "Acme", "ada", "--json")[1])
    assert (plan["applied"], plan["erasure"], [part["what"] for part in plan["erased"]]) == (
        False,
        None,
        ["tokens"],
    )
    assert "Repeat with --apply" in say("user", "erase", "Acme", "ada")[1]
    archive = tmp_path / "ada.tar.gz"
    assert say("user", "export", "Acme", "ada", str(archive))[0] == 0
    assert archive.stat().st_mode & 0o777 == 0o600
    assert say("user", "export", "Acme", "ada", str(archive))[0] != 0
    assert json.loads(say("user", "erase", "Acme", "ada", "--apply", "--json")[1])["is_complete"] is True
    assert say("user", "erase", "Acme", "ada")[0] == 3
