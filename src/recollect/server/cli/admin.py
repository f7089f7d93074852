"""Manage organisations, members and tokens, directly in the server's database.

  org add NAME
  org list
  org retention ORG DAYS|forever
  org audit-retention ORG DAYS|forever
  org usage-retention ORG DAYS|forever
  org visibility ORG private|team|organisation
  team add ORG NAME
  team list ORG
  team members ORG TEAM [USER ...]
  team remove ORG TEAM
  user add ORG NAME [--role R]
  user list ORG
  user change ORG USER [--role R] [--disable|--enable]
  user erase ORG USER [--apply]
  user export ORG USER FILE
  token add ORG USER [--scope read,write] [--machine M] [--days N]
  token list ORG
  token revoke ORG TOKEN
  audit ORG

ORG and USER are names or ids. A token is printed once and cannot be recovered.
Roles: totals (costs only), contributor (reads and writes own sessions), viewer
(reads), member (reads, writes, deletes own sessions), admin. Scopes: read,
read:own, cost, write, delete, admin, metrics. A session is seen by its creator
(private), members of the creator's teams (team) or all (organisation). Uses the
same database as `recollect team serve`; `org add` creates a new SQLite file.
`user erase` shows what would be removed of a person and what is kept, and why;
--apply removes it, which cannot be undone. `user export` writes all that is
held of a person into one .tar.gz.

Example:
  recollect team admin org add Acme
  recollect team admin user add Acme ada --role admin
  recollect team admin token add Acme ada --machine laptop --days 90
"""

from __future__ import annotations

import asyncio
import datetime as dt
import getpass
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import asdict, replace

from recollect.cli.terminal import output
from recollect.cli.terminal.text import padded, visible
from recollect.errors import Busy, NotFound, UsageError
from recollect.server.cli.serve import add_database, asked_database
from recollect.server.database.records import (
    LEAST_USAGE_DAYS,
    VISIBILITIES,
    Author,
    Org,
    OrgTeam,
    OrgUser,
    Taken,
    Unavailable,
    now_ms,
)
from recollect.server.database.sql import Database
from recollect.server.people import erased, person_archive, planned_erasure
from recollect.server.routes.admin import CreatedToken
from recollect.server.tenancy import SCOPES, issued, new_id
from recollect.share.sync.wire import plain_text
from recollect.system import fsops
from recollect.system.fsops import as_storage_error

_DAY_MS = 86_400_000
_ACTS = 100
_Named = TypeVar("_Named", Org, OrgTeam, OrgUser)
# A document, and its lines for people.
_Answer = tuple[Any, *tuple[str, ...]]


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("what", choices=("org", "team", "user", "token", "audit"), help="see above")
    parser.add_argument("words", nargs="*", metavar="WORD", help="see above")
    add_database(parser)
    parser.add_argument(
        "--role",
        metavar="ROLE",
        choices=("totals", "contributor", "viewer", "member", "admin"),
        help="user: the role (default member)",
    )
    parser.add_argument("--disable", action="store_true", help="user change: disable all tokens")
    parser.add_argument("--enable", action="store_true", help="user change: enable them again")
    parser.add_argument(
        "--scope", default="read,write", help="token add: scopes, separated by commas (default read,write)"
    )
    parser.add_argument("--machine", help="token add: the machine it is for")
    parser.add_argument("--days", type=int, help="token add: days until it expires (default: until revoked)")
    parser.add_argument("--apply", action="store_true", help="user erase: carry out the plan")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    database = asked_database(options)

    if options.database == "memory:":
        raise UsageError("a memory: database has nothing to administer", hint="name the server's database")
    try:
        asyncio.run(_acted(options, database))
    except Taken as problem:
        raise UsageError(str(problem), hint="choose another name") from None
    except (Unavailable, OSError) as problem:
        raise Busy(
            f"cannot reach the database: {problem}",
            hint="check that it is running and that the address is right",
        ) from None
    return 0


async def _acted(options: Namespace, database: Database) -> None:
    action, names = _action(options)
    act, count = _ACTIONS[options.what, action]
    if len(names) != count and not (count < 0 and len(names) >= -count):
        raise UsageError(
            f"team admin {options.what} {action}: takes {abs(count)} words, not {len(names)}",
            hint="`recollect team admin --help` shows them",
        )
    if (options.what, action) == ("org", "add"):
        await database.migrate()
    await database.open()
    try:
        document, *lines = await act(options, database, names)
    finally:
        await database.close()
    if options.json:
        output.print_json(document)
    else:
        for line in lines:
            output.say(str(line))


def _action(options: Namespace) -> tuple[str, list[str]]:
    if options.what == "audit":
        return "list", options.words
    action, names = (options.words[0] if options.words else ""), options.words[1:]
    if (options.what, action) not in _ACTIONS:
        known = ", ".join(word for what, word in _ACTIONS if what == options.what)
        raise UsageError(f"team admin {options.what} {action!a}: unknown action", hint=f"known: {known}")
    return action, names


def _author() -> Author:
    return Author(f"operator {getpass.getuser()}", "command line")


async def _org(database: Database, name: str) -> Org:
    return _named(await database.orgs(), name, "organisation", "org list")


async def _user(database: Database, org: Org, name: str) -> OrgUser:
    return _named(await database.users(org.id), name, "member", "user list ORG")


async def _team(database: Database, org: Org, name: str) -> OrgTeam:
    return _named(await database.teams(org.id), name, "team", "team list ORG")


def _named(known: Iterable[_Named], name: str, what: str, command: str) -> _Named:
    """The one with a name or an id."""
    for item in known:
        if name in (item.id, item.name):
            return item
    raise NotFound(f"{what} {name!a}: not found", hint=f"`recollect team admin {command}` lists them")


async def _add_org(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = Org(new_id(), _name(names[0]), now_ms())
    await database.add_org(org, _author())
    return org, f"Organisation {visible(org.name)}: {org.id}"


async def _list_orgs(options: Namespace, database: Database, names: list[str]) -> _Answer:
    orgs = await database.orgs()
    lines = [f"{padded(visible(org.name), 30)} {org.id}  kept {_days(org.retention_days)}" for org in orgs]
    return {"orgs": orgs}, *lines


async def _retention(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org, text = await _org(database, names[0]), names[1]
    if text != "forever" and not (text.isdigit() and 1 <= int(text) <= 36_500):
        raise UsageError(f"retention {text!a}: not understood", hint="write a number of days, or forever")
    days = None if text == "forever" else int(text)
    fields = {"retention": "retention_days", "audit-retention": "audit_days"}
    field = fields.get(options.words[0], "usage_days")
    if field == "usage_days" and days is not None and days < LEAST_USAGE_DAYS:
        raise UsageError(
            f"retention {text!a}: too short for responses", hint=f"write {LEAST_USAGE_DAYS} days or more"
        )
    org = replace(org, **{field: days})
    await database.change_org(org, _author())
    sessions, audit, usage = map(_days, (org.retention_days, org.audit_days, org.usage_days))
    return (
        org,
        f"{visible(org.name)}: sessions are kept {sessions}, the audit log {audit}, each response {usage}",
    )


def _days(days: int | None) -> str:
    return f"{days} days" if days else "forever"


async def _visibility(options: Namespace, database: Database, names: list[str]) -> _Answer:
    if names[1] not in VISIBILITIES:
        raise UsageError(f"visibility {names[1]!a}: unknown", hint=f"write one of {', '.join(VISIBILITIES)}")
    org = replace(await _org(database, names[0]), visibility=names[1])
    await database.change_org(org, _author())
    return org, f"{visible(org.name)}: sessions are seen by default as {names[1]}"


async def _add_team(options: Namespace, database: Database, names: list[str]) -> _Answer:
    team = OrgTeam(new_id(), (await _org(database, names[0])).id, _name(names[1]), now_ms())
    await database.add_team(team, _author())
    return team, f"Team {visible(team.name)}: {team.id}"


async def _list_teams(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = await _org(database, names[0])
    teams = await database.teams(org.id)
    people = {user.id: user.name for user in await database.users(org.id)}
    lines = [
        f"{padded(visible(team.name), 30)} {team.id}  {visible(', '.join(people.get(user, user) for user in team.members))}"
        for team in teams
    ]
    return {"teams": teams}, *lines


async def _set_members(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = await _org(database, names[0])
    team = await _team(database, org, names[1])
    members = [await _user(database, org, name) for name in names[2:]]
    await database.set_team(org.id, team.id, [user.id for user in members], _author())
    shown = ", ".join(user.name for user in members) or "no members"
    return await _team(database, org, team.id), f"{visible(team.name)}: {visible(shown)}"


async def _remove_team(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = await _org(database, names[0])
    team = await _team(database, org, names[1])
    await database.remove_team(org.id, team.id, _author())
    return team, f"Team {visible(team.name)} is removed."


async def _add_user(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = await _org(database, names[0])
    user = OrgUser(new_id(), org.id, _name(names[1]), options.role or "member", False, now_ms())
    await database.add_user(user, _author())
    return user, f"Member {visible(user.name)} ({user.role}): {user.id}"


async def _list_users(options: Namespace, database: Database, names: list[str]) -> _Answer:
    users = await database.users((await _org(database, names[0])).id)
    lines = [
        f"{padded(visible(user.name), 30)} {padded(user.role, 11)} {user.id}{'  disabled' if user.disabled else ''}"
        for user in users
    ]
    return {"users": users}, *lines


async def _change_user(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = await _org(database, names[0])
    user = await _user(database, org, names[1])
    if options.disable and options.enable:
        raise UsageError("--disable and --enable exclude each other", hint="give one of the two")
    disabled = True if options.disable else False if options.enable else None
    changed = await database.change_user(org.id, user.id, options.role, disabled, _author()) or user
    state = "disabled" if changed.disabled else "enabled"
    return changed, f"{visible(changed.name)}: {changed.role}, {state}"


async def _erase_user(options: Namespace, database: Database, names: list[str]) -> _Answer:
    user = await _user(database, await _org(database, names[0]), names[1])
    if options.apply:
        report = await erased(database, user, _author())
    else:
        report = await planned_erasure(database, user)
    lines = [f"{'Erased' if report.applied else 'To be erased'}:"]
    lines += [f"  {part.count:>12,} {padded(part.what, 19)} {part.why}" for part in report.erased]
    lines += ["Kept:", *(f"  {part.count:>12,} {padded(part.what, 19)} {part.why}" for part in report.kept)]
    if not report.applied:
        lines.append("Nothing was changed, and erasing cannot be undone. Repeat with --apply to do it.")
    return report, *lines


async def _export_user(options: Namespace, database: Database, names: list[str]) -> _Answer:
    user = await _user(database, await _org(database, names[0]), names[1])
    path, size = Path(names[2]), 0
    with as_storage_error("write", path):
        fd = fsops.create_new(path)
        try:
            async for piece in person_archive(database, user):
                fsops.write_all(fd, piece)
                size += len(piece)
            fsops.sync_file(fd)
        finally:
            fsops.close(fd)
    document = {"user": user.id, "file": str(path), "bytes": size}
    return document, f"Everything held of {visible(user.name)}: {path}"


async def _add_token(options: Namespace, database: Database, names: list[str]) -> _Answer:
    user = await _user(database, await _org(database, names[0]), names[1])
    scopes = tuple(dict.fromkeys(options.scope.split(",")))
    if not set(scopes) <= set(SCOPES):
        raise UsageError(f"scope {options.scope!a}: not understood", hint=f"known: {', '.join(SCOPES)}")
    if options.days is not None and options.days < 1:
        raise UsageError("--days: must be 1 or more", hint="leave it out for a token without an end")
    lasting = None if options.days is None else options.days * _DAY_MS
    secret, token = await issued(
        database, user, scopes, _author(), machine=options.machine, lasting_ms=lasting
    )
    if not options.json:
        # On stderr, so that the token can be piped: admin token add ... | recollect team login URL
        output.note(f"Token {token.id} for {visible(user.name)}, shown once:")
    return CreatedToken(**asdict(token), token=secret), secret


async def _list_tokens(options: Namespace, database: Database, names: list[str]) -> _Answer:
    tokens = await database.tokens((await _org(database, names[0])).id)
    now = now_ms()
    lines = [
        f"{token.id} {padded(visible(token.machine or '-'), 20)} {padded(' '.join(token.scopes), 24)} "
        + ("page " if token.kind == "page" else "")
        + ("revoked" if token.revoked else "expired" if token.expires and token.expires < now else "good")
        for token in tokens
    ]
    return {"tokens": tokens}, *lines


async def _revoke_token(options: Namespace, database: Database, names: list[str]) -> _Answer:
    org = await _org(database, names[0])
    if not await database.revoke_token(org.id, names[1], _author()):
        raise NotFound(
            f"token {names[1]!a}: not found", hint="`recollect team admin token list ORG` lists their ids"
        )
    return await database.token(org.id, names[1]), f"Token {visible(names[1])} is revoked."


async def _audit(options: Namespace, database: Database, names: list[str]) -> _Answer:
    acts = await database.audit((await _org(database, names[0])).id, None, _ACTS)
    lines = [
        f"{dt.datetime.fromtimestamp(act.at / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}Z {padded(act.act, 14)} "
        f"{visible(act.user)} {visible(act.target)} {visible(act.detail)}"
        for act in acts
    ]
    return {"acts": acts}, *lines


def _name(text: str) -> str:
    name = plain_text(text.strip(), 200)
    if not name:
        raise UsageError("the name is empty or too long", hint="it may have up to 200 characters")
    return name


_Act = Callable[[Namespace, Database, list[str]], Awaitable[_Answer]]
_ACTIONS: dict[tuple[str, str], tuple[_Act, int]] = {
    ("org", "add"): (_add_org, 1),
    ("org", "list"): (_list_orgs, 0),
    ("org", "retention"): (_retention, 2),
    ("org", "audit-retention"): (_retention, 2),
    ("org", "usage-retention"): (_retention, 2),
    ("org", "visibility"): (_visibility, 2),
    ("team", "add"): (_add_team, 2),
    ("team", "list"): (_list_teams, 1),
    # Two words and any number of members.
    ("team", "members"): (_set_members, -2),
    ("team", "remove"): (_remove_team, 2),
    ("user", "add"): (_add_user, 2),
    ("user", "list"): (_list_users, 1),
    ("user", "change"): (_change_user, 2),
    ("user", "erase"): (_erase_user, 2),
    ("user", "export"): (_export_user, 3),
    ("token", "add"): (_add_token, 2),
    ("token", "list"): (_list_tokens, 1),
    ("token", "revoke"): (_revoke_token, 2),
    ("audit", "list"): (_audit, 1),
}
