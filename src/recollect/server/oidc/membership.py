"""Who a signed-in person is here: a member, with the role and the teams that the groups of the provider give.

The provider decides at every sign-in: a role that its groups no longer give is taken away, and so is a team that is
named in the settings. Teams that are not named there are left alone. SCIM is not needed for that: who is in no group
any more cannot sign in, and sessions and tokens that were opened this way end by themselves.
"""

from __future__ import annotations

from recollect.server.database.contract import Database, Taken
from recollect.server.database.records import Author, Org, OrgTeam, OrgUser
from recollect.server.database.sql_base import now_ms
from recollect.server.oidc.id_token import Claims
from recollect.server.oidc.settings import ProviderSettings
from recollect.server.refusals import RequestRefused
from recollect.server.tenancy import ROLES, new_id
from recollect.sync.wire import plain_text

AUTHOR = Author("identity provider", "sign-in")
_MOST_GROUPS = 10_000
_HINT = "ask an admin of your organisation"


async def member_of(
    database: Database, org: Org, settings: ProviderSettings, subject: str, claims: Claims
) -> OrgUser:
    """The member, added or changed as the claims say; ``RequestRefused`` where they give no access."""
    groups = _groups(claims.get(settings.groups_claim))
    given = [settings.roles[group] for group in settings.roles if group in groups]
    # The order of ROLES is that of their rights.
    role = max(given, key=list(ROLES).index) if given else settings.default_role
    if not role:
        raise _refused("none of your groups may use this server", _HINT)
    name = _name(claims.get(settings.name_claim))
    user = await _known(
        database, org, settings, subject, OrgUser(new_id(), org.id, name, role, False, now_ms())
    )
    if user.disabled:
        raise _refused("the member is disabled", _HINT)
    if user.role != role:
        user = await database.change_user(org.id, user.id, role, None, AUTHOR) or user
    await _join(database, org, settings, user, groups)
    return user


def _groups(value: object) -> set[str]:
    if isinstance(value, str):
        return {value}
    return {one for one in value[:_MOST_GROUPS] if isinstance(one, str)} if isinstance(value, list) else set()


def _name(said: object) -> str:
    return plain_text(said.strip(), 200) if isinstance(said, str) else ""


async def _known(
    database: Database, org: Org, settings: ProviderSettings, subject: str, new: OrgUser
) -> OrgUser:
    """The member whom the provider knows by this subject, or ``new``."""
    users = await database.users(org.id)
    number = await database.identity(org.id, settings.issuer, subject)
    for user in users:
        if user.id == number:
            return user
    if not new.name:
        raise _refused(f"the provider does not say {settings.name_claim!a}", "set name_claim in the settings")
    same = next((user for user in users if user.name == new.name), None)
    if same is not None and (not settings.adopt_members or same.id in await database.identified(org.id)):
        raise _refused(
            f"another member has the name {new.name!a}",
            "ask an admin: adopt_members in the settings joins the two, or one of them gets another name",
        )
    if same is None:
        try:
            await database.add_user(new, AUTHOR)
        except Taken:
            raise _refused(f"another member has the name {new.name!a}", "sign in again") from None
    user = same or new
    await database.add_identity(org.id, settings.issuer, subject, user.id, AUTHOR)
    return user


async def _join(
    database: Database, org: Org, settings: ProviderSettings, user: OrgUser, groups: set[str]
) -> None:
    wanted = {team for group, team in settings.teams.items() if group in groups}
    known = {team.name: team for team in await database.teams(org.id)}
    for name in sorted(set(settings.teams.values())):
        team = known.get(name)
        if team is None:
            if name not in wanted:
                continue
            team = OrgTeam(new_id(), org.id, name, now_ms())
            await database.add_team(team, AUTHOR)
        members = set(team.members)
        after = members | {user.id} if name in wanted else members - {user.id}
        if after != members:
            await database.set_team(org.id, team.id, sorted(after), AUTHOR)


def _refused(message: str, hint: str) -> RequestRefused:
    return RequestRefused(403, "forbidden", message, hint)
