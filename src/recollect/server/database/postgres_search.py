"""Search on PostgreSQL: the index names blocks of lines that may match, newest first; their lines decide.

A block's vector has each word of its lines once, without positions. So the index is asked for less than the query
says: words of a phrase in any order, and what is excluded is not looked at. The lines of a block are then read
and compared with the whole query, and reading stops when no later block can have a newer line.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from itertools import pairwise

from recollect.model.text.query import AllOf, QueryNode, WordQuery
from recollect.model.text.terms import Term, folded, indexed_text
from recollect.server.database.records import AppendRequest, LineSearch, Row, Segment, TextRow
from recollect.server.facts import texts_of
from recollect.share.sync.wire import LineHit, LineHits

# Blocks that are asked for at first; then twice as many, up to the most that one search reads.
_AT_ONCE, _MOST_BLOCKS = 64, 4_096
# Spans back from now that are asked one after another: all blocks with a frequent word are many, those of the last hours are not.
_SPANS_MS = tuple(hours * 3_600_000 for hours in (1, 16, 240))
Window = tuple[int | None, int | None]
BlockReader = Callable[[Window, int, int], AsyncIterator[Row]]
BLOCKS = (
    "SELECT sessions.id, texts.key, texts.line, texts.lines, texts.newest FROM texts"
    " JOIN sessions ON sessions.ref = texts.ref WHERE texts.org = $1 AND sessions.state = 0{more}"
    " ORDER BY texts.newest DESC, texts.ref, texts.key, texts.line DESC LIMIT {limit} OFFSET {offset}"
)
# One plan for each search: a plan for a frequent word would read everything for a rare one. The planner does not know
# what it costs to unpack a vector: no scan of a whole table, and a higher price for looking at a row.
SETTINGS = (
    "SELECT set_config('recollect.words', $1, true), set_config('plan_cache_mode', 'force_custom_plan', true),"
    " set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),"
    " set_config('max_parallel_workers_per_gather', '0', true), set_config('cpu_tuple_cost', '0.5', true),"
    " set_config('random_page_cost', '1.1', true)"
)
# New words wait in a list that every search reads as a whole. With PostgreSQL's 4 MB for each month that list costs more
# than the index saves, and the planner passes the index by; with 256 kB there is a third more WAL. For connections that append.
SHORT_LIST = "SELECT set_config('gin_pending_list_limit', '1MB', false)"
# A month to which nothing is added keeps its last list, and every search reads it.
EMPTY_LISTS = "SELECT sum(gin_clean_pending_list(inhrelid)) FROM pg_inherits WHERE inhparent = 'texts_by_words'::regclass"


# A block is read again where it may match: small enough to be quick, large enough to share words.
_MOST_LINES, _MOST_CHARACTERS = 64, 64_000
_LONGEST_WORD = 500  # bytes; PostgreSQL takes 2,046
INSERT_BLOCK = (
    "INSERT INTO texts(ref, key, line, lines, org, oldest, newest, words)"
    " VALUES($1,$2,$3,$4,$5,$6,$7,array_to_tsvector($8::text[]))"
)


def blocks_of(ask: AppendRequest, now: int) -> Iterator[tuple[object, ...]]:
    """The words of an append, some lines at a time, as ``INSERT_BLOCK`` takes them: each word once. Which line has a word is
    seen in the lines themselves."""
    block: list[TextRow] = []
    size = 0
    for row in ask.prepared.texts:
        if block and (len(block) == _MOST_LINES or size + len(row.text) > _MOST_CHARACTERS):
            yield _block(block, ask.org, now)
            block, size = [], 0
        block.append(row)
        size += len(row.text)
    if block:
        yield _block(block, ask.org, now)


def _block(rows: list[TextRow], org: str, now: int) -> tuple[object, ...]:
    first, times = rows[0].line, [row.at or 0 for row in rows]
    # As our tokenizer has them, so that both databases index the same words.
    words = {
        word[:_LONGEST_WORD].decode(errors="replace")
        for row in rows
        for word in folded(indexed_text(row.text)).split()
    }
    return first, rows[-1].line - first + 1, org, min(times), min(max(times), now), sorted(words)


def windows(now: int) -> list[Window]:
    """All of time, cut; the newest first, which is as open at its end as the last at its beginning."""
    cuts = [None, *(now - span for span in _SPANS_MS), None]
    return [(since, until) for until, since in pairwise(cuts)]


def tsquery(query: WordQuery) -> str:
    """What every block with a matching line has, in PostgreSQL's syntax; every word is quoted."""
    return _loose(query.root)


def _loose(node: QueryNode) -> str:
    if isinstance(node, Term):
        *words, last = (_quoted(word) for word in node.words)
        return " & ".join([*words, f"{last}{':*' if node.prefix else ''}"])
    sign = " & " if isinstance(node, AllOf) else " | "
    return sign.join(f"({_loose(part)})" for part in node.wanted)


def _quoted(word: str) -> str:
    cut = word.encode(errors="replace")[:_LONGEST_WORD].decode(errors="replace")
    return "'" + cut.replace("'", "").replace("\\", "") + "'"


async def _newest_first(blocks: BlockReader, now: int) -> AsyncGenerator[Row, None]:
    """Candidates, newest first, and one more than may be read: it tells that something is left."""
    left = _MOST_BLOCKS + 1
    for window in windows(now):
        offset, size = 0, min(_AT_ONCE, left)
        while size:
            count = 0
            async for row in blocks(window, size, offset):
                count += 1
                yield row
            offset, left = offset + count, left - count
            if count < size:
                break
            size = min(size * 2, left)


class BlockSearch:
    """The newest lines that match; ``blocks`` gives candidates, ``segments`` the bytes of a block's lines."""

    def __init__(
        self,
        wanted: LineSearch,
        segments: Callable[[str, str, int, int], AsyncIterator[Segment]],
    ) -> None:
        self._query, self._limit = wanted.query, wanted.limit
        self._since, self._until = wanted.since, wanted.until
        self._segments = segments
        self._found: dict[tuple[str, str, int], LineHit] = {}
        # The last segment that was read: blocks of one append follow one another.
        self._last: tuple[str, str, Segment] | None = None

    async def run(self, blocks: BlockReader, now: int) -> LineHits:
        """``blocks``: those of a window of time, newest first, so many after so many."""
        left = _MOST_BLOCKS
        async with aclosing(_newest_first(blocks, now)) as candidates:
            async for session, key, line, lines, newest in candidates:
                if self._is_enough(newest):
                    break
                if not left:
                    return LineHits(self._newest(), searched_to=newest)
                left -= 1
                await self._read(session, key, line, lines)
        return LineHits(self._newest())

    def _is_enough(self, newest: int) -> bool:
        """Whether enough lines are at least as new as everything that is left."""
        if len(self._found) < self._limit:
            return False
        return sum((one.at or 0) >= newest for one in self._found.values()) >= self._limit

    def _newest(self) -> list[LineHit]:
        order = sorted(
            self._found.values(), key=lambda one: (-(one.at or 0), one.session, one.key, -one.line)
        )
        return order[: self._limit]

    async def _read(self, session: str, key: str, line: int, lines: int) -> None:
        first, until = line - 1, line - 1 + lines
        known = self._last
        if known is not None and known[:2] == (session, key):
            segment = known[2]
            if segment.first_line <= first and until <= segment.first_line + segment.lines:
                await self._compare(session, key, segment, line, lines)
                return
        async for segment in self._segments(session, key, first, until):
            self._last = session, key, segment
            await self._compare(session, key, segment, line, lines)

    async def _compare(self, session: str, key: str, segment: Segment, line: int, lines: int) -> None:
        def matching() -> list[TextRow]:
            rows = texts_of(segment.data, segment.first_line, range(line, line + lines))
            return [row for row in rows if self._is_meant(row) and self._query.matches({"words": row.text})]

        for row in await asyncio.to_thread(matching):
            self._found[session, key, row.line] = LineHit(session, key, row.line, row.at, row.type, row.text)

    def _is_meant(self, row: TextRow) -> bool:
        if self._since is None and self._until is None:
            return True
        after = row.at is not None and (self._since is None or row.at >= self._since)
        return after and (self._until is None or (row.at or 0) < self._until)
