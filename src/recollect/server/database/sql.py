"""The contract in SQL that SQLite and PostgreSQL share.

Each implements how a read and a transaction run, and how words are searched. Values are ``$1``, ``$2``
…; booleans are 0 or 1; times are milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from msgspec.structs import astuple

from recollect.index.schema import QUARTER_MS
from recollect.model.titles import TITLE_PARTS
from recollect.server.database.contract import Forbidden, Held, OrgElsewhere, Taken
from recollect.server.database.records import (
    BY_REQUEST,
    DELETED,
    LIVE,
    PURGED,
    REFUSED,
    ApiToken,
    AuditRow,
    Author,
    FileBytes,
    Grant,
    Org,
    OrgTeam,
    OrgUser,
    Retention,
    SessionChanges,
    SessionFilter,
    SessionReader,
    UsageSum,
    UsageTaker,
)
from recollect.server.database.sql_append import packed, unpacked
from recollect.server.database.sql_base import EVERY_ORG, TOKEN, now_ms
from recollect.server.database.sql_base import note as _note
from recollect.server.database.sql_cost import UsageQuestion, usage_query
from recollect.server.database.sql_logs import SqlLogs, log_head
from recollect.server.database.sql_person import PersonTables
from recollect.server.database.sql_sign_in import SignInTables, stored_token
from recollect.server.database.sql_sweep import SqlSweeps
from recollect.server.database.sql_usage import Row, Transaction
from recollect.server.database.sql_visibility import seen_by
from recollect.server.database.tables.moves import ARRIVING
from recollect.server.database.tables.steps import session_ref
from recollect.sync.wire import RemoteSession, SessionDetail, SideFile
from recollect.system.unwatched import unwatched

_TITLE_PARTS_SAID = ", ".join(f"nullif({part}, '')" for part in TITLE_PARTS)
_SESSION = (
    f"sessions.id, project, repository, machine, users.name, CASE WHEN title_rank = {BY_REQUEST} THEN title"  # noqa: S608 - constants
    f" ELSE coalesce({_TITLE_PARTS_SAID}, title) END,"
    " branch, cwd, sessions.created, changed, first_at,"
    " last_at, coalesce((SELECT lines FROM logs WHERE logs.ref = sessions.ref AND key = ''), 0),"
    " coalesce((SELECT bytes FROM logs WHERE logs.ref = sessions.ref AND key = ''), 0), held, encrypted,"
    " sessions.visibility FROM sessions LEFT JOIN users ON users.id = sessions.user_id"
)
# After every id that begins alike: the last of the characters that ids have, as often as the longest has any.
_LAST_IN_IDS = "z" * 128
_ORG, _USER = (
    "id, name, created, retention_days, audit_days, visibility, usage_days",
    "id, org, name, role, disabled, created",
)


class SqlDatabase(SqlLogs, SqlSweeps, SignInTables, PersonTables):
    """Everything that both databases share."""

    # Where an organisation may be elsewhere: the SQL that says so for a token, and the condition for those that are here.
    _FENCE, _HERE = "NULL", "1 = 1"

    # --- tenants ---------------------------------------------------------------------------------

    async def add_org(self, org: Org, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            if await tx.rows("SELECT 1 FROM orgs WHERE name = $1", org.name):
                raise Taken(f"an organisation {org.name!a} already exists")
            sql = f"INSERT INTO orgs({_ORG}) VALUES($1,$2,$3,$4,$5,$6,$7)"
            await tx.rows(sql, *astuple(org))
            await _note(tx, org.id, author, "org.add", org.id)

        await self._write(EVERY_ORG, work)

    async def orgs(self) -> list[Org]:
        return [org for org, is_here in await self._all_orgs() if is_here]

    async def _all_orgs(self) -> list[tuple[Org, bool]]:
        rows = await self._read_now(EVERY_ORG, f"SELECT {_ORG}, {self._HERE} FROM orgs ORDER BY name")  # noqa: S608 - names of columns
        return [(_org(row[:-1]), bool(row[-1])) for row in map(tuple, rows)]

    async def set_retention(self, org: str, kept: Retention, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            sql = "UPDATE orgs SET retention_days = $2, audit_days = $3, usage_days = $4 WHERE id = $1"
            await tx.rows(sql, org, *kept)
            said = f"{kept.days} audit {kept.audit_days} usage {kept.usage_days}"
            await _note(tx, org, author, "org.retention", org, said)

        await self._write(org, work)

    async def set_visibility(self, org: str, visibility: str, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            await tx.rows("UPDATE orgs SET visibility = $2 WHERE id = $1", org, visibility)
            await _note(tx, org, author, "org.visibility", org, visibility)

        await self._write(org, work)

    async def add_team(self, team: OrgTeam, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            if await tx.rows("SELECT 1 FROM teams WHERE org = $1 AND name = $2", team.org, team.name):
                raise Taken(f"a team {team.name!a} already exists")
            sql = "INSERT INTO teams(id, org, name, created) VALUES($1,$2,$3,$4)"
            await tx.rows(sql, team.id, team.org, team.name, team.created)
            await _note(tx, team.org, author, "team.add", team.id, team.name)

        await self._write(team.org, work)

    async def teams(self, org: str) -> list[OrgTeam]:
        rows = await self._read_now(
            org, "SELECT id, org, name, created FROM teams WHERE org = $1 ORDER BY name", org
        )
        members: dict[str, list[str]] = {}
        sql = "SELECT team, user_id FROM team_members WHERE org = $1 ORDER BY user_id"
        for team, user in await self._read_now(org, sql, org):
            members.setdefault(team, []).append(user)
        return [
            OrgTeam(number, own, name, created, tuple(members.get(number, ())))
            for number, own, name, created in rows
        ]

    async def set_team(self, org: str, team: str, members: Sequence[str], author: Author) -> bool:
        async def work(tx: Transaction) -> bool:
            if not await tx.rows("SELECT 1 FROM teams WHERE org = $1 AND id = $2", org, team):
                return False
            known = {row[0] for row in await tx.rows("SELECT id FROM users WHERE org = $1", org)}
            if not set(members) <= known:
                raise Forbidden
            await tx.rows("DELETE FROM team_members WHERE org = $1 AND team = $2", org, team)
            for user in dict.fromkeys(members):
                sql = "INSERT INTO team_members(team, user_id, org) VALUES($1,$2,$3)"
                await tx.rows(sql, team, user, org)
            await _note(tx, org, author, "team.change", team, f"{len(members)} members")
            return True

        return await self._write(org, work)

    async def remove_team(self, org: str, team: str, author: Author) -> bool:
        async def work(tx: Transaction) -> bool:
            rows = await tx.rows("DELETE FROM teams WHERE org = $1 AND id = $2 RETURNING id", org, team)
            if rows:
                await tx.rows("DELETE FROM team_members WHERE org = $1 AND team = $2", org, team)
                await _note(tx, org, author, "team.remove", team)
            return bool(rows)

        return await self._write(org, work)

    async def add_user(self, user: OrgUser, author: Author) -> None:
        async def work(tx: Transaction) -> None:
            if await tx.rows("SELECT 1 FROM users WHERE org = $1 AND name = $2", user.org, user.name):
                raise Taken(f"a member {user.name!a} already exists")
            sql = f"INSERT INTO users({_USER}) VALUES($1,$2,$3,$4,$5,$6)"
            await tx.rows(sql, user.id, user.org, user.name, user.role, int(user.disabled), user.created)
            await _note(tx, user.org, author, "user.add", user.id, user.role)

        await self._write(user.org, work)

    async def users(self, org: str) -> list[OrgUser]:
        rows = await self._read_now(org, f"SELECT {_USER} FROM users WHERE org = $1 ORDER BY name", org)  # noqa: S608 - names of columns
        return [_user(row) for row in rows]

    async def change_user(
        self, org: str, user: str, role: str | None, disabled: bool | None, author: Author
    ) -> OrgUser | None:
        async def work(tx: Transaction) -> OrgUser | None:
            rows = await tx.rows(
                "UPDATE users SET role = coalesce($3, role), disabled = coalesce($4, disabled)"  # noqa: S608 - names of columns
                f" WHERE org = $1 AND id = $2 RETURNING {_USER}",
                org,
                user,
                role,
                None if disabled is None else int(disabled),
            )
            if not rows:
                return None
            changed = _user(rows[0])
            await _note(tx, org, author, "user.change", user, f"{changed.role} disabled={changed.disabled}")
            return changed

        return await self._written_for_tokens(org, work)

    async def grant(self, secret_hash: bytes) -> Grant | None:
        asked = self._asked.get(secret_hash)
        if asked is None:
            asked = self._asked[secret_hash] = asyncio.create_task(self._granted(secret_hash))
            asked.add_done_callback(lambda done: self._answered(secret_hash, done))
        return await asyncio.shield(asked)  # a caller that disconnects cancels only its own wait

    def _answered(self, secret_hash: bytes, asked: asyncio.Task[Grant | None]) -> None:
        if self._asked.get(secret_hash) is asked:
            del self._asked[secret_hash]

    async def _granted(self, secret_hash: bytes) -> Grant | None:
        token, user, org = (
            ", ".join(f"{table}.{name}" for name in columns.split(", "))
            for table, columns in (("tokens", TOKEN), ("users", _USER), ("orgs", _ORG))
        )
        rows = await self._read_now(
            EVERY_ORG,
            f"SELECT {token}, {user}, {org}, {self._FENCE} FROM tokens JOIN users ON users.id = tokens.user_id"  # noqa: S608 - names of columns
            " JOIN orgs ON orgs.id = tokens.org WHERE hash = $1 AND users.org = tokens.org",
            secret_hash,
        )
        if not rows:
            return None
        *row, fence = rows[0]
        if fence is not None:
            raise elsewhere(fence)
        return Grant(stored_token(row[:13]), _user(row[13:19]), _org(row[19:]))

    async def used(self, token: ApiToken, now: int) -> None:
        async def work(tx: Transaction) -> None:
            await tx.rows("UPDATE tokens SET last_used = $2 WHERE id = $1", token.id, now)

        await self._write(token.org, work, is_retried=False)

    # --- sessions and files ----------------------------------------------------------------------

    async def sessions(
        self,
        org: str,
        wanted: SessionFilter,
        before: tuple[int, str] | None,
        limit: int,
        reader: SessionReader | None = None,
    ) -> list[RemoteSession]:
        conditions, values = ["sessions.org = $1", f"state = {LIVE}"], [org]
        texts = {
            "project": wanted.project,
            "repository": wanted.repository,
            "machine": wanted.machine,
            "users.name": wanted.person,
        }
        asked: list[tuple[str, object]] = [
            *((f"{name} =", text) for name, text in texts.items()),
            ("changed >=", wanted.since),
            ("changed <", wanted.until),
        ]
        every: list[object] = list(values)
        for condition, value in asked:
            if value is not None:
                every.append(value)
                conditions.append(f"{condition} ${len(every)}")
        if wanted.id is not None:
            # The span lets an index be used, under any collation; it may hold a few others.
            every += [wanted.id, wanted.id + _LAST_IN_IDS]
            conditions.append(f"sessions.id >= ${len(every) - 1} AND sessions.id < ${len(every)}")
            conditions.append(f"substr(sessions.id, 1, {len(wanted.id)}) = ${len(every) - 1}")
        if before is not None:
            every.extend(before)
            conditions.append(f"(changed, sessions.id) < (${len(every) - 1}, ${len(every)})")
        if reader is not None:
            every.append(reader.user)
            conditions.append(seen_by(reader, f"${len(every)}"))
        rows = await self._read(
            org,
            f"SELECT {_SESSION} WHERE {' AND '.join(conditions)}"
            f" ORDER BY changed DESC, sessions.id DESC LIMIT {int(limit)}",
            *every,
        )
        return [_session(row) for row in rows]

    async def session(self, org: str, session: str) -> SessionDetail | None:
        ref = session_ref(org, session)
        rows = await self._read_now(org, f"SELECT {_SESSION} WHERE ref = $1 AND state = {LIVE}", ref)
        if not rows:
            return None
        logs = await self._read_now(
            org,
            "SELECT CAST($2 AS text), key, lines, bytes, hash, last_uuid, changed FROM logs"
            " WHERE ref = $1 AND lines > 0 ORDER BY key",
            ref,
            session,
        )
        files = await self._read_now(
            org, "SELECT key, size, sha256, changed FROM files WHERE ref = $1 ORDER BY key", ref
        )
        return SessionDetail(
            _session(rows[0]), [log_head(row) for row in logs], [_file(row) for row in files]
        )

    async def describe(self, org: str, session: str, changes: SessionChanges, author: Author) -> bool:
        rank = BY_REQUEST if changes.title is not None else 0
        held = None if changes.held is None else int(changes.held)

        async def work(tx: Transaction) -> bool:
            rows = await tx.rows(
                "UPDATE sessions SET project = coalesce($2, project), repository = coalesce($3, repository),"  # noqa: S608 - constants
                " machine = coalesce($4, machine), title = coalesce($5, title), held = coalesce($6, held),"
                f" title_rank = CASE WHEN $7 > title_rank THEN $7 ELSE title_rank END,"
                f" visibility = nullif(coalesce($8, visibility, ''), '') WHERE ref = $1 AND state = {LIVE}"
                " RETURNING id",
                session_ref(org, session),
                *changes[:4],
                held,
                rank,
                changes.visibility,
            )
            if rows:
                named = [
                    name
                    for name, value in zip(SessionChanges._fields, changes, strict=True)
                    if value is not None
                ]
                await _note(tx, org, author, "session.change", session, " ".join(named))
            return bool(rows)

        return await self._write(org, work)

    async def delete(self, org: str, session: str, *, purge: bool, only_own: bool, author: Author) -> bool:
        ref = session_ref(org, session)

        async def work(tx: Transaction) -> bool:
            # Updated before it is read: an append to a new log of this session waits here, or we wait for it.
            rows = await tx.rows(
                "UPDATE sessions SET state = state WHERE ref = $1 RETURNING state, held, user_id", ref
            )
            if not rows or rows[0][0] == PURGED or (rows[0][0] == DELETED and not purge):
                return False
            if only_own and rows[0][2] != author.user:
                raise Forbidden
            if rows[0][1]:
                raise Held
            await self._hide(tx, ref, now_ms())
            if purge:
                await self._purge(tx, ref)
            await _note(tx, org, author, "session.purge" if purge else "session.delete", session)
            return True

        return await self._write(org, work)

    async def _hide(self, tx: Transaction, ref: bytes, now: int) -> None:
        await tx.rows(
            f"UPDATE sessions SET state = {DELETED}, deleted = coalesce(deleted, $2) WHERE ref = $1",  # noqa: S608 - constants
            ref,
            now,
        )
        await tx.rows("UPDATE logs SET closed = 1 WHERE ref = $1", ref)

    async def _purge(self, tx: Transaction, ref: bytes) -> None:
        """Remove the bytes; the cost and the repository stay for reports."""
        await self._delete_texts(tx, ref)
        for table in ("segments", "logs", "files"):
            await tx.rows(f"DELETE FROM {table} WHERE ref = $1", ref)  # noqa: S608 - names of tables
        # After the segments: one that is being moved is waited for there, and is an object now.
        await self._drop_bodies(tx, ref)
        await tx.rows(
            f"UPDATE sessions SET state = {PURGED}, deleted = NULL, title = NULL, title_rank = 0, cwd = NULL,"  # noqa: S608 - constants
            f" {', '.join(f'{part} = NULL' for part in TITLE_PARTS)},"
            " first_at = NULL, last_at = NULL, held = 0 WHERE ref = $1",
            ref,
        )

    async def put_file(
        self,
        org: str,
        session: str,
        key: str,
        data: bytes,
        *,
        only_if: str | None,
        only_own: bool,
        author: Author,
    ) -> SideFile | None:
        ref, digest, now = session_ref(org, session), sha256(data).hexdigest(), now_ms()
        codec, stored = packed(data)

        async def work(tx: Transaction) -> SideFile | None:
            rows = await tx.rows(
                "INSERT INTO sessions(ref, org, id, machine, user_id, created, changed) VALUES($1,$2,$3,$4,$5,$6,$6)"
                f" ON CONFLICT (ref) DO UPDATE SET state = CASE WHEN sessions.state = {PURGED} THEN {LIVE}"
                " ELSE sessions.state END, changed = excluded.changed RETURNING state, held, user_id",
                ref,
                org,
                session,
                author.machine,
                author.user,
                now,
            )
            if rows[0][0] != LIVE:
                return None
            _, held, creator = rows[0]
            known = await tx.rows(
                "SELECT key, size, sha256, changed, user_id FROM files WHERE ref = $1 AND key = $2", ref, key
            )
            before = _file(known[0][:4]) if known else None
            if before is not None and before.sha256 == digest:
                return before
            if before is not None and held:
                raise Held
            if before is not None and only_own and author.user not in (creator, known[0][4]):
                raise Taken("the side file was stored by another member")
            if only_if is not None and only_if != (before.sha256 if before else ""):
                raise Taken("the side file differs from the expected version")
            await tx.rows(
                "INSERT INTO files(ref, key, org, size, sha256, changed, codec, data, user_id)"
                " VALUES($1,$2,$3,$4,$5,$6,$7,$8,$9)"
                " ON CONFLICT (ref, key) DO UPDATE SET size = excluded.size, sha256 = excluded.sha256,"
                " changed = excluded.changed, codec = excluded.codec, data = excluded.data,"
                " user_id = excluded.user_id",
                ref,
                key,
                org,
                len(data),
                digest,
                now,
                codec,
                stored,
                author.user,
            )
            await _note(tx, org, author, "file.put", f"{session}/{key}", f"{len(data)} {digest}")
            return SideFile(key, len(data), digest, now)

        return await self._write(org, work)

    async def file(self, org: str, session: str, key: str) -> FileBytes | None:
        rows = await self._read_now(
            org,
            "SELECT sha256, files.changed, codec, data FROM files JOIN sessions ON sessions.ref = files.ref"  # noqa: S608 - constants
            f" WHERE files.ref = $1 AND key = $2 AND state = {LIVE}",
            session_ref(org, session),
            key,
        )
        if not rows:
            return None
        digest, changed, codec, data = rows[0]
        return FileBytes(key, digest, changed, unpacked(codec, bytes(data)))

    async def delete_file(self, org: str, session: str, key: str, *, only_own: bool, author: Author) -> bool:
        ref = session_ref(org, session)

        async def work(tx: Transaction) -> bool:
            rows = await tx.rows(
                f"UPDATE sessions SET state = state WHERE ref = $1 AND state = {LIVE} RETURNING held, user_id",  # noqa: S608 - constants
                ref,
            )
            known = rows and await tx.rows("SELECT user_id FROM files WHERE ref = $1 AND key = $2", ref, key)
            if not known:
                return False
            held, creator = rows[0]
            if only_own and author.user not in (creator, known[0][0]):
                raise Forbidden
            if held:
                raise Held
            await tx.rows("DELETE FROM files WHERE ref = $1 AND key = $2", ref, key)
            await _note(tx, org, author, "file.delete", f"{session}/{key}")
            return True

        return await self._write(org, work)

    # --- the team's questions --------------------------------------------------------------------

    async def usage(
        self,
        org: str,
        since: int | None,
        until: int | None,
        *,
        by: Sequence[str] | None = None,
        changes: Sequence[int] = (),
        other_changes: Sequence[int] = (),
        reader: SessionReader | None = None,
        person: str | None = None,
        models: Sequence[str] = (),
        into: UsageTaker | None = None,
    ) -> Sequence[UsageSum]:
        held = 0
        if models or any((time or 0) % QUARTER_MS for time in (since, until)):
            rows = await self._read_now(org, "SELECT coalesce(usage_from, 0) FROM orgs WHERE id = $1", org)
            held = int(rows[0][0]) if rows else 0
        times = _countable(since, held), _countable(until, held)
        asked = UsageQuestion(times, by, changes, other_changes, reader, person, models, held)
        sql, values = usage_query(asked)
        taken = _TakenSums()
        taker = into or taken

        def take(some: Sequence[Row]) -> None:
            with unwatched():
                taker.take(some)

        await self._read_sums(org, sql, (org, *values), taker.begin, take)
        return taken.sums

    async def note_refusal(self, org: str, author: Author, target: str, detail: str) -> None:
        async def work(tx: Transaction) -> None:
            await _note(tx, org, author, REFUSED, target, detail)

        await self._write(org, work)

    async def audit(self, org: str, before: int | None, limit: int) -> list[AuditRow]:
        rows = await self._read_now(
            org,
            "SELECT id, at, user_id, token, act, target, detail FROM audit WHERE org = $1 AND id < $2"
            " ORDER BY id DESC LIMIT $3",
            org,
            (1 << 62) if before is None else before,
            limit,
        )
        return [AuditRow(*row) for row in rows]


def conditions(first: int, *asked: tuple[str, object]) -> tuple[str, list[object]]:
    """Conditions whose value is given, as SQL with parameters from ``first`` on."""
    values = [value for _, value in asked if value is not None]
    texts = [text for text, value in asked if value is not None]
    return "".join(f" AND {text} ${number}" for number, text in enumerate(texts, first)), values


class _TakenSums:
    """All sums, for those who want them at once."""

    def __init__(self) -> None:
        self.sums: list[UsageSum] = []

    def begin(self) -> None:
        self.sums.clear()

    def take(self, sums: Sequence[Sequence[Any]]) -> None:
        self.sums += [_usage_sum(row) for row in sums]


def _countable(time: int | None, held: int) -> int | None:
    """The end of a span; in months whose responses were dropped by the quarter of an hour, as their sums are."""
    return time - time % QUARTER_MS if time is not None and held and time < held else time


def elsewhere(fence: str) -> OrgElsewhere:
    """What a database says of an organisation that is not in it (tables/moves.py), as an error."""
    role, other, org = fence.split(" ", 2)
    return OrgElsewhere(org, other, is_arriving=role == ARRIVING)


def _org(row: Row) -> Org:
    return Org(*row)


def _user(row: Row) -> OrgUser:
    number, org, name, role, disabled, created = row
    return OrgUser(number, org, name, role, bool(disabled), created)


def _session(row: Row) -> RemoteSession:
    *rest, held, encrypted, visibility = row
    values: list[Any] = [*rest, bool(held), bool(encrypted), visibility]
    return RemoteSession(*values)


def _file(row: Row) -> SideFile:
    return SideFile(*row)


def _usage_sum(row: Row) -> UsageSum:
    values = tuple(row)
    names: Any = [name or None for name in values[1:8]]
    return UsageSum(values[0], *names, *values[8:])
