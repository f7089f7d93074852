"""Manage organisations, members and tokens, directly in the server's database.

  org add NAME
  org list
  org retention ORG DAYS|forever
  org audit-retention ORG DAYS|forever
  org usage-retention ORG DAYS|forever
  org visibility ORG private|team|organisation
  org move ORG CLUSTER [--apply] [--back|--remove-left]
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
same database as `recollect serve`; `org add` creates a new SQLite file.
`user erase` shows what would be removed of a person and what is kept, and why;
--apply removes it, which cannot be undone. `user export` writes all that is
held of a person into one .tar.gz. `org move` (with --clusters) shows what it
would copy to another PostgreSQL cluster; --apply moves the organisation while
its members work. Repeat the command to continue an interrupted move, or cancel
it with --back. The old rows stay, unseen, until --remove-left removes them.

Example:
  recollect admin org add Acme
  recollect admin user add Acme ada --role admin
  recollect admin token add Acme ada --machine laptop --days 90
  recollect admin org move Acme eu --clusters clusters.toml --apply
"""

from __future__ import annotations

import asyncio
import getpass
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from recollect.cli.team.org_moves import add_move_options, move_org
from recollect.cli.team.serve import add_database, asked_database
from recollect.cli.terminal import output
from recollect.cli.terminal.text import padded, visible
from recollect.errors import Busy, NotFound, UsageError
from recollect.services.documents.sync import (
    ApiTokensDocument,
    AuditDocument,
    MembersDocument,
    NewTokenDocument,
    OrganizationsDocument,
    RetentionDocument,
    RevokedTokenDocument,
    TeamsDocument,
)

if TYPE_CHECKING:
    from recollect.server.database.contract import Database
    from recollect.server.database.records import Author, Org, OrgTeam, OrgUser, Retention

_DAY_MS = 86_400_000
_ACTS = 100


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
    parser.add_argument("--apply", action="store_true", help="user erase, org move: carry out the plan")
    add_move_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: Namespace) -> int:
    database = asked_database(options)
    from recollect.server.database.contract import Taken, Unavailable

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
    if (options.what, action) == ("org", "add"):
        await database.migrate()
    await database.open()
    try:
        act, count = _ACTIONS[options.what, action]
        if len(names) != count and not (count < 0 and len(names) >= -count):
            raise UsageError(
                f"admin {options.what} {action}: takes {abs(count)} words, not {len(names)}",
                hint="`recollect admin --help` shows them",
            )
        await act(options, database, names)
    finally:
        await database.close()


def _action(options: Namespace) -> tuple[str, list[str]]:
    if options.what == "audit":
        return "list", options.words
    action, names = (options.words[0] if options.words else ""), options.words[1:]
    if (options.what, action) not in _ACTIONS:
        known = ", ".join(word for what, word in _ACTIONS if what == options.what)
        raise UsageError(f"admin {options.what} {action!a}: unknown action", hint=f"known: {known}")
    return action, names


def _author() -> Author:
    from recollect.server.database.records import Author

    return Author(f"operator {getpass.getuser()}", "command line")


async def _org(database: Database, name: str) -> Org:
    for org in await database.orgs():
        if name in (org.id, org.name):
            return org
    raise NotFound(f"organisation {name!a}: not found", hint="`recollect admin org list` lists them")


async def _user(database: Database, org: Org, name: str) -> OrgUser:
    for user in await database.users(org.id):
        if name in (user.id, user.name):
            return user
    raise NotFound(f"member {name!a}: not in {org.name!a}", hint="`recollect admin user list ORG` lists them")


async def _add_org(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.database.records import Org
    from recollect.server.database.sql_base import now_ms
    from recollect.server.tenancy import new_id

    org = Org(new_id(), _name(names[0]), now_ms())
    await database.add_org(org, _author())
    _tell(options, org, f"Organisation {visible(org.name)}: {org.id}")


async def _list_orgs(options: Namespace, database: Database, names: list[str]) -> None:
    orgs = await database.orgs()
    places = await _clusters(database, orgs)
    lines = [
        f"{padded(visible(org.name), 30)} {org.id}  {_kept(org)}"
        + (f"  in {places[org.id]}" if places else "")
        for org in orgs
    ]
    _tell(options, OrganizationsDocument(orgs, places), *lines)


async def _clusters(database: Database, orgs: list[Org]) -> dict[str, str]:
    """Where each organisation is; empty where there is one database only."""
    named = getattr(database, "cluster_of", None)
    return {} if named is None else {org.id: await named(org.id) for org in orgs}


async def _move(options: Namespace, database: Database, names: list[str]) -> None:
    await move_org(options, database, await _org(database, names[0]), names[1])


def _kept(org: Org) -> str:
    return "kept forever" if org.retention_days is None else f"kept {org.retention_days} days"


async def _retention(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    await _set_retention(options, database, org, org.retention._replace(days=_days(names[1])))


async def _audit_retention(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    await _set_retention(options, database, org, org.retention._replace(audit_days=_days(names[1])))


async def _usage_retention(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.database.records import LEAST_USAGE_DAYS

    org, days = await _org(database, names[0]), _days(names[1])
    if days is not None and days < LEAST_USAGE_DAYS:
        raise UsageError(
            f"retention {names[1]!a}: too short for responses", hint=f"write {LEAST_USAGE_DAYS} days or more"
        )
    await _set_retention(options, database, org, org.retention._replace(usage_days=days))


def _days(text: str) -> int | None:
    if text != "forever" and not (text.isdigit() and 1 <= int(text) <= 36_500):
        raise UsageError(f"retention {text!a}: not understood", hint="write a number of days, or forever")
    return None if text == "forever" else int(text)


async def _set_retention(options: Namespace, database: Database, org: Org, kept: Retention) -> None:
    await database.set_retention(org.id, kept, _author())
    shown = [f"{number} days" if number else "forever" for number in kept]
    _tell(
        options,
        RetentionDocument(org.id, *kept),
        f"{visible(org.name)}: sessions are kept {shown[0]}, the audit log {shown[1]}, each response {shown[2]}",
    )


async def _visibility(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.database.records import VISIBILITIES

    org = await _org(database, names[0])
    if names[1] not in VISIBILITIES:
        raise UsageError(f"visibility {names[1]!a}: unknown", hint=f"write one of {', '.join(VISIBILITIES)}")
    await database.set_visibility(org.id, names[1], _author())
    changed = next(one for one in await database.orgs() if one.id == org.id)
    _tell(options, changed, f"{visible(org.name)}: sessions are seen by default as {names[1]}")


async def _add_team(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.database.records import OrgTeam
    from recollect.server.database.sql_base import now_ms
    from recollect.server.tenancy import new_id

    team = OrgTeam(new_id(), (await _org(database, names[0])).id, _name(names[1]), now_ms())
    await database.add_team(team, _author())
    _tell(options, team, f"Team {visible(team.name)}: {team.id}")


async def _list_teams(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    teams, people = (
        await database.teams(org.id),
        {user.id: user.name for user in await database.users(org.id)},
    )
    lines = [
        f"{padded(visible(team.name), 30)} {team.id}  {visible(', '.join(people.get(one, one) for one in team.members))}"
        for team in teams
    ]
    _tell(options, TeamsDocument(teams), *lines)


async def _team(database: Database, org: Org, name: str) -> OrgTeam:
    for team in await database.teams(org.id):
        if name in (team.id, team.name):
            return team
    raise NotFound(f"team {name!a}: not in {org.name!a}", hint="`recollect admin team list ORG` lists them")


async def _set_members(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    team = await _team(database, org, names[1])
    members = [await _user(database, org, name) for name in names[2:]]
    await database.set_team(org.id, team.id, [user.id for user in members], _author())
    shown = ", ".join(user.name for user in members) or "no members"
    _tell(options, await _team(database, org, team.id), f"{visible(team.name)}: {visible(shown)}")


async def _remove_team(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    team = await _team(database, org, names[1])
    await database.remove_team(org.id, team.id, _author())
    _tell(options, team, f"Team {visible(team.name)} is removed.")


async def _add_user(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.database.records import OrgUser
    from recollect.server.database.sql_base import now_ms
    from recollect.server.tenancy import new_id

    org = await _org(database, names[0])
    user = OrgUser(new_id(), org.id, _name(names[1]), options.role or "member", False, now_ms())
    await database.add_user(user, _author())
    _tell(options, user, f"Member {visible(user.name)} ({user.role}): {user.id}")


async def _list_users(options: Namespace, database: Database, names: list[str]) -> None:
    users = await database.users((await _org(database, names[0])).id)
    lines = [
        f"{padded(visible(user.name), 30)} {padded(user.role, 11)} {user.id}{'  disabled' if user.disabled else ''}"
        for user in users
    ]
    _tell(options, MembersDocument(users), *lines)


async def _change_user(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    user = await _user(database, org, names[1])
    if options.disable and options.enable:
        raise UsageError("--disable and --enable exclude each other", hint="give one of the two")
    disabled = True if options.disable else False if options.enable else None
    changed = await database.change_user(org.id, user.id, options.role, disabled, _author()) or user
    state = "disabled" if changed.disabled else "enabled"
    _tell(options, changed, f"{visible(changed.name)}: {changed.role}, {state}")


async def _erase_user(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.people import erased, planned_erasure

    org = await _org(database, names[0])
    user = await _user(database, org, names[1])
    if options.apply:
        report = await erased(database, user, _author())
    else:
        report = await planned_erasure(database, user)
    lines = [f"{'Erased' if report.applied else 'To be erased'}:"]
    lines += [f"  {part.count:>12,} {padded(part.what, 19)} {part.why}" for part in report.erased]
    lines += ["Kept:", *(f"  {part.count:>12,} {padded(part.what, 19)} {part.why}" for part in report.kept)]
    if not report.applied:
        lines.append("Nothing was changed, and erasing cannot be undone. Repeat with --apply to do it.")
    _tell(options, report, *lines)


async def _export_user(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.people import person_archive
    from recollect.services.documents.sync import PersonArchiveDocument
    from recollect.system import fsops
    from recollect.system.refusals import as_storage_error

    org = await _org(database, names[0])
    user = await _user(database, org, names[1])
    path = Path(names[2])
    size = 0
    with as_storage_error("write", path):
        fd = fsops.create_new(path)
        try:
            async for piece in person_archive(database, user):
                fsops.write_all(fd, piece)
                size += len(piece)
            fsops.sync_file(fd)
        finally:
            fsops.close(fd)
    _tell(
        options,
        PersonArchiveDocument(user.id, str(path), size),
        f"Everything held of {visible(user.name)}: {path}",
    )


async def _add_token(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.tenancy import SCOPES, issued

    org = await _org(database, names[0])
    user = await _user(database, org, names[1])
    scopes = tuple(dict.fromkeys(options.scope.split(",")))
    if not set(scopes) <= set(SCOPES):
        raise UsageError(f"scope {options.scope!a}: not understood", hint=f"known: {', '.join(SCOPES)}")
    if options.days is not None and options.days < 1:
        raise UsageError("--days: must be 1 or more", hint="leave it out for a token without an end")
    lasting = None if options.days is None else options.days * _DAY_MS
    secret, token = await issued(
        database, user, scopes, _author(), machine=options.machine, lasting_ms=lasting
    )
    document = NewTokenDocument(token.id, secret, list(scopes), token.expires)
    if not options.json:
        # On stderr, so that the token can be piped: admin token add ... | recollect sync login URL
        output.note(f"Token {token.id} for {visible(user.name)}, shown once:")
    _tell(options, document, secret)


async def _list_tokens(options: Namespace, database: Database, names: list[str]) -> None:
    from recollect.server.database.sql_base import now_ms

    tokens = await database.tokens((await _org(database, names[0])).id)
    now = now_ms()
    lines = [
        f"{token.id} {padded(visible(token.machine or '-'), 20)} {padded(' '.join(token.scopes), 24)} "
        + ("page " if token.kind == "page" else "")
        + ("revoked" if token.revoked else "expired" if token.expires and token.expires < now else "good")
        for token in tokens
    ]
    _tell(options, ApiTokensDocument(tokens), *lines)


async def _revoke_token(options: Namespace, database: Database, names: list[str]) -> None:
    org = await _org(database, names[0])
    if not await database.revoke_token(org.id, names[1], _author()):
        raise NotFound(
            f"token {names[1]!a}: not found", hint="`recollect admin token list ORG` lists their ids"
        )
    _tell(options, RevokedTokenDocument(names[1]), f"Token {visible(names[1])} is revoked.")


async def _audit(options: Namespace, database: Database, names: list[str]) -> None:
    import datetime as dt

    acts = await database.audit((await _org(database, names[0])).id, None, _ACTS)
    lines = [
        f"{dt.datetime.fromtimestamp(act.at / 1000, dt.UTC):%Y-%m-%d %H:%M:%S}Z {padded(act.act, 14)} "
        f"{visible(act.user)} {visible(act.target)} {visible(act.detail)}"
        for act in acts
    ]
    _tell(options, AuditDocument(acts), *lines)


def _name(text: str) -> str:
    from recollect.sync.wire import plain_text

    name = plain_text(text.strip(), 200)
    if not name:
        raise UsageError("the name is empty or too long", hint="it may have up to 200 characters")
    return name


def _tell(options: Namespace, document: Struct, *lines: str) -> None:
    if options.json:
        output.print_json(document)
        return
    for line in lines:
        output.say(line)


_Act = Callable[[Namespace, "Database", list[str]], Awaitable[None]]
_ACTIONS: dict[tuple[str, str], tuple[_Act, int]] = {
    ("org", "add"): (_add_org, 1),
    ("org", "list"): (_list_orgs, 0),
    ("org", "retention"): (_retention, 2),
    ("org", "audit-retention"): (_audit_retention, 2),
    ("org", "usage-retention"): (_usage_retention, 2),
    ("org", "visibility"): (_visibility, 2),
    ("org", "move"): (_move, 2),
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
