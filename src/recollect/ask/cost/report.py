"""What things cost: by day, model, project or whatever else.

Asks the index for sums no finer than the view needs, and hands them to ``model.cost.report``, which prices
and groups them. Time zones, the machine's clock and the names of sessions are settled here; prices are
the caller's, or those of the package and the user's config.toml.
"""

from __future__ import annotations

import datetime as dt
import functools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import UNSET, Struct, structs

from recollect.agents.homes import agent_of_log
from recollect.ask.cost.price import PromptTimes
from recollect.ask.sessions.projects import ProjectFilter, RepositoryFinder
from recollect.errors import Ambiguous, NotFound, UsageError
from recollect.index import cost_queries
from recollect.index.access import OpenIndex
from recollect.index.cost_queries import (
    ResponseRow,
    UsageQuery,
    UsageTables,
    unrecorded_logs,
)
from recollect.index.stat_queries import session_titles
from recollect.model.budget import blocks
from recollect.model.cost.aggregator import CostAggregator, CostQuery, one_total_a_session, owner_of
from recollect.model.cost.calendar import NO_TIME, QUARTER_MS, UNKNOWN, Offset, Timeline
from recollect.model.cost.money import PricedResponse, Usd, usd
from recollect.model.cost.prices import UNCERTAIN, PriceList
from recollect.model.cost.reconcile import RecordedCost, rests
from recollect.model.cost.report import (
    KEYS,
    MAIN_AGENT,
    MODES,
    TOTAL,
    CostReport,
    CostRow,
    UsageGroup,
    UsageLog,
)
from recollect.model.lines.blocks import Tokens
from recollect.model.lines.ids import milliseconds_of, moment_of
from recollect.store.own_settings import price_list

_FROM_LOGS = "read from the logs: deleted sessions that are not archived are missing"
_BY_LOG = ("session", "project", "agent", "repo", "client")


def costs(
    by: Sequence[str] = (),
    *,
    opened: OpenIndex,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    timezone: str | None = None,
    project: str | Path | None = None,
    model: str | None = None,
    session: str | None = None,
    named: Callable[[str], str] | None = None,
    mode: str = "calculate",
    prices: PriceList | None = None,
    explain: bool = False,
    performance: bool = False,
    now: dt.datetime | None = None,
) -> CostReport:
    """What was used, and what it cost, under the keys ``by`` names; without any, or by ``total``, in one row.

    ``since`` and ``until`` are moments, the second no longer meant. ``timezone`` says whose days are
    meant: a name such as Europe/Berlin, UTC, or local. ``project`` is a directory, or part of one's
    name; ``model`` a name or a part of it; ``session`` an id or the start of one, or what else ``named`` knows
    the id of, such as a title or a path.
    """
    by = () if tuple(by) == (TOTAL,) else tuple(by)
    _check(by, mode, is_detailed=explain or performance)
    offset = offset_of(timezone)
    notes = (_FROM_LOGS,) if opened.is_temporary else ()
    one = CostReportBuilder(opened, by, since, until, project, model, session, named, notes)
    prices = prices or price_list()
    moment = _milliseconds(now or dt.datetime.now(dt.UTC)) or 0
    report = one.made(offset, prices, mode, moment, explain=explain, performance=performance)
    report = structs.replace(report, timezone=timezone or "local")
    return (
        _named_rows(report, "session", "title", session_titles(opened.database))
        if "session" in by
        else report
    )


def _named_rows(report: CostReport, key: str, member: str, names: Mapping[str, str]) -> CostReport:
    """With what the values of a key are called."""
    rows = ((row, names.get(getattr(row, key))) for row in report.rows)
    named = (row if name is None else structs.replace(row, **{member: name}) for row, name in rows)
    return structs.replace(report, rows=tuple(named))


def prompt_titles(report: CostReport, rows: Sequence[CostRow], opened: OpenIndex) -> CostReport:
    """With what was typed, for the prompts of some rows: each is read from its log."""
    if "prompt" not in report.by:
        return report

    texts = PromptTimes(opened.database).texts({row.keys["prompt"] for row in rows})
    return _named_rows(report, "prompt", "typed", texts)


def responses(
    *,
    opened: OpenIndex,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    project: str | Path | None = None,
    model: str | None = None,
    session: str | None = None,
    named: Callable[[str], str] | None = None,
    prices: PriceList | None = None,
    with_copies: bool = False,
) -> Iterator[PricedResponse]:
    """Every response that ``costs`` counts, one by one; what they cost adds up to its total. Filters are the same.

    ``with_copies``: also the copies, which cost nothing. Nothing is held in memory.
    """
    one = CostReportBuilder(opened, (), since, until, project, model, session, named)
    return one.responses(prices or price_list(), with_copies=with_copies)


def _priced_response(row: ResponseRow, log: UsageLog, prices: PriceList) -> PricedResponse:
    tokens = Tokens(*row.counts)
    pico, missing = prices.cost(row.model or "", row.quarter, row.variant, row.counts)
    return PricedResponse(
        message_id=row.message,
        request_id=row.request,
        session=_known(log.session),
        agent=None if log.agent == MAIN_AGENT else log.agent,
        project=_known(log.project),
        branch=row.branch,
        model=row.model,
        tool=row.tool,
        at=moment_of(row.at),
        tokens=tokens,
        pico_usd=pico if row.is_counted and (pico or missing is None) else None,
        is_uncertain=bool(row.variant & UNCERTAIN),
        is_deleted=log.is_gone,
        path=log.path,
        is_counted=row.is_counted,
    )


def _known(name: str) -> str | None:
    return None if name == UNKNOWN else name


RECENT_DAYS = 30


class RecentCosts(Struct, frozen=True):
    """Exact dollars of the last days; null where no usage was recorded; ``all_time`` also while old logs are read for the first time.

    What ``unpriced`` models used is in none of them; ``unrecorded_sessions`` are of other agents, in all: what they cost is unknown.
    ``previous_7_days`` are those before ``last_7_days``; ``top_project`` is the directory that cost most in the last seven.
    """

    today: Usd | None
    last_7_days: Usd | None
    previous_7_days: Usd | None
    top_project: str | None
    top_project_usd: Usd | None
    last_30_days: Usd | None
    all_time: Usd | None
    unpriced: tuple[str, ...]
    uncertain: int
    unrecorded_sessions: int


def recent_costs(opened: OpenIndex, now: dt.datetime) -> RecentCosts:
    """Add up the last thirty days."""
    today = now.astimezone().date()
    first = dt.datetime.combine(today - dt.timedelta(days=RECENT_DAYS - 1), dt.time.min).astimezone()
    report, whole = (
        costs(["day", "project"], opened=opened, since=first, now=now),
        costs(opened=opened, now=now),
    )

    def rows(days: int, before: int = 0) -> list[CostRow]:
        start, end = (today - dt.timedelta(days=many) for many in (before + days - 1, before))
        return [row for row in report.rows if start.isoformat() <= row.keys["day"] <= end.isoformat()]

    def since(days: int, before: int = 0) -> Usd | None:
        return None if whole.is_unknown else usd(sum(row.pico_usd for row in rows(days, before)))

    spent = Counter[str]()
    for row in rows(7):
        spent[row.keys["project"]] += row.pico_usd
    (project, most), *_ = [*spent.most_common(1), (UNKNOWN, 0)]
    return RecentCosts(
        since(1),
        since(7),
        since(7, before=7),
        _known(project) if most else None,
        usd(most) if most and project != UNKNOWN else None,
        since(RECENT_DAYS),
        None if opened.coverage or whole.is_unknown else usd(whole.totals.pico_usd),
        tuple(one.model for one in report.unpriced),
        report.uncertain_responses,
        len(whole.unrecorded_sessions),
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
    """What a zone's clock shows, as seconds east of UTC at a moment. A time no clock can show counts as UTC: one made-up line must not
    end the report."""
    zone = zone_of(timezone)

    def offset(at: int) -> int:
        try:
            if zone is None:
                return time.localtime(at).tm_gmtoff
            east = dt.datetime.fromtimestamp(at, zone).utcoffset()
        except (OverflowError, ValueError, OSError):
            return 0
        return 0 if east is None else int(east.total_seconds())

    return offset


def _milliseconds(moment: dt.datetime | None) -> int | None:
    if moment is not None and moment.tzinfo is None:
        raise UsageError(f"{moment}: a moment without a time zone", hint="give it one, such as datetime.UTC")
    return milliseconds_of(moment)


# --- one report -------------------------------------------------------------------------------------


class CostReportBuilder:
    """The parts of a report, put together step by step."""

    def __init__(  # noqa: PLR0917 - the filters of ``costs``, in their order
        self,
        opened: OpenIndex,
        by: tuple[str, ...],
        since: dt.datetime | None,
        until: dt.datetime | None,
        project: str | Path | None,
        model: str | None,
        session: str | None,
        named: Callable[[str], str] | None,
        notes: Iterable[str] = (),
    ) -> None:
        self._database, self._tables = opened.database, UsageTables(opened.database)
        self._by = by
        self._since, self._until = _milliseconds(since), _milliseconds(until)
        self._files: Collection[int] | None = None
        self._models: Collection[str] | None = None
        self._notes = list(notes)
        if project is not None:
            wanted = ProjectFilter(project)
            self._files = [
                number
                for number, log in self._logs.items()
                if log.project != UNKNOWN and wanted.fits(log.project)
            ]
        if session is not None:
            name = _session_id(session, self._logs.values(), named)
            among = self._logs if self._files is None else self._files
            self._files = [number for number in among if self._logs[number].session == name]
        if model is not None:
            models = self._tables.models()
            self._models = (
                [model]
                if model in models
                else [name for name in models if model.casefold() in name.casefold()]
            )
            if not self._models:
                self._notes.append(f"no response of a model named {model}")

    @functools.cached_property
    def _logs(self) -> dict[int, UsageLog]:
        logs = cost_queries.logs(self._database)
        if "client" in self._by or "tool" in self._by:
            logs = {
                number: structs.replace(log, client=agent_of_log(log.home, log.path))
                for number, log in logs.items()
            }
        return with_repositories(logs) if "repo" in self._by else logs

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
        report = self._added_up(query, asked, self._unrecorded())
        return self._with_versions(report) if explain else report

    def _unrecorded(self) -> tuple[str, ...]:
        """The sessions of other agents that have no usage: what they cost is unknown, which is not 0."""
        chosen = None if self._files is None else set(self._files)
        logs = unrecorded_logs(self._database, chosen)
        unknown = {log.session for log in logs if log.may_be_within(self._since, self._until)}
        if unknown:
            what = "1 session" if len(unknown) == 1 else f"{len(unknown):,} sessions"
            self._notes.append(f"no usage recorded in {what} of other agents: cost unknown")
        return tuple(sorted(unknown))

    def responses(self, prices: PriceList, *, with_copies: bool = False) -> Iterator[PricedResponse]:
        """Every response that was asked for, with its cost, in the order of time."""
        query = UsageQuery(
            Timeline((), lambda _: 0, []),
            frozenset(),
            self._files,
            self._models,
            self._since,
            self._until,
            with_copies=with_copies,
        )
        for row in self._tables.responses(query):
            yield _priced_response(row, self._logs[row.log or 0], prices)

    def _added_up(self, query: UsageQuery, asked: CostQuery, unrecorded: tuple[str, ...]) -> CostReport:
        logs = self._logs if "file" in query.columns else {}
        records, rests = self._records(asked) if asked.mode != "calculate" or asked.is_explained else ((), ())
        gone = cost_queries.gone(self._database, self._files, self._since, self._until)
        accounts = CostAggregator(asked, logs, records, rests)
        sums = self._by_prompt(query) if "prompt" in self._by else self._tables.sums(query)
        report = accounts.report(sums, gone=gone, notes=tuple(self._notes), unrecorded_sessions=unrecorded)
        if accounts.has_gap and not query.is_granular:
            return self._added_up(structs.replace(query, is_granular=True), asked, unrecorded)
        return report

    def _by_prompt(self, query: UsageQuery) -> Iterator[UsageGroup]:
        """Each response for itself, with its prompt."""
        prompts = PromptTimes(self._database)
        for row in self._tables.responses(query):
            session = self._logs[row.log or 0].session
            yield structs.replace(row, prompt=prompts.at(session, row.at))

    def _timeline(self, offset: Offset, prices: PriceList, now: int) -> tuple[Timeline, int | None]:
        database, by = self._database, self._by
        days = cost_queries.days(database) if {"day", "week", "month"} & set(by) else []
        changes = prices.changes(self._tables.models())
        if "block" not in by:
            return Timeline(by, offset, days, changes=changes), None

        quarters = [quarter for quarter in cost_queries.quarters(database) if quarter != NO_TIME]
        found = blocks(quarters)
        first = next((at for at in quarters if found[-1][0] <= at and now // QUARTER_MS < found[-1][1]), None)
        active_since = None if first is None else cost_queries.first_at(database, first)
        return Timeline(by, offset, days, found, changes), active_since

    def _records(self, asked: CostQuery) -> tuple[list[RecordedCost], list[RecordedCost]]:
        """The clients' totals of what was asked for, and what they add to the logs of their sessions."""
        times = {}
        records = []
        for at, record in self._tables.records():
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

        return rests(records, self._tables.copies(paths), owners, prices) if records else []

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
        versions = self._tables.uncertain_versions()
        named = {model or "(no model)": found for model, found in versions.items()}
        explained = tuple(
            structs.replace(one, versions=named.get(one.model) or UNSET) for one in report.uncertain
        )
        return structs.replace(report, uncertain=explained)


def _check(by: Sequence[str], mode: str, *, is_detailed: bool) -> None:
    if TOTAL in by:
        raise UsageError(f"by {','.join(by)}: total is one row for everything", hint="name it alone")
    for key in by:
        if key not in KEYS:
            raise UsageError(f"by {key!a}: unknown", hint=f"one of {', '.join((*KEYS, TOTAL))}")
        if by.count(key) > 1:
            raise UsageError(f"by {','.join(by)}: {key} is given twice", hint="name each key once")
    if mode not in MODES:
        raise UsageError(f"mode {mode!a}: not known", hint=f"the modes are {', '.join(MODES)}")
    if "prompt" in by and (mode != "calculate" or is_detailed):
        raise UsageError(
            "by prompt: only tokens times price are known of a prompt",
            hint="leave out --mode, --explain and --performance",
        )


def with_repositories(logs: dict[int, UsageLog]) -> dict[int, UsageLog]:
    """The same logs, each with the repository of its session."""
    finder = RepositoryFinder()
    mains = {log.session: log for log in logs.values() if log.agent == MAIN_AGENT}
    found: dict[str, str] = {}
    for log in logs.values():
        if log.session not in found:
            main = mains.get(log.session, log)
            cwd = "" if main.project == UNKNOWN else main.project
            origins = None if main.origins is None else main.origins.splitlines()
            found[log.session] = finder.of(cwd, main.path, origins) or UNKNOWN
    return {
        number: structs.replace(log, repo=found[log.session] if log.session != UNKNOWN else log.project)
        for number, log in logs.items()
    }


# --- names ------------------------------------------------------------------------------------------


def _session_id(name: str, logs: Collection[UsageLog], named: Callable[[str], str] | None) -> str:
    ids = {log.session for log in logs if log.session != UNKNOWN}
    if name in ids:
        return name
    found = sorted(known for known in ids if name and known.startswith(name))
    if len(found) == 1:
        return found[0]
    if found:
        raise Ambiguous("session", name, tuple(found))
    if named is None:
        raise NotFound(f"session {name!r}: not found", hint="`recollect list` shows what there is")
    return named(name)
