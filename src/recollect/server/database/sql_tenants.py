"""Organisations, members, teams and tokens in SQL; who a person is at an identity provider, and sign-ins that were used."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple, replace

from recollect.errors import UsageError
from recollect.server.database.records import (
    EVERY_ORG,
    TOKEN,
    Author,
    Org,
    OrgTeam,
    OrgUser,
    Row,
    SqlRunner,
    Taken,
    Transaction,
    in_transaction,
    insert,
    note,
    now_ms,
)
from recollect.share.sync.wire import FOR_PAGE, ApiToken

# A sign-in is remembered for longer than any id token or request for one is valid.
USED_MS = 86_400_000
# Sessions of browsers that one member may have.
MOST_PAGES = 50
_ORG = "id, name, created, retention_days, audit_days, visibility, usage_days"
_USER = "id, org, name, role, disabled, created"
_REVOKE = "UPDATE tokens SET revoked = coalesce(revoked, $3) WHERE org = $1 AND (id = $2 OR parent = $2) RETURNING id"
_EARLIER = "CASE WHEN retires IS NULL OR retires > $3 THEN $3 ELSE retires END"


class TenantTables(SqlRunner):
    """Who may use the server."""

    @in_transaction
    async def add_org(self, tx: Transaction, org: Org, author: Author) -> None:
        if await tx.rows("SELECT 1 FROM orgs WHERE name = $1", org.name):
            raise Taken(f"an organisation {org.name!a} already exists")
        await tx.rows(insert("orgs", _ORG), *astuple(org))
        await note(tx, org.id, author, "org.add", org.id)

    async def orgs(self) -> list[Org]:
        """All tenants. For the operator only; no route uses this."""
        rows = await self._read_now(EVERY_ORG, f"SELECT {_ORG} FROM orgs ORDER BY name")  # noqa: S608 - names of columns
        return [Org(*row) for row in rows]

    @in_transaction
    async def change_org(self, tx: Transaction, org: Org, author: Author) -> None:
        """How long an organisation keeps what it has, and who sees sessions for which no one chose otherwise."""
        sql = "UPDATE orgs SET retention_days = $2, audit_days = $3, usage_days = $4, visibility = $5 WHERE id = $1"
        await tx.rows(sql, org.id, org.retention_days, org.audit_days, org.usage_days, org.visibility)
        days = f"{org.retention_days} audit {org.audit_days} usage {org.usage_days}"
        await note(tx, org.id, author, "org.change", org.id, f"{days} {org.visibility}")

    @in_transaction
    async def add_team(self, tx: Transaction, team: OrgTeam, author: Author) -> None:
        """A new team without members; ``Taken`` where the name is in use."""
        if await tx.rows("SELECT 1 FROM teams WHERE org = $1 AND name = $2", team.org, team.name):
            raise Taken(f"a team {team.name!a} already exists")
        await tx.rows(insert("teams", "id, org, name, created"), *astuple(team)[:4])
        await note(tx, team.org, author, "team.add", team.id, team.name)

    async def teams(self, org: str) -> list[OrgTeam]:
        rows = await self._read_now(
            org, "SELECT id, org, name, created FROM teams WHERE org = $1 ORDER BY name", org
        )
        members: dict[str, list[str]] = {}
        sql = "SELECT team, user_id FROM team_members WHERE org = $1 ORDER BY user_id"
        for team, user in await self._read_now(org, sql, org):
            members.setdefault(team, []).append(user)
        return [replace(OrgTeam(*row), members=tuple(members.get(row[0], ()))) for row in rows]

    @in_transaction
    async def set_team(
        self, tx: Transaction, org: str, team: str, members: Sequence[str], author: Author
    ) -> bool:
        """Who belongs to a team; False where there is none."""
        if not await tx.rows("SELECT 1 FROM teams WHERE org = $1 AND id = $2", org, team):
            return False
        known = {row[0] for row in await tx.rows("SELECT id FROM users WHERE org = $1", org)}
        if not set(members) <= known:
            hint = "GET /v1/users lists them"
            raise UsageError("members: not all are members of the organisation", hint=hint)
        await tx.rows("DELETE FROM team_members WHERE org = $1 AND team = $2", org, team)
        for user in dict.fromkeys(members):
            await tx.rows(insert("team_members", "team, user_id, org"), team, user, org)
        await note(tx, org, author, "team.change", team, f"{len(members)} members")
        return True

    @in_transaction
    async def remove_team(self, tx: Transaction, org: str, team: str, author: Author) -> bool:
        """Remove a team; False where there is none."""
        rows = await tx.rows("DELETE FROM teams WHERE org = $1 AND id = $2 RETURNING id", org, team)
        if rows:
            await tx.rows("DELETE FROM team_members WHERE org = $1 AND team = $2", org, team)
            await note(tx, org, author, "team.remove", team)
        return bool(rows)

    @in_transaction
    async def add_user(self, tx: Transaction, user: OrgUser, author: Author) -> None:
        if await tx.rows("SELECT 1 FROM users WHERE org = $1 AND name = $2", user.org, user.name):
            raise Taken(f"a member {user.name!a} already exists")
        stored = replace(user, disabled=int(user.disabled))
        await tx.rows(insert("users", _USER), *astuple(stored))
        await note(tx, user.org, author, "user.add", user.id, user.role)

    async def users(self, org: str) -> list[OrgUser]:
        rows = await self._read_now(org, f"SELECT {_USER} FROM users WHERE org = $1 ORDER BY name", org)  # noqa: S608 - names of columns
        return [_user(row) for row in rows]

    @in_transaction
    async def change_user(  # noqa: PLR0917 - the transaction is not the caller's
        self, tx: Transaction, org: str, user: str, role: str | None, disabled: bool | None, author: Author
    ) -> OrgUser | None:
        """Change a member's role or disable it; None where there is no such member."""
        sql = (
            "UPDATE users SET role = coalesce($3, role), disabled = coalesce($4, disabled)"  # noqa: S608 - names of columns
            f" WHERE org = $1 AND id = $2 RETURNING {_USER}"
        )
        rows = await tx.rows(sql, org, user, role, None if disabled is None else int(disabled))
        if not rows:
            return None
        changed = _user(rows[0])
        await note(tx, org, author, "user.change", user, f"{changed.role} disabled={changed.disabled}")
        return changed

    async def grant(self, secret_hash: bytes) -> tuple[ApiToken, OrgUser, Org] | None:
        """The token with this hash, its user and organisation, in any state."""
        token, user, org = (
            ", ".join(f"{table}.{name}" for name in columns.split(", "))
            for table, columns in (("tokens", TOKEN), ("users", _USER), ("orgs", _ORG))
        )
        rows = await self._read_now(
            EVERY_ORG,
            f"SELECT {token}, {user}, {org} FROM tokens JOIN users ON users.id = tokens.user_id"  # noqa: S608 - names of columns
            " JOIN orgs ON orgs.id = tokens.org WHERE hash = $1 AND users.org = tokens.org",
            secret_hash,
        )
        if not rows:
            return None
        row = tuple(rows[0])
        return stored_token(row[:13]), _user(row[13:19]), Org(*row[19:])

    async def used(self, token: ApiToken, now: int) -> None:
        """Record that a token was used. Tried once: nothing but a date depends on it."""
        sql = "UPDATE tokens SET last_used = $2 WHERE id = $1"
        await self._write(token.org, lambda tx: tx.rows(sql, token.id, now), is_retried=False)

    # --- tokens ----------------------------------------------------------------------------------

    @in_transaction
    async def add_token(self, tx: Transaction, token: ApiToken, secret_hash: bytes, author: Author) -> None:
        if token.kind == FOR_PAGE:  # sessions of browsers are many and short
            own = "org = $1 AND user_id = $2 AND kind = $3"
            sql = (
                f"DELETE FROM tokens WHERE {own} AND (expires < $4 OR id NOT IN (SELECT id FROM tokens"  # noqa: S608 - constants
                f" WHERE {own} AND expires >= $4 ORDER BY created DESC, id LIMIT {MOST_PAGES - 1}))"
            )
            await tx.rows(sql, token.org, token.user, FOR_PAGE, token.created)
        await _insert(tx, token, secret_hash)
        act = "page.sign_in" if token.kind == FOR_PAGE else "token.add"
        await note(tx, token.org, author, act, token.id, " ".join(token.scopes))

    async def tokens(self, org: str) -> list[ApiToken]:
        """All tokens, including revoked ones."""
        sql = f"SELECT {TOKEN} FROM tokens WHERE org = $1 ORDER BY created, id"  # noqa: S608 - names of columns
        return [stored_token(row) for row in await self._read_now(org, sql, org)]

    async def token(self, org: str, token: str) -> ApiToken | None:
        sql = f"SELECT {TOKEN} FROM tokens WHERE org = $1 AND id = $2"  # noqa: S608 - names of columns
        rows = await self._read_now(org, sql, org, token)
        return stored_token(rows[0]) if rows else None

    @in_transaction
    async def revoke_token(self, tx: Transaction, org: str, token: str, author: Author) -> bool:
        """Revoke a token and the browser sessions it opened, permanently; False where there is none."""
        rows = await tx.rows(_REVOKE, org, token, now_ms())
        if rows:
            await note(tx, org, author, "token.revoke", token)
        return bool(rows)

    @in_transaction
    async def rotate_token(  # noqa: PLR0917 - the transaction is not the caller's
        self, tx: Transaction, old: ApiToken, new: ApiToken, secret_hash: bytes, until: int, author: Author
    ) -> bool:
        """One statement decides: of two rotations of one token the second waits for the first."""
        sql = (
            f"UPDATE tokens SET retires = {_EARLIER} WHERE org = $1 AND id = $2 AND revoked IS NULL"  # noqa: S608 - constants
            " AND (replaced_by IS NULL OR EXISTS (SELECT 1 FROM tokens AS later"
            " WHERE later.id = tokens.replaced_by AND later.last_used IS NULL)) RETURNING replaced_by"
        )
        rows = await tx.rows(sql, old.org, old.id, until)
        if not rows:
            return False
        if rows[0][0] is not None:  # an answer that never arrived
            await tx.rows(_REVOKE, old.org, rows[0][0], now_ms())
        sql = f"UPDATE tokens SET retires = {_EARLIER} WHERE org = $1 AND parent = $2"  # noqa: S608 - a constant
        await tx.rows(sql, old.org, old.id, until)
        await tx.rows("UPDATE tokens SET replaced_by = $2 WHERE id = $1", old.id, new.id)
        await _insert(tx, new, secret_hash)
        await note(tx, old.org, author, "token.rotate", old.id, new.id)
        return True

    async def identity(self, org: str, issuer: str, subject: str) -> str | None:
        sql = "SELECT user_id FROM identities WHERE org = $1 AND issuer = $2 AND subject = $3"
        rows = await self._read_now(org, sql, org, issuer, subject)
        return str(rows[0][0]) if rows else None

    @in_transaction
    async def add_identity(  # noqa: PLR0917 - the transaction is not the caller's
        self, tx: Transaction, org: str, issuer: str, subject: str, user: str, author: Author
    ) -> None:
        """Who a member is at an identity provider; the first one stays."""
        sql = insert("identities", "org, issuer, subject, user_id, created") + " ON CONFLICT DO NOTHING"
        await tx.rows(sql, org, issuer, subject, user, now_ms())
        await note(tx, org, author, "user.link", user, issuer)

    async def identified(self, org: str) -> set[str]:
        """The members whom some identity provider knows."""
        rows = await self._read_now(org, "SELECT user_id FROM identities WHERE org = $1", org)
        return {str(row[0]) for row in rows}

    @in_transaction
    async def first_use(self, tx: Transaction, org: str, used: bytes, now: int) -> bool:
        """Note that a sign-in was used; False where it was used before."""
        await tx.rows("DELETE FROM sign_ins WHERE org = $1 AND at < $2", org, now - USED_MS)
        sql = insert("sign_ins", "hash, org, at") + " ON CONFLICT (hash) DO NOTHING RETURNING 1"
        return bool(await tx.rows(sql, used, org, now))


async def _insert(tx: Transaction, token: ApiToken, secret_hash: bytes) -> None:
    number, org, user, scopes, *rest = astuple(token)
    await tx.rows(insert("tokens", f"{TOKEN}, hash"), number, org, user, " ".join(scopes), *rest, secret_hash)


def stored_token(row: Row) -> ApiToken:
    number, org, user, scopes, *rest = row
    return ApiToken(number, org, user, tuple(str(scopes).split()), *rest)


def _user(row: Row) -> OrgUser:
    number, org, name, role, disabled, created = row
    return OrgUser(number, org, name, role, bool(disabled), created)
