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
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from recollect.errors import Busy
from recollect.index.schema import QUARTER_MS
from recollect.model.cost.prices import UNCERTAIN, PriceList
from recollect.server.database.postgres import PostgresDatabase
from recollect.server.database.postgres_lake import DroppedMonths, LakeSession, LakeUsage
from recollect.server.database.records import LIVE
from recollect.server.database.sql_sweep import DAY_MS
from recollect.server.lake.iceberg import IcebergLake, ReplacedRows
from recollect.services.foreign.unrecorded import agent_of_log, copied_only
from recollect.services.lake.log_rows import LakeTask, LogRows, lake_job
from recollect.services.lake.rows import RowsBuilder, call_rows, message_rows
from recollect.services.lake.schema import MESSAGES, RESPONSES, SESSIONS, TOOL_CALLS, pyarrow
from recollect.system.paths import CLAUDE

# Appends of different servers may become visible in another order than their times say.
_OVERLAP_MS = 60_000
_AT_ONCE, _BATCH_BYTES = 200, 64 << 20
_DAY = dt.timedelta(days=1)
_FARTHEST = 200_000_000_000_000
_AGENT = "agent-"


class LakeJobReport(Struct, frozen=True):
    """What a run did. ``rows`` are those of the whole lake, by table."""

    organization: str
    sessions: int
    removed: int
    rows: dict[str, int]
    notes: list[str]


class _ServerLog(NamedTuple):
    """A log of the server, as rows name it."""

    path: str
    agent: str | None
    session: str


class _LoggedFacts(NamedTuple):
    """What only the logs of a session say of it: how many sub-agents it has, which client wrote it, and whether its own log has
    answers that are all copies of another session's.
    """

    agents: int = 0
    client: str | None = None
    is_copied: bool = False


class _ReadSession(NamedTuple):
    session: LakeSession
    logs: list[tuple[_ServerLog, LogRows]]
    client: str | None
    is_copied: bool


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
        async with self._database.lake_turn(self._org) as is_ours:
            if not is_ours:
                raise Busy("another job writes the lake of this organisation", hint="wait until it has ended")
            return await self._run()

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
        while found := await self._database.lake_sessions(self._org, after, _AT_ONCE):
            for batch in _batches([one for one in found if seen.get(one.id) != one.changed]):
                await self._write(batch, known, unsure)
                seen |= {one.id: one.changed for one in batch}
                done += len(batch)
            after = found[-1].changed, found[-1].id
        return LakeJobReport(self._org, done, removed, await asyncio.to_thread(lake.totals), self._notes)

    async def _remove_gone(self, known: dict[str, Any], unsure: set[str]) -> int:
        """Messages, calls and the row of sessions that were deleted; their responses stay, marked."""
        names = set(known) | unsure
        found = await self._database.lake_sessions_named(self._org, names) if names else {}
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
        read = [await self._read(one) for one in live]
        usage = await self._database.lake_usage(self._org, ids)
        others = {one.row.session for one in usage} - ids
        states = await self._database.lake_sessions_named(self._org, others | ids)
        more = await self._database.lake_usage(self._org, others) if others & set(known) else []
        is_unsure = bool(unsure & ids)
        was_there = [known[name] for name in sorted(ids | others) if name in known]
        await asyncio.to_thread(lake.begin, ids | unsure)
        placed = [log for one in read for log in one.logs]
        # A log only grows, so its old rows are on days of its new ones; of a session that is gone no day is known.
        is_anywhere = is_unsure or len(live) < len(batch)
        is_replacing = is_unsure or bool(ids & set(known))
        for table, rows in ((MESSAGES, message_rows(placed)), (TOOL_CALLS, call_rows(placed))):
            built = RowsBuilder(table, with_text=self._with_text)
            built.add(rows)
            now = built.table()
            days = None if is_anywhere else _days([*was_there, _span(now.column(table.day_of))])
            old = ReplacedRows("session", ids, days)
            await asyncio.to_thread(lake.replace, table.name, now, old if is_replacing else None)
        await self._write_responses(usage, states, is_unsure=is_unsure, was_there=was_there)
        logged = await self._logged(others & set(known))
        for one in read:
            logged[one.session.id] = _LoggedFacts(
                sum(rows.agents for _, rows in one.logs), one.client, one.is_copied
            )
        dropped = await self._database.lake_dropped(self._org, logged)
        summed = self._session_rows([*usage, *more], states, logged, dropped)
        built = RowsBuilder(SESSIONS, with_text=self._with_text)
        built.add(iter(summed))
        until = max((one.changed for one in batch), default=0)
        replaced = ReplacedRows("id", ids | (others & set(known)), None)
        await asyncio.to_thread(
            lake.replace, "sessions", built.table(), replaced, until=max(until, lake.until)
        )
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

    async def _read(self, session: LakeSession) -> _ReadSession:
        """The logs of a session, through files: what is not plain is read as a home's logs are."""
        logs: list[tuple[_ServerLog, LogRows]] = []
        client, is_copied = None, False
        for key, lines in await self._database.lake_logs(self._org, session.id):
            log = _ServerLog(f"{session.id}/{key}" if key else session.id, _agent(key), session.id)
            with tempfile.NamedTemporaryFile(prefix="recollect-lake-", suffix=".jsonl") as file:
                async for segment in self._database.segments(self._org, session.id, key, 0, lines):
                    file.write(segment.data)
                file.flush()
                task = tuple(LakeTask(file.name, session.id, log.agent))
                (found,) = await asyncio.to_thread(self._rows_of, task)
                if not key:
                    client = await asyncio.to_thread(agent_of_log, tempfile.gettempdir(), file.name)
                    is_copied = client != CLAUDE and await asyncio.to_thread(copied_only, [file.name])
            rows = LogRows(*found)
            if rows.problem is not None:
                self._notes.append(f"could not be read: {log.path}")
            logs.append((log, rows))
        return _ReadSession(session, logs, client, is_copied)

    def _rows_of(self, task: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return next(iter(self._read_logs([task])))

    async def _write_responses(
        self,
        usage: Sequence[LakeUsage],
        states: dict[str, LakeSession],
        *,
        is_unsure: bool,
        was_there: list[tuple[Any, Any]],
    ) -> None:
        built = RowsBuilder(RESPONSES, with_text=self._with_text)
        rows = [self._response(one, states.get(one.row.session)) for one in usage]
        built.add(iter(rows))
        messages = {one.row.message for one in usage}
        old = ReplacedRows("message_id", messages, None)
        if not is_unsure and was_there:
            span = _days([*was_there, *((at, at) for at in (_moment(row[9]) for row in rows))])
            old = old._replace(days=span)
        is_replacing = is_unsure or bool(was_there)
        await asyncio.to_thread(self._lake.replace, "responses", built.table(), old if is_replacing else None)

    def _response(self, one: LakeUsage, session: LakeSession | None) -> tuple[Any, ...]:
        row, said = one.row, one.said
        at = None if row.at is None or not -_FARTHEST < row.at < _FARTHEST else row.at * 1000
        path = f"{row.session}/{row.key}" if row.key else row.session
        return (
            row.message, row.request, row.session, _agent(row.key), None if session is None else session.project,
            said.model or None, row.branch or None, None, path, at, *said[13:19], self._cost(one), None,
            bool(said.variant & UNCERTAIN), session is None or session.state != LIVE, one.is_counted,
        )  # fmt: skip

    def _cost(self, one: LakeUsage) -> int | None:
        if not one.is_counted:
            return None
        return self._price(one.said.model, one.row.at or 0, one.said.variant, one.said[13:19])

    def _price(self, model: str, at: int, variant: int, counts: Sequence[Any]) -> int | None:
        price = self._prices.find(model, max(at // QUARTER_MS, 0), variant)
        return None if price is None else price.cost(*counts)

    def _session_rows(
        self,
        usage: Iterable[LakeUsage],
        states: dict[str, LakeSession],
        logged: dict[str, _LoggedFacts],
        dropped: DroppedMonths,
    ) -> list[tuple[Any, ...]]:
        counted: dict[str, dict[tuple[Any, ...], LakeUsage]] = defaultdict(dict)
        recorded: set[str] = set()
        for one in usage:
            recorded.add(one.row.session)
            # A late row of a dropped month is in its sums.
            if one.is_counted and one.row.said >= dropped.until:
                row = one.row
                counted[row.session][row.message, row.key, row.request, row.speaker] = one
        redacted = self._titles()
        rows = []
        for name, (agents, client, is_copied) in sorted(logged.items()):
            session = states.get(name)
            if session is None or session.state != LIVE:
                continue
            found = [(1, self._cost(one), one.said[13:19]) for one in counted[name].values()]
            found += [
                (one.messages, self._price(one.model, one.day * DAY_MS, one.variant, one[5:]), one[5:])
                for one in dropped.sums
                if one.session == name
            ]
            sums = [sum(counts[place] for _, _, counts in found) for place in range(6)]
            rows.append(
                (
                    name,
                    redacted(session.title),
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

    def _titles(self) -> Any:
        if not self._with_text:
            return lambda _: None
        from recollect.services.export.export import Redactor

        redactor = Redactor(self._data or Path())
        return lambda title: None if title is None else redactor.text(title)


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


def _span(times: Any) -> tuple[dt.datetime | None, dt.datetime | None]:
    found = pyarrow("lake").compute.min_max(times).as_py()
    return found["min"], found["max"]


def _days(spans: Iterable[tuple[dt.datetime | None, dt.datetime | None]]) -> tuple[dt.date, dt.date] | None:
    """The days of these times, with one more at both ends; None (all days) where there is no time."""
    known = [time for span in spans for time in span if time is not None]
    if not known:
        return None
    return (min(known) - _DAY).date(), (max(known) + _DAY).date()
