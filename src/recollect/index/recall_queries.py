"""Which rows of the small full-text table have the words of a question; no text is read.

Every word is looked up by itself, because a row that has some of them is found too. Rare words come first: where the
common ones would name too many rows, only rows that a rare word has found are looked up for them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from recollect.index.schema import ROLE_BITS, recall_row
from recollect.index.text_queries import TextFilter, TextQueries, numbers
from recollect.model.recall.roles import TOOL_OUTPUT

# Rows that are looked up for whole words; more only where a rarer word has found them.
_MOST_ROWS = 60_000
# A word that is said in no more messages than this is also looked up in what tools printed, if it is rare there too.
_RARELY_SAID, _RARELY_PRINTED = 2, 300
_AT_ONCE = 512
# From this number on, messages are looked up one by one instead of reading the numbers of all that are allowed.
_FEW_ALLOWED = 20_000
_ALLOWED = "SELECT json_group_array(text) FROM messages WHERE file IN (SELECT value FROM json_each(?)) AND text NOT NULL"
_LENGTHS = "SELECT id, sz FROM recall_docsize WHERE id IN (SELECT value FROM json_each(?))"
_SIZES = "SELECT sum(messages) FROM files WHERE id IN (SELECT value FROM json_each(?))"
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


class RecallQueries(TextQueries):
    """Queries to one index. Use one object per answer."""

    def found(self, words: Sequence[str], only: TextFilter) -> FoundRows:
        """The rows with any of the words that may pass the filter; it is not fully checked here."""
        total = cast("int", self._db.value("SELECT count(*) FROM recall_docsize"))
        said = [self._count("recall", _quoted(word)) for word in words]
        masks: dict[int, int] = {}
        looked_up: list[str] = []
        known = 0
        for place in sorted(range(len(words)), key=said.__getitem__):
            match, count = _quoted(words[place]), said[place]
            if not count:
                continue
            if known + count > _MOST_ROWS and looked_up:
                match = f"{match} AND ({' OR '.join(looked_up)})"
            else:
                looked_up.append(match)
                known += count
            for row in self._numbers("SELECT json_group_array(rowid) FROM recall(?)", match):
                masks[row] = masks.get(row, 0) | 1 << place
        counts = list(said)
        for place, word in enumerate(words):
            if said[place] <= _RARELY_SAID:
                counts[place] += self._add_printed(masks, place, word)
        return FoundRows(self._passing(masks, only), counts, max(total, 1))

    def _add_printed(self, masks: dict[int, int], place: int, word: str) -> int:
        match = f"tool_result : {_quoted(word)}"
        count = self._count("texts", match)
        if not 0 < count <= _RARELY_PRINTED:
            return 0
        for text in self._numbers("SELECT json_group_array(rowid) FROM texts(?)", match):
            row = recall_row(text, TOOL_OUTPUT)
            masks[row] = masks.get(row, 0) | 1 << place
        return count

    def _passing(self, masks: dict[int, int], only: TextFilter) -> dict[int, int]:
        """Without rows that surely do not pass: those of other logs, if few are allowed, and older ones."""
        if only.since is not None:
            lowest = self._lowest(only.since) << ROLE_BITS
            masks = {row: mask for row, mask in masks.items() if row >= lowest}
        if only.files is None:
            return masks
        files = numbers(only.files)
        if cast("int", self._db.value(_SIZES, files) or 0) > _FEW_ALLOWED:
            return masks
        allowed = set(self._numbers(_ALLOWED, files))
        return {row: mask for row, mask in masks.items() if row >> ROLE_BITS in allowed}

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
