"""The contract in SQL that SQLite and PostgreSQL share.

Each implements how a read and a transaction run, and how words are searched. Values are ``$1``, ``$2``
…; booleans are 0 or 1; times are milliseconds.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from abc import abstractmethod
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from msgspec import UNSET, json
from msgspec.structs import asdict

from recollect.index.schema import QUARTER_MS
from recollect.model.text.titles import TITLE_PARTS
from recollect.server.database.records import (
    AUDIT_COLUMNS,
    DELETED,
    EVERY_ORG,
    LIVE,
    PURGED,
    REFUSED,
    AuditRow,
    Author,
    Forbidden,
    Held,
    LineSearch,
    Org,
    Row,
    SessionChanges,
    SessionFilter,
    SessionReader,
    SweepResult,
    Transaction,
    UsageQuestion,
    UsageSum,
    in_transaction,
    insert,
    note,
    now_ms,
    seen_by,
)
from recollect.server.database.sql_logs import SqlLogs, log_head, packed, unpacked
from recollect.server.database.sql_people import PersonTables, TenantTables
from recollect.server.database.sql_usage import usage_query
from recollect.server.database.tables import TITLE, session_ref
from recollect.share.sync.wire import (
    LineHits,
    RemoteSession,
    SessionDetail,
    SessionGone,
    SideFile,
    SideFileChanged,
    plain_text,
)

_SESSION = (
    f"sessions.id, project, repository, machine, users.name, {TITLE},"  # noqa: S608 - constants
    " branch, cwd, sessions.created, changed, first_at,"
    " last_at, coalesce((SELECT lines FROM logs WHERE logs.ref = sessions.ref AND key = ''), 0),"
    " coalesce((SELECT bytes FROM logs WHERE logs.ref = sessions.ref AND key = ''), 0), held, encrypted,"
    " sessions.visibility FROM sessions LEFT JOIN users ON users.id = sessions.user_id"
)
_FILE_SESSION = (
    insert("sessions", "ref, org, id, machine, user_id, created, changed")
    + f" ON CONFLICT (ref) DO UPDATE SET state = CASE WHEN sessions.state = {PURGED} THEN {LIVE}"
    " ELSE sessions.state END, changed = excluded.changed RETURNING state, held, user_id"
)
_FILE = f"FROM files JOIN sessions ON sessions.ref = files.ref WHERE files.ref = $1 AND key = $2 AND state = {LIVE}"
_PUT_FILE = (
    insert("files", "ref, key, org, size, sha256, changed, codec, data, user_id")
    + " ON CONFLICT (ref, key) DO UPDATE SET size = excluded.size, sha256 = excluded.sha256,"
    " changed = excluded.changed, codec = excluded.codec, data = excluded.data, user_id = excluded.user_id"
)
# Sessions past their retention, their bytes past their grace, old rows of the audit log, old months of responses.
DAY_MS = 86_400_000
_SWEPT_AT_ONCE = 20_000
_RETENTION = Author("retention", "retention")
# Sessions past their retention, and deleted ones past their grace; ``$1`` is the time.
_OLD = (
    "FROM sessions JOIN orgs ON orgs.id = sessions.org"
    f" WHERE state = {LIVE} AND held = 0 AND retention_days IS NOT NULL AND changed < $1 - retention_days * {DAY_MS}"
)
_GONE = f"FROM sessions WHERE state = {DELETED} AND held = 0 AND deleted < $1"
_NEXT = " AND (sessions.org, sessions.id) > ($2, $3) ORDER BY sessions.org, sessions.id LIMIT 1000"
# After every id that begins alike: the last of the characters that ids have, as often as the longest has any.
_LAST_IN_IDS = "z" * 128
_LONGEST_NAME = 1_024


class Database(SqlLogs, TenantTables, PersonTables):
    """What the server needs of a database: all of it but connections and the search for words is the same for both.

    The database decides an append: it compares the position and adds the lines in one durable step. A method that takes an
    organisation sees that organisation only. Every write adds a row to the audit log in the same transaction. A database that cannot
    answer raises ``Unavailable``; every request may be repeated.
    """

    @abstractmethod
    async def open(self) -> None:
        """Connect; refuses tables of another version."""

    @abstractmethod
    async def close(self) -> None:
        """Finish pending work, then disconnect."""

    @abstractmethod
    async def migrate(self) -> int:
        """Bring the tables to this version; returns the number of steps. May be repeated."""

    @abstractmethod
    async def ready(self) -> str | None:
        """None where reads and writes would work, else the reason."""

    @abstractmethod
    def connections(self) -> Mapping[str, int]:
        """The state of the connections, for metrics."""

    @abstractmethod
    async def search(self, org: str, wanted: LineSearch) -> LineHits:
        """Lines that match, newest first; each with its words, where the search has read them."""

    # --- sessions and files ----------------------------------------------------------------------

    async def sessions(
        self,
        org: str,
        wanted: SessionFilter,
        before: tuple[int, str] | None,
        limit: int,
        reader: SessionReader | None = None,
    ) -> list[RemoteSession]:
        """Newest change first; ``before`` is the change and id of the last one returned. With ``reader`` the visible
        ones."""
        where, values = conditions(
            2,
            ("project =", wanted.project),
            ("repository =", wanted.repository),
            ("machine =", wanted.machine),
            ("users.name =", wanted.person),
            ("changed >=", wanted.since),
            ("changed <", wanted.until),
            # The span lets an index be used, under any collation; it may hold a few others.
            ("sessions.id >=", wanted.id),
            ("sessions.id <", None if wanted.id is None else wanted.id + _LAST_IN_IDS),
        )
        if wanted.id is not None:
            where += f" AND substr(sessions.id, 1, {len(wanted.id)}) = ${len(values)}"
        if before is not None:
            values += before
            where += f" AND (changed, sessions.id) < (${len(values)}, ${len(values) + 1})"
        if reader is not None:
            values.append(reader.user)
            where += f" AND {seen_by(reader, f'${len(values) + 1}')}"
        sql = (
            f"SELECT {_SESSION} WHERE sessions.org = $1 AND state = {LIVE}{where}"
            f" ORDER BY changed DESC, sessions.id DESC LIMIT {int(limit)}"
        )
        return [_session(row) for row in await self._read(org, sql, org, *values)]

    async def session(self, org: str, session: str) -> SessionDetail | None:
        """One session with its logs and files; None where there is none."""
        ref = session_ref(org, session)
        rows = await self._read_now(org, f"SELECT {_SESSION} WHERE ref = $1 AND state = {LIVE}", ref)
        if not rows:
            return None
        sql = "SELECT key, lines, bytes, hash, last_uuid, changed FROM logs WHERE ref = $1 AND lines > 0 ORDER BY key"
        logs = [log_head((session, *row)) for row in await self._read_now(org, sql, ref)]
        sql = "SELECT key, size, sha256, changed FROM files WHERE ref = $1 ORDER BY key"
        return SessionDetail(
            _session(rows[0]), logs, [SideFile(*row) for row in await self._read_now(org, sql, ref)]
        )

    @in_transaction
    async def describe(
        self, tx: Transaction, org: str, session: str, changes: SessionChanges, author: Author
    ) -> bool:
        """Change the description of a session; False where there is none."""
        given = {name: value for name, value in asdict(changes).items() if value is not UNSET}
        values = [
            plain_text(value, _LONGEST_NAME)
            if isinstance(value, str)
            else value
            if value is None
            else int(value)
            for value in given.values()
        ]
        columns = ", ".join(f"{name} = ${number}" for number, name in enumerate(given, 2)) or "state = state"
        sql = f"UPDATE sessions SET {columns} WHERE ref = $1 AND state = {LIVE} RETURNING id"  # noqa: S608 - names of columns
        rows = await tx.rows(sql, session_ref(org, session), *values)
        if rows:
            await note(tx, org, author, "session.change", session, " ".join(given))
        return bool(rows)

    @in_transaction
    async def delete(
        self, tx: Transaction, org: str, session: str, *, purge: bool, only_own: bool, author: Author
    ) -> bool:
        """Hide a session, or remove its bytes; raises ``Held`` or ``Forbidden``."""
        ref = session_ref(org, session)
        # Updated before it is read: an append to a new log of this session waits here, or we wait for it.
        sql = "UPDATE sessions SET state = state WHERE ref = $1 RETURNING state, held, user_id"
        rows = await tx.rows(sql, ref)
        if not rows or rows[0][0] == PURGED or (rows[0][0] == DELETED and not purge):
            return False
        if only_own and rows[0][2] != author.user:
            raise Forbidden("only an admin may delete a session of another member")
        if rows[0][1]:
            raise Held
        hide = f"UPDATE sessions SET state = {DELETED}, deleted = coalesce(deleted, $2) WHERE ref = $1"  # noqa: S608 - constants
        await tx.rows(hide, ref, now_ms())
        await tx.rows("UPDATE logs SET closed = 1 WHERE ref = $1", ref)
        if purge:
            await self._purge(tx, ref)
        await note(tx, org, author, "session.purge" if purge else "session.delete", session)
        return True

    async def _purge(self, tx: Transaction, ref: bytes) -> None:
        """Remove the bytes; the cost and the repository stay for reports."""
        await self._delete_texts(tx, ref)
        for table in ("segments", "logs", "files"):
            await tx.rows(f"DELETE FROM {table} WHERE ref = $1", ref)  # noqa: S608 - names of tables
        # After the segments: one that is being moved is waited for there, and is an object now.
        await self._drop_bodies(tx, ref)
        await tx.rows(
            f"UPDATE sessions SET state = {PURGED}, deleted = NULL, title = NULL, cwd = NULL,"  # noqa: S608 - constants
            f" {', '.join(f'{part} = NULL' for part in TITLE_PARTS)},"
            " first_at = NULL, last_at = NULL, held = 0 WHERE ref = $1",
            ref,
        )

    @in_transaction
    async def put_file(
        self,
        tx: Transaction,
        org: str,
        session: str,
        key: str,
        data: bytes,
        *,
        only_if: str | None,
        only_own: bool,
        author: Author,
    ) -> SideFile:
        """Store a side file. ``only_if``: its expected sha256, "" for none, else ``SideFileChanged``. ``only_own``: a file of
        another member in another member's session is not replaced either; nor is any under legal hold (``Held``)."""
        ref, digest, now = session_ref(org, session), sha256(data).hexdigest(), now_ms()
        rows = await tx.rows(_FILE_SESSION, ref, org, session, author.machine, author.user, now, now)
        state, held, creator = rows[0]
        if state != LIVE:
            raise SessionGone
        sql = "SELECT key, size, sha256, changed, user_id FROM files WHERE ref = $1 AND key = $2"
        known = await tx.rows(sql, ref, key)
        before = SideFile(*known[0][:4]) if known else None
        if before is not None and before.sha256 == digest:
            return before
        if before is not None and held:
            raise Held
        if before is not None and only_own and author.user not in (creator, known[0][4]):
            raise SideFileChanged("the side file was stored by another member")
        if only_if is not None and only_if != (before.sha256 if before else ""):
            raise SideFileChanged("the side file differs from the expected version")
        await tx.rows(_PUT_FILE, ref, key, org, len(data), digest, now, *packed(data), author.user)
        await note(tx, org, author, "file.put", f"{session}/{key}", f"{len(data)} {digest}")
        return SideFile(key, len(data), digest, now)

    async def file_size(self, org: str, session: str, key: str) -> int:
        """The bytes of a side file; 0 where there is none."""
        rows = await self._read_now(org, f"SELECT size {_FILE}", session_ref(org, session), key)
        return int(rows[0][0]) if rows else 0

    async def file(self, org: str, session: str, key: str) -> tuple[SideFile, bytes] | None:
        """A side file with its bytes."""
        sql = f"SELECT size, sha256, files.changed, codec, data {_FILE}"
        rows = await self._read_now(org, sql, session_ref(org, session), key)
        if not rows:
            return None
        *about, codec, data = rows[0]
        return SideFile(key, *about), unpacked(codec, bytes(data))

    @in_transaction
    async def delete_file(
        self, tx: Transaction, org: str, session: str, key: str, *, only_own: bool, author: Author
    ) -> bool:
        """Remove a side file; raises ``Held``, or ``Forbidden`` with ``only_own``; False where there is
        none."""
        ref = session_ref(org, session)
        sql = f"UPDATE sessions SET state = state WHERE ref = $1 AND state = {LIVE} RETURNING held, user_id"  # noqa: S608 - constants
        rows = await tx.rows(sql, ref)
        known = rows and await tx.rows("SELECT user_id FROM files WHERE ref = $1 AND key = $2", ref, key)
        if not known:
            return False
        held, creator = rows[0]
        if only_own and author.user not in (creator, known[0][0]):
            raise Forbidden("only an admin may delete a side file of another member")
        if held:
            raise Held
        await tx.rows("DELETE FROM files WHERE ref = $1 AND key = $2", ref, key)
        await note(tx, org, author, "file.delete", f"{session}/{key}")
        return True

    # --- the team's questions --------------------------------------------------------------------

    async def usage(self, org: str, question: UsageQuestion | None = None) -> list[UsageSum]:
        """Usage in sums; without a question all of it."""
        question = question or UsageQuestion()
        if question.models or any((time or 0) % QUARTER_MS for time in question.times):
            rows = await self._read_now(org, "SELECT coalesce(usage_from, 0) FROM orgs WHERE id = $1", org)
            question = question._replace(held=int(rows[0][0]) if rows else 0)
        since, until = question.times
        times = _countable(since, question.held), _countable(until, question.held)
        sql, values = usage_query(question._replace(times=times))
        rows = await self._read(org, sql, org, *values)
        return [UsageSum._make([row[0], *(name or None for name in row[1:8]), *row[8:]]) for row in rows]

    @in_transaction
    async def note_refusal(self, tx: Transaction, org: str, author: Author, target: str, detail: str) -> None:
        await note(tx, org, author, REFUSED, target, detail)

    async def audit(self, org: str, before: int | None, limit: int) -> list[AuditRow]:
        sql = f"SELECT {AUDIT_COLUMNS} FROM audit WHERE org = $1 AND id < $2 ORDER BY id DESC LIMIT $3"  # noqa: S608 - names of columns
        rows = await self._read_now(org, sql, org, (1 << 62) if before is None else before, limit)
        return [AuditRow(*row) for row in rows]

    # --- what expires ----------------------------------------------------------------------------

    async def sweep(self, now: int, grace_ms: int) -> SweepResult:
        """Each session in its own transaction, until none is left; then old months."""
        purged = await self._sweep_all(_GONE, now - grace_ms, purge=True)
        deleted = await self._sweep_all(_OLD, now, purge=False)
        await self._tidy(now)
        audit = usage = 0
        for org in await self.orgs():
            before = await self._drop_usage(org, now)
            while before and (some := await self._remove_some_usage(org.id, before)):
                usage += some
            audit += await self._remove_audit(org.id, now - org.audit_days * DAY_MS) if org.audit_days else 0
        backlog = 0
        for question, at in ((_OLD, now), (_GONE, now - grace_ms)):
            backlog += (await self._read_now(EVERY_ORG, f"SELECT count(*) {question}", at))[0][0]
        return SweepResult(deleted, purged, audit, backlog, usage)

    async def _sweep_all(self, question: str, at: int, *, purge: bool) -> int:
        done, after = 0, ("", "")
        while True:
            rows = await self._read_now(
                EVERY_ORG, f"SELECT sessions.org, sessions.id {question}{_NEXT}", at, *after
            )
            for org, session in rows:
                with contextlib.suppress(Held):  # put under hold since the query
                    done += await self.delete(
                        str(org), str(session), purge=purge, only_own=False, author=_RETENTION
                    )
            if not rows:
                return done
            after = str(rows[-1][0]), str(rows[-1][1])

    async def _drop_usage(self, org: Org, now: int) -> int:
        """Say from which month on responses of an organisation are kept; later appends and reports know it."""
        month = 0
        if org.usage_days is not None:
            first = dt.datetime.fromtimestamp(now / 1_000 - org.usage_days * 86_400, dt.UTC)
            month = int(first.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()) * 1_000
        return await self._keep_usage_from(org.id, month)

    @in_transaction
    async def _keep_usage_from(self, tx: Transaction, org: str, month: int) -> int:
        rows = await tx.rows("SELECT coalesce(usage_from, 0) FROM orgs WHERE id = $1", org)
        known = int(rows[0][0]) if rows else 0
        if month > known:
            # What is being counted now has read rows of that month.
            await tx.lock_responses(org, None)
            await tx.rows("UPDATE orgs SET usage_from = $2 WHERE id = $1", org, month)
            await note(tx, org, _RETENTION, "usage.drop", org, str(month))
        return max(month, known)

    @in_transaction
    async def _remove_some_usage(self, tx: Transaction, org: str, before: int) -> int:
        """Some responses, each with all its rows; a copy that comes later finds it among the dropped."""
        old = (
            "SELECT DISTINCT message FROM usage AS own WHERE org = $1 AND at < $2 AND counted % 2 = 1 AND NOT EXISTS"  # noqa: S608 - constants
            " (SELECT 1 FROM usage AS newer WHERE newer.org = own.org AND newer.message = own.message"
            f" AND (newer.at >= $2 OR newer.at IS NULL)) LIMIT {_SWEPT_AT_ONCE}"
        )
        await tx.lock_responses(org, None)
        messages = [row[0] for row in await tx.rows(old, org, before)]
        dropped = insert("dropped", "org, message") + " ON CONFLICT DO NOTHING"
        await tx.many(dropped, [(org, message) for message in messages])
        sql = f"DELETE FROM usage WHERE org = $1 AND message IN ({tx.EACH.format('$2')}) RETURNING 1"  # noqa: S608 - a constant
        return len(await tx.rows(sql, org, json.encode(messages).decode()))

    async def _remove_audit(self, org: str, before: int) -> int:
        """A day at a time: one transaction for a year would hold back everything else."""
        removed = 0
        while True:
            rows = await self._read_now(
                org, "SELECT min(at) FROM audit WHERE org = $1 AND at < $2", org, before
            )
            if rows[0][0] is None:
                return removed
            until = min(rows[0][0] + DAY_MS, before)
            removed += await self._remove_audit_until(org, until)

    @in_transaction
    async def _remove_audit_until(self, tx: Transaction, org: str, until: int) -> int:
        return len(await tx.rows("DELETE FROM audit WHERE org = $1 AND at < $2 RETURNING 1", org, until))


def conditions(first: int, *asked: tuple[str, object]) -> tuple[str, list[object]]:
    """Conditions whose value is given, as SQL with parameters from ``first`` on."""
    values = [value for _, value in asked if value is not None]
    texts = [text for text, value in asked if value is not None]
    return "".join(f" AND {text} ${number}" for number, text in enumerate(texts, first)), values


def _countable(time: int | None, held: int) -> int | None:
    """The end of a span; in months whose responses were dropped by the quarter of an hour, as their sums are."""
    return time - time % QUARTER_MS if time is not None and held and time < held else time


def _session(row: Row) -> RemoteSession:
    *rest, held, encrypted, visibility = row
    values: list[Any] = [*rest, bool(held), bool(encrypted), visibility]
    return RemoteSession(*values)
