"""What the tables hold of one person: counted, read out, and removed.

Tokens counted for a response stay in the sums of the organisation, under names that mean nothing: without them a
colleague's copy of the same response would be counted again, and totals of others would change.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

from recollect.server.database.records import (
    AUDIT_COLUMNS,
    TOKEN,
    AuditRow,
    Author,
    Row,
    SqlRunner,
    Transaction,
    in_transaction,
    note,
)
from recollect.server.database.sql_logs import unpacked
from recollect.server.database.sql_tenants import stored_token
from recollect.server.database.sql_usage import USAGE, adding
from recollect.server.database.tables import COUNTS, session_ref
from recollect.share.sync.wire import ApiToken

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

    async def person_tokens(self, org: str, user: str) -> list[ApiToken]:
        sql = f"SELECT {TOKEN} FROM tokens WHERE org = $1 AND user_id = $2 ORDER BY created, id"  # noqa: S608 - names of columns
        return [stored_token(row) for row in await self._read_now(org, sql, org, user)]

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
