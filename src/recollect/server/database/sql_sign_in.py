"""Tokens, who a person is at an identity provider, and sign-ins that were used, in SQL."""

from __future__ import annotations

from recollect.server.database.records import FOR_PAGE, ApiToken, Author
from recollect.server.database.sql_base import TOKEN, SqlRunner, note, now_ms
from recollect.server.database.sql_usage import Row, Transaction

# A sign-in is remembered for longer than any id token or request for one is valid.
USED_MS = 86_400_000
# Sessions of browsers that one member may have.
MOST_PAGES = 50
_REVOKE = "UPDATE tokens SET revoked = coalesce(revoked, $3) WHERE org = $1 AND (id = $2 OR parent = $2) RETURNING id"
_EARLIER = "CASE WHEN retires IS NULL OR retires > $3 THEN $3 ELSE retires END"


class SignInTables(SqlRunner):
    """What signing in needs of the tables."""

    async def add_token(self, token: ApiToken, secret_hash: bytes, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            if token.kind == FOR_PAGE:  # sessions of browsers are many and short
                own = "org = $1 AND user_id = $2 AND kind = $3"
                await tx.rows(
                    f"DELETE FROM tokens WHERE {own} AND (expires < $4 OR id NOT IN (SELECT id FROM tokens"  # noqa: S608 - constants
                    f" WHERE {own} AND expires >= $4 ORDER BY created DESC, id LIMIT {MOST_PAGES - 1}))",
                    token.org,
                    token.user,
                    FOR_PAGE,
                    token.created,
                )
            await _insert(tx, token, secret_hash)
            act = "page.sign_in" if token.kind == FOR_PAGE else "token.add"
            await note(tx, token.org, author, act, token.id, " ".join(token.scopes))

        await self._write(token.org, work)

    async def tokens(self, org: str) -> list[ApiToken]:
        rows = await self._read_now(
            org,
            f"SELECT {TOKEN} FROM tokens WHERE org = $1 ORDER BY created, id",  # noqa: S608 - names of columns
            org,
        )
        return [stored_token(row) for row in rows]

    async def token(self, org: str, token: str) -> ApiToken | None:
        sql = f"SELECT {TOKEN} FROM tokens WHERE org = $1 AND id = $2"  # noqa: S608 - names of columns
        rows = await self._read_now(org, sql, org, token)
        return stored_token(rows[0]) if rows else None

    async def revoke_token(self, org: str, token: str, author: Author) -> bool:
        async def work(tx: Transaction) -> bool:
            rows = await tx.rows(_REVOKE, org, token, now_ms())
            if rows:
                await note(tx, org, author, "token.revoke", token)
            return bool(rows)

        return await self._written_for_tokens(org, work)

    async def rotate_token(
        self, old: ApiToken, new: ApiToken, secret_hash: bytes, until: int, author: Author
    ) -> bool:
        """One statement decides: of two rotations of one token the second waits for the first."""

        async def work(tx: Transaction) -> bool:
            rows = await tx.rows(
                f"UPDATE tokens SET retires = {_EARLIER} WHERE org = $1 AND id = $2 AND revoked IS NULL"  # noqa: S608 - constants
                " AND (replaced_by IS NULL OR EXISTS (SELECT 1 FROM tokens AS later"
                " WHERE later.id = tokens.replaced_by AND later.last_used IS NULL)) RETURNING replaced_by",
                old.org,
                old.id,
                until,
            )
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

        return await self._written_for_tokens(old.org, work)

    async def identity(self, org: str, issuer: str, subject: str) -> str | None:
        sql = "SELECT user_id FROM identities WHERE org = $1 AND issuer = $2 AND subject = $3"
        rows = await self._read_now(org, sql, org, issuer, subject)
        return str(rows[0][0]) if rows else None

    async def add_identity(self, org: str, issuer: str, subject: str, user: str, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            await tx.rows(
                "INSERT INTO identities(org, issuer, subject, user_id, created) VALUES($1,$2,$3,$4,$5)"
                " ON CONFLICT (org, issuer, subject) DO NOTHING",
                org,
                issuer,
                subject,
                user,
                now_ms(),
            )
            await note(tx, org, author, "user.link", user, issuer)

        await self._write(org, work)

    async def identified(self, org: str) -> set[str]:
        rows = await self._read_now(org, "SELECT user_id FROM identities WHERE org = $1", org)
        return {str(row[0]) for row in rows}

    async def first_use(self, org: str, used: bytes, now: int) -> bool:
        async def work(tx: Transaction) -> bool:
            await tx.rows("DELETE FROM sign_ins WHERE org = $1 AND at < $2", org, now - USED_MS)
            sql = "INSERT INTO sign_ins(hash, org, at) VALUES($1,$2,$3) ON CONFLICT (hash) DO NOTHING RETURNING 1"
            return bool(await tx.rows(sql, used, org, now))

        return await self._write(org, work)


async def _insert(tx: Transaction, token: ApiToken, secret_hash: bytes) -> None:
    await tx.rows(
        f"INSERT INTO tokens({TOKEN}, hash) VALUES($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14)",
        token.id,
        token.org,
        token.user,
        " ".join(token.scopes),
        token.machine,
        token.created,
        token.expires,
        token.revoked,
        token.last_used,
        token.kind,
        token.parent,
        token.replaced_by,
        token.retires,
        secret_hash,
    )


def stored_token(row: Row) -> ApiToken:
    number, org, user, scopes, *rest = row
    return ApiToken(number, org, user, tuple(str(scopes).split()), *rest)
