"""Matching texts by session: which sessions speak of something, how often, and in which text best.

The same walk as ``TextQueries.newest``, over the last texts first; it goes on until enough sessions are known and
none of the texts that are left can be newer. Counts are exact if all matches were walked.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from msgspec import Struct, structs

from recollect.index.schema import SPAN_BITS
from recollect.index.text_queries import (
    COUNTED,
    TextFilter,
    TextMatch,
    TextQueries,
    TextQueryResult,
    message_of,
    numbers,
)

# Walking a match takes a few microseconds. With this many, the sessions found so far are the answer.
WALKED = 10_000
_AT_ONCE = 512
_SESSIONS = "SELECT id, coalesce(session, path) FROM files WHERE id IN (SELECT value FROM json_each(?))"
_REPEATED = "SELECT DISTINCT text FROM messages WHERE text IN (SELECT value FROM json_each(?)) AND text <> id"

_BestCopyOf = Callable[[TextMatch], int]
"""The number of the log that a text with several copies is shown in."""


class _WalkedText(Struct, frozen=True, gc=False):
    place: int  # in the order of the walk
    row: int
    at: int
    message: object
    session: str


class SessionTextQueries(TextQueries):
    """Queries to one index. Use one object per answer."""

    def by_session(
        self, match: str, prose: str | None, only: TextFilter, sessions: int, best: _BestCopyOf, *, rank: bool
    ) -> TextQueryResult:
        """The sessions with the newest matches, or with the best, each by its best text: prose if there is any, the newest, or the first by
        rank. ``prose`` is the same query over what people read."""
        stream, is_all = self._ranked_rows(match, only) if rank else (self._rows(match, only), True)
        walked, is_exact = self._walk(stream, only, sessions, is_newest_first=not rank)
        is_exact = is_exact and is_all
        walked = self._moved(walked, only, best)
        found: dict[str, list[_WalkedText]] = {}
        for one in walked:
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
        chosen_texts = [
            (texts[one.row], len({row.message for row in rows}))
            for one, rows in zip(best_rows, chosen, strict=True)
            if one.row in texts
        ]
        return TextQueryResult(
            [text for text, _ in chosen_texts],
            len({one.message for one in walked}),
            is_exact,
            counts=[count for _, count in chosen_texts],
        )

    def occurs(self, match: str) -> bool:
        """Whether any text matches."""
        return (
            next(self._run("SELECT rowid FROM texts(:match) LIMIT 1", match, TextFilter()), None) is not None
        )

    def _walk(
        self, stream: Iterator[int], only: TextFilter, sessions: int, *, is_newest_first: bool
    ) -> tuple[list[_WalkedText], bool]:
        walked: list[_WalkedText] = []
        newest: dict[str, int] = {}
        owners: dict[int, str] = {}
        while rows := list(itertools.islice(stream, _AT_ONCE)):
            if len(walked) >= COUNTED and len(newest) >= sessions:
                last = sorted(newest.values(), reverse=True)[sessions - 1]
                if not is_newest_first or self._newest_up_to(rows[0] >> SPAN_BITS) <= last:
                    return walked, False
            if len(walked) >= WALKED:
                return walked, False
            for one in self._placed(rows, only, owners, len(walked)):
                walked.append(one)
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

    def _moved(self, walked: list[_WalkedText], only: TextFilter, best: _BestCopyOf) -> list[_WalkedText]:
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
                decided[files] = best(text) if len(files) > 1 else files[0]
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
