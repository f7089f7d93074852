"""Moves an organisation to another PostgreSQL cluster while its members work.

1. The cluster that is left notes the keys of changed rows (triggers, for this organisation only), then every table is
   copied, part by part. Parts that were copied are known in the other cluster: a move that was killed goes on.
2. What changed is copied again, until little is left.
3. The organisation takes no writes for at most ``FENCE_MS``: the last changes are copied, and one commit says that it is
   gone. Writers wait meanwhile. If it takes longer, or if this process dies, the time passes and nothing has happened.
4. The other cluster's copy is valid, and the directory says so. Any server finishes this step where the tool could not.

The rows that are left behind stay, unseen, until ``remove_left`` has compared them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, NamedTuple
from zlib import crc32

import asyncpg  # type: ignore[import-untyped]  # it has no types
from msgspec import Struct

from recollect.errors import Busy, DamagedData, UsageError
from recollect.server.clusters.router import ClusterDatabase
from recollect.server.database.tables.moves import ARRIVING, AWAY, CLOCK_MS, COPYING, EXCLUSIVE, LEAVING
from recollect.server.database.tables.steps import DERIVED_TABLES

FENCE_MS = 2_000
# A few changes are copied within the time of the fence; with more, another round comes first.
_FEW_CHANGES, _CHANGES_AT_ONCE, _ROUNDS = 500, 5_000, 200
_TRIES = 20
_PARTS = 16
_MOVE_LOCK = 0x6F72676D
_ORG_COLUMN = {"orgs": "id"}
# The columns that find a row; ``orgs`` comes first: with it the cluster knows how long the audit log is kept.
KEYS: Mapping[str, tuple[str, ...]] = {
    "orgs": ("id",),
    "users": ("id",),
    "tokens": ("id",),
    "teams": ("id",),
    "team_members": ("team", "user_id"),
    "identities": ("issuer", "subject"),
    "sign_ins": ("hash",),
    "sessions": ("ref",),
    "logs": ("ref", "key"),
    "segments": ("ref", "key", "first_line"),
    "bodies": ("name",),
    "files": ("ref", "key"),
    "texts": ("ref", "key", "line"),
    "usage": ("message", "session", "key", "request", "speaker"),
    "responses": ("ref", "said"),
    "rollup": ("quarter", "session", "person", "model", "branch", "variant"),
    "rollup_day": ("day", "session", "person", "model", "branch", "variant"),
    "audit": ("id",),
}
# Copied by ranges of sessions: each part is a transaction.
_IN_PARTS = frozenset(("logs", "segments", "files", "sessions"))


class MoveReport(Struct, frozen=True):
    """What was copied, and for how long the organisation took no writes."""

    organisation: str
    source: str
    target: str
    rows: dict[str, int]
    changes: int = 0
    paused_seconds: float = 0.0
    is_moved: bool = False


class _End(NamedTuple):
    """One cluster of a move, as the organisation's rows are seen."""

    name: str
    connection: Any


class OrgMove:
    """The move of one organisation from its cluster to another."""

    def __init__(
        self,
        clusters: ClusterDatabase,
        org: str,
        target: str,
        step: Callable[[str], None] = lambda _: None,
        *,
        fence_ms: int = FENCE_MS,
    ) -> None:
        if target not in clusters.clusters:
            known = ", ".join(sorted(clusters.clusters))
            raise UsageError(f"cluster {target!a}: not known", hint=f"known: {known}")
        self._clusters, self._org, self._target, self._step = clusters, org, target, step
        self._fence_ms = fence_ms
        self._mark = f"{crc32(org.encode()):08x}"

    async def plan(self) -> MoveReport:
        """How many rows a move would copy; changes nothing."""
        async with self._ends() as (source, target):
            return MoveReport(
                self._org, source.name, target.name, await _counts(source.connection, self._org)
            )

    async def run(self) -> MoveReport:
        """Move it; goes on where an earlier run ended."""
        async with self._ends() as (source, target):
            if source.name == target.name:
                raise UsageError(
                    f"the organisation is in {target.name!a} already", hint="name another cluster"
                )
            await self._begin(source, target)
            rows = await self._copy(source, target)
            for table in KEYS:
                await target.connection.execute(f"ANALYZE {table}")
            changes = await self._catch_up(source, target)
            last, paused = await self._leave(source, target)
            await self._clusters.arrived(self._org, target.name)
            self._step("arrived")
            await self._untrace(source)
            return MoveReport(
                self._org, source.name, target.name, rows, changes + last, round(paused, 3), is_moved=True
            )

    async def back(self, *, apply: bool = True) -> MoveReport:
        """Give up a move that was not decided: the organisation stays, its copy is removed. Else: what would be removed."""
        async with self._ends() as (source, target):
            role = await _role(source.connection, self._org)
            if role is None or role[1] != target.name:
                raise UsageError(
                    f"no move to {target.name!a} is under way",
                    hint="a finished one is moved back like any other",
                )
            if not apply:
                rows = await _counts(target.connection, self._org)
                return MoveReport(self._org, source.name, target.name, rows)
            async with source.connection.transaction():
                await source.connection.execute(EXCLUSIVE, self._org)
                await source.connection.execute("DELETE FROM org_moves WHERE org = $1", self._org)
            await self._untrace(source)
            rows = await _removed(target.connection, self._org)
            await target.connection.execute("DELETE FROM org_moves WHERE org = $1", self._org)
            return MoveReport(self._org, source.name, target.name, rows)

    async def remove_left(self, *, apply: bool = True) -> MoveReport:
        """Remove the rows that a finished move left in the cluster ``target``, once every log was compared; else count them."""
        async with self._ends() as (here, old):
            role = await _role(old.connection, self._org)
            if role is None or role != (AWAY, here.name):
                raise UsageError(
                    f"the organisation left nothing in {old.name!a} on its way to {here.name!a}",
                    hint="`recollect admin org list` says where it is",
                )
            for part in range(_PARTS):
                await _compare_logs(here, old, self._org, part)
            if not apply:
                return MoveReport(self._org, old.name, here.name, await _counts(old.connection, self._org))
            await self._untrace(old)
            return MoveReport(self._org, old.name, here.name, await _removed(old.connection, self._org))

    @asynccontextmanager
    async def _ends(self) -> AsyncIterator[tuple[_End, _End]]:
        """Connections to both clusters. One tool at a time moves an organisation."""
        name = await self._clusters.home_of(self._org)
        async with AsyncExitStack() as stack:
            ends = []
            for one in (name, self._target):
                try:
                    connection = await asyncpg.connect(self._clusters.named(one).address, timeout=10.0)
                except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as cause:
                    raise Busy(
                        f"cluster {one}: cannot connect: {type(cause).__name__}",
                        hint="check that it is running and that its address is right; nothing was changed",
                    ) from None
                stack.push_async_callback(connection.close)
                await connection.execute("SELECT set_config('recollect.org', $1, false)", self._org)
                ends.append(_End(one, connection))
            own = crc32(self._org.encode()) & 0x7FFFFFFF
            sql = "SELECT pg_try_advisory_lock($1, $2)"
            if not await ends[0].connection.fetchval(sql, _MOVE_LOCK, own):
                raise Busy("the organisation is being moved by another process", hint="wait for it")
            yield ends[0], ends[1]

    # --- copying ---------------------------------------------------------------------------------

    async def _begin(self, source: _End, target: _End) -> None:
        role = await _role(source.connection, self._org)
        if role is not None and role[1] != target.name:
            raise UsageError(
                f"a move to {role[1]!a} was begun",
                hint=f"finish it, or give it up: org move ORG {role[1]} --back",
            )
        there = await _role(target.connection, self._org)
        if (there is None or there[0] != ARRIVING) and await _count(target.connection, "orgs", self._org):
            raise UsageError(
                f"{target.name} still has rows of the organisation",
                hint="those of an earlier move are removed with --remove-left",
            )
        if role is None:  # nothing is traced yet: what an earlier run copied may be out of date
            await _removed(target.connection, self._org)
            await target.connection.execute(
                "INSERT INTO org_moves(org, role, other) VALUES($1, $2, $3) ON CONFLICT (org) DO UPDATE"
                " SET role = excluded.role, other = excluded.other, copied = '{}'",
                self._org,
                ARRIVING,
                source.name,
            )
            await self._trace(source)
            sql = "INSERT INTO org_moves(org, role, other) VALUES($1, $2, $3)"
            await source.connection.execute(sql, self._org, COPYING, target.name)
        self._step("begun")

    async def _trace(self, source: _End) -> None:
        """Note the keys of rows that change from now on. Waits for writes under way, but does not hold up others for long."""
        for table, columns in KEYS.items():
            org = _ORG_COLUMN.get(table, "org")
            name = f"recollect_trace_{table}"
            keys = {
                row: "jsonb_build_object(" + ", ".join(f"'{one}', {row}.{one}" for one in columns) + ")"
                for row in ("OLD", "NEW")
            }
            notes = "".join(
                f"  IF TG_OP <> '{no}' THEN INSERT INTO org_changes(org, name, key) VALUES({row}.{org}, '{table}', {keys[row]}); END IF;\n"
                for row, no in (("OLD", "INSERT"), ("NEW", "DELETE"))
            )
            await source.connection.execute(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN\n{notes}  RETURN NULL;\nEND $$"
            )
            quoted = "'" + self._org.replace("'", "''") + "'"
            for event, row in (("INSERT OR UPDATE", "NEW"), ("DELETE", "OLD")):
                trigger = f"move_{self._mark}_{row.lower()}"
                await _patiently(
                    source.connection,
                    f"CREATE OR REPLACE TRIGGER {trigger} AFTER {event} ON {table} FOR EACH ROW"
                    f" WHEN ({row}.{org} = {quoted}) EXECUTE FUNCTION {name}()",
                )

    async def _untrace(self, source: _End) -> None:
        for table in KEYS:
            for row in ("new", "old"):
                await _patiently(
                    source.connection, f"DROP TRIGGER IF EXISTS move_{self._mark}_{row} ON {table}"
                )
        await source.connection.execute("DELETE FROM org_changes WHERE org = $1", self._org)

    async def _copy(self, source: _End, target: _End) -> dict[str, int]:
        """Every table, but for the parts that were copied before; how many rows each has now."""
        for table in KEYS:
            copied = set(
                await target.connection.fetchval("SELECT copied FROM org_moves WHERE org = $1", self._org)
            )
            for part in range(_PARTS) if table in _IN_PARTS else (None,):
                name = table if part is None else f"{table}/{part}"
                if name not in copied:
                    await self._copy_part(source, target, table, part, name)
                    self._step(f"copied {name}")
        return await _counts(target.connection, self._org)

    async def _copy_part(self, source: _End, target: _End, table: str, part: int | None, name: str) -> None:
        condition = f"{_ORG_COLUMN.get(table, 'org')} = $1"
        if part is not None:
            condition += f" AND {_sessions_of(part)}"
        async with target.connection.transaction():
            await self._rows(source, target, table, condition, self._org)
            await target.connection.execute(
                "UPDATE org_moves SET copied = copied || $2::TEXT WHERE org = $1", self._org, name
            )

    async def _rows(
        self, source: _End, target: _End, table: str, condition: str, *values: object, again: str = ""
    ) -> None:
        """Rows from one cluster to the other, as PostgreSQL writes them. Through a table without row-level security, which
        COPY does not write to. ``again``: SQL that removes those that are replaced."""
        columns = ", ".join(await _columns(source.connection, table))
        await target.connection.execute(f"CREATE TEMP TABLE moved (LIKE {table}) ON COMMIT DROP")
        pieces: asyncio.Queue[bytes | None] = asyncio.Queue(16)

        async def read() -> None:
            sql = f"SELECT {columns} FROM {table} WHERE {condition}"  # noqa: S608 - names of columns
            try:
                await source.connection.copy_from_query(sql, *values, output=pieces.put, format="binary")
            finally:
                await pieces.put(None)

        async def written() -> AsyncIterator[bytes]:
            while (piece := await pieces.get()) is not None:
                yield piece

        async with asyncio.TaskGroup() as both:
            both.create_task(read())
            both.create_task(
                target.connection.copy_to_table(
                    "moved", source=written(), format="binary", columns=columns.split(", ")
                )
            )
        if again:
            await target.connection.execute(again, *values[1:])
        await target.connection.execute(
            f"INSERT INTO {table}({columns}) SELECT {columns} FROM moved ORDER BY {', '.join(KEYS[table])}"  # noqa: S608 - names of columns
        )
        await target.connection.execute("DROP TABLE moved")

    # --- changes ---------------------------------------------------------------------------------

    async def _catch_up(self, source: _End, target: _End) -> int:
        """Copy what changed, until few changes are left."""
        done = 0
        for _ in range(_ROUNDS):
            some = await self._changed(source, target)
            done += some
            if some < _FEW_CHANGES:
                break
        self._step("caught up")
        return done

    async def _changed(self, source: _End, target: _End) -> int:
        """One round: rows that changed are replaced by what they are now."""
        found = await source.connection.fetch(
            f"SELECT id, name, key::TEXT FROM org_changes WHERE org = $1 ORDER BY id LIMIT {_CHANGES_AT_ONCE}",  # noqa: S608 - a constant
            self._org,
        )
        keys: dict[str, dict[str, None]] = {}
        for _, table, key in found:
            keys.setdefault(table, {})[key] = None
        if not found:
            return 0
        async with target.connection.transaction():
            for table, changed in keys.items():
                await self._replace(source, target, table, changed)
        await source.connection.execute(
            "DELETE FROM org_changes WHERE id = ANY($1::BIGINT[])", [row[0] for row in found]
        )
        return len(found)

    async def _replace(self, source: _End, target: _End, table: str, keys: Iterable[str]) -> None:
        names = KEYS[table]
        types = await _columns(source.connection, table)
        given = ", ".join(f"{name} {types[name]}" for name in names)
        org = _ORG_COLUMN.get(table, "org")

        def those(place: str) -> str:
            joined = f"SELECT * FROM json_to_recordset({place}::JSON) AS t({given})"  # noqa: S608 - names of columns
            return f"({', '.join(names)}) IN ({joined})"

        document = "[" + ",".join(keys) + "]"
        await self._rows(
            source,
            target,
            table,
            f"{org} = $1 AND {those('$2')}",
            self._org,
            document,
            again=f"DELETE FROM {table} WHERE {those('$1')}",  # noqa: S608 - names of columns
        )

    # --- the decision ----------------------------------------------------------------------------

    async def _leave(self, source: _End, target: _End) -> tuple[int, float]:
        """The last changes and the commit that decides; how many, and how long no one could write."""
        for _ in range(_TRIES):
            if not await self._fenced(source):
                continue
            started = time.monotonic()
            self._step("fenced")
            done = 0
            try:
                async with asyncio.timeout(self._fence_ms / 1000 * 0.8):
                    while some := await self._changed(source, target):
                        done += some
                    await _next_audit_id(target.connection, self._org)
            except TimeoutError:
                await self._unfenced(source)
                self._step("too slow")
                await self._catch_up(source, target)
                continue
            self._step("deciding")
            if await self._decided(source):
                self._step("decided")
                return done, time.monotonic() - started
        raise Busy(
            "the organisation changes faster than its changes are copied", hint="repeat it at a quieter time"
        )

    async def _fenced(self, source: _End) -> bool:
        """Stop writes for a moment; False where one is under way that takes long."""
        try:
            async with source.connection.transaction():
                await source.connection.execute("SET LOCAL lock_timeout = '500ms'")
                await source.connection.execute(EXCLUSIVE, self._org)
                await source.connection.execute(
                    f"UPDATE org_moves SET role = $2, until = {CLOCK_MS} + $3 WHERE org = $1",  # noqa: S608 - constants
                    self._org,
                    LEAVING,
                    self._fence_ms,
                )
        except asyncpg.LockNotAvailableError:
            await asyncio.sleep(0.5)
            return False
        return True

    async def _unfenced(self, source: _End) -> None:
        await source.connection.execute(
            "UPDATE org_moves SET role = $2, until = 0 WHERE org = $1", self._org, COPYING
        )

    async def _decided(self, source: _End) -> bool:
        """The one commit that moves the organisation; False where the time is over and others may have written."""
        async with source.connection.transaction():
            await source.connection.execute(EXCLUSIVE, self._org)
            rows = await source.connection.fetch(
                f"UPDATE org_moves SET role = $2, until = 0 WHERE org = $1 AND role = $3 AND until > {CLOCK_MS} RETURNING 1",  # noqa: S608 - constants
                self._org,
                AWAY,
                LEAVING,
            )
        return bool(rows)


async def _role(connection: Any, org: str) -> tuple[str, str] | None:
    row = await connection.fetchrow("SELECT role, other FROM org_moves WHERE org = $1", org)
    return None if row is None else (row[0], row[1])


async def _counts(connection: Any, org: str) -> dict[str, int]:
    """How many rows each table has of an organisation."""
    return {table: await _count(connection, table, org) for table in KEYS}


async def _count(connection: Any, table: str, org: str) -> int:
    sql = f"SELECT count(*) FROM {table} WHERE {_ORG_COLUMN.get(table, 'org')} = $1"  # noqa: S608 - names of tables
    return int(await connection.fetchval(sql, org))


async def _columns(connection: Any, table: str) -> dict[str, str]:
    """The columns of a table and their types."""
    rows = await connection.fetch(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = $1::TEXT::REGCLASS"
        " AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
        table,
    )
    return {str(name): str(kind) for name, kind in rows}


async def _patiently(connection: Any, sql: str) -> None:
    """A change of a table waits for writes under way; those that come meanwhile wait for it, so only for a moment."""
    for _ in range(_TRIES):
        try:
            async with connection.transaction():
                await connection.execute("SET LOCAL lock_timeout = '500ms'")
                await connection.execute(sql)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            await asyncio.sleep(0.5)
            continue
        return
    raise Busy("a table is locked by others for too long", hint="repeat the command: it goes on")


async def _next_audit_id(connection: Any, org: str) -> None:
    """New rows of the audit log come after those that were copied."""
    await connection.execute(
        "SELECT setval('audit_ids', greatest((SELECT last_value FROM audit_ids),"
        " (SELECT max(id) FROM audit WHERE org = $1)))",
        org,
    )


async def _removed(connection: Any, org: str) -> dict[str, int]:
    """Remove an organisation's rows, some at a time; its own row last, by which the others are known to be there."""
    removed = dict.fromkeys(KEYS, 0)
    for table in reversed(list(KEYS)):
        column = _ORG_COLUMN.get(table, "org")
        sql = (
            f"DELETE FROM {table} WHERE {column} = $1 AND (tableoid, ctid) IN"  # noqa: S608 - names of tables
            f" (SELECT tableoid, ctid FROM {table} WHERE {column} = $1 LIMIT 20000)"
        )
        while done := int((await connection.execute(sql, org)).rpartition(" ")[2]):
            removed[table] += done
    for table in DERIVED_TABLES:
        await connection.execute(f"DELETE FROM {table} WHERE org = $1", org)  # noqa: S608 - names of tables
    return removed


def _sessions_of(part: int) -> str:
    """One of ``_PARTS`` ranges of sessions."""
    end = "" if part == _PARTS - 1 else f" AND ref < '\\x{part + 1:x}0'::BYTEA"
    return f"ref >= '\\x{part:x}0'::BYTEA{end}"


async def _compare_logs(here: _End, old: _End, org: str, part: int) -> None:
    """Every log that was left must be there, with as many lines or more, unless its session was deleted since."""
    sql = f"SELECT ref, key, lines, hash FROM logs WHERE org = $1 AND {_sessions_of(part)}"  # noqa: S608 - constants
    now = {(row[0], row[1]): (row[2], row[3]) for row in await here.connection.fetch(sql, org)}
    left: Sequence[Any] = await old.connection.fetch(sql, org)
    behind = [
        row
        for row in left
        if (known := now.get((row[0], row[1]))) is None
        or known[0] < row[2]
        or (known[0] == row[2] and known[1] != row[3])
    ]
    purged = "SELECT count(*) FROM sessions WHERE ref = $1 AND state <> 0"
    lost = [row for row in behind if not await here.connection.fetchval(purged, row[0])]
    if lost:
        name = lost[0][0].hex()
        raise DamagedData(
            f"{len(lost)} logs in {old.name!a} are not whole in {here.name!a}; the first is {name}",
            hint="nothing was removed; report it",
        )
