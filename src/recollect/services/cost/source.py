"""Where a cost report gets its sums: the index; ``scan`` gives the same answers from the logs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from recollect.index import cost_queries
from recollect.index.cost_queries import UnusedLog, UsageLogRow, UsageRowFilter, UsageSumRow
from recollect.index.database import IndexDatabase
from recollect.model.cost.calendar import NO_TIME, QUARTER_MS, Timeline
from recollect.model.cost.prices import UNCERTAIN
from recollect.model.cost.report import UsageGroup

# What a sum by day does not need is imported by those that do: every cost report begins here.
if TYPE_CHECKING:
    from recollect.index.response_queries import CountedResponseRow
    from recollect.model.cost.reconcile import LoggedCopy, RecordedCost, TokenCounts


class UsageQuery(Struct, frozen=True):
    """Which sums are wanted. Times are milliseconds, ``since`` included and ``until`` not.

    ``columns``: what sums are told apart by besides time, model and variant (file, branch, tool).
    ``is_granular``: sums of responses that use the same classes of tokens and are all recorded or all not.
    """

    timeline: Timeline
    columns: frozenset[str] = frozenset()
    files: Collection[int] | None = None
    models: Collection[str] | None = None
    since: int | None = None
    until: int | None = None
    is_granular: bool = False
    with_copies: bool = False
    with_durations: bool = False


class UsageSource(Protocol):
    """Counted usage, and what is known of the logs it came from. ``notes``: what could not be read."""

    notes: list[str]

    def log_rows(self) -> list[UsageLogRow]:
        """All logs."""

    def models(self) -> set[str]:
        """The models that were used."""

    def unused_logs(self) -> list[UnusedLog]:
        """The logs of sessions without any usage."""

    def days(self) -> list[int]:
        """The UTC days with usage, numbered since 1970."""

    def quarters(self) -> list[int]:
        """The quarters with usage, in order."""

    def first_at(self, quarter: int) -> int | None:
        """The time of the first response in a quarter."""

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        """Sums of usage."""

    def responses(self, query: UsageQuery) -> Iterator[CountedResponseRow]:
        """Every response that counts, in the order of time; with the query's ``with_copies`` every copy too."""

    def records(self) -> list[tuple[int | None, RecordedCost]]:
        """The clients' own running totals, each with its time."""

    def copies(self, logs: Mapping[int, str]) -> list[LoggedCopy]:
        """What some logs say of responses, counted or not. ``logs``: their paths by number."""

    def gone(self, files: Collection[int] | None, since: int | None, until: int | None) -> int:
        """How many deleted sessions are in the sums."""

    def uncertain_versions(self) -> Mapping[str | None, tuple[str, ...]]:
        """By model, the client versions whose counts are uncertain."""


def quarter_of(at: int | None) -> int:
    """The quarter of a time in milliseconds."""
    return NO_TIME if at is None else at // QUARTER_MS


class IndexUsageSource:
    """Usage as the index has it."""

    def __init__(self, database: IndexDatabase) -> None:
        self._db = database
        self._names = cost_queries.names(database)
        self.notes: list[str] = []

    def log_rows(self) -> list[UsageLogRow]:
        """All logs."""
        return cost_queries.logs(self._db)

    def models(self) -> set[str]:
        """The models that were used."""
        return {self._names[number] for number in cost_queries.models(self._db) if number in self._names}

    def unused_logs(self) -> list[UnusedLog]:
        """The logs of sessions without any usage."""
        return cost_queries.unused_logs(self._db)

    def days(self) -> list[int]:
        """The UTC days with usage."""
        return cost_queries.days(self._db)

    def quarters(self) -> list[int]:
        """The quarters with usage, in order."""
        return cost_queries.quarters(self._db)

    def first_at(self, quarter: int) -> int | None:
        """The time of the first response in a quarter."""
        return cost_queries.first_at(self._db, quarter)

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        """Sums of usage, from the table that is just fine enough."""
        wanted = UsageRowFilter(query.columns, query.files, self._numbers(query.models))
        if query.is_granular or query.with_copies or query.with_durations or "tool" in query.columns:
            rows = cost_queries.spoken(
                self._db,
                wanted,
                since=query.since,
                until=query.until,
                spans=query.timeline.spans(),
                is_granular=query.is_granular,
                with_copies=query.with_copies,
                with_durations=query.with_durations,
            )
        else:
            rows = self._rolled(query, wanted)
        name = self._names.get
        return [
            UsageGroup(quarter, log, name(model), name(branch), name(tool), *rest)  # type: ignore[arg-type]  # no prompt
            for quarter, log, model, branch, tool, *rest in rows
        ]

    def responses(self, query: UsageQuery) -> Iterator[CountedResponseRow]:
        """Every response that counts, one at a time."""
        from recollect.index.response_queries import counted_responses

        return counted_responses(
            self._db,
            files=query.files,
            models=self._numbers(query.models),
            since=query.since,
            until=query.until,
            with_copies=query.with_copies,
        )

    def _rolled(self, query: UsageQuery, wanted: UsageRowFilter) -> list[UsageSumRow]:
        """Whole quarters from the sums that are kept; the parts of quarters at the bounds, row by row."""
        since, until = query.since, query.until
        first = None if since is None else -(-since // QUARTER_MS)
        end = None if until is None else until // QUARTER_MS
        rows = cost_queries.rolled(self._db, query.timeline.spans(first, end), wanted)
        for quarter in sorted(
            {bound // QUARTER_MS for bound in (since, until) if bound is not None and bound % QUARTER_MS}
        ):
            start, stop = quarter * QUARTER_MS, (quarter + 1) * QUARTER_MS
            part_since = start if since is None else max(start, since)
            part_until = stop if until is None else min(stop, until)
            rows += cost_queries.spoken(
                self._db,
                wanted,
                since=part_since,
                until=part_until,
                is_granular=False,
                within_quarter=quarter,
            )
        return rows

    def records(self) -> list[tuple[int | None, RecordedCost]]:
        """The clients' own running totals."""
        from recollect.model.cost.reconcile import RecordedCost

        return [
            (
                at,
                RecordedCost(
                    quarter_of(at),
                    log,
                    self._names.get(model),
                    pico,
                    counts=cast("TokenCounts", tuple(counts)),
                    started=started,
                ),
            )
            for log, at, started, model, pico, *counts in cost_queries.cost_states(self._db)
        ]

    def copies(self, logs: Mapping[int, str]) -> list[LoggedCopy]:
        """What some logs say of responses."""
        from recollect.model.cost.copies import ResponseCopy
        from recollect.model.cost.reconcile import LoggedCopy

        return [
            LoggedCopy(
                log,
                message,
                ResponseCopy(request, speaker, output, bool(stop), at, bool(forked), logs[log]),
                self._names.get(model),
                variant,
                cast("TokenCounts", tuple(counts)),
            )
            for log, message, request, speaker, output, stop, at, forked, model, variant, *counts in (
                cost_queries.logged_copies(self._db, logs)
            )
        ]

    def gone(self, files: Collection[int] | None, since: int | None, until: int | None) -> int:
        """How many deleted sessions are in the sums."""
        return cost_queries.gone(self._db, files, since, until)

    def uncertain_versions(self) -> Mapping[str | None, tuple[str, ...]]:
        """By model, the client versions whose counts are uncertain."""
        found: dict[str | None, set[str]] = {}
        for model, version in cost_queries.uncertain_versions(self._db, UNCERTAIN):
            found.setdefault(self._names.get(model), set()).add(self._names.get(version, "(none)"))
        return {model: tuple(sorted(versions)) for model, versions in found.items()}

    def _numbers(self, models: Collection[str] | None) -> list[int] | None:
        return None if models is None else [number for number, name in self._names.items() if name in models]
