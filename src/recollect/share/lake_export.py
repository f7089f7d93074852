"""Write a home as a lake: Parquet files of its responses, messages, tool calls and sessions, by day.

A second run reads the logs that changed and writes the files of the days whose rows changed, so after one more line it is one
small file for each table that the line is in. Which copy of a response counts, and what it cost, are the answers of the
cost report (``ask.cost``), so the sum of ``responses.usd`` is its total: with an index, deleted sessions included.
A log that was rewritten is read whole again; the messages and calls of a deleted one go, its responses stay as far as the
cost report keeps them.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from recollect.ask.cost.report import costs, responses
from recollect.ask.data.log_rows import LakeTask, LogRows, joined, lake_job
from recollect.ask.data.query import (
    FILE_NAME,
    PART,
    Day,
    LakeFile,
    LakeFiles,
    LakeLog,
    LakeManifest,
    by_day,
    day_name,
    file_of,
    shaped,
)
from recollect.ask.homes import Homes
from recollect.ask.secrets.redactor import Redactor
from recollect.ask.sessions.home_guard import refuse_agent_home
from recollect.ask.tables import (
    MESSAGES,
    RESPONSES,
    SESSIONS,
    TOOL_CALLS,
    VERSION,
    LakeTable,
    arrow_array,
    pyarrow,
    response_columns,
    session_columns,
    table_of,
)
from recollect.errors import UsageError
from recollect.index.access import OpenIndex, index_path, open_index
from recollect.store.home_walk import FoundLog, scan_logs
from recollect.store.logs.summary import glance
from recollect.system import fsops
from recollect.system.lock import FileLock
from recollect.system.pool import ProgressCallback, WorkerPool, bundles, cores, largest_first

_WORTH_A_PROCESS = 24 << 20
_BUNDLE = 4 << 20
_BY_LOG = (MESSAGES, TOOL_CALLS)
_LOCK = ".lock"


class LakeSize(Struct, frozen=True):
    """What a table of the lake holds now."""

    rows: int
    bytes: int


class LakeReport(Struct, frozen=True, kw_only=True):
    """What an export did. ``written`` and ``removed`` are files below ``output``."""

    format: str = "parquet"
    output: Path
    schema_version: int = VERSION
    with_text: bool
    tables: dict[str, LakeSize]
    written: list[str]
    removed: list[str]
    logs: int
    logs_read: int
    notes: list[str]


def lake_directory(home: Homes, data: Path) -> Path:
    """Where the lake of a set of homes is, unless another place was named."""
    # Named as the index of the same homes: another set of homes is another lake.
    name = index_path([one.root for one in home.homes]).stem.rpartition("-")[2]
    return data / "lake" / name


def export_lake(
    home: Homes,
    directory: Path,
    *,
    data: Path,
    with_text: bool = False,
    progress: ProgressCallback | None = None,
) -> LakeReport:
    """Bring a lake up to date with the homes. ``with_text`` adds texts, without the secrets in them."""
    pyarrow("export --format parquet")
    refuse_agent_home(directory, "--to DIR")
    files = LakeFiles(directory)
    before = files.manifest()
    roots = [one.root for one in home.homes]
    names = sorted(map(str, roots))
    if before is not None and before.homes != names:
        raise UsageError(
            f"{directory}: is the lake of {', '.join(before.homes) or 'no home'}",
            hint="name another directory with --to",
        )
    fsops.make_directories(directory)
    with (
        FileLock(directory / _LOCK, 60.0, guards=directory),
        open_index(roots, cache=home.index_cache) as opened,
    ):
        return _LakeExport(home, files, opened, data, with_text=with_text).run(names, progress)


class _LakeExport:
    """One run, under the lock."""

    def __init__(
        self, home: Homes, files: LakeFiles, opened: OpenIndex, data: Path, *, with_text: bool
    ) -> None:
        self._home, self._files, self._opened, self._data = home, files, opened, data
        self._with_text = with_text
        self._roots = [one.root for one in home.homes]
        self._notes = list(opened.notes)

    def run(self, homes: list[str], progress: ProgressCallback | None) -> LakeReport:
        files, before = self._files, self._files.manifest() or LakeManifest(with_text=self._with_text)
        unknown = files.unknown(before.files)
        # What a run wrote that was cut short: to be written again, or removed.
        before.files |= {name: LakeFile(0, -1, "") for name in unknown if FILE_NAME.fullmatch(name)}
        if strangers := [name for name in unknown if name not in before.files]:
            raise UsageError(
                f"{files.directory}: recollect did not write {strangers[0]}, and engines would count its rows too",
                hint="move it away, or name another directory with --to",
            )
        problems: list[tuple[str, str]] = []
        logs = [log for root in self._roots for log in scan_logs(root, problems) if log.role != "tool-output"]
        self._notes += [f"could not be read: {path}: {why}" for path, why in problems]
        broken = [name for name, known in before.files.items() if not files.is_whole(name, known)]
        changed = self._changed(logs, before, broken)
        after = LakeManifest(VERSION, self._with_text, homes, dict(before.files), {})
        rows, states = self._read(changed, progress)
        kept = {log.path: before.logs[log.path] for log in logs if log.path not in states}
        after.logs = kept | states
        self._mark(before, after, states)
        touched = _days(before, set(before.logs) - set(kept)) | _days(after, set(states)) | _days_of(broken)
        for table in _BY_LOG:
            self._merge(table, rows.get(table.name), touched, set(kept), after)
        self._replace_all(RESPONSES, self._responses(), after)
        self._replace_all(SESSIONS, self._sessions(after), after)
        files.save(after)
        return self._report(after, len(logs), len(changed))

    def _changed(self, logs: Sequence[FoundLog], before: LakeManifest, broken: list[str]) -> list[FoundLog]:
        """The logs to read: new, changed, or with rows in a file that is missing or was altered."""
        if before.with_text != self._with_text or before.version != VERSION:
            return list(logs)
        days = _days_of(name for name in broken if name.startswith(tuple(one.name for one in _BY_LOG)))

        def is_known(log: FoundLog) -> bool:
            known = before.logs.get(log.path)
            state = (log.device, log.inode, log.size, log.mtime_ns)
            return (
                known is not None
                and state == (known.device, known.inode, known.size, known.mtime_ns)
                and not days.intersection(map(day_name, known.days))
            )

        return [log for log in logs if not is_known(log)]

    def _mark(self, before: LakeManifest, after: LakeManifest, states: dict[str, LakeLog]) -> None:
        """Write down what is about to change: a run that is cut short leaves no row that the next one overlooks."""
        marked = dict(before.logs)
        for path, state in states.items():
            known = before.logs.get(path)
            days = list(dict.fromkeys([*(known.days if known else []), *state.days]))
            marked[path] = LakeLog(0, 0, -1, 0, days)
        self._files.save(LakeManifest(VERSION, self._with_text, after.homes, before.files, marked))

    # --- messages and tool calls ----------------------------------------------------------------

    def _read(
        self, logs: Sequence[FoundLog], progress: ProgressCallback | None
    ) -> tuple[dict[str, Any], dict[str, LakeLog]]:
        """The rows of some logs as Arrow tables, and the logs as they were read."""
        sizes = [log.size for log in logs]
        shares = list(bundles(largest_first(sizes), [size + 40_000 for size in sizes], _BUNDLE))
        count = min(cores(), 1 + sum(sizes) // _WORTH_A_PROCESS)
        setup = str(self._data) if self._with_text else None
        pool = WorkerPool(lake_job, setup, processes=count if count > 1 else 0)
        tasks = [
            [tuple(LakeTask(logs[at].path, logs[at].session, logs[at].agent)) for at in share]
            for share in shares
        ]
        built: dict[str, list[Any]] = {table.name: [] for table in _BY_LOG}
        states: dict[str, LakeLog] = {}
        done = 0
        for place, answers in pool.answers(tasks):
            placed = [(logs[at], LogRows(*one)) for at, one in zip(shares[place], answers, strict=True)]
            for log, one in placed:
                if one.problem is not None:
                    self._notes.append(f"could not be read: {one.problem}")
                rows = {table: one.table(table, log.path, with_text=self._with_text) for table in _BY_LOG}
                days = sorted(set().union(*map(_days_in, _BY_LOG, rows.values())), key=_order)
                states[log.path] = LakeLog(
                    log.device, log.inode, log.size, log.mtime_ns, days, one.session, one.agents
                )
                for table, part in rows.items():
                    built[table.name].append(part)
                done += log.size
            if progress is not None:
                progress(done, sum(sizes))
        return {
            table.name: joined(table, built[table.name], with_text=self._with_text) for table in _BY_LOG
        }, states

    def _merge(
        self, table: LakeTable, rows: Any, touched: set[str], kept: set[str], after: LakeManifest
    ) -> None:
        """The files of the days that changed: rows of logs that stayed, and the rows that were read."""
        arrow = pyarrow("export")
        new = {day_name(day): (day, part) for day, part in by_day(table, rows)}
        for name in sorted(touched | set(new)):
            file = f"{table.name}/{name}/{PART}"
            text = name.partition("=")[2]
            named = None if text.startswith("_") else (dt.date.fromisoformat(text) - dt.date(1970, 1, 1)).days
            day, part = new.get(name, (named, rows.slice(0, 0)))
            old = self._files.read(table, day, with_text=self._with_text)
            if old is not None:
                compute = arrow.compute
                stayed = old.filter(
                    compute.is_in(old.column("path"), value_set=arrow.array(sorted(kept), arrow.string()))
                )
                if not part.num_rows and stayed.num_rows == old.num_rows:
                    continue
                part = arrow.concat_tables([stayed, part])
                part = part.sort_by([(column, "ascending") for column in table.order]).combine_chunks()
            self._put(table, day, part, file, after)

    # --- responses and sessions -----------------------------------------------------------------

    def _responses(self) -> Any:
        rows = table_of(responses(opened=self._opened, with_copies=True), response_columns())
        return shaped(rows, RESPONSES, with_text=self._with_text)

    def _sessions(self, after: LakeManifest) -> Any:

        report = costs(("session",), opened=self._opened)
        agents: Counter[str | None] = Counter()
        for log in after.logs.values():
            agents[log.session] += log.agents
        columns = session_columns(
            report,
            lambda session: agents[session.id],
            lambda session: glance(session.path),
        )
        table = table_of(iter(self._home.sessions()), columns)
        if not self._with_text:
            return table.drop_columns(["title"])
        redactor = Redactor(self._data)
        titles = [None if one is None else redactor.text(one) for one in table.column("title").to_pylist()]
        place = table.column_names.index("title")
        return table.set_column(place, "title", arrow_array(titles, table.schema.field(place).type))

    def _replace_all(self, table: LakeTable, rows: Any, after: LakeManifest) -> None:
        there = {file_of(table, day): (day, part) for day, part in by_day(table, rows)}
        gone = [name for name in after.files if name.startswith(f"{table.name}/") and name not in there]
        for name, (day, part) in there.items():
            self._put(table, day, part, name, after)
        for name in gone:
            self._files.remove(name)
            del after.files[name]

    def _put(self, table: LakeTable, day: Day, rows: Any, name: str, after: LakeManifest) -> None:
        if rows.num_rows:
            after.files[name] = self._files.replace(table, day, rows, after.files.get(name))
        elif name in after.files:
            self._files.remove(name)
            del after.files[name]

    def _report(self, after: LakeManifest, logs: int, read: int) -> LakeReport:
        tables = {}
        for table in (RESPONSES, MESSAGES, TOOL_CALLS, SESSIONS):
            own = [one for file, one in after.files.items() if file.startswith(f"{table.name}/")]
            tables[table.name] = LakeSize(sum(one.rows for one in own), sum(one.bytes for one in own))
        return LakeReport(
            output=self._files.directory,
            with_text=self._with_text,
            tables=tables,
            written=self._files.written,
            removed=self._files.removed,
            logs=logs,
            logs_read=read,
            notes=self._notes,
        )


def _days_in(table: LakeTable, rows: Any) -> set[Day]:
    times = rows.column(table.day_of).cast(pyarrow("export").int64()).unique().to_pylist()
    return {None if at is None else at // 86_400_000_000 for at in times}


def _order(day: Day) -> int:
    return -1 if day is None else day


def _days(manifest: LakeManifest, paths: set[str]) -> set[str]:
    """The partitions in which some logs have rows."""
    return {day_name(day) for path in paths if path in manifest.logs for day in manifest.logs[path].days}


def _days_of(files: Any) -> set[str]:
    return {name.split("/")[1] for name in files}
