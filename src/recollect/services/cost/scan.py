"""Usage straight from the logs, in two or more processes: for ``--no-index``, and where none can be written.

Every log is read whole by ``scan_worker``, here and in other processes. What they find comes together here, where
``model.cost.copies`` decides which copy of a response counts: the same rows the index has, and the same answers to
the same questions (``source.Source``).

A scan knows only what is there: sessions that were deleted and are not in the archive are not in it.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from msgspec import structs

from recollect.errors import RecollectError
from recollect.index.cost_queries import UnusedLog, UsageLogRow
from recollect.index.response_queries import CountedResponseRow
from recollect.model.cost.calendar import NO_TIME, QUARTER_MS, QUARTERS_A_DAY
from recollect.model.cost.copies import ResponseCopy, counted
from recollect.model.cost.prices import UNCERTAIN
from recollect.model.cost.reconcile import LoggedCopy, RecordedCost, TokenCounts
from recollect.model.cost.report import UsageGroup
from recollect.model.moments import milliseconds_of
from recollect.services.cost.scan_worker import LogUsage, UsageTask, usage_job
from recollect.services.cost.source import UsageQuery, quarter_of
from recollect.services.cost.usage_tuples import UsageTuple
from recollect.storage.home_walk import FoundLog, scan_logs
from recollect.system.pool import WorkerPool, bundles, cores, largest_first
from recollect.system.progress import ProgressCallback
from recollect.system.unwatched import unwatched

# Below this, starting another process takes longer than reading here.
_WORTH_A_PROCESS = 24 << 20
# What a process is given at once: enough that handing it out costs next to nothing. The last ones are an eighth of
# it, so that all are done at about the same time: a process has some of them before it needs them.
_BUNDLE = 4 << 20
_LAST = 4 * _BUNDLE

# Messages, six counts, recorded, unrecorded, lines, and three for what is timed: as ``UsageGroup`` has them.
_LINES = 9
_NOTHING = itertools.repeat(None)

_Key = tuple[int, int | None, str | None, str | None, str | None, int, object]
_UsageOfLog = tuple[int, UsageTuple]  # the number of the log, and what it says of a response


def scan(
    homes: Sequence[Path],
    *,
    archive: Path | None = None,
    with_tools: bool = True,
    with_records: bool = True,
    with_durations: bool = False,
    processes: int | None = None,
    progress: ProgressCallback | None = None,
) -> LogUsageSource:
    """Read all logs of some homes, and what only ``archive`` still has of them.

    What is not asked for is not looked for; what cannot be read is told.
    """
    problems: list[tuple[str, str]] = []
    found = [(home, log) for home in homes for log in scan_logs(home, problems) if log.role != "tool-output"]
    if archive is not None and archive.is_dir():
        from recollect.services.indexing.archived_logs import found_in_archive

        archived = found_in_archive(archive, homes, [log.path for _, log in found])
        found += [(home, log) for home, log in archived if log.role != "tool-output"]
    tasks = [
        UsageTask(log.path, log.session is None, with_tools, with_records, with_durations) for _, log in found
    ]
    with unwatched():
        copies = _Copies(len(found))
        answers = _answers(tasks, [log.size for _, log in found], processes, progress, copies)
        logs = [
            _log_row(number, home, log, answer)
            for number, ((home, log), answer) in enumerate(zip(found, answers, strict=True))
        ]
        notes = [f"could not be read: {path}: {why}" for path, why in problems]
        return LogUsageSource(logs, answers, copies.counted(logs), notes)


def titles_in(logs: Iterable[UsageLogRow], wanted: Collection[str]) -> dict[str, str]:
    """The titles of some sessions by id, read from their logs; a session without one is left out."""
    from recollect.storage.logs.summary import glance

    found: dict[str, str] = {}
    for log in logs:
        if log.session is not None and log.session in wanted and not log.is_agent:
            with contextlib.suppress(RecollectError):  # its usage could not be read either, and that is noted
                if title := glance(Path(log.path)).title:
                    found.setdefault(log.session, title)
    return found


def _times_of(log: str) -> tuple[int | None, int | None]:
    from recollect.storage.logs.summary import glance

    with contextlib.suppress(RecollectError):
        seen = glance(Path(log), deep=False, with_metadata=False)
        return milliseconds_of(seen.first_at), milliseconds_of(seen.last_at)
    return None, None


def _log_row(number: int, home: Path, log: FoundLog, answer: LogUsage) -> UsageLogRow:
    session = log.session or answer.session
    return UsageLogRow(
        number, log.path, os.fspath(home), log.role == "agent", session, log.agent, answer.cwd, False
    )


# --- processes --------------------------------------------------------------------------------------


def _answers(
    tasks: list[UsageTask],
    sizes: list[int],
    processes: int | None,
    progress: ProgressCallback | None,
    copies: _Copies,
) -> list[LogUsage]:
    """What every log says. The caller reads as well: it need not start, and the reading is the work."""
    total, done = sum(sizes), 0
    count = min(cores(), 1 + total // _WORTH_A_PROCESS) if processes is None else processes
    # Opening a log costs about as much as reading so many bytes of it.
    shares = _shares([size + 40_000 for size in sizes])
    # All rows are kept until the end, so nothing is gained by holding a worker up.
    pool = WorkerPool(
        usage_job, processes=count - 1, takes_part=True, ahead=4, waiting=len(shares) * 2 + 1, may_fork=True
    )
    answers: dict[int, LogUsage] = {}
    for place, plain in pool.answers([[tuple(tasks[at]) for at in share] for share in shares]):
        for at, one in zip(shares[place], plain, strict=True):
            answer = answers[at] = LogUsage(*one)
            copies.add(at, answer.rows)
        done += sum(sizes[at] for at in shares[place])
        if progress is not None:
            progress(done, total)
    return [answers[at] for at in range(len(tasks))]


def _shares(sizes: list[int]) -> list[list[int]]:
    """The logs in bundles, the largest first."""
    order, rest = largest_first(sizes), sum(sizes)
    last = 0
    while rest > _LAST:
        rest -= sizes[order[last]]
        last += 1
    return [*bundles(order[:last], sizes, _BUNDLE), *bundles(order[last:], sizes, _BUNDLE // 8)]


# --- answers ----------------------------------------------------------------------------------------


class LogUsageSource:
    """Usage as the logs have it at this moment."""

    def __init__(
        self,
        logs: list[UsageLogRow],
        answers: Sequence[LogUsage],
        rows: tuple[list[_UsageOfLog], list[_UsageOfLog]],
        problems: Iterable[str] = (),
    ) -> None:
        self._logs = logs
        unread = (answer.problem for answer in answers if answer.problem is not None)
        self.notes = [*problems, *(f"could not be read: {problem}" for problem in unread)]
        self._totals = [(number, answer.totals) for number, answer in enumerate(answers) if answer.totals]
        self._answers = answers
        self._rows, self._dropped = rows

    def log_rows(self) -> list[UsageLogRow]:
        """All logs."""
        return self._logs

    def models(self) -> set[str]:
        """The models that were used."""
        return {row[6] for _, row in self._rows if row[6] is not None}

    def unused_logs(self) -> list[UnusedLog]:
        """The logs of sessions without any usage."""
        logs = {number for number, answer in enumerate(self._answers) if answer.rows}
        used = {self._logs[number].session for number in logs}
        return [
            UnusedLog(log.number, log.home, log.path, log.session, *_times_of(log.path))
            for log in self._logs
            if log.session is not None and log.session not in used
        ]

    def days(self) -> list[int]:
        """The UTC days with usage."""
        return sorted({quarter // QUARTERS_A_DAY for quarter in self.quarters()})

    def quarters(self) -> list[int]:
        """The quarters with usage, in order."""
        return sorted({(row[5] or 0) // QUARTER_MS for _, row in self._rows})

    def first_at(self, quarter: int) -> int | None:
        """The time of the first response in a quarter."""
        times = (row[5] for _, row in self._rows if row[5] is not None)
        return min((at for at in times if at // QUARTER_MS == quarter), default=None)

    def sums(self, query: UsageQuery) -> list[UsageGroup]:
        """Sums of usage."""
        found = _summed(self._rows, query).items()
        sums = [UsageGroup(*key[:6], *amounts) for key, amounts in found]  # type: ignore[arg-type]  # no prompt
        if query.with_copies:
            for key, amounts in _summed(self._dropped, query).items():
                nothing = UsageGroup(*key[:6], 0, 0, 0, 0, 0, 0, 0)
                sums.append(structs.replace(nothing, lines=amounts[_LINES]))
        return sums

    def responses(self, query: UsageQuery) -> Iterator[CountedResponseRow]:
        """Every response that counts. All of them are in memory: a scan has to compare them."""
        found = [(*placed, True) for placed in _wanted(self._rows, query)]
        if query.with_copies:
            found += [(*placed, False) for placed in _wanted(self._dropped, query)]
        for number, row, is_counted in sorted(found, key=lambda one: one[1][5] or 0):
            names = (row[6] or None, row[7] or None, row[9] or None)
            yield CountedResponseRow(row[0], row[1], number, row[5], *names, *row[10:17], is_counted)

    def records(self) -> list[tuple[int | None, RecordedCost]]:
        """The clients' own running totals."""
        return [
            (
                at,
                RecordedCost(
                    quarter_of(at),
                    log,
                    model or None,
                    pico,
                    counts=cast("TokenCounts", tuple(counts)),
                    started=started,
                ),
            )
            for log, (at, started, amounts) in self._totals
            for model, pico, *counts in amounts
        ]

    def copies(self, logs: Mapping[int, str]) -> list[LoggedCopy]:
        """What some logs say of responses."""
        return [
            LoggedCopy(log, row[0], _copy(path, row), row[6], row[10], row[11:17])
            for log, path in logs.items()
            for row in self._answers[log].rows
        ]

    def gone(self, files: Collection[int] | None, since: int | None, until: int | None) -> int:
        """None: a scan sees only what is there."""
        return 0

    def uncertain_versions(self) -> Mapping[str | None, tuple[str, ...]]:
        """By model, the client versions whose counts are uncertain."""
        found: dict[str | None, set[str]] = {}
        for _, row in self._rows:
            if row[10] & UNCERTAIN:
                found.setdefault(row[6], set()).add(row[8] or "(none)")
        return {model: tuple(sorted(versions)) for model, versions in found.items()}


class _Copies:
    """The responses of logs as they are read, and which of them other logs have too."""

    def __init__(self, count: int) -> None:
        self._rows: list[list[_UsageOfLog | None]] = [[] for _ in range(count)]
        self._places: dict[str, tuple[list[_UsageOfLog | None], int]] = {}
        self._several: dict[str, list[_UsageOfLog]] = {}

    def add(self, number: int, rows: Sequence[UsageTuple]) -> None:
        """What one log says. At once, while it is in the processor's cache: looking later takes twice as long."""
        found, places = self._rows[number], self._places
        for row in rows:
            here, message = (found, len(found)), row[0]
            if message is None or places.setdefault(message, here) is here:
                found.append((number, row))
            else:
                self._add_copy(message, (number, row))

    def _add_copy(self, message: str, copy: _UsageOfLog) -> None:
        rows, place = self._places[message]
        first, rows[place] = rows[place], None
        copies = self._several.setdefault(message, [])
        copies += [copy] if first is None else [first, copy]

    def counted(self, logs: Sequence[UsageLogRow]) -> tuple[list[_UsageOfLog], list[_UsageOfLog]]:
        """The rows that count, and the copies that do not; in whatever order the logs were read, in the same one."""
        kept = [one for rows in self._rows for one in rows if one is not None]
        dropped: list[_UsageOfLog] = []
        for _, copies in sorted(self._several.items()):
            copies.sort(key=itemgetter(0))
            winners = dict(counted([_copy(logs[number].path, row) for number, row in copies]))
            for place, (number, row) in enumerate(copies):
                if place in winners:
                    kept.append((number, _with_amounts(row, copies[winners[place]][1])))
                else:
                    dropped.append((number, row))
        return kept, dropped


def _copy(path: str, row: UsageTuple) -> ResponseCopy:
    return ResponseCopy(row[1], row[2], row[12], row[3], row[5] or 0, row[4], path)


def _with_amounts(row: UsageTuple, other: UsageTuple) -> UsageTuple:
    """A response as one copy has it, with the counts, the model and the record of another."""
    if other is row:
        return row
    return (*row[:6], other[6], row[7], other[8], row[9], *other[10:18], *row[18:])


def _summed(rows: Iterable[_UsageOfLog], query: UsageQuery) -> dict[_Key, list[int]]:
    """Rows added up by what the query tells apart."""
    sums: dict[_Key, list[int]] = {}
    for (start, number, model, branch, tool, kind, classes), group in _groups(rows, query).items():
        # An empty name is none.
        key: _Key = (start, number, model or None, branch or None, tool or None, kind, classes)
        amounts, known = _amounts(group), sums.get(key)
        sums[key] = amounts if known is None else [*map(operator.add, known, amounts)]
    return sums


def _groups(rows: Iterable[_UsageOfLog], query: UsageQuery) -> dict[_Key, list[UsageTuple]]:
    """Rows that belong to one sum. Column by column: there is a row for every response of a home."""
    placed = [*_wanted(rows, query)]
    found = [row for _, row in placed]
    quarters = [(row[5] or 0) // QUARTER_MS for row in found]
    starts = {quarter: query.timeline.start(quarter) for quarter in {*quarters}}
    columns = query.columns
    keys: Iterator[Any] = zip(
        map(starts.__getitem__, quarters),
        [number for number, _ in placed] if "file" in columns else _NOTHING,
        map(itemgetter(6), found),
        map(itemgetter(7), found) if "branch" in columns else _NOTHING,
        map(itemgetter(9), found) if "tool" in columns else _NOTHING,
        map(itemgetter(10), found),
        [(row[17] is None, *map(bool, row[11:17])) for row in found] if query.is_granular else _NOTHING,
        strict=False,
    )
    groups: defaultdict[_Key, list[UsageTuple]] = defaultdict(list)
    for key, row in zip(keys, found, strict=True):
        groups[key].append(row)
    return groups


def _amounts(group: list[UsageTuple]) -> list[int]:
    columns = [*zip(*group, strict=True)]
    recorded = [pico for pico in columns[17] if pico is not None]
    timed = [
        (took, row[12]) for took, row in zip(columns[18], group, strict=True) if took is not None and took > 0
    ]
    return [
        len(group),
        *map(sum, columns[11:17]),
        sum(recorded),
        len(group) - len(recorded),
        sum(columns[19]),
        len(timed),
        sum(took for took, _ in timed),
        sum(output for _, output in timed),
    ]


def _wanted(rows: Iterable[_UsageOfLog], query: UsageQuery) -> Iterable[_UsageOfLog]:
    if query.files is not None:
        files = set(query.files)
        rows = [placed for placed in rows if placed[0] in files]
    if query.models is not None:
        rows = [placed for placed in rows if placed[1][6] in query.models]
    if query.since is None and query.until is None:
        return rows
    low, high = query.since, query.until
    return [
        (number, row)
        for number, row in rows
        # What has no time is neither before nor after anything.
        if (at := row[5]) is not None
        and at // QUARTER_MS != NO_TIME
        and (low is None or at >= low)
        and (high is None or at < high)
    ]
