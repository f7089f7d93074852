"""Organisations, members, teams, tokens and identities in SQL; and what is kept of one person: counted, read out, removed.

Tokens counted for a response stay in the sums of the organisation, under names that mean nothing: without them a
colleague's copy of the same response would be counted again, and totals of others would change.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

from msgspec.structs import astuple, replace

from recollect.errors import UsageError
from recollect.server.database.records import (
    AUDIT_COLUMNS,
    EVERY_ORG,
    TOKEN,
    AuditRow,
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
from recollect.server.database.sql_logs import unpacked
from recollect.server.database.sql_usage import USAGE, adding
from recollect.server.database.tables import COUNTS, session_ref
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

    async def tokens(self, org: str, user: str | None = None) -> list[ApiToken]:
        """All tokens, or those of a member, including revoked ones."""
        sql = f"SELECT {TOKEN} FROM tokens WHERE org = $1 AND user_id = coalesce($2, user_id) ORDER BY created, id"  # noqa: S608 - names of columns
        return [stored_token(row) for row in await self._read_now(org, sql, org, user)]

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


ERASED = "erased"
_ROWS_AT_ONCE = 5_000
_MINE = "SELECT ref FROM sessions WHERE org = $1 AND user_id = $2"
_MY_IDS = "SELECT id FROM sessions WHERE org = $1 AND user_id = $2"
_HELD_IDS = f"{_MY_IDS} AND held = 1"
_MY_TOKENS = "SELECT id FROM tokens WHERE org = $1 AND user_id = $2"
_ELSEWHERE = f"FROM segments WHERE org = $1 AND token IN ({_MY_TOKENS}) AND ref NOT IN ({_MINE})"
_COUNTED = {
    "sessions": "SELECT count(*) FROM sessions WHERE org = $1 AND user_id = $2",
    "held_sessions": "SELECT count(*) FROM sessions WHERE org = $1 AND user_id = $2 AND held = 1",
    "logs": f"SELECT count(*) FROM logs WHERE org = $1 AND ref IN ({_MINE})",  # noqa: S608
    "lines": f"SELECT sum(lines) FROM logs WHERE org = $1 AND ref IN ({_MINE})",  # noqa: S608
    "bytes": f"SELECT sum(bytes) FROM logs WHERE org = $1 AND ref IN ({_MINE})",  # noqa: S608
    "files": f"SELECT count(*) FROM files WHERE org = $1 AND ref IN ({_MINE})",  # noqa: S608
    "responses": "SELECT sum(messages) FROM rollup_day WHERE org = $1 AND person = $2",
    "tokens": "SELECT count(*) FROM tokens WHERE org = $1 AND user_id = $2",
    "identities": "SELECT count(*) FROM identities WHERE org = $1 AND user_id = $2",
    "teams": "SELECT count(*) FROM team_members WHERE org = $1 AND user_id = $2",
    "audit_rows": "SELECT count(*) FROM audit WHERE org = $1 AND user_id = $2",
    "lines_elsewhere": f"SELECT sum(lines) {_ELSEWHERE}",
    "sessions_elsewhere": f"SELECT count(DISTINCT ref) {_ELSEWHERE}",
    "files_elsewhere": f"SELECT count(*) FROM files WHERE org = $1 AND user_id = $2 AND ref NOT IN ({_MINE})",  # noqa: S608
}
_SUMS = ("messages", *COUNTS)
_WORD = re.compile(r"[^A-Za-z0-9_.-]+", re.ASCII)


class PersonTables(SqlRunner):
    """All that is kept of a member."""

    async def person_counts(self, org: str, user: str) -> dict[str, int]:
        """What the server holds of a member. ``held_…``: under legal hold. ``…_elsewhere``: in sessions of others."""
        return {
            name: int((await self._read_now(org, sql, org, user))[0][0] or 0)
            for name, sql in _COUNTED.items()
        }

    async def person_sessions(self, org: str, user: str) -> list[tuple[str, bool]]:
        """The sessions that a member created, in any state, and whether each is under legal hold."""
        sql = "SELECT id, held FROM sessions WHERE org = $1 AND user_id = $2 ORDER BY id"
        return [(str(number), bool(held)) for number, held in await self._read_now(org, sql, org, user)]

    async def person_identities(self, org: str, user: str) -> list[tuple[str, str]]:
        sql = (
            "SELECT issuer, subject FROM identities WHERE org = $1 AND user_id = $2 ORDER BY issuer, subject"
        )
        return [(str(issuer), str(subject)) for issuer, subject in await self._read_now(org, sql, org, user)]

    async def person_logs(self, org: str, user: str) -> Sequence[Row]:
        """Session, key, first line, lines and bytes of the logs of a member's sessions."""
        sql = (
            "SELECT sessions.id, key, 0, lines, bytes FROM logs JOIN sessions ON sessions.ref = logs.ref"
            " WHERE logs.org = $1 AND user_id = $2 ORDER BY sessions.id, key"
        )
        return await self._read_now(org, sql, org, user)

    async def person_lines_elsewhere(self, org: str, user: str) -> Sequence[Row]:
        """The same of the lines that a member added to sessions of others."""
        sql = (
            "SELECT sessions.id, key, first_line, lines, size FROM segments"  # noqa: S608 - constants
            f" JOIN sessions ON sessions.ref = segments.ref WHERE segments.org = $1 AND token IN ({_MY_TOKENS})"
            " AND sessions.user_id <> $2 ORDER BY sessions.id, key, first_line"
        )
        return await self._read_now(org, sql, org, user)

    async def person_files(self, org: str, user: str) -> Sequence[Row]:
        """Session, key and bytes of the side files of a member's sessions, and of those that the member stored elsewhere."""
        sql = (
            "SELECT sessions.id, key, size FROM files JOIN sessions ON sessions.ref = files.ref"
            " WHERE files.org = $1 AND (sessions.user_id = $2 OR files.user_id = $2) ORDER BY sessions.id, key"
        )
        return await self._read_now(org, sql, org, user)

    async def person_file(self, org: str, session: str, key: str) -> bytes | None:
        """Also of a session that was deleted and not purged yet."""
        sql = "SELECT codec, data FROM files WHERE ref = $1 AND key = $2"
        rows = await self._read_now(org, sql, session_ref(org, session), key)
        return unpacked(rows[0][0], bytes(rows[0][1])) if rows else None

    async def person_usage(self, org: str, user: str) -> list[dict[str, object]]:
        names = USAGE.split(", ")
        sql = f"SELECT {', '.join(names)} FROM usage WHERE org = $1 AND person = $2 ORDER BY at, message, session, key, request"  # noqa: S608 - names of columns
        return [dict(zip(names, row, strict=True)) for row in await self._read_now(org, sql, org, user)]

    async def person_audit(self, org: str, user: str) -> list[AuditRow]:
        sql = f"SELECT {AUDIT_COLUMNS} FROM audit WHERE org = $1 AND user_id = $2 ORDER BY id"  # noqa: S608 - names of columns
        return [AuditRow(*row) for row in await self._read_now(org, sql, org, user)]

    # --- removing --------------------------------------------------------------------------------

    async def forget_person(self, org: str, user: str, author: Author, erasure: str) -> bool:
        """Remove what names a member, but for sessions under legal hold; False where there is none. The bytes of the
        sessions are purged before. ``erasure``: how the audit log names it."""
        rows = await self._read_now(org, "SELECT name FROM users WHERE org = $1 AND id = $2", org, user)
        if not rows:
            return False
        ids = await self._ids(org, user)
        name = str(rows[0][0])
        is_held = any(held for _, held in await self.person_sessions(org, user))

        async def forget(tx: Transaction) -> None:
            await _rename_usage(tx, org, user)
            await tx.rows("DELETE FROM sessions WHERE org = $1 AND user_id = $2 AND held = 0", org, user)
            await tx.rows(
                f"UPDATE files SET user_id = NULL WHERE org = $1 AND user_id = $2 AND ref NOT IN ({_MINE})",  # noqa: S608 - constants
                org,
                user,
            )
            await tx.rows(
                f"UPDATE segments SET token = '{ERASED}' WHERE org = $1 AND token IN ({_MY_TOKENS})"  # noqa: S608 - constants
                f" AND ref NOT IN ({_MINE})",
                org,
                user,
            )
            await self._forget_derived(tx)
            await tx.rows("DELETE FROM identities WHERE org = $1 AND user_id = $2", org, user)
            await tx.rows("DELETE FROM team_members WHERE org = $1 AND user_id = $2", org, user)
            if not is_held:
                await tx.rows("DELETE FROM tokens WHERE org = $1 AND user_id = $2", org, user)
                await tx.rows("DELETE FROM users WHERE org = $1 AND id = $2", org, user)

        await self._write(org, forget)
        await self._rewrite_audit(org, ids, repr(name))
        await self._write(org, lambda tx: note(tx, org, author, "user.erase", erasure))
        return True

    async def _ids(self, org: str, user: str) -> set[str]:
        """Everything that names the person, unless it belongs to what is under legal hold."""
        sessions = await self._read_now(org, f"{_MY_IDS} AND held = 0", org, user)
        tokens = await self._read_now(org, _MY_TOKENS, org, user)
        return {user, *(str(row[0]) for row in (*sessions, *tokens))}

    async def _rewrite_audit(self, org: str, ids: set[str], name: str) -> None:
        """Acts stay in the log, without the person. Each row is looked at once: ids are within other text."""
        after = 0
        while True:
            sql = "SELECT id, user_id, token, target, detail FROM audit WHERE org = $1 AND id > $2 ORDER BY id LIMIT $3"
            rows = await self._read_now(org, sql, org, after, _ROWS_AT_ONCE)
            if not rows:
                return
            changed: list[tuple[object, ...]] = []
            for number, *texts in rows:
                new = [_without(str(text), ids, name) for text in texts]
                if new != texts:
                    changed.append((org, number, *new))
            await self._rewrite_acts(org, changed)
            after = int(rows[-1][0])

    @in_transaction
    async def _rewrite_acts(self, tx: Transaction, org: str, changed: list[tuple[object, ...]]) -> None:
        sql = "UPDATE audit SET user_id = $3, token = $4, target = $5, detail = $6 WHERE org = $1 AND id = $2"
        await tx.many(sql, changed)


def _without(text: str, ids: set[str], name: str) -> str:
    is_named = name in text or not ids.isdisjoint(_WORD.split(text))
    return ERASED if is_named else text


async def _rename_usage(tx: Transaction, org: str, user: str) -> None:
    """The person's responses, and those in the person's sessions, under names that mean nothing."""
    free = f"session NOT IN ({_HELD_IDS})"
    await tx.rows(
        f"DELETE FROM usage WHERE org = $1 AND counted = 0 AND {free} AND (person = $2 OR session IN ({_MY_IDS}))",  # noqa: S608 - constants
        org,
        user,
    )
    found = await tx.rows(
        f"SELECT session, key FROM usage WHERE org = $1 AND session IN ({_MY_IDS}) AND {free}"  # noqa: S608 - constants
        f" UNION SELECT session, '' FROM rollup_day WHERE org = $1 AND session IN ({_MY_IDS}) AND {free}",
        org,
        user,
    )
    sessions = {session: f"{ERASED}-{uuid.uuid4()}" for session, _ in found}
    await tx.rows(
        "CREATE TEMPORARY TABLE erased_names(session TEXT, key TEXT, new_session TEXT, new_key TEXT,"
        " PRIMARY KEY(session, key))"
    )
    for number, (session, key) in enumerate(found):
        await tx.rows(
            "INSERT INTO erased_names VALUES($1,$2,$3,$4)", session, key, sessions[session], str(number)
        )
    same = "FROM erased_names AS n WHERE n.session = usage.session AND n.key = usage.key"
    person = "CASE WHEN person = $2 THEN '' ELSE person END"
    await tx.rows(
        f"UPDATE usage SET session = (SELECT new_session {same}), key = (SELECT new_key {same}), branch = '',"  # noqa: S608 - constants
        f" person = {person} WHERE org = $1 AND EXISTS (SELECT 1 {same})",
        org,
        user,
    )
    sql = f"UPDATE usage SET person = '', branch = '' WHERE org = $1 AND person = $2 AND {free}"  # noqa: S608 - constants
    await tx.rows(sql, org, user)
    for table, time in (("rollup", "quarter"), ("rollup_day", "day")):
        await _rename_sums(tx, org, user, table, time)
    await tx.rows("DROP TABLE erased_names")


async def _rename_sums(tx: Transaction, org: str, user: str, table: str, time: str) -> None:
    """Sums are added where two become one: by branch, and those of another person who was erased."""
    same = f"FROM erased_names AS n WHERE n.session = {table}.session)"
    person = "CASE WHEN person = $2 THEN '' ELSE person END"
    touched = f"org = $1 AND session NOT IN ({_HELD_IDS}) AND (person = $2 OR EXISTS (SELECT 1 {same})"
    rows = await tx.rows(
        f"SELECT {time}, coalesce((SELECT max(new_session) {same}, session), {person}, model, variant, {', '.join(_SUMS)} FROM {table}"  # noqa: S608 - constants
        f" WHERE {touched}",
        org,
        user,
    )
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        known = sums.setdefault(tuple(row[:5]), [0] * len(_SUMS))
        for place, amount in enumerate(row[5:]):
            known[place] += int(amount)
    await tx.rows(f"DELETE FROM {table} WHERE {touched}", org, user)  # noqa: S608 - constants
    columns = ("org", time, "session", "person", "model", "branch", "variant")
    await tx.many(
        adding(table, *columns),
        [(org, *key[:4], "", key[4], *amounts) for key, amounts in sorted(sums.items())],
    )
