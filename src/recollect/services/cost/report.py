"""What things cost: by day, model, project or whatever else, from the index or from the logs themselves.

Asks a source for sums no finer than the view needs, and hands them to ``model.cost.report``, which prices
and groups them. Time zones, the machine's clock and the names of sessions are settled here; prices are
the caller's, or those of the package and the user's config.toml.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.index.cost_queries import UsageLogRow
from recollect.index.database import IndexDatabase
from recollect.model.cost.calendar import NO_TIME, QUARTER_MS, UNKNOWN, Offset, Timeline
from recollect.model.cost.prices import UNCERTAIN, PriceList
from recollect.model.cost.report import (
    KEYS,
    MAIN_AGENT,
    MODES,
    TOTAL,
    CostAggregator,
    CostQuery,
    CostReport,
    CostRow,
    UsageGroup,
    UsageLog,
    one_total_a_session,
    owner_of,
)
from recollect.model.cost.usage import Tokens
from recollect.model.moments import milliseconds_of, moment_of
from recollect.services.cost.source import IndexUsageSource, UsageQuery, UsageSource, quarter_of
from recollect.services.indexing.access import OpenIndex
from recollect.system.locations import agent_of
from recollect.system.progress import ProgressCallback
from recollect.system.unwatched import unwatched

if TYPE_CHECKING:
    from recollect.index.response_queries import CountedResponseRow
    from recollect.model.cost.reconcile import RecordedCost
    from recollect.model.cost.response import PricedResponse

    PricedRow = tuple[CountedResponseRow, UsageLog, int | None]
_BY_LOG = ("session", "project", "agent", "repo", "client")
_FROM_LOGS = "read from the logs: deleted sessions that are not archived are missing"


@unwatched()
def costs(
    homes: Sequence[Path],
    by: Sequence[str] = (),
    *,
    opened: OpenIndex,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    timezone: str | None = None,
    project: str | Path | None = None,
    model: str | None = None,
    session: str | None = None,
    data: str | Path | None = None,
    mode: str = "calculate",
    prices: PriceList | None = None,
    explain: bool = False,
    performance: bool = False,
    now: dt.datetime | None = None,
    progress: ProgressCallback | None = None,
    source: UsageSource | None = None,
) -> CostReport:
    """What was used, and what it cost, under the keys ``by`` names; without any, or by ``total``, in one row.

    ``since`` and ``until`` are moments, the second no longer meant. ``timezone`` says whose days are
    meant: a name such as Europe/Berlin, UTC, or local. ``project`` is a directory, or part of one's
    name; ``model`` a name or a part of it; ``session`` an id, the start of one, a title or a path;
    titles are those that ``Home(data=data)`` knows. ``progress`` is told (done, total) in bytes where the
    logs themselves are read; ``source`` is one that was read.
    """
    by = () if tuple(by) == (TOTAL,) else tuple(by)
    _check(by, mode)
    _check_prompts(by, opened, mode, is_detailed=explain or performance)
    offset = offset_of(timezone)
    if source is None:
        is_recorded = mode != "calculate" or explain
        source = usage_source(
            homes, by, opened=opened, is_recorded=is_recorded, is_timed=performance, progress=progress
        )
    one = CostReportBuilder(
        source, homes, by, _milliseconds(since), _milliseconds(until), database=opened.database
    )
    one.choose(project, model, session, data)
    prices = prices or _own_prices()
    moment = _milliseconds(now or dt.datetime.now(dt.UTC)) or 0
    report = one.made(offset, prices, mode, moment, explain=explain, performance=performance)
    return _titled(report, opened, source)


def usage_source(
    homes: Sequence[Path],
    by: Sequence[str] = (),
    *,
    opened: OpenIndex,
    is_recorded: bool = False,
    is_timed: bool = False,
    progress: ProgressCallback | None = None,
) -> UsageSource:
    """The index, or without one all logs, read now: for what the keys ``by`` need."""
    if opened.database is not None:
        return IndexUsageSource(opened.database)
    from recollect.services.cost.scan import scan

    source = scan(
        homes,
        archive=opened.archive,
        with_tools="tool" in by,
        with_records=is_recorded,
        with_durations=is_timed,
        progress=progress,
    )
    source.notes.append(_FROM_LOGS)
    return source


def _titled(report: CostReport, opened: OpenIndex, source: UsageSource) -> CostReport:
    """With the titles of the sessions in its rows."""
    if "session" not in report.by:
        return report
    shown = {row.keys["session"] for row in report.rows}
    if opened.database is not None:
        from recollect.index.prompt_queries import session_titles

        titles = session_titles(opened.database)
    else:
        from recollect.services.cost.scan import titles_in

        titles = titles_in(source.log_rows(), shown)
    return structs.replace(report, titles={name: titles[name] for name in shown if name in titles})


def prompt_titles(report: CostReport, rows: Sequence[CostRow], opened: OpenIndex) -> CostReport:
    """With what was typed, for the prompts of some rows: each is read from its log."""
    if "prompt" not in report.by or opened.database is None:
        return report
    from recollect.services.cost.prompts import PromptTimes

    texts = PromptTimes(opened.database).texts({row.keys["prompt"] for row in rows})
    return structs.replace(report, titles=report.titles | texts)


def responses(
    homes: Sequence[Path],
    *,
    opened: OpenIndex,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    project: str | Path | None = None,
    model: str | None = None,
    session: str | None = None,
    data: str | Path | None = None,
    prices: PriceList | None = None,
) -> Iterator[PricedResponse]:
    """Every response that ``costs`` counts, one by one; what they cost adds up to its total. Filters are the same.

    With an index nothing is held in memory; without one the usage of all responses is.
    """
    source = usage_source(homes, ("tool",), opened=opened)
    one = CostReportBuilder(source, homes, (), _milliseconds(since), _milliseconds(until))
    one.choose(project, model, session, data)
    return map(_priced_response, one.responses(prices or _own_prices()))


def response_rows(homes: Sequence[Path], source: UsageSource) -> Iterator[PricedRow]:
    """The same for a table of all: every copy, with its log, and its cost where it counts."""
    return CostReportBuilder(source, homes, (), None, None).responses(_own_prices(), with_copies=True)


def _cost_of(row: CountedResponseRow, prices: PriceList) -> int | None:
    if not row.is_counted:
        return None
    price = prices.find(row.model or "", max(quarter_of(row.at), 0), row.variant)
    return None if price is None else price.cost(*row[8:14])


def _priced_response(found: PricedRow) -> PricedResponse:
    from recollect.model.cost.response import PricedResponse

    row, log, pico = found
    session, agent, project = named_place(log)
    return PricedResponse(
        message_id=row.message,
        request_id=row.request,
        session=session,
        agent=agent,
        project=project,
        branch=row.branch,
        model=row.model,
        tool=row.tool,
        at=moment_of(row.at),
        tokens=Tokens(*row[8:14]),
        pico_usd=pico,
        is_uncertain=bool(row.variant & UNCERTAIN),
        is_deleted=log.is_gone,
        path=log.path,
        is_counted=row.is_counted,
    )


def performance(
    homes: Sequence[Path],
    by: Sequence[str] = ("model",),
    *,
    opened: OpenIndex,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    timezone: str | None = None,
    prices: PriceList | None = None,
) -> CostReport:
    """How fast answers came: duration, output tokens per second and per dollar, in ``CostRow.performance``."""
    return costs(
        homes, by, opened=opened, since=since, until=until, timezone=timezone, prices=prices, performance=True
    )


# --- time zones -------------------------------------------------------------------------------------


def zone_of(name: str | None) -> dt.tzinfo | None:
    """A time zone by its name; None for this machine's own, which needs no table of zones."""
    if name is None or name == "local":
        return None
    if name.upper() == "UTC":
        return dt.UTC
    import zoneinfo

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"time zone {name!a}: not known", hint="write a name such as Europe/Berlin, UTC or local"
        ) from None


def offset_of(timezone: str | None) -> Offset:
    """What a zone's clock shows, as seconds east of UTC at a moment."""
    zone = zone_of(timezone)
    if zone is dt.UTC:
        return lambda _: 0
    return _safe(_local_offset if zone is None else lambda at: _zone_offset(zone, at))


def _local_offset(at: int) -> int:
    return time.localtime(at).tm_gmtoff


def _zone_offset(zone: dt.tzinfo, at: int) -> int:
    offset = dt.datetime.fromtimestamp(at, zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _safe(offset: Offset) -> Offset:
    """A time no clock can show counts as UTC: one made-up line must not end the report."""

    def safe(at: int) -> int:
        try:
            return offset(at)
        except (OverflowError, ValueError, OSError):
            return 0

    return safe


def _milliseconds(moment: dt.datetime | None) -> int | None:
    if moment is not None and moment.tzinfo is None:
        raise UsageError(f"{moment}: a moment without a time zone", hint="give it one, such as datetime.UTC")
    return milliseconds_of(moment)


# --- one report -------------------------------------------------------------------------------------


class CostReportBuilder:
    """The parts of a report, put together step by step."""

    def __init__(
        self,
        source: UsageSource,
        homes: Sequence[Path],
        by: tuple[str, ...],
        since: int | None,
        until: int | None,
        *,
        database: IndexDatabase | None = None,
    ) -> None:
        self._database = database
        self._source = source
        self._homes = homes
        self._by = by
        self._since, self._until = since, until
        self._files: Collection[int] | None = None
        self._models: Collection[str] | None = None
        self._known: dict[int, UsageLog] | None = None
        self._notes = list(source.notes)

    @property
    def _logs(self) -> dict[int, UsageLog]:
        if self._known is None:
            rows = self._source.log_rows()
            self._known = logs_of(rows)
            if "client" in self._by or "tool" in self._by:
                from recollect.services.foreign.unrecorded import agent_of_log

                self._known = {
                    row.number: structs.replace(
                        self._known[row.number], client=agent_of_log(row.home, row.path)
                    )
                    for row in rows
                }
            if "repo" in self._by:
                self._known = with_repositories(self._known, rows)
        return self._known

    def choose(
        self, project: str | Path | None, model: str | None, session: str | None, data: str | Path | None
    ) -> None:
        """Leave out what was not asked for."""
        if project is not None:
            from recollect.services.projects import ProjectFilter

            wanted = ProjectFilter(project)
            self._files = [
                number
                for number, log in self._logs.items()
                if log.project != UNKNOWN and wanted.fits(log.project)
            ]
        if session is not None:
            name = _session_id(session, self._logs.values(), self._homes, data)
            among = self._logs if self._files is None else self._files
            self._files = [number for number in among if self._logs[number].session == name]
        if model is not None:
            self._models = _named(model, self._source.models())
            if not self._models:
                self._notes.append(f"no response of a model named {model}")

    def made(
        self, offset: Offset, prices: PriceList, mode: str, now: int, *, explain: bool, performance: bool
    ) -> CostReport:
        timeline, active_since = self._timeline(offset, prices, now)
        needs_logs = mode != "calculate" or explain
        columns = {key for key in self._by if key in ("branch", "tool")}
        if needs_logs or any(key in (*_BY_LOG, "prompt", "tool") for key in self._by):
            columns.add("file")
        query = UsageQuery(
            timeline,
            frozenset(columns),
            self._files,
            self._models,
            self._since,
            self._until,
            is_granular=needs_logs,
            with_copies=explain,
            with_durations=performance,
        )
        asked = CostQuery(self._by, timeline, prices, mode, explain, performance, now, active_since)
        unrecorded = self._unrecorded()
        report = self._added_up(query, asked)
        report = structs.replace(report, unrecorded=unrecorded) if unrecorded else report
        return self._with_versions(report) if explain else report

    def _unrecorded(self) -> frozenset[str]:
        """The sessions of other agents that have no usage: what they cost is unknown, which is not 0."""
        chosen = None if self._files is None else set(self._files)
        unused = [log for log in self._source.unused_logs() if chosen is None or log.number in chosen]
        if not unused:
            return frozenset()
        from recollect.services.foreign.unrecorded import unrecorded

        found = (log for log in unrecorded(unused) if log.may_be_within(self._since, self._until))
        unknown = frozenset(log.session for log in found)
        if unknown:
            what = "1 session" if len(unknown) == 1 else f"{len(unknown):,} sessions"
            self._notes.append(f"no usage recorded in {what} of other agents: cost unknown")
        return unknown

    def responses(self, prices: PriceList, *, with_copies: bool = False) -> Iterator[PricedRow]:
        """Every response that was asked for, its log and its cost, in the order of time."""
        query = UsageQuery(
            Timeline((), lambda _: 0, []),
            frozenset(),
            self._files,
            self._models,
            self._since,
            self._until,
            with_copies=with_copies,
        )
        for row in self._source.responses(query):
            yield row, self._logs[row.log], _cost_of(row, prices)

    def _added_up(self, query: UsageQuery, asked: CostQuery) -> CostReport:
        logs = self._logs if "file" in query.columns else {}
        records, rests = self._records(asked) if asked.mode != "calculate" or asked.is_explained else ((), ())
        gone = self._source.gone(self._files, self._since, self._until)
        accounts = CostAggregator(asked, logs, records, rests)
        sums = self._by_prompt(query) if "prompt" in self._by else self._source.sums(query)
        report = accounts.report(sums, gone=gone, notes=self._notes)
        if accounts.has_gap and not query.is_granular:
            return self._added_up(structs.replace(query, is_granular=True), asked)
        return report

    def _by_prompt(self, query: UsageQuery) -> Iterator[UsageGroup]:
        """Each response for itself, with its prompt."""
        from recollect.services.cost.prompts import PromptTimes

        assert self._database is not None  # noqa: S101 - for the type checker: it was checked
        prompts = PromptTimes(self._database)
        for row in self._source.responses(query):
            prompt = prompts.at(self._logs[row.log].session, row.at)
            yield UsageGroup(
                quarter_of(row.at),
                row.log,
                row.model,
                row.branch,
                row.tool,
                row.variant,
                1,
                *row[8:14],
                prompt=prompt,
            )

    def _timeline(self, offset: Offset, prices: PriceList, now: int) -> tuple[Timeline, int | None]:
        source, by = self._source, self._by
        days = source.days() if {"day", "week", "month"} & set(by) else []
        changes = prices.changes(source.models())
        if "block" not in by:
            return Timeline(by, offset, days, changes=changes), None
        from recollect.model.cost.billing_blocks import blocks

        quarters = [quarter for quarter in source.quarters() if quarter != NO_TIME]
        found = blocks(quarters)
        first = next((at for at in quarters if found[-1][0] <= at and now // QUARTER_MS < found[-1][1]), None)
        active_since = None if first is None else source.first_at(first)
        return Timeline(by, offset, days, found, changes), active_since

    def _records(self, asked: CostQuery) -> tuple[list[RecordedCost], list[RecordedCost]]:
        """The clients' totals of what was asked for, and what they add to the logs of their sessions."""
        times = {}
        records = []
        for at, record in self._source.records():
            times[record.log] = at
            records.append(record)
        found = one_total_a_session(records, self._logs)
        files = None if self._files is None else set(self._files)

        def chosen(records: Iterable[RecordedCost]) -> list[RecordedCost]:
            return [
                record._replace(is_booked=self._is_meant(times[record.log], record))
                for record in records
                if files is None or record.log in files
            ]

        rests = self._rests(found, asked.prices) if asked.mode == "auto" else ()
        return chosen(found), chosen(rests)

    def _rests(self, records: Sequence[RecordedCost], prices: PriceList) -> list[RecordedCost]:
        """Over whole sessions: a part of one cannot be compared with its total."""
        owners = {number: owner_of(log) for number, log in self._logs.items()}
        recorded = {owners[record.log] for record in records}
        paths = {number: log.path for number, log in self._logs.items() if owners[number] in recorded}
        from recollect.model.cost.reconcile import rests

        return rests(records, self._source.copies(paths), owners, prices) if records else []

    def _is_meant(self, at: int | None, record: RecordedCost) -> bool:
        if self._models is not None and record.model not in self._models:
            return False
        if self._since is None and self._until is None:
            return True
        # What has no time is neither before nor after anything.
        return (
            at is not None
            and record.quarter != NO_TIME
            and (self._since is None or at >= self._since)
            and (self._until is None or at < self._until)
        )

    def _with_versions(self, report: CostReport) -> CostReport:
        if not report.uncertain:
            return report
        versions = self._source.uncertain_versions()
        named = {model or "(no model)": found for model, found in versions.items()}
        explained = tuple(structs.replace(one, versions=named.get(one.model, ())) for one in report.uncertain)
        return structs.replace(report, uncertain=explained)


def named_place(log: UsageLog) -> tuple[str | None, str | None, str | None]:
    """Session, sub-agent and project of a log, None where there is none or it is not known."""
    agent = None if log.agent == MAIN_AGENT else log.agent
    return _known(log.session), agent, _known(log.project)


def _known(name: str) -> str | None:
    return None if name == UNKNOWN else name


def _check(by: Sequence[str], mode: str) -> None:
    if TOTAL in by:
        raise UsageError(f"by {','.join(by)}: total is one row for everything", hint="name it alone")
    for key in by:
        if key not in KEYS:
            raise UsageError(f"by {key!a}: unknown", hint=f"one of {', '.join((*KEYS, TOTAL))}")
        if by.count(key) > 1:
            raise UsageError(f"by {','.join(by)}: {key} is given twice", hint="name each key once")
    if mode not in MODES:
        raise UsageError(f"mode {mode!a}: not known", hint=f"the modes are {', '.join(MODES)}")


def _check_prompts(by: Sequence[str], opened: OpenIndex, mode: str, *, is_detailed: bool) -> None:
    if "prompt" not in by:
        return
    if opened.database is None:
        raise UsageError("by prompt: needs the index", hint="leave out --no-index")
    if mode != "calculate" or is_detailed:
        raise UsageError(
            "by prompt: only tokens times price are known of a prompt",
            hint="leave out --mode, --explain and --performance",
        )


def with_repositories(logs: dict[int, UsageLog], rows: Iterable[UsageLogRow]) -> dict[int, UsageLog]:
    """The same logs, each with the repository of its session."""
    from recollect.services.repositories import RepositoryFinder

    finder = RepositoryFinder()
    mains = {log.session: log for log in logs.values() if log.agent == MAIN_AGENT}
    origins = {row.path: None if row.origins is None else row.origins.splitlines() for row in rows}
    found: dict[str, str] = {}
    for log in logs.values():
        if log.session not in found:
            main = mains.get(log.session, log)
            cwd = "" if main.project == UNKNOWN else main.project
            found[log.session] = finder.of(cwd, main.path, origins.get(main.path)) or UNKNOWN
    return {
        number: structs.replace(log, repo=found[log.session] if log.session != UNKNOWN else log.project)
        for number, log in logs.items()
    }


def _own_prices() -> PriceList:
    from recollect.storage.config.our_config import price_list

    return price_list()


# --- names ------------------------------------------------------------------------------------------


def logs_of(rows: Sequence[UsageLogRow]) -> dict[int, UsageLog]:
    """Logs with their projects: an agent works where its session does."""
    directories: dict[tuple[str, str], str] = {}
    for row in sorted(rows, key=lambda row: row.path):
        if not row.is_agent and row.cwd and row.session:
            directories.setdefault((row.home, row.session), row.cwd)
            directories.setdefault(("", row.session), row.cwd)
    return {row.number: _log(row, directories) for row in rows}


def _log(row: UsageLogRow, directories: Mapping[tuple[str, str], str]) -> UsageLog:
    project = row.cwd
    if row.is_agent and row.session:
        of_session = directories.get((row.home, row.session)) or directories.get(("", row.session))
        project = of_session or project
    agent = (row.agent or UNKNOWN) if row.is_agent else MAIN_AGENT
    client = agent_of(row.home)
    return UsageLog(row.path, row.session or UNKNOWN, agent, project or UNKNOWN, bool(row.is_gone), client)


def _named(wanted: str, models: Collection[str]) -> list[str]:
    if wanted in models:
        return [wanted]
    return [name for name in models if wanted.casefold() in name.casefold()]


def _session_id(name: str, logs: Collection[UsageLog], homes: Sequence[Path], data: str | Path | None) -> str:
    ids = {log.session for log in logs if log.session != UNKNOWN}
    if name in ids:
        return name
    found = sorted(known for known in ids if name and known.startswith(name))
    if len(found) == 1:
        return found[0]
    if found:
        raise Ambiguous("session", name, tuple(found))
    if not homes:
        raise NotFound(f"session {name!r}: not found", hint="`recollect list` shows what there is")
    from recollect.services.homes import Home

    return Home(*homes, data=data).session(name).id
