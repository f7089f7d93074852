"""Tool calls in the index: a row for each call of each log, with its outcome once the result is there.

A copy of a call in a fork or in a continued session has the same id: ``counted`` is set for one of them,
the first by (not forked, time, path), whatever the order of arrival. Other agents may number the calls of each session alike, and their
copies are marked: of theirs, each counts that is not forked. ``is_retry``: the call before it of
the same tool in the same log had failed when this one was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, cast

from recollect.index.database import IndexDatabase
from recollect.index.frame import CALLS_A_LINE, KIND_CODES, CallRow
from recollect.index.schema import MIRRORED

OPEN, OK, FAILED = 0, 1, 2
_OWNERS = (
    f"SELECT calls.file, place, traits & {MIRRORED} AND NOT forked FROM calls JOIN files ON files.id = calls.file"  # noqa: S608 - a number of the schema
    " WHERE key = ? ORDER BY forked, calls.at IS NULL, calls.at, path, place"
)
_SHARED = (
    "SELECT DISTINCT own.key FROM calls AS own JOIN calls AS other ON other.key = own.key"
    " AND other.file <> own.file WHERE own.file = ?"
)


_LAST_CALL = (
    "SELECT calls.place, state, answer, text FROM calls JOIN names ON names.id = tool"
    " WHERE file = ? ORDER BY place DESC LIMIT 1"
)
_LAST_MESSAGE = (
    "SELECT offset, kind, EXISTS (SELECT 1 FROM typed WHERE rowid = messages.id) FROM messages"  # noqa: S608 - whole numbers
    f" WHERE file = ? AND kind IN ({KIND_CODES['user']}, {KIND_CODES['assistant']}) ORDER BY offset DESC LIMIT 1"
)
_QUESTIONS = {"AskUserQuestion", "ExitPlanMode"}
_KNOWN_CALL = "SELECT 1 FROM calls WHERE key = ? AND file = ?"


def last_step(
    database: IndexDatabase, path: str
) -> tuple[Literal["error", "question", "prompt"], str | None] | None:
    """What a log ends with, if that is a call that failed, a question or a prompt without an answer; with the tool."""
    file = database.value("SELECT id FROM files WHERE path = ?", path)
    messages = cast("list[tuple[int, int, int]]", database.rows(_LAST_MESSAGE, file))
    if not messages:
        return None
    (end, kind, is_typed) = messages[0]
    for place, state, answer, tool in cast(
        "list[tuple[int, int, int | None, str]]", database.rows(_LAST_CALL, file)
    ):
        if state == FAILED and answer is not None and answer >= end:
            return "error", tool
        if state == OPEN and tool in _QUESTIONS and place // CALLS_A_LINE >= end:
            return "question", tool
    return ("prompt", None) if is_typed and kind == KIND_CODES["user"] else None


class _NewCall:
    __slots__ = ("answer", "changes", "is_retry", "row", "state", "took", "tool")

    def __init__(self, row: CallRow, tool: int, *, is_retry: bool) -> None:
        self.row, self.tool, self.is_retry = row, tool, is_retry
        self.state, self.took = OPEN, cast("int | None", None)
        self.changes, self.answer = 0, cast("int | None", None)


class CallIngest:
    """Writes calls. Every method must run inside a transaction."""

    def __init__(self, database: IndexDatabase, name: Callable[[str | None], int]) -> None:
        self._db, self._name = database, name

    def add(self, file: int, rows: Sequence[CallRow], *, is_first: bool) -> None:
        """The calls and results of a frame, in their order. ``is_first``: this log was not read before."""
        if not rows:
            return
        new: dict[int, _NewCall] = {}
        last: dict[int, _NewCall | int] = {}
        for row in rows:
            if row.tool is None:
                self._end(file, row, new, last, is_first=is_first)
                continue
            if row.key in new or (not is_first and self._db.value(_KNOWN_CALL, row.key, file)):
                continue  # said again: the first time counts
            tool = self._name(row.tool)
            if tool not in last and not is_first:
                last[tool] = self._last_state(file, tool)
            before = last.get(tool, OPEN)
            state = before if isinstance(before, int) else before.state
            new[row.key] = last[tool] = _NewCall(row, tool, is_retry=state == FAILED)
        self._insert(file, new.values())
        for key in new:  # another log may have the call
            self._settle(key)

    def forget(self, file: int) -> None:
        """Remove the calls of a log; copies of them elsewhere count instead."""
        shared = self._shared(file)
        self._db.connection.execute("DELETE FROM calls WHERE file = ?", (file,))
        for key in shared:
            self._settle(key)

    def moved(self, file: int) -> None:
        """The path decides between equal copies."""
        for key in self._shared(file):
            self._settle(key)

    def _end(
        self,
        file: int,
        row: CallRow,
        new: dict[int, _NewCall],
        last: dict[int, _NewCall | int],
        *,
        is_first: bool,
    ) -> None:
        state, answer = FAILED if row.is_error else OK, row.place // CALLS_A_LINE
        begun = new.get(row.key)
        if begun is not None:
            if begun.state == OPEN:
                begun.state, begun.took, begun.answer = state, _took(begun.row.at, row.at), answer
            if row.changes:
                begun.changes, begun.answer = row.changes, answer
            return
        if is_first:
            return
        found = self._db.rows(
            "SELECT place, tool, at, state FROM calls WHERE key = ? AND file = ?", row.key, file
        )
        for place, tool, at, before in cast("list[tuple[int, int, int | None, int]]", found):
            if row.changes:
                self._db.connection.execute(
                    "UPDATE calls SET changes = ?, answer = ? WHERE file = ? AND place = ?",
                    (row.changes, answer, file, place),
                )
            if before != OPEN:
                continue
            self._db.connection.execute(
                "UPDATE calls SET state = ?, took = ?, answer = ? WHERE file = ? AND place = ?",
                (state, _took(at, row.at), answer, file, place),
            )
            if isinstance(last.get(tool), int):
                last[tool] = self._last_state(file, tool)

    def _last_state(self, file: int, tool: int) -> int:
        found = self._db.value(
            "SELECT state FROM calls WHERE file = ? AND tool = ? ORDER BY place DESC LIMIT 1", file, tool
        )
        return OPEN if found is None else cast("int", found)

    def _insert(self, file: int, calls: Iterable[_NewCall]) -> None:
        self._db.connection.executemany(
            "INSERT INTO calls VALUES(?,?,?,?,?,?,?,?,?,?,?,1,?,?)",
            [
                (
                    file,
                    one.row.place,
                    one.row.key,
                    one.tool,
                    self._name(one.row.kind) or None,
                    one.row.at,
                    one.took,
                    one.state,
                    one.is_retry,
                    one.row.is_commit,
                    one.row.forked,
                    one.changes,
                    one.answer,
                )
                for one in calls
            ],
        )

    def _shared(self, file: int) -> list[int]:
        return [cast("int", row[0]) for row in self._db.rows(_SHARED, file)]

    def _settle(self, key: int) -> None:
        """Decide again which copy of a call counts."""
        found = self._db.rows(_OWNERS, key)
        are_own = any(is_own for *_, is_own in found)
        for number, (file, place, is_own) in enumerate(found):
            self._db.connection.execute(
                "UPDATE calls SET counted = ?1 WHERE file = ?2 AND place = ?3 AND counted <> ?1",
                (bool(is_own) if are_own else number == 0, file, place),
            )


def _took(begun: int | None, ended: int | None) -> int | None:
    return None if begun is None or ended is None or ended < begun else ended - begun
