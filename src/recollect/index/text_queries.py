"""Query the full-text table: newest, best ranked, all matches, and their number.

A text row is one message, however many logs have a copy of it; a hit is a text row with the copies that
pass the filter. Text rows are nearly in the order of time, because logs are read in the order of their
last change. So the newest hits are found by walking the matches backwards, until ``spans`` proves that no
earlier row is newer than those found: exact by the messages' own times, and only a few hundred rows for
any word. Messages without a time come last and match no time filter.

Only the index is read. ``match`` is an expression from ``WordQuery.fts``.
"""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import apsw
from msgspec import Struct, structs

from recollect.errors import UsageError
from recollect.index.database import IndexDatabase
from recollect.index.schema import SPAN_BITS, TOOL_OUTPUT
from recollect.model.text.titles import title_of

UNDATED = -(1 << 62)  # older than every time
# A count is exact up to here: each message needs a look-up, and a search should not take longer.
COUNTED = 1_000
# Ranking costs about two microseconds per match, so only this many of the newest are ranked.
RANKED = 10_000
_FIRST, _AT_ONCE = 32, 512
# Text that a person wrote, and titles, weigh more than what a tool printed.
_WEIGHTS = "1.0, 4.0, 2.0, 2.0, 1.0, 8.0"

_OWN = "SELECT id, file, at, uuid FROM messages WHERE id IN (SELECT value FROM json_each(?)) AND text = id"
# The copies of some texts. Two look-ups, because only copies beyond the first are in the index over ``text``.
_COPIES = """
SELECT text, id, file, offset, length, uuid, at, kind FROM messages
 WHERE id IN (SELECT value FROM json_each(?1)) AND text = id
UNION ALL
SELECT text, id, file, offset, length, uuid, at, kind FROM messages
 WHERE text IN (SELECT value FROM json_each(?1)) AND text <> id
"""
# A prefix of one plain word in a query of ``WordQuery``; more words than this are as slow, and deeper ones may be too
# much for the parser of FTS5.
_PREFIX = r'"([0-9a-z]+)"\*'
_SPELLED, _NESTED = 100, 10
_VOCABULARY = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab('main', 'texts', 'instance')"
)
_NEXT_WORD = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? LIMIT 1"
_TITLES = 4  # the last columns, which may give a title
# Logs, each with the log of its session, in the same home if there is one.
_LOGS = """
SELECT files.id, files.path, files.size, files.mtime, files.role, files.session, files.agent, place.text, branch.text,
       main_place.text, main_branch.text,
       custom_title, ai_title, last_prompt, first_prompt
  FROM files
  LEFT JOIN names AS place ON place.id = files.cwd
  LEFT JOIN names AS branch ON branch.id = files.branch
  LEFT JOIN files AS main ON main.id = (
        SELECT id FROM files AS other WHERE other.session = files.session AND other.role = 0
         ORDER BY other.home <> files.home, other.gone, other.id LIMIT 1)
  LEFT JOIN catalogue ON catalogue.file = main.id
  LEFT JOIN names AS main_place ON main_place.id = main.cwd
  LEFT JOIN names AS main_branch ON main_branch.id = main.branch
 WHERE files.id IN (SELECT value FROM json_each(?))
"""
_PLACES = """
SELECT files.id, coalesce(own.text, (
         SELECT text FROM files AS main JOIN names ON names.id = main.cwd
          WHERE main.session = files.session AND main.role = 0))
  FROM files LEFT JOIN names AS own ON own.id = files.cwd
 WHERE NOT gone
"""


class TextFilter(Struct, frozen=True, gc=False):
    """Selects messages: of these logs (None: all), from ``since`` on, before ``until``."""

    files: frozenset[int] | None = None
    since: int | None = None
    until: int | None = None

    def fits_log(self, file: int) -> bool:
        return self.files is None or file in self.files

    def fits(self, file: int, at: int | None) -> bool:
        return (
            self.fits_log(file)
            and (self.since is None or (at is not None and at >= self.since))
            and (self.until is None or (at is not None and at < self.until))
        )


class MessageCopy(Struct, frozen=True, order=True, gc=False):
    """Where a message is in one log. ``uuid`` is as the index stores it."""

    id: int
    file: int
    offset: int
    length: int
    uuid: bytes | str | None
    at: int | None
    kind: int


_Own = tuple[int | None, int | None, bytes | str | None]  # log, time, id


class TextMatch(Struct, frozen=True, gc=False):
    """A text row and the selected copies of its message, the one that was read first in front."""

    row: int
    at: int
    copies: tuple[MessageCopy, ...]


class TextQueryResult(Struct, frozen=True, gc=False):
    """The matches. ``total`` is a lower bound if it is not exact; ``counts``, by session: how many messages match."""

    texts: list[TextMatch]
    total: int
    is_exact: bool
    is_all_ranked: bool = True
    counts: list[int] = []


class TextLogRow(Struct, frozen=True, gc=False):
    """A log, and what its session's log says. Titles are offsets of lines in the latter, strongest first."""

    id: int
    path: str
    size: int
    mtime: int
    role: int
    session: str | None
    agent: str | None
    cwd: str | None
    branch: str | None
    session_cwd: str | None
    session_branch: str | None
    title: str


class TextQueries:
    """Queries to one index. Use one object per answer."""

    def __init__(self, database: IndexDatabase) -> None:
        self._db = database
        self._bounds: tuple[list[int], list[int]] | None = None

    # --- hits -----------------------------------------------------------------------------------

    def newest(self, match: str, only: TextFilter, limit: int) -> TextQueryResult:
        """The newest messages, newest first, each once."""
        stream, kept, seen = self._rows(match, only), _NewestRows(limit), _RowCounter(limit)
        size = _FIRST
        while rows := seen.taken(stream, size):
            if kept.is_full and self._newest_up_to(rows[0] >> SPAN_BITS) <= kept.oldest:
                break
            self._weigh(rows, only, kept, seen)
            size = min(2 * size, _AT_ONCE)
        return self._answer(kept.rows(), stream, only, seen)

    def _weigh(self, rows: Sequence[int], only: TextFilter, kept: _NewestRows, seen: _RowCounter) -> None:
        known = self._own_copies(rows)
        seen.ids |= {row: uuid for row, (_, _, uuid) in known.items()}
        for row in rows:
            file, at, uuid = known.get(row, (None, None, None))
            if file is None or not only.fits(file, at):
                # The copy that was read first is gone or filtered out; another one is not.
                for text in self.texts([row], only):
                    kept.add(text.at, row, text.copies[0].uuid)
            elif not kept.is_full or (at is not None and at > kept.oldest):
                kept.add(self.time_of(at), row, uuid)

    def ranked(self, match: str, only: TextFilter, limit: int) -> TextQueryResult:
        """The best by BM25 of the newest ``RANKED`` matches, each message once."""
        stream, is_all = self._ranked_rows(match, only)
        best: dict[object, int] = {}
        while len(best) < limit and (rows := list(itertools.islice(stream, 2 * limit))):
            known = self._own_copies(rows)
            for row in rows:
                best.setdefault(message_of(row, known.get(row)), row)
        seen = _RowCounter(limit)
        answer = self._answer(list(best.values())[:limit], self._rows(match, only), only, seen)
        return structs.replace(answer, is_all_ranked=is_all)

    def _ranked_rows(self, match: str, only: TextFilter) -> tuple[Iterator[int], bool]:
        """The newest matching rows, best first, and whether they are all."""
        last = self._run(
            "SELECT rowid FROM texts(:match) ORDER BY rowid DESC LIMIT 1 OFFSET :rows",
            match,
            TextFilter(),
            rows=RANKED,
        )
        below = next((row for (row,) in last), 0)
        sql = f"SELECT texts.rowid {_from(only)} AND texts.rowid > :below ORDER BY bm25(texts, {_WEIGHTS})"
        return (row for (row,) in self._run(sql, match, only, below=below)), not below

    def all(self, match: str, only: TextFilter) -> Iterator[TextMatch]:
        """Every matching text, last read first, with all versions of a message."""
        stream = self._rows(match, only)
        while rows := list(itertools.islice(stream, _AT_ONCE)):
            yield from self.texts(rows, only)

    def _answer(
        self, shown: Sequence[int], stream: Iterator[int], only: TextFilter, seen: _RowCounter
    ) -> TextQueryResult:
        """The texts to show, and the number of all: few are counted by id, many only estimated."""
        while seen.is_counting and seen.taken(stream, _AT_ONCE):
            pass
        texts = self.texts(shown, only)
        if not seen.is_counting:
            return TextQueryResult(texts, seen.most, False)
        missing = [row for row in seen.rows if row not in seen.ids]
        known = self._own_copies(missing)
        messages = {message_of(row, known.get(row) or (0, 0, seen.ids.get(row))) for row in seen.rows}
        return TextQueryResult(texts, len(messages), True)

    def _rows(self, match: str, only: TextFilter) -> Iterator[int]:
        """Matching rows, last one first."""
        sql = f"SELECT texts.rowid {_from(only)} AND texts.rowid >= :lowest ORDER BY texts.rowid DESC"
        match = self._spelled_out(match)
        return (row for (row,) in self._run(sql, match, only, lowest=self._lowest(only.since)))

    def _spelled_out(self, match: str) -> str:
        """A query with the words of the index that begin so in the place of each prefix.

        FTS5 gathers all rows of a prefix before it gives the first one; rows of words it gives as it finds them.
        """
        if "*" not in match or match.count("(") > _NESTED:
            return match
        return re.sub(_PREFIX, lambda found: self._beginning(found[1]) or found[0], match)

    def _beginning(self, prefix: str) -> str | None:
        """A query for the words that begin so; None where there are none, too many, or some that are not plain."""
        self._db.connection.execute(_VOCABULARY)
        found: list[str] = []
        word, beyond = prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1)
        while word := cast("str", self._db.value(_NEXT_WORD, word, beyond) or ""):
            if len(found) == _SPELLED or not (word.isascii() and word.isalnum()):
                return None
            found.append(f'"{word}"')
            word += "\0"
        return f"({' OR '.join(found)})" if found else None

    def _own_copies(self, rows: Sequence[int]) -> dict[int, _Own]:
        """Log, time and id of the copies that were read first, if they still exist."""
        found = cast("list[tuple[int, *_Own]]", self._db.rows(_OWN, numbers(rows)))
        return {row: (file, at, uuid) for row, file, at, uuid in found}

    def texts(self, rows: Sequence[int], only: TextFilter) -> list[TextMatch]:
        """Texts with their copies, in the order of the rows; a row that no longer exists is left out."""
        copies: dict[int, list[MessageCopy]] = {row: [] for row in rows}
        for row, *values in self._db.rows(_COPIES, numbers(rows)):
            copy = MessageCopy(*values)  # type: ignore[arg-type]
            if only.fits(copy.file, copy.at):
                copies[cast("int", row)].append(copy)
        return [
            TextMatch(row, self.time_of(first.at), tuple(sorted(found)))
            for row, found in copies.items()
            if found and (first := min(found))
        ]

    # --- time -----------------------------------------------------------------------------------

    @staticmethod
    def time_of(at: int | None) -> int:
        """A time to sort by: what has none comes last."""
        return UNDATED if at is None else at

    def _newest_up_to(self, span: int) -> int:
        """The newest time in this span and all before it."""
        spans, newest = self._times()
        place = bisect.bisect_right(spans, span)
        return newest[place - 1] if place else UNDATED

    def _lowest(self, since: int | None) -> int:
        """The first row that could be that new."""
        if since is None:
            return 0
        spans, newest = self._times()
        place = bisect.bisect_left(newest, since)
        return spans[place] << SPAN_BITS if place < len(spans) else 1 << 62

    def _times(self) -> tuple[list[int], list[int]]:
        if self._bounds is None:
            spans, newest, so_far = [], [], UNDATED
            for span, time in self._db.rows("SELECT span, newest FROM spans ORDER BY span"):
                so_far = max(so_far, cast("int", time))
                spans.append(cast("int", span))
                newest.append(so_far)
            self._bounds = spans, newest
        return self._bounds

    # --- logs -----------------------------------------------------------------------------------

    def logs(self, files: Iterable[int]) -> dict[int, TextLogRow]:
        """Logs by number, if they exist."""
        found = (
            TextLogRow(*row[:-_TITLES], title_of(*row[-_TITLES:]))  # type: ignore[arg-type, call-arg]
            for row in self._db.rows(_LOGS, numbers(list(files)))
        )
        return {log.id: log for log in found}

    def logs_of(self, session: str) -> frozenset[int]:
        """The logs of a session: its own, its agents', and large tool results."""
        return frozenset(
            cast("int", row[0]) for row in self._db.rows("SELECT id FROM files WHERE session = ?", session)
        )

    def logs_among(self, sessions: frozenset[str]) -> frozenset[int]:
        """The logs of several sessions."""
        rows = cast("list[tuple[int, str | None]]", self._db.rows("SELECT id, session FROM files"))
        return frozenset(file for file, session in rows if session in sessions)

    def places(self) -> list[tuple[int, str | None]]:
        """Every log with its working directory, or else that of its session."""
        return self._db.rows(_PLACES)  # type: ignore[return-value]

    def large_outputs(self, size: int) -> list[tuple[int, int]]:
        """Side files over a size, whose end is not indexed, with their sizes."""
        sql = "SELECT id, size FROM files WHERE role = ? AND size > ? AND NOT gone"
        return self._db.rows(sql, TOOL_OUTPUT, size)  # type: ignore[return-value]

    # --- statements -----------------------------------------------------------------------------

    def _run(self, sql: str, match: str, only: TextFilter, **values: int) -> Iterator[Any]:
        files = None if only.files is None else numbers(sorted(only.files))
        bound = {"match": match, "files": files, "since": only.since, "until": only.until, **values}
        try:
            yield from self._db.connection.execute(sql, bound)
        except apsw.SQLError as problem:
            raise UsageError(f"search {match!a}: {problem}", hint="use fewer words, or --substring") from None


def _from(only: TextFilter) -> str:
    """Matches that pass the filter; the copy that was read first is checked first."""
    if only == TextFilter():
        return "FROM texts(:match) WHERE 1"
    own = "EXISTS (SELECT 1 FROM messages AS copy WHERE copy.id = texts.rowid"
    others = "EXISTS (SELECT 1 FROM messages AS copy WHERE copy.text = texts.rowid AND copy.text <> copy.id"
    return f"FROM texts(:match) WHERE ({own} AND {_fits(only)}) OR {others} AND {_fits(only)}))"


def _fits(only: TextFilter) -> str:
    tests = []
    if only.files is not None:
        tests.append("copy.file IN (SELECT value FROM json_each(:files))")
    if only.since is not None:
        tests.append("copy.at >= :since")
    if only.until is not None:
        tests.append("copy.at < :until")
    return " AND ".join(tests)


def message_of(row: int, own: _Own | None) -> object:
    """The identity of a message. Only real uuids are unique: other ids repeat between logs."""
    return own[2] if own is not None and isinstance(own[2], bytes) else row


class _RowCounter:
    """The rows so far, as long as they are few enough to be counted one by one."""

    def __init__(self, limit: int) -> None:
        self.most = max(COUNTED, limit)
        self.rows: list[int] = []
        self.ids: dict[int, bytes | str | None] = {}

    @property
    def is_counting(self) -> bool:
        # More rows than messages are allowed: the versions of a message count once.
        return len(self.rows) <= self.most + self.most // 10

    def taken(self, stream: Iterator[int], size: int) -> list[int]:
        """The next rows of a stream, recorded."""
        rows = list(itertools.islice(stream, size))
        self.rows += rows if self.is_counting else ()
        return rows


class _NewestRows:
    """The newest rows so far, up to a number. Of two versions of a message the first one stays."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: list[tuple[int, int, bytes | str | None]] = []  # oldest first
        self._known: dict[bytes, tuple[int, int, bytes | str | None]] = {}
        self.is_full = False
        self.oldest = UNDATED

    def add(self, at: int, row: int, uuid: bytes | str | None) -> None:
        entry = (at, row, uuid)
        if isinstance(uuid, bytes):
            before = self._known.get(uuid)
            if before is not None:
                if before[0] > at:
                    return
                del self._kept[bisect.bisect_left(self._kept, before[:2], key=lambda kept: kept[:2])]
            self._known[uuid] = entry
        bisect.insort(self._kept, entry, key=lambda kept: kept[:2])
        if len(self._kept) > self._limit:
            dropped = self._kept.pop(0)[2]
            if isinstance(dropped, bytes):
                self._known.pop(dropped, None)
        self.is_full = len(self._kept) >= self._limit
        self.oldest = self._kept[0][0]

    def rows(self) -> list[int]:
        return [row for _, row, _ in reversed(self._kept)]


def numbers(found: Iterable[int]) -> str:
    """For ``json_each``. Importing the json module takes longer than a search."""
    return f"[{','.join(map(str, found))}]"
