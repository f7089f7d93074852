"""Messages and their words: writing the rows of frames, and removing those of a log.

Rows are collected over frames: the full-text tables take a third less time for a megabyte of words at once than for
the words of one small log after the other, because everything else that is written pushes their words out of the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from recollect.index.database import IndexDatabase
from recollect.index.frame import KIND_CODES, Columns, MessageRow
from recollect.index.schema import ROLE_BITS, SPAN_BITS, recall_row, same_uuid
from recollect.model.recall import (
    LONGEST_INPUT,
    LONGEST_SAID,
    LONGEST_THOUGHT,
    SAID,
    THINKING,
    TITLE,
    TOOL_INPUT,
    recalled_text,
)

SAME_TEXT = f"SELECT text FROM messages WHERE {same_uuid('?1')} AND digest = ?2 AND text NOT NULL LIMIT 1"  # noqa: S608 - constants
# Bytes of words, and lines, that are written at once.
_AT_ONCE, _LINES_AT_ONCE = 1 << 20, 4_000


class MessageIngest:
    """Writes messages. Every method must run inside a transaction, which ends with ``write``."""

    def __init__(self, database: IndexDatabase) -> None:
        self._db = database
        self._many = database.connection.executemany
        self._next_id = 1
        self._end: int | None = None  # where the numbers of later logs begin
        self._drop_collected()

    def _drop_collected(self) -> None:
        self._messages: list[tuple[object, ...]] = []
        self._texts: list[tuple[object, ...]] = []
        self._typed: list[tuple[int, str]] = []
        self._recall: list[tuple[int, bytes]] = []
        self._newest: dict[int, int] = {}
        self._collected: dict[tuple[object, object], int] = {}  # text rows by id and digest
        self._bytes = 0

    def place_before(self, lines: int, before: int) -> None:
        """The next logs are older than all that were read: so many lines get numbers below theirs, in the order of time.

        ``before``: how many lines may come before these. Where there are more, the rest is numbered as if it were newest.
        """
        self._end = cast("int | None", self._db.value("SELECT min(id) FROM messages"))
        first = before + 1 if self._end is None else max(self._end - lines, 1)
        self._next_id = first

    def begin(self) -> None:
        """Call first in every transaction: others may have written since the last one."""
        self._drop_collected()
        if self._end is None:
            last = cast("int", self._db.value("SELECT coalesce(max(id), 0) FROM messages"))
            self._next_id = max(self._next_id, last + 1)

    def add(self, file: int, rows: Sequence[MessageRow]) -> None:
        """The lines of a frame, to be written with the next ones."""
        if self._end is not None and self._next_id + len(rows) > self._end:
            self._end = None
            self._next_id = cast("int", self._db.value("SELECT max(id) FROM messages")) + 1
        number = self._next_id
        for offset, length, uuid, at, kind, digest, columns, prompt in rows:
            text = None
            if columns is not None:
                text = None if uuid is None else self._same_text(uuid, digest)
                if text is None:
                    text = number
                    self._texts.append((number, *columns))
                    self._recall += _recall_rows(number, columns)
                    self._bytes += sum([len(word) for word in columns if word is not None])
                    self._collected[uuid, digest] = number
                span = text >> SPAN_BITS
                if at is not None and at > self._newest.get(span, 0):
                    self._newest[span] = at
            self._messages.append((number, file, offset, length, uuid, at, kind, text, digest))
            if prompt is not None:
                self._typed.append((number, prompt))
            number += 1
        self._next_id = number
        if self._bytes >= _AT_ONCE or len(self._messages) >= _LINES_AT_ONCE:
            self.write()

    def write(self) -> None:
        """Write what was collected."""
        if not self._messages:
            return
        self._many("INSERT INTO messages VALUES(?,?,?,?,?,?,?,?,?)", self._messages)
        self._many(
            "INSERT INTO texts(rowid, prose, thinking, tool_input, tool_result, title, other) VALUES(?,?,?,?,?,?,?)",
            self._texts,
        )
        self._many("INSERT INTO typed(rowid, prompt) VALUES(?, ?)", self._typed)
        self._many("INSERT INTO recall(rowid, words) VALUES(?, ?)", self._recall)
        self._many(
            "INSERT INTO spans VALUES(?, ?) ON CONFLICT DO UPDATE SET newest = max(newest, excluded.newest)",
            self._newest.items(),
        )
        self._drop_collected()

    def forget(self, file: int) -> None:
        """Remove the messages of a log, and the words that no other log has."""
        self.write()
        texts = {
            row[0]
            for row in self._db.rows("SELECT text FROM messages WHERE file = ? AND text NOT NULL", file)
        }
        # Only prompts are in it, but selecting them takes longer.
        typed = self._db.rows("SELECT id FROM messages WHERE file = ? AND kind = ?", file, KIND_CODES["user"])
        self._many("DELETE FROM typed WHERE rowid = ?", typed)
        self._db.connection.execute("DELETE FROM messages WHERE file = ?", (file,))
        unused = [cast("int", text) for text in texts if not self._is_used(text)]
        self._many("DELETE FROM texts WHERE rowid = ?", [(text,) for text in unused])
        for text in unused:
            rows = "SELECT id FROM recall_docsize WHERE id BETWEEN ? AND ?"
            found = self._db.rows(rows, recall_row(text, 0), recall_row(text, (1 << ROLE_BITS) - 1))
            self._many("DELETE FROM recall WHERE rowid = ?", found)

    def _is_used(self, text: object) -> bool:
        # Two look-ups, because only copies are in the index over ``text``.
        own = self._db.value("SELECT 1 FROM messages WHERE id = ? AND text = id", text)
        return own is not None or (
            self._db.value("SELECT 1 FROM messages WHERE text = ? AND text <> id", text) is not None
        )

    def _same_text(self, uuid: bytes | str, digest: int | None) -> int | None:
        """The text row of an equal line with the same id, so that a fork's copy is not found twice."""
        here = self._collected.get((uuid, digest))
        return cast("int | None", self._db.value(SAME_TEXT, uuid, digest)) if here is None else here


def _recall_rows(number: int, columns: Columns) -> Iterator[tuple[int, bytes]]:
    """What a message says, by role; what a tool printed is left out."""
    prose, thinking, tool_input, _, title, _ = columns
    for role, text, longest in (
        (SAID, prose, LONGEST_SAID),
        (THINKING, thinking, LONGEST_THOUGHT),
        (TOOL_INPUT, tool_input, LONGEST_INPUT),
        (TITLE, title, LONGEST_INPUT),
    ):
        if text:
            yield recall_row(number, role), recalled_text(text, longest)
