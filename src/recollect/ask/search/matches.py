"""The messages that match a request, with their quotes.

Each once: not from a fork if there is another copy, and of several the one in the log whose last change is oldest,
which was there first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from recollect.ask.search import text_scan
from recollect.ask.search.hits import SearchResult, SessionHits, hit_of, session_hits
from recollect.ask.search.question import (
    OUTPUT_WINDOW,
    REGEX,
    AnyFinder,
    FoundMessage,
    Quote,
    QuoteReader,
    SearchQuery,
    narrowing,
)
from recollect.ask.search.text_scan import SpottedLine, TextScanTask, quoted_by_pattern
from recollect.index.access import OpenIndex
from recollect.index.schema import TOOL_OUTPUT
from recollect.index.text_queries import (
    RANKED,
    UNDATED,
    MessageCopy,
    TextFilter,
    TextLogRow,
    TextMatch,
    TextQueries,
)
from recollect.model.lines.ids import is_uuid
from recollect.model.text.query import WordQuery
from recollect.model.views.facts import TEXT_KINDS
from recollect.system.pool import ProgressCallback

# How many messages of a session are read to find prose among them, and copies of a message for one that is not from a fork.
_CANDIDATES, _COPIES = 4, 8
# A search that used up its time may still quote what it found.
_SECONDS_TO_QUOTE = 2.0


class SearchRequest(Struct, frozen=True):
    """A validated request. ``deadline`` is a ``time.monotonic`` time."""

    question: SearchQuery
    finder: AnyFinder
    project: Callable[[str | None], bool] | None
    session: str | None
    rank: bool
    limit: int
    deadline: float
    width: int
    sessions: int = 0  # how many sessions are asked for, besides the messages
    progress: ProgressCallback | None = None
    among: frozenset[str] | None = None  # the sessions to search; None: all


def _newest(found: Iterable[tuple[int, TextLogRow, SpottedLine]]) -> list[tuple[TextLogRow, SpottedLine]]:
    """The different messages of the spotted lines, newest first.

    The number says how many logs were changed later than this one.
    """
    best: dict[object, tuple[tuple[bool, int], TextLogRow, SpottedLine]] = {}
    for number, log, line in found:
        order = (line.is_forked, -number)
        key: object = number, line.offset
        if line.uuid is not None:  # ids that are not uuids repeat between logs
            key = line.uuid if is_uuid(line.uuid) else (line.uuid, line.digest)
        if key not in best or order < best[key][0]:
            best[key] = order, log, line

    def time_and_place(one: tuple[tuple[bool, int], TextLogRow, SpottedLine]) -> tuple[int, int, int]:
        (_, place), _, line = one
        return UNDATED if line.at is None else line.at, place, line.offset

    return [(log, line) for _, log, line in sorted(best.values(), key=time_and_place, reverse=True)]


class IndexSearch:
    """One search of one index."""

    def __init__(self, opened: OpenIndex, request: SearchRequest, quotes: QuoteReader) -> None:
        self._rows = TextQueries(opened.database)
        self._wanted = request
        self._quotes = quotes
        question = request.question
        self._only = TextFilter(self._files(), question.since, question.until)
        self._columns = None if question.kinds == TEXT_KINDS else question.kinds
        self._logs: dict[int, TextLogRow] = {}

    def answer(self) -> SearchResult:
        """The messages to show, and how many match."""
        finder = self._wanted.finder
        if isinstance(finder, WordQuery):
            return self._by_words(finder)
        may_fit = narrowing(self._wanted.question)
        return self._verified(None if may_fit is None else may_fit.fts(self._columns))

    def missing_words(self, finder: WordQuery) -> list[str]:
        """The words of a query that occur nowhere."""
        return [part.text for part in finder.parts() if not self._rows.occurs(part.fts(self._columns))]

    def _files(self) -> frozenset[int] | None:
        """The logs to search; None: all."""
        session, is_wanted = self._wanted.session, self._wanted.project
        files = None if session is None else self._rows.logs_of(session)
        if self._wanted.among is not None:
            own = self._rows.logs_among(self._wanted.among)
            files = own if files is None else files & own
        if is_wanted is None:
            return files
        return frozenset(
            file for file, cwd in self._rows.places() if (files is None or file in files) and is_wanted(cwd)
        )

    # --- by words -------------------------------------------------------------------------------

    def _by_words(self, finder: WordQuery) -> SearchResult:
        request, match = self._wanted, finder.fts(self._columns)
        prose = finder.fts(("prose",)) if "prose" in request.question.kinds else None
        found = self._rows.find(
            match,
            self._only,
            request.limit,
            sessions=request.sessions,
            prose=prose,
            best=self._best_log,
            rank=request.rank,
        )
        notes = []
        if request.limit and not found.is_all_ranked:
            notes.append(f"too many messages match: only the newest {RANKED:,} were ranked")
        self._look_up(copy.file for text, _ in found.sessions for copy in text.copies)
        sessions = [(self._placed([text]), count) for text, count in found.sessions]
        shown = self._placed(found.texts)
        return self._quoted_answer(shown, sessions, found.total, notes, is_exact=found.is_exact)

    def _best_log(self, text: TextMatch) -> int:
        self._look_up(copy.file for copy in text.copies)
        return self._best(text).file

    def _placed(self, texts: Sequence[TextMatch]) -> list[FoundMessage]:
        """The copies to show, each with its log."""
        self._look_up(copy.file for text in texts for copy in text.copies)
        best = [self._best(text) for text in texts]
        return [(self._logs[copy.file], copy) for copy in best if copy.file in self._logs]

    def _best(self, text: TextMatch) -> MessageCopy:
        """The copy to show: the first that is not from a fork, as far as the lines tell."""
        if len(text.copies) > 1:
            for copy in text.copies[:_COPIES]:
                log = self._logs.get(copy.file)
                facts = None if log is None else self._quotes.facts((log, copy))
                if facts is not None and not facts.is_forked:
                    return copy
        return text.copies[0]

    # --- verified by reading --------------------------------------------------------------------

    def _verified(self, match: str | None) -> SearchResult:
        """Read the lines that may match, one copy of each: the others hold the same text. None: any line may."""
        request = self._wanted
        texts = {
            (text.copies[0].file, text.copies[0].offset): text
            for text in (() if match is None else self._rows.all(match, self._only))
        }
        logs, tasks = self._every_log() if match is None else self._tasks(texts)
        found, cause = text_scan.scan(tasks, request.question, request.deadline, request.progress)
        newest = _newest((number, logs[number], line) for number, line in found)

        def placed(log: TextLogRow, line: SpottedLine) -> list[FoundMessage]:
            text = texts.get((log.id, line.offset))
            if text is not None:
                return self._placed([text])
            return [(log, MessageCopy(0, log.id, line.offset, line.length, line.uuid, line.at, 0))]

        shown = [one for log, line in newest[: request.limit] for one in placed(log, line)]
        by_session: dict[str, list[tuple[TextLogRow, SpottedLine]]] = {}
        for log, line in newest if request.sessions else ():
            by_session.setdefault(log.session or log.path, []).append((log, line))
        sessions = []
        for several in list(by_session.values())[: request.sessions]:
            # What people read comes before the rest.
            first = sorted(several, key=lambda one: not one[1].in_prose)[:_CANDIDATES]
            sessions.append(([one for log, line in first for one in placed(log, line)], len(several)))
        problem = [cause] if cause else []
        answer = self._quoted_answer(shown, sessions, len(newest), problem, is_exact=not problem)
        return structs.replace(answer, is_cut_short=bool(problem))

    def _every_log(self) -> tuple[list[TextLogRow], list[TextScanTask]]:
        """The logs to search whole, newest first."""
        self._look_up(file for file, _ in self._rows.places() if self._only.fits_log(file))
        logs = sorted(self._logs.values(), key=lambda log: log.mtime, reverse=True)
        return logs, [TextScanTask(log.path, log.size, log.role == TOOL_OUTPUT) for log in logs]

    def _tasks(self, texts: dict[tuple[int, int], TextMatch]) -> tuple[list[TextLogRow], list[TextScanTask]]:
        places: dict[int, list[int]] = {}
        sizes: dict[int, int] = {}
        for (file, offset), text in texts.items():
            places.setdefault(file, []).append(offset)
            sizes[file] = sizes.get(file, 0) + text.copies[0].length
        for file, size in self._rows.large_outputs(OUTPUT_WINDOW):
            if self._only.fits(file, None):
                places[file], sizes[file] = [0], size
        self._look_up(copy.file for text in texts.values() for copy in text.copies)
        self._look_up(places)
        logs = [self._logs[file] for file in places if file in self._logs]
        return logs, [
            TextScanTask(log.path, sizes[log.id], log.role == TOOL_OUTPUT, tuple(sorted(places[log.id])))
            for log in logs
        ]

    def _look_up(self, files: Iterable[int]) -> None:
        self._logs |= self._rows.logs({file for file in files if file not in self._logs})

    # --- quotes ---------------------------------------------------------------------------------

    def _quoted_answer(
        self,
        shown: Sequence[FoundMessage],
        sessions: Sequence[tuple[list[FoundMessage], int]],
        total: int,
        notes: list[str],
        *,
        is_exact: bool,
    ) -> SearchResult:
        cut = self._cut(shown)
        hits = [hit_of(one, quote) for one, quote in zip(shown, cut, strict=True)]
        if missing := cut.count(None):
            lost = f"{missing} messages could not be quoted: their logs changed, or the time was up"
            notes = [*notes, lost]
        quotes = iter(self._cut([one for candidates, _ in sessions for one in candidates]))
        grouped: list[SessionHits] = []
        for candidates, count in sessions:
            if candidates:
                several = [hit_of(one, next(quotes)) for one in candidates]
                best = min(several, key=lambda hit: (not hit.snippet.text, hit.kind != "prose"))
                grouped.append(session_hits([best], count))
        return SearchResult(hits, total, is_exact, 0.0, notes, grouped)

    def _cut(self, found: Sequence[FoundMessage]) -> list[Quote | None]:
        """The quotes; None if the match is gone, or a pattern took too long to find it again."""
        request, question = self._wanted, self._wanted.question
        if question.how == REGEX and found:
            deadline = max(request.deadline, time.monotonic() + _SECONDS_TO_QUOTE)
            return quoted_by_pattern(found, question, request.width, deadline)
        quote = self._quotes.quote
        return [quote(one, request.finder, question.kinds, request.width) for one in found]
