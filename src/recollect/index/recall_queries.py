"""Which rows of the small full-text table have the words of a question; no text is read.

Every word is looked up by itself, because a row that has some of them is found too. Rare words come first: as soon as
enough rows are better than any row can be that has only the words still to come, no row is added any more.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from recollect.index.frame import KIND_CODES
from recollect.index.schema import ROLE_BITS, recall_row
from recollect.index.text_queries import MessageCopy, TextFilter, TextQueries, numbers
from recollect.model.recall import TOOL_OUTPUT, WEIGHTS, WordWeights

# Rows that are looked up for whole words; more only where a rarer word has found them.
_MOST_ROWS = 60_000
# A word that is said in no more messages than this is also looked up in what tools printed, if it is rare there too.
_RARELY_SAID, _RARELY_PRINTED = 2, 300
_AT_ONCE = 512
# Words that are said less often are added without asking whether that can matter.
_WORTH_A_LOOK = 1_000
_ROLE = (1 << ROLE_BITS) - 1
# From this number on, messages are looked up one by one instead of reading the numbers of all that are allowed.
_FEW_ALLOWED = 20_000
_ALLOWED = "SELECT json_group_array(text) FROM messages WHERE file IN (SELECT value FROM json_each(?)) AND text NOT NULL"
_LENGTHS = "SELECT id, sz FROM recall_docsize WHERE id IN (SELECT value FROM json_each(?))"
_SIZES = "SELECT sum(messages) FROM files WHERE id IN (SELECT value FROM json_each(?))"
# A prompt has a row among the typed texts; a turn goes from one to the next.
_TURN = """
SELECT id, file, offset, length, uuid, at, kind FROM messages
 WHERE file = ?1 AND kind = ?3 AND text NOT NULL
   AND offset >= coalesce((SELECT asked.offset FROM messages AS asked JOIN typed_docsize ON typed_docsize.id = asked.id
     WHERE asked.file = ?1 AND asked.offset <= ?2 ORDER BY asked.offset DESC LIMIT 1), 0)
   AND offset < coalesce((SELECT asked.offset FROM messages AS asked JOIN typed_docsize ON typed_docsize.id = asked.id
     WHERE asked.file = ?1 AND asked.offset > ?2 ORDER BY asked.offset LIMIT 1), 1 << 62)
 ORDER BY offset DESC LIMIT ?4
"""
_row_numbers = msgspec.json.Decoder(list[int])


class FoundRows(NamedTuple):
    """The rows that have words of a question: bit *n* of ``masks`` is word *n*, in ``counts`` said so many times.

    ``total`` is the number of all rows.
    """

    masks: dict[int, int]
    counts: list[int]
    total: int


class PlacedRow(NamedTuple):
    """A row of the table and the log it is shown in; ``length`` is its number of words."""

    row: int
    file: int
    at: int | None
    length: int

    @property
    def text(self) -> int:
        return self.row >> ROLE_BITS


class _RecallScope(NamedTuple):
    """What is known of a filter before rows are placed: the first row, the messages, and how many rows are enough."""

    lowest: int
    allowed: frozenset[int] | None
    enough: int | None

    def passing(self, rows: list[int]) -> list[int]:
        """Without rows that surely do not pass: older ones, and those of other logs, if few are allowed."""
        if self.lowest:
            rows = rows[bisect.bisect_left(rows, self.lowest) :]
        allowed = self.allowed
        return rows if allowed is None else [row for row in rows if row >> ROLE_BITS in allowed]

    def has_better(self, masks: dict[int, int], weights: WordWeights, score: float) -> bool:
        """Whether enough rows are better than this, so that no row with less can be among the best."""
        if self.enough is None or len(masks) < self.enough:
            return False
        worth = {mask: weights.of(mask) for mask in set(masks.values())}
        scores = sorted(worth[mask] * WEIGHTS[row & _ROLE] for row, mask in masks.items())
        return scores[-self.enough] > score


class RecallQueries(TextQueries):
    """Queries to one index. Use one object per answer."""

    def found(self, words: Sequence[str], only: TextFilter, most: int) -> FoundRows:
        """The rows with any of the words, the ``most`` best that pass the filter surely among them.

        The filter is not fully checked here.
        """
        total = max(cast("int", self._db.value("SELECT count(*) FROM recall_docsize")), 1)
        said = [self._count("recall", _quoted(word)) for word in words]
        scope = self._scope(only, most)
        masks: dict[int, int] = {}
        counts = list(said)
        for place, word in enumerate(words):
            if said[place] <= _RARELY_SAID:
                counts[place] += self._add_printed(masks, place, word, scope)
        weights = WordWeights(counts, total)
        looked_up: list[str] = []
        known, is_enough = 0, False
        order = sorted((place for place in range(len(words)) if said[place]), key=said.__getitem__)
        for number, place in enumerate(order):
            match, count = _quoted(words[place]), said[place]
            if not is_enough and count > _WORTH_A_LOOK:
                rest = sum(1 << later for later in order[number:])
                is_enough = scope.has_better(masks, weights, weights.of(rest) * max(WEIGHTS))
            if known + count > _MOST_ROWS and looked_up:
                match = f"{match} AND ({' OR '.join(looked_up)})"
            else:
                looked_up.append(match)
                known += count
            rows = scope.passing(self._numbers("SELECT json_group_array(rowid) FROM recall(?)", match))
            for row in masks.keys() & rows if is_enough else rows:
                masks[row] = masks.get(row, 0) | 1 << place
        return FoundRows(masks, counts, total)

    def _add_printed(self, masks: dict[int, int], place: int, word: str, scope: _RecallScope) -> int:
        match = f"tool_result : {_quoted(word)}"
        count = self._count("texts", match)
        if not 0 < count <= _RARELY_PRINTED:
            return 0
        texts = self._numbers("SELECT json_group_array(rowid) FROM texts(?)", match)
        for row in scope.passing([recall_row(text, TOOL_OUTPUT) for text in texts]):
            masks[row] = masks.get(row, 0) | 1 << place
        return count

    def _scope(self, only: TextFilter, most: int) -> _RecallScope:
        lowest = self._lowest(only.since) << ROLE_BITS
        enough = most if only.since is None and only.until is None else None
        if only.files is None:
            return _RecallScope(lowest, None, enough)
        files = numbers(only.files)
        size = cast("int", self._db.value(_SIZES, files) or 0)
        if size <= _FEW_ALLOWED:
            return _RecallScope(lowest, frozenset(self._numbers(_ALLOWED, files)), enough)
        others = cast("int", self._db.value("SELECT sum(messages) FROM files") or 0) - size
        is_nearly_all = enough is not None and others <= _FEW_ALLOWED
        return _RecallScope(lowest, None, most + others if is_nearly_all else None)

    def placed(self, ranked: Sequence[int], only: TextFilter, most: int) -> list[PlacedRow]:
        """The first rows of a ranking that pass the filter, each in the copy that was read first."""
        found: list[PlacedRow] = []
        stream = iter(ranked)
        while len(found) < most and (rows := list(itertools.islice(stream, _AT_ONCE))):
            lengths = {row: _length(sizes) for row, sizes in self._db.rows(_LENGTHS, numbers(rows))}
            places = self._places(sorted({row >> ROLE_BITS for row in rows}), only)
            found += [
                PlacedRow(row, *places[row >> ROLE_BITS], lengths.get(row, 0))
                for row in rows
                if row >> ROLE_BITS in places
            ]
        return found[:most]

    def _places(self, texts: Sequence[int], only: TextFilter) -> dict[int, tuple[int, int | None]]:
        own = self._own_copies(texts)
        places = {
            text: (file, at)
            for text, (file, at, _) in own.items()
            if file is not None and only.fits(file, at)
        }
        # Its first copy is gone or filtered out; another one may not be.
        for match in self.texts([text for text in texts if text not in places], only):
            places[match.row] = match.copies[0].file, match.copies[0].at
        return places

    def turn(self, file: int, offset: int, most: int) -> list[MessageCopy]:
        """What the agent said in the turn that a place of a log is in, the last message first."""
        found = self._db.rows(_TURN, file, offset, KIND_CODES["assistant"], most)
        return [MessageCopy(*row) for row in found]  # type: ignore[arg-type]

    def sessions(self, files: Sequence[int]) -> dict[int, str]:
        """The session of each log, or its path where it names none."""
        sql = "SELECT id, coalesce(session, path) FROM files WHERE id IN (SELECT value FROM json_each(?))"
        return dict(cast("list[tuple[int, str]]", self._db.rows(sql, numbers(files))))

    def _count(self, table: str, match: str) -> int:
        return cast("int", self._db.value(f"SELECT count(*) FROM {table}(?)", match))  # noqa: S608 - a name from above

    def _numbers(self, sql: str, value: str) -> list[int]:
        """Numbers as one value: a row at a time would take five times as long."""
        return _row_numbers.decode(cast("str", self._db.value(sql, value)))


def _quoted(word: str) -> str:
    return '"' + word.replace('"', '""') + '"'


def _length(sizes: object) -> int:
    """The number of words of a row, as FTS5 writes it: a varint."""
    length = 0
    for byte in cast("bytes", sizes):
        length = length << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return length
