"""The job that brings an organisation's lake up to date: what changed since the last run, session by session.

A session that changed is read again and its rows are replaced; so are the rows about its responses in other sessions,
because which copy of a response counts may have changed. What it wrote up to which change is in the lake itself
(``iceberg.IcebergLake.until``): a catalogue that was restored from a backup is brought up to date from there.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from recollect.agents.homes import agent_of_log, copied_only
from recollect.ask.data.log_rows import LakeTask, LogRows, joined, lake_job, rows_table
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.tables import MESSAGES, RESPONSES, SESSIONS, TOOL_CALLS, pyarrow
from recollect.errors import Busy
from recollect.index.schema import QUARTER_MS
from recollect.model.cost.prices import UNCERTAIN, PriceList
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.records import LIVE, Row, UsageSum
from recollect.server.database.sql import DAY_MS
from recollect.server.database.sql_usage import USAGE, UsageTableRow, told_rows
from recollect.server.database.tables import COUNTS, TITLE, session_ref
from recollect.server.iceberg import IcebergLake, ReplacedRows
from recollect.system.paths import CLAUDE

# Appends of different servers may become visible in another order than their times say.
_OVERLAP_MS = 60_000
_AT_ONCE, _BATCH_BYTES = 200, 64 << 20
_DAY = dt.timedelta(days=1)
_FARTHEST = 200_000_000_000_000
_AGENT = "agent-"
_LAKE_LOCK = 0x6C616B65


class LakeSession(NamedTuple):
    """A session as its row in the lake has it. Times are milliseconds."""

    id: str
    project: str | None
    title: str | None
    branch: str | None
    first_at: int | None
    last_at: int | None
    changed: int
    bytes: int
    state: int


# What a log says of a response, and the row with the amounts that count for it; None where it does not count.
_Usage = tuple[UsageTableRow, UsageTableRow | None]
_SESSION = (
    f"SELECT id, project, {TITLE}, branch,"  # noqa: S608 - constants
    " first_at, last_at, changed, coalesce((SELECT bytes FROM logs WHERE logs.ref = sessions.ref AND key = ''), 0),"
    " state FROM sessions WHERE org = $1"
)


class LakeJobReport(Struct, frozen=True):
    """What a run did. ``rows`` are those of the whole lake, by table."""

    organization: str
    sessions: int
    removed: int
    rows: dict[str, int]
    notes: list[str]


class _LoggedFacts(NamedTuple):
    """What only the logs of a session say of it: how many sub-agents it has, which client wrote it, and whether its own log has
    answers that are all copies of another session's; and its logs, where they were read.
    """

    agents: int = 0
    client: str | None = None
    is_copied: bool = False
    logs: tuple[tuple[LakeTask, LogRows], ...] = ()


class LakeJob:
    """One run for one organisation. ``data``: recollect's directory, for the redaction of texts; None without texts."""

    def __init__(
        self, database: PostgresDatabase, org: str, lake: IcebergLake, prices: PriceList, data: Path | None
    ) -> None:
        self._database, self._org, self._lake, self._prices = database, org, lake, prices
        self._with_text, self._data = data is not None, data
        self._read_logs = lake_job(None if data is None else str(data))
        self._notes: list[str] = []

    async def run(self) -> LakeJobReport:
        async with self._database.turn(_LAKE_LOCK, self._org) as is_ours:
            if not is_ours:
                raise Busy("another job writes the lake of this organisation", hint="wait until it has ended")
            return await self._run()

    # --- questions to the server's database ------------------------------------------------------

    async def _rows(self, sql: str, *values: object) -> Sequence[Row]:
        return await self._database.rows(self._org, sql, *values)

    async def _changed(self, after: tuple[int, str], limit: int) -> list[LakeSession]:
        """Sessions that are there and not sealed, by their last change."""
        sql = f"{_SESSION} AND state = {LIVE} AND encrypted = 0 AND (changed, id) > ($2, $3) ORDER BY changed, id LIMIT $4"
        return [LakeSession(*row) for row in await self._rows(sql, self._org, *after, limit)]

    async def _named(self, names: Collection[str]) -> dict[str, LakeSession]:
        """Sessions by their ids, in any state."""
        refs = [session_ref(self._org, name) for name in names]
        rows = await self._rows(f"{_SESSION} AND ref = ANY($2::bytea[])", self._org, refs)
        return {row[0]: LakeSession(*row) for row in rows}

    async def _usage(self, sessions: Collection[str]) -> list[_Usage]:
        """Every log's word about the responses of these sessions: also what other sessions have of them."""
        sql = (
            f"SELECT {USAGE} FROM usage WHERE org = $1 AND message IN"  # noqa: S608 - names of columns
            " (SELECT message FROM usage WHERE org = $1 AND session = ANY($2::text[]) AND session <> '') ORDER BY message"
        )
        rows = [UsageTableRow(*row) for row in await self._rows(sql, self._org, list(sessions))]
        return [
            pair for _, copies in groupby(rows, attrgetter("message")) for pair in told_rows(list(copies))
        ]

    async def _dropped(self, sessions: Collection[str]) -> tuple[int, list[UsageSum]]:
        """The first month of which rows are held, and the sums of these sessions before; responses without a time are never
        dropped."""
        (row,) = await self._rows("SELECT coalesce(usage_from, 0) FROM orgs WHERE id = $1", self._org)
        sql = (
            "SELECT day * 96, session, NULL, NULL, NULL, NULL, model, NULL, variant, messages,"  # noqa: S608 - names of columns
            f" {', '.join(COUNTS)} FROM rollup_day"
            " WHERE org = $1 AND session = ANY($2::text[]) AND day <> 0 AND day < $3"
        )
        rows = await self._rows(sql, self._org, list(sessions), row[0] // DAY_MS) if row[0] else ()
        return row[0], [UsageSum(*values) for values in rows]

    # --- the job ---------------------------------------------------------------------------------

    async def _run(self) -> LakeJobReport:
        lake = self._lake
        known = {
            row["id"]: (row["first_at"], row["last_at"])
            for row in await asyncio.to_thread(lake.rows, "sessions", ("id", "first_at", "last_at"))
        }
        unsure = set(await asyncio.to_thread(lambda: lake.pending))
        removed = await self._remove_gone(known, unsure)
        after, done = (max(lake.until - _OVERLAP_MS, 0), ""), 0
        seen: dict[str, int] = {}
        while found := await self._changed(after, _AT_ONCE):
            for batch in _batches([one for one in found if seen.get(one.id) != one.changed]):
                await self._write(batch, known, unsure)
                seen |= {one.id: one.changed for one in batch}
                done += len(batch)
            after = found[-1].changed, found[-1].id
        return LakeJobReport(self._org, done, removed, await asyncio.to_thread(lake.totals), self._notes)

    async def _remove_gone(self, known: dict[str, Any], unsure: set[str]) -> int:
        """Messages, calls and the row of sessions that were deleted; their responses stay, marked."""
        names = set(known) | unsure
        found = await self._named(names) if names else {}
        gone = [name for name in sorted(names) if name not in found or found[name].state != LIVE]
        if gone:
            batch = [
                LakeSession(name, None, None, None, None, None, self._lake.until, 0, -1) for name in gone
            ]
            await self._write(batch, known, unsure)
        for name in gone:
            known.pop(name, None)
        return len(gone)

    async def _write(self, batch: Sequence[LakeSession], known: dict[str, Any], unsure: set[str]) -> None:
        """Replace the rows of some sessions in all tables; the last commit says that it was done."""
        lake, ids = self._lake, {one.id for one in batch}
        live = [one for one in batch if one.state == LIVE]
        read = {one.id: await self._read(one) for one in live}
        usage = await self._usage(ids)
        others = {row.session for row, _ in usage} - ids
        states = await self._named(others | ids)
        more = await self._usage(others) if others & set(known) else []
        is_unsure = bool(unsure & ids)
        was_there = [known[name] for name in sorted(ids | others) if name in known]
        await asyncio.to_thread(lake.begin, ids | unsure)
        placed = [log for facts in read.values() for log in facts.logs]
        # A log only grows, so its old rows are on days of its new ones; of a session that is gone no day is known.
        is_anywhere = is_unsure or len(live) < len(batch)
        is_replacing = is_unsure or bool(ids & set(known))
        for table in (MESSAGES, TOOL_CALLS):
            parts = (rows.table(table, log.path, with_text=self._with_text) for log, rows in placed)
            now = joined(table, parts, with_text=self._with_text)
            span = pyarrow("lake").compute.min_max(now.column(table.day_of)).as_py()
            days = None if is_anywhere else _days([*was_there, (span["min"], span["max"])])
            old = ReplacedRows("session", ids, days)
            await asyncio.to_thread(lake.replace, table.name, now, old if is_replacing else None)
        await self._write_responses(usage, states, is_unsure=is_unsure, was_there=was_there)
        logged = await self._logged(others & set(known)) | read
        dropped = await self._dropped(logged)
        summed = self._session_rows([*usage, *more], states, logged, dropped)
        now = rows_table(SESSIONS, summed, with_text=self._with_text)
        until = max((one.changed for one in batch), default=0)
        replaced = ReplacedRows("id", ids | (others & set(known)), None)
        await asyncio.to_thread(lake.replace, "sessions", now, replaced, until=max(until, lake.until))
        known |= {row[0]: (_moment(row[4]), _moment(row[5])) for row in summed}
        unsure.clear()

    async def _logged(self, sessions: set[str]) -> dict[str, _LoggedFacts]:
        if not sessions:
            return {}
        columns = ("id", "agents", "client", "pico_usd")
        rows = await asyncio.to_thread(self._lake.rows, "sessions", columns, sessions)
        # A log that did not change says what it said: what a session cost was known or not.
        return {
            row["id"]: _LoggedFacts(row["agents"] or 0, row["client"], row["pico_usd"] is not None)
            for row in rows
        }

    async def _read(self, session: LakeSession) -> _LoggedFacts:
        """The logs of a session, through files, read as those of a home are."""
        logs: list[tuple[LakeTask, LogRows]] = []
        client, is_copied = None, False
        sql = "SELECT key, lines FROM logs WHERE ref = $1 AND lines > 0 ORDER BY key"
        for key, lines in await self._rows(sql, session_ref(self._org, session.id)):
            log = LakeTask(f"{session.id}/{key}" if key else session.id, session.id, _agent(key))
            with tempfile.NamedTemporaryFile(prefix="recollect-lake-", suffix=".jsonl") as file:
                async for segment in self._database.segments(self._org, session.id, key, 0, lines):
                    file.write(segment.data)
                file.flush()
                task = tuple(log._replace(path=file.name))
                ((found,),) = await asyncio.to_thread(list, self._read_logs([task]))
                if not key:
                    client = await asyncio.to_thread(agent_of_log, tempfile.gettempdir(), file.name)
                    is_copied = client != CLAUDE and await asyncio.to_thread(copied_only, [file.name])
            rows = LogRows(*found)
            if rows.problem is not None:
                self._notes.append(f"could not be read: {log.path}")
            logs.append((log, rows))
        return _LoggedFacts(sum(rows.agents for _, rows in logs), client, is_copied, tuple(logs))

    async def _write_responses(
        self,
        usage: Sequence[_Usage],
        states: dict[str, LakeSession],
        *,
        is_unsure: bool,
        was_there: list[tuple[Any, Any]],
    ) -> None:
        rows = [self._response(row, said, states.get(row.session)) for row, said in usage]
        now = rows_table(RESPONSES, rows, with_text=self._with_text)
        messages = {row.message for row, _ in usage}
        old = ReplacedRows("message_id", messages, None)
        if not is_unsure and was_there:
            span = _days([*was_there, *((at, at) for at in (_moment(row[9]) for row in rows))])
            old = old._replace(days=span)
        is_replacing = is_unsure or bool(was_there)
        await asyncio.to_thread(self._lake.replace, "responses", now, old if is_replacing else None)

    def _response(
        self, row: UsageTableRow, said: UsageTableRow | None, session: LakeSession | None
    ) -> tuple[Any, ...]:
        counted = said or row
        at = None if row.at is None or not -_FARTHEST < row.at < _FARTHEST else row.at * 1000
        path = f"{row.session}/{row.key}" if row.key else row.session
        return (
            row.message, row.request, row.session, _agent(row.key), None if session is None else session.project,
            counted.model or None, row.branch or None, None, path, at, *counted[13:19],
            None if said is None else self._price(said.model, row.at or 0, said.variant, said[13:19]), None,
            bool(counted.variant & UNCERTAIN), session is None or session.state != LIVE, said is not None,
        )  # fmt: skip

    def _price(self, model: str, at: int, variant: int, counts: Sequence[Any]) -> int | None:
        pico_usd, missing = self._prices.cost(model, at // QUARTER_MS, variant, counts)
        return None if missing is not None and not pico_usd else pico_usd

    def _session_rows(
        self,
        usage: Iterable[_Usage],
        states: dict[str, LakeSession],
        logged: dict[str, _LoggedFacts],
        dropped: tuple[int, list[UsageSum]],
    ) -> list[tuple[Any, ...]]:
        counted: dict[str, dict[tuple[Any, ...], tuple[int, UsageTableRow]]] = defaultdict(dict)
        recorded: set[str] = set()
        held, sums_before = dropped
        for row, said in usage:
            recorded.add(row.session)
            # A late row of a dropped month is in its sums.
            if said is not None and (row.at is None or row.at >= held):
                counted[row.session][row.message, row.key, row.request, row.speaker] = row.at or 0, said
        redactor = None if self._data is None else Redactor(self._data)
        rows = []
        for name, (agents, client, is_copied, _) in sorted(logged.items()):
            session = states.get(name)
            if session is None or session.state != LIVE:
                continue
            found = [
                (1, self._price(said.model, at, said.variant, said[13:19]), said[13:19])
                for at, said in counted[name].values()
            ]
            found += [
                (
                    one.messages,
                    self._price(one.model or "", one.quarter * QUARTER_MS, one.variant, one[10:]),
                    one[10:],
                )
                for one in sums_before
                if one.session == name
            ]
            sums = [sum(counts[place] for _, _, counts in found) for place in range(6)]
            rows.append(
                (
                    name,
                    None if redactor is None or session.title is None else redactor.text(session.title),
                    session.project,
                    session.branch,
                    _us(session.first_at),
                    _us(session.last_at),
                    session.bytes,
                    agents,
                    sum(count for count, _, _ in found),
                    *sums,
                    _known_cost(
                        [cost for _, cost, _ in found], client, is_known=is_copied or name in recorded
                    ),
                    None,
                    sum(count for count, cost, _ in found if cost is None),
                    name,
                    client,
                )
            )
        return rows


def _known_cost(costs: list[int | None], client: str | None, *, is_known: bool) -> int | None:
    """The sum of what is priced; None where nothing is, or where a client of another agent wrote down no usage.

    ``is_known``: its logs have calls or answers that are copies, and count elsewhere.
    """
    known = [cost for cost in costs if cost is not None]
    is_unknown = not known if costs else not is_known and client not in (None, CLAUDE)
    return None if is_unknown else sum(known)


def _batches(found: list[LakeSession]) -> Iterable[list[LakeSession]]:
    batch: list[LakeSession] = []
    size = 0
    for one in found:
        if batch and size + one.bytes > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.bytes
    if batch:
        yield batch


def _agent(key: str) -> str | None:
    name = key.rpartition("/")[2].removesuffix(".jsonl")
    return name.removeprefix(_AGENT) if name.startswith(_AGENT) else None


def _us(at: int | None) -> int | None:
    return None if at is None or not -_FARTHEST < at < _FARTHEST else at * 1000


def _moment(at: int | None) -> dt.datetime | None:
    try:
        return None if at is None else dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=at)
    except OverflowError:
        return None


def _days(spans: Iterable[tuple[dt.datetime | None, dt.datetime | None]]) -> tuple[dt.date, dt.date] | None:
    """The days of these times, with one more at both ends; None (all days) where there is no time."""
    known = [time for span in spans for time in span if time is not None]
    if not known:
        return None
    return (min(known) - _DAY).date(), (max(known) + _DAY).date()
