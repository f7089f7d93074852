"""Write frames to the tables, and remove logs.

Invariants at every commit: ``files.consumed`` is where the next frame of a log starts; a text row exists
exactly as long as a message refers to it; ``rollup`` is the sum of the counted usage rows; which row is
counted depends on the rows alone, never on their order of arrival (``model.cost.line_usage`` decides).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from recollect.index import catalogue
from recollect.index.calls import CallIngest
from recollect.index.database import IndexDatabase
from recollect.index.frame import Frame, RecordedAmount, ScannedLog, UsageRow
from recollect.index.messages import MessageIngest
from recollect.index.schema import QUARTER_MS, SESSION
from recollect.model.cost.line_usage import BOTH, ResponseCopy, line_rank, marks

_Key = tuple[int, int, int, int, int]
_SUMS = 9  # messages, six counts, recorded, unrecorded


class Rollup:
    """Collected changes to the sums."""

    def __init__(self, database: IndexDatabase) -> None:
        self._db = database
        self._changes: dict[_Key, list[int]] = {}

    def add(self, file: int, row: Sequence[object], sign: int = 1) -> None:
        """Count a usage row of ``file``: at, model, branch, variant, six counts, recorded."""
        at, model, branch, variant, *counts, recorded = row
        key = ((at or 0) // QUARTER_MS, file, model or 0, branch or 0, variant)  # type: ignore[operator]
        sums = self._changes.setdefault(key, [0] * _SUMS)  # type: ignore[arg-type]
        for place, amount in enumerate((1, *counts, recorded or 0, int(recorded is None))):
            sums[place] += sign * amount  # type: ignore[operator]

    def write(self) -> None:
        """Write the collected changes."""
        changes = [(*key, *sums) for key, sums in self._changes.items() if any(sums)]
        self._changes.clear()
        if not changes:
            return
        self._db.connection.executemany(
            "INSERT INTO rollup VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET"
            " messages = messages + excluded.messages, input = input + excluded.input,"
            " output = output + excluded.output, cache_write_5m = cache_write_5m + excluded.cache_write_5m,"
            " cache_write_1h = cache_write_1h + excluded.cache_write_1h,"
            " cache_read = cache_read + excluded.cache_read, web_searches = web_searches + excluded.web_searches,"
            " recorded = recorded + excluded.recorded, unrecorded = unrecorded + excluded.unrecorded",
            changes,
        )
        self._db.connection.executemany(
            "DELETE FROM rollup WHERE quarter = ? AND file = ? AND model = ? AND branch = ? AND variant = ? AND messages = 0",
            [change[:5] for change in changes if change[5] < 0],
        )


_COUNTS = "input, output, cache_write_5m, cache_write_1h, cache_read, web_searches"
# With the plus SQLite need not prepare the statement again for every value, which takes six times as long as its answer.
_BELONGING = f"SELECT file, at, model, branch, variant, {_COUNTS}, recorded FROM copies WHERE response = +? AND counted"  # noqa: S608 - constants
_RESPONSE = "SELECT id FROM responses WHERE message = ?"
_INSERT_USAGE = "INSERT INTO usage VALUES(NULL,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_NO_NAME = 0


class Ingest:
    """Writes to one index. Every method must run inside ``transaction``."""

    def __init__(self, database: IndexDatabase) -> None:
        self._db = database
        self._run = database.connection.execute
        self._many = database.connection.executemany
        self._names: dict[str, int] = {}
        self._next_response = 1
        self._messages = MessageIngest(database)
        self._rollup = Rollup(database)
        self._calls = CallIngest(database, self._name)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. What frames added is in the tables when it ends."""
        with self._db.transaction():
            self._begin()
            yield
            self._messages.write()

    def _begin(self) -> None:
        """Other processes may have written since the last transaction."""
        self._names.clear()
        self._next_response = cast("int", self._db.value("SELECT coalesce(max(id), 0) FROM responses")) + 1
        self._messages.begin()

    # --- logs -----------------------------------------------------------------------------------

    def place_before(self, lines: int, before: int) -> None:
        """The logs that are read next are older than those before: see ``MessageIngest``."""
        self._messages.place_before(lines, before)

    def add_file(self, log: ScannedLog) -> int:
        """Add an unknown log, to be read from its start."""
        self._run(
            "INSERT INTO files(path, home, role, session, agent, device, inode, size, mtime)"
            " VALUES(?,?,?,?,?,?,?,?,?)",
            log._replace(mtime=~log.mtime)[:9],
        )
        return self._db.connection.last_insert_rowid()

    def seen(self, file: int, log: ScannedLog) -> None:
        """Update a log that is about to be read; the position to continue from stays."""
        self._run(
            "UPDATE files SET device = ?, inode = ?, size = ?, mtime = ?, gone = 0, session = coalesce(?, session)"
            " WHERE id = ?",
            (log.device, log.inode, log.size, ~log.mtime, log.session, file),
        )

    def finished(self, file: int, log: ScannedLog) -> None:
        """The log was read to its end. Until then its time is stored as a complement that equals no time."""
        self._run("UPDATE files SET mtime = ? WHERE id = ?", (log.mtime, file))

    def moved(self, file: int, log: ScannedLog) -> None:
        """The log has a new path. The path decides between equal copies, so they are counted again."""
        self._run(
            "UPDATE files SET path = ?, home = ?, role = ?, session = coalesce(?, session),"
            " agent = coalesce(?, agent), gone = 0 WHERE id = ?",
            (log.path, log.home, log.role, log.session, log.agent, file),
        )
        self._settle(self._uncounted_of(file))
        self._rollup.write()
        self._calls.moved(file)

    def forget(self, file: int, *, keep_usage: bool = False) -> None:
        """Remove what was read from a log; the log stays listed and is read from its start.

        With ``keep_usage`` only its words go: a deleted log still has its cost.
        """
        self._messages.forget(file)
        catalogue.forget(self._db, file)
        if keep_usage:
            self._run("UPDATE files SET gone = 1 WHERE id = ?", (file,))
            return
        self._calls.forget(file)
        touched = self._uncounted_of(file)
        self._run("DELETE FROM usage WHERE file = ?", (file,))
        self._run("DELETE FROM cost_states WHERE file = ?", (file,))
        self._settle(touched)
        self._many(
            "DELETE FROM responses WHERE id = ?"
            " AND NOT EXISTS (SELECT 1 FROM usage WHERE usage.response = responses.id)",
            ((response,) for response in touched),
        )
        self._rollup.write()
        self._run(
            "UPDATE files SET consumed = 0, head = NULL, tail = NULL, first_at = NULL, last_at = NULL,"
            " messages = 0, damaged = 0, cwd = NULL, branch = NULL, is_warm_up = NULL, origins = NULL, traits = 0,"
            " session = CASE role WHEN 1 THEN NULL ELSE session END WHERE id = ?",
            (file,),
        )

    def drop(self, file: int) -> None:
        """Remove a log completely."""
        self.forget(file)
        self._run("DELETE FROM files WHERE id = ?", (file,))

    # --- frames ---------------------------------------------------------------------------------

    def apply(self, file: int, frame: Frame) -> bool:
        """Add a frame. False if another process has read the log further, or again, in the meantime."""
        known = self._db.rows("SELECT consumed, role FROM files WHERE id = ?", file)
        if not known or known[0][0] != frame.start:
            return False
        if known[0][1] == SESSION:
            catalogue.add(self._db, file, frame)
        catalogue.add_damage(self._db, file, frame)
        self._messages.add(file, frame.messages)
        self._add_usage(file, frame.usage)
        if frame.cost_state is not None:
            self._replace_cost_state(file, *frame.cost_state)
        self._run(
            "UPDATE files SET consumed = ?1, tail = ?2, head = coalesce(head, ?3),"
            " first_at = coalesce(first_at, ?4), last_at = coalesce(?5, last_at),"
            " messages = messages + ?6, damaged = damaged + ?7, cwd = coalesce(cwd, ?8),"
            " branch = coalesce(?9, branch), session = coalesce(session, ?10), agent = coalesce(agent, ?11),"
            " is_warm_up = coalesce(is_warm_up, ?12), origins = coalesce(?13 || char(10) || origins, ?13, origins),"
            " traits = traits | ?14 WHERE id = ?15",
            (
                frame.end,
                frame.tail,
                frame.head or None,
                frame.first_at,
                frame.last_at,
                sum([row[2] is not None for row in frame.messages]),
                sum(frame.damage.values()),
                self._name(frame.cwd) or None,
                self._name(frame.branch) or None,
                frame.session,
                frame.agent,
                frame.is_warm_up,
                frame.origins,
                frame.traits,
                file,
            ),
        )
        # Which of several calls count depends on what their logs are.
        self._calls.add(file, frame.calls, is_first=frame.start == 0)
        return True

    # --- usage ----------------------------------------------------------------------------------

    def _add_usage(self, file: int, rows: Iterable[UsageRow]) -> None:
        responses: list[tuple[int, str | None]] = []
        usage: list[tuple[object, ...]] = []
        in_frame: dict[str, int] = {}
        again: list[tuple[int, UsageRow]] = []
        for row in rows:
            if row.message is not None:
                known = in_frame.get(row.message) or cast(
                    "int | None", self._db.value(_RESPONSE, row.message)
                )
                if known is not None:
                    again.append((known, row))
                    continue
                in_frame[row.message] = self._next_response
            responses.append((self._next_response, row.message))
            usage.append(self._usage_values(self._next_response, file, row, BOTH))
            self._next_response += 1
        self._many("INSERT INTO responses VALUES(?, ?)", responses)
        self._many(_INSERT_USAGE, usage)
        touched: dict[int, None] = {}
        for response, row in again:
            if response not in touched:
                self._book(response, sign=-1)
                touched[response] = None
            self._merge_usage(response, file, row)
        self._settle(touched)
        self._rollup.write()

    def _usage_values(self, response: int, file: int, row: UsageRow, counted: int) -> tuple[object, ...]:
        """A row of the table; what is counted is added to the sums."""
        model, branch = self._name(row.model), self._name(row.branch)
        if counted:
            self._rollup.add(file, (row.at, model, branch, *row[10:18]))
        return (
            response,
            file,
            row.request,
            counted,
            row.speaker,
            row.has_stop,
            row.forked,
            row.at,
            model,
            branch,
            self._name(row.version),
            self._name(row.tool),
            *row[10:],  # from ``variant`` on, in the order of the table
        )

    def _merge_usage(self, response: int, file: int, row: UsageRow) -> None:
        """More lines of one log and speaker about the same response: the best one counts for all."""
        where = "response = ? AND file = ? AND request = ? AND speaker = ?"
        found = self._db.rows(
            f"SELECT id, speaker, output, has_stop, at, forked, tool, asked, lines FROM usage WHERE {where}",  # noqa: S608 - a constant
            response,
            file,
            row.request,
            row.speaker,
        )
        if not found:
            self._run(_INSERT_USAGE, self._usage_values(response, file, row, 0))
            return
        number, speaker, output, has_stop, at, forked, tool, asked, lines = found[0]
        before = ResponseCopy(row.request, speaker, output, bool(has_stop), at or 0, bool(forked), "")  # type: ignore[arg-type]
        after = ResponseCopy(row.request, row.speaker, row.output, row.has_stop, row.at or 0, row.forked, "")
        # As within a frame: the result must not depend on where frames are cut.
        if line_rank(after) >= line_rank(before):
            self._run("DELETE FROM usage WHERE id = ?", (number,))
            self._run(_INSERT_USAGE, self._usage_values(response, file, row, 0))
            number = self._db.connection.last_insert_rowid()
        self._run(
            "UPDATE usage SET tool = ?, asked = ?, lines = ? WHERE id = ?",
            (tool or self._name(row.tool), asked, cast("int", lines) + row.lines, number),
        )

    def _uncounted_of(self, file: int) -> list[int]:
        """Take every response of this log out of the sums; the caller settles them."""
        found = [
            cast("int", row[0])
            for row in self._db.rows("SELECT DISTINCT response FROM usage WHERE file = ?", file)
        ]
        for response in found:
            self._book(response, sign=-1)
        return found

    def _settle(self, responses: Iterable[int]) -> None:
        """Decide again which copies of some responses count; the caller has taken these out of the sums."""
        for response in responses:
            rows = self._db.rows(
                "SELECT usage.id, counted, request, speaker, output, has_stop, at, forked, path"
                " FROM usage JOIN files ON files.id = file WHERE response = ?",
                response,
            )
            copies = [
                ResponseCopy(request, speaker, output, bool(has_stop), at or 0, bool(forked), path)
                for _, _, request, speaker, output, has_stop, at, forked, path in cast("list[Any]", rows)
            ]
            for (number, before, *_), mark in zip(rows, marks(copies), strict=True):
                if mark != before:
                    # One row at a time: a statement that may change several rows makes SQLite set a savepoint, and at
                    # every savepoint the full-text table writes its buffer to disk.
                    self._run("UPDATE usage SET counted = ? WHERE id = ?", (mark, number))
            self._book(response)

    def _book(self, response: int, sign: int = 1) -> None:
        """Add the amounts of a response to the sums, by the marks of its copies; with ``sign=-1`` subtract them."""
        for file, *values in self._db.rows(_BELONGING, response):
            self._rollup.add(cast("int", file), tuple(values), sign)

    def _replace_cost_state(
        self, file: int, at: int | None, started: int | None, amounts: list[RecordedAmount]
    ) -> None:
        """Replace the client's running total: it is restored when a session continues."""
        self._run("DELETE FROM cost_states WHERE file = ?", (file,))
        self._many(
            "INSERT INTO cost_states VALUES(?,?,?,?,?,?,?,?,?,?,?)",
            [(file, at, started, self._name(model), *values) for model, *values in amounts],
        )

    def _name(self, text: str | None) -> int:
        if not text:
            return _NO_NAME
        known = self._names.get(text)
        if known is None:
            self._run("INSERT OR IGNORE INTO names(text) VALUES(?)", (text,))
            known = self._names[text] = cast(
                "int", self._db.value("SELECT id FROM names WHERE text = ?", text)
            )
        return known
