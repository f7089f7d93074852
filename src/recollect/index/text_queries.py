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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import apsw
from msgspec import Struct, structs

from recollect.errors import UsageError
from recollect.index.database import IndexDatabase
from recollect.index.schema import SPAN_BITS, TITLE_COLUMNS, TITLES, TOOL_OUTPUT
from recollect.model.text.titles import title_in

UNDATED = -(1 << 62)  # older than every time
# A count is exact up to here: each message needs a look-up, and a search should not take longer.
COUNTED = 1_000
# Ranking costs about two microseconds per match, so only this many of the newest are ranked; and walking a match takes a few, so with
# this many the sessions found so far are the answer.
RANKED = WALKED = 10_000
_AT_ONCE = 512
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
# Logs, each with the log of its session, in the same home if there is one.
_LOGS = f"""
SELECT files.id, files.path, files.size, files.mtime, files.role, files.session, files.agent, place.text, branch.text,
       main_place.text, main_branch.text,
       {TITLE_COLUMNS}
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
"""  # noqa: S608 - names of columns
_SESSIONS = "SELECT id, coalesce(session, path) FROM files WHERE id IN (SELECT value FROM json_each(?))"
_REPEATED = "SELECT DISTINCT text FROM messages WHERE text IN (SELECT value FROM json_each(?)) AND text <> id"
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


BestCopyOf = Callable[["TextMatch"], int]
"""The number of the log that a text with several copies is shown in."""
_Own = tuple[int | None, int | None, bytes | str | None]  # log, time, id


class TextMatch(Struct, frozen=True, gc=False):
    """A text row and the selected copies of its message, the one that was read first in front."""

    row: int
    at: int
    copies: tuple[MessageCopy, ...]


class TextQueryResult(Struct, frozen=True, gc=False):
    """The matches, and the sessions: each its best text, and how many messages match. ``total`` is a lower bound if it is not exact."""

    texts: list[TextMatch]
    total: int
    is_exact: bool
    is_all_ranked: bool
    sessions: list[tuple[TextMatch, int]]


class _WalkedText(Struct, frozen=True, gc=False):
    place: int  # in the order of the walk
    row: int
    at: int
    message: object
    session: str


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

    def find(
        self,
        match: str,
        only: TextFilter,
        limit: int,
        *,
        sessions: int = 0,
        prose: str | None = None,
        best: BestCopyOf | None = None,
        rank: bool = False,
    ) -> TextQueryResult:
        """The newest messages, each once, or the best by BM25 of the newest ``RANKED`` matches.

        And as many ``sessions``, those with the newest matches or with the best; each by its best text: prose if there is any, the newest,
        or the first by rank. ``prose`` is the same query over what people read.
        """
        stream, is_all = self._ranked_rows(match, only) if rank else (self._rows(match, only), True)
        walked, is_exact = self._walk(stream, only, limit, sessions, is_newest_first=not rank)
        shown: dict[object, int] = {}
        # Of two versions of a message the newer one is shown.
        for one in walked if rank else sorted(walked, key=lambda one: (one.at, one.row), reverse=True):
            shown.setdefault(one.message, one.row)
        return TextQueryResult(
            self.texts(list(shown.values())[:limit], only),
            len(shown),
            is_exact and is_all,
            is_all,
            self._by_session(walked, only, sessions, prose, best, rank=rank) if sessions else [],
        )

    def _by_session(
        self,
        walked: list[_WalkedText],
        only: TextFilter,
        sessions: int,
        prose: str | None,
        best: BestCopyOf | None,
        *,
        rank: bool,
    ) -> list[tuple[TextMatch, int]]:
        found: dict[str, list[_WalkedText]] = {}
        for one in self._moved(walked, only, best):
            found.setdefault(one.session, []).append(one)
        # A walk by rank meets the best session first, whatever its time.
        order = sorted(found.values(), key=lambda rows: -max(row.at for row in rows))
        chosen = list(found.values() if rank else order)[:sessions]
        spoken = self._spoken(prose, chosen)
        best_rows = [
            min(rows, key=lambda one: (one.row not in spoken, one.place if rank else -one.at))
            for rows in chosen
        ]
        texts = {text.row: text for text in self.texts([one.row for one in best_rows], only)}
        return [
            (texts[one.row], len({row.message for row in rows}))
            for one, rows in zip(best_rows, chosen, strict=True)
            if one.row in texts
        ]

    def _walk(
        self, stream: Iterator[int], only: TextFilter, limit: int, sessions: int, *, is_newest_first: bool
    ) -> tuple[list[_WalkedText], bool]:
        """The first rows, until enough messages and sessions are known and few enough rows are counted; and whether these are all."""
        walked: list[_WalkedText] = []
        messages: dict[object, int] = {}
        newest: dict[str, int] = {}
        owners: dict[int, str] = {}
        while rows := list(itertools.islice(stream, _AT_ONCE)):
            if len(walked) >= COUNTED:
                latest = self._newest_up_to(rows[0] >> SPAN_BITS) if is_newest_first else UNDATED
                if _are_known(messages, limit, latest) and (
                    len(walked) >= WALKED or _are_known(newest, sessions, latest)
                ):
                    return walked, False
            for one in self._placed(rows, only, owners, len(walked)):
                walked.append(one)
                messages[one.message] = max(messages.get(one.message, one.at), one.at)
                newest[one.session] = max(newest.get(one.session, one.at), one.at)
        return walked, True

    def _placed(
        self, rows: Sequence[int], only: TextFilter, owners: dict[int, str], start: int
    ) -> Iterator[_WalkedText]:
        """The rows with the session of the copy that was read first, of those that are selected."""
        known = self._own_copies(rows)
        if only != TextFilter():
            known = {row: own for row, own in known.items() if only.fits(own[0] or 0, own[1])}
        others = [row for row in rows if row not in known]
        # Its first copy is gone or filtered out; another one is not.
        for text in self.texts(others, only) if others else ():
            first = text.copies[0]
            known[text.row] = (first.file, first.at, first.uuid)
        missing = {cast("int", file) for file, _, _ in known.values()} - owners.keys()
        if missing:
            owners.update(cast("list[tuple[int, str]]", self._db.rows(_SESSIONS, numbers(missing))))
        for place, row in enumerate(rows, start):
            own = known.get(row)
            if own is not None:
                file, at, _ = own
                yield _WalkedText(
                    place, row, self.time_of(at), message_of(row, own), owners.get(cast("int", file), "")
                )

    def _moved(
        self, walked: list[_WalkedText], only: TextFilter, best: BestCopyOf | None
    ) -> list[_WalkedText]:
        """What a fork copied belongs to the session it was said in. Decided once for each pair of logs."""
        found = self._db.rows(_REPEATED, numbers(one.row for one in walked))
        repeated = [cast("int", row) for (row,) in found]
        if not repeated:
            return walked
        decided: dict[tuple[int, ...], int] = {}
        homes: dict[int, int] = {}
        for text in self.texts(repeated, only):
            files = tuple(copy.file for copy in text.copies)
            if files not in decided:
                decided[files] = best(text) if best and len(files) > 1 else files[0]
            homes[text.row] = decided[files]
        owners = dict(cast("list[tuple[int, str]]", self._db.rows(_SESSIONS, numbers(set(homes.values())))))
        return [
            structs.replace(one, session=owners.get(homes[one.row], one.session)) if one.row in homes else one
            for one in walked
        ]

    def _spoken(self, prose: str | None, chosen: Iterable[Sequence[_WalkedText]]) -> set[int]:
        """The rows that match in what people read, of sessions that leave a choice."""
        rows = [one.row for several in chosen for one in several if len(several) > 1]
        if not rows or prose is None:
            return set()
        sql = "SELECT rowid FROM texts(:match) WHERE rowid BETWEEN :low AND :high"
        return {row for (row,) in self._run(sql, prose, TextFilter(), low=min(rows), high=max(rows))}

    def occurs(self, match: str) -> bool:
        """Whether any text matches."""
        return (
            next(self._run("SELECT rowid FROM texts(:match) LIMIT 1", match, TextFilter()), None) is not None
        )

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
            TextLogRow(*row[:-TITLES], title_in(row[-TITLES:]))  # type: ignore[arg-type, call-arg]
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


def _are_known(times: Mapping[Any, int], number: int, latest: int) -> bool:
    """Whether the newest of some things are known, if none to come is newer than ``latest``."""
    return not number or (len(times) >= number and sorted(times.values(), reverse=True)[number - 1] >= latest)


def numbers(found: Iterable[int]) -> str:
    """For ``json_each``. Importing the json module takes longer than a search."""
    return f"[{','.join(map(str, found))}]"
