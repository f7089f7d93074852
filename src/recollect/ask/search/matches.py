"""A request, and the messages that match.

Each once: not from a fork if there is another copy, and of several the one in the log whose last change is oldest,
which was there first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from recollect.ask.search import text_scan
from recollect.ask.search.question import (
    OUTPUT_WINDOW,
    AnyFinder,
    MessagePlace,
    QuoteReader,
    SearchQuery,
    narrowing,
)
from recollect.ask.search.text_scan import SpottedLine, TextScanTask
from recollect.index.access import OpenIndex
from recollect.index.schema import TOOL_OUTPUT, id_text
from recollect.index.session_texts import SessionTextQueries
from recollect.index.text_queries import (
    RANKED,
    UNDATED,
    MessageCopy,
    TextFilter,
    TextLogRow,
    TextMatch,
    TextQueryResult,
)
from recollect.model.lines.ids import is_uuid
from recollect.model.text.query import WordQuery
from recollect.model.views.facts import TEXT_KINDS
from recollect.system.pool import ProgressCallback

# How many messages of a session are read to find prose among them.
_CANDIDATES = 4


class SearchRequest(Struct, frozen=True):
    """A validated request. ``deadline`` is a ``time.monotonic`` time."""

    question: SearchQuery
    finder: AnyFinder
    project: Callable[[str | None], bool] | None
    session: str | None
    rank: bool
    limit: int
    deadline: float
    sessions: int = 0  # how many sessions are asked for, besides the messages
    progress: ProgressCallback | None = None
    among: frozenset[str] | None = None  # the sessions to search; None: all


class SearchMatch(Struct, frozen=True):
    """A message to show."""

    place: MessagePlace
    at: int | None
    log: TextLogRow


class SessionMatches(Struct, frozen=True):
    """A session that matches: messages to quote from, the preferred one first, and how many match."""

    candidates: list[SearchMatch]
    messages: int


class SearchMatches(Struct, frozen=True):
    """An answer without quotes; ``total`` is a lower bound if it is not complete.

    ``is_cut_short``: not everything could be read in the time allowed.
    """

    shown: list[SearchMatch]
    total: int
    is_complete: bool
    notes: list[str]
    sessions: Sequence[SessionMatches] = ()
    is_cut_short: bool = False


def newest_of(found: Iterable[tuple[int, TextLogRow, SpottedLine]]) -> list[tuple[TextLogRow, SpottedLine]]:
    """The different messages of the spotted lines, newest first.

    The number says how many logs were changed later than this one.
    """
    best: dict[object, tuple[tuple[bool, int], TextLogRow, SpottedLine]] = {}
    for number, log, line in found:
        order = (line.is_forked, -number)
        key = _message(number, line)
        if key not in best or order < best[key][0]:
            best[key] = order, log, line
    newest = sorted(best.values(), key=_time_and_place, reverse=True)
    return [(log, line) for _, log, line in newest]


def by_session(
    newest: Iterable[tuple[TextLogRow, SpottedLine]],
    match: Callable[[TextLogRow, SpottedLine], SearchMatch | None],
    sessions: int,
) -> list[SessionMatches]:
    """The sessions of messages that come newest first, each with a few to quote from: what people read before the rest."""
    found: dict[str, list[tuple[TextLogRow, SpottedLine]]] = {}
    for log, line in newest if sessions else ():
        found.setdefault(log.session or log.path, []).append((log, line))
    answer = []
    for several in list(found.values())[:sessions]:
        first = sorted(several, key=lambda one: not one[1].in_prose)[:_CANDIDATES]
        candidates = [one for log, line in first if (one := match(log, line)) is not None]
        if candidates:
            answer.append(SessionMatches(candidates, len(several)))
    return answer


def _message(number: int, line: SpottedLine) -> object:
    """The identity of a message. Ids that are not uuids repeat between logs."""
    if line.uuid is None:
        return number, line.offset

    return line.uuid if is_uuid(line.uuid) else (line.uuid, line.digest)


def _time_and_place(one: tuple[tuple[bool, int], TextLogRow, SpottedLine]) -> tuple[int, int, int]:
    (_, place), _, line = one
    return UNDATED if line.at is None else line.at, place, line.offset


# Copies of a message that are checked for one that is not from a fork.
_COPIES = 8


class IndexSearch:
    """One search of one index."""

    def __init__(self, opened: OpenIndex, request: SearchRequest, quotes: QuoteReader) -> None:
        self._rows = SessionTextQueries(opened.database)
        self._wanted = request
        self._quotes = quotes
        question = request.question
        self._only = TextFilter(self._files(), question.since, question.until)
        self._columns = None if question.kinds == TEXT_KINDS else question.kinds
        self._logs: dict[int, TextLogRow] = {}

    def answer(self) -> SearchMatches:
        """The messages to show, and how many match."""
        finder = self._wanted.finder
        if isinstance(finder, WordQuery):
            return self._by_words(finder)
        may_fit = narrowing(self._wanted.question)
        return self._verified(None if may_fit is None else may_fit.fts(self._columns))

    def _by_words(self, finder: WordQuery) -> SearchMatches:
        request, match = self._wanted, finder.fts(self._columns)
        answer = SearchMatches([], 0, True, [])
        if request.limit:
            ask = self._rows.ranked if request.rank else self._rows.newest
            answer = self._shown(ask(match, self._only, request.limit))
        if not request.sessions:
            return answer
        prose = finder.fts(("prose",)) if "prose" in request.question.kinds else None
        found = self._rows.by_session(
            match, prose, self._only, request.sessions, self._best_log, rank=request.rank
        )
        self._look_up(copy.file for one in found.sessions for text in one.texts for copy in text.copies)
        sessions = [
            SessionMatches(candidates, one.messages)
            for one in found.sessions
            if (candidates := [hit for text in one.texts if (hit := self._match(self._best(text)))])
        ]
        if not request.limit:
            answer = SearchMatches([], found.total, found.is_exact, [])
        return structs.replace(answer, sessions=sessions)

    def _best_log(self, text: TextMatch) -> int:
        self._look_up(copy.file for copy in text.copies)
        return self._best(text).file

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

    def _shown(self, answer: TextQueryResult) -> SearchMatches:
        notes = []
        if not answer.is_all_ranked:
            notes.append(f"too many messages match: only the newest {RANKED:,} were ranked")
        self._look_up(copy.file for text in answer.texts for copy in text.copies)
        best = [self._best(text) for text in answer.texts]
        matches = [match for copy in best if (match := self._match(copy))]
        return SearchMatches(matches, answer.total, answer.is_exact, notes)

    def _best(self, text: TextMatch) -> MessageCopy:
        """The copy to show: the first that is not from a fork, as far as the lines tell."""
        if len(text.copies) > 1:
            for copy in text.copies[:_COPIES]:
                log = self._logs.get(copy.file)
                facts = None if log is None else self._quotes.facts(place_of(log, copy))
                if facts is not None and not facts.is_forked:
                    return copy
        return text.copies[0]

    def _match(self, copy: MessageCopy) -> SearchMatch | None:
        log = self._logs.get(copy.file)
        return None if log is None else SearchMatch(place_of(log, copy), copy.at, log)

    # --- verified by reading --------------------------------------------------------------------

    def _verified(self, match: str | None) -> SearchMatches:
        """Read the lines that may match, one copy of each: the others hold the same text. None: any line may."""
        request = self._wanted
        texts = {
            (text.copies[0].file, text.copies[0].offset): text
            for text in (() if match is None else self._rows.all(match, self._only))
        }
        logs, tasks = self._every_log() if match is None else self._tasks(texts)
        scanned = text_scan.scan(tasks, request.question, request.deadline, request.progress)
        newest = newest_of((number, logs[number], line) for number, line in scanned.lines)

        def match_of(log: TextLogRow, line: SpottedLine) -> SearchMatch | None:
            text = texts.get((log.id, line.offset))
            if text is not None:
                return self._match(self._best(text))
            is_output = log.role == TOOL_OUTPUT
            seen = (log.size, log.mtime)
            place = MessagePlace(log.path, line.offset, line.length, line.uuid, is_output, seen)
            return SearchMatch(place, line.at, log)

        matches = [one for log, line in newest[: request.limit] if (one := match_of(log, line))]
        sessions = by_session(newest, match_of, request.sessions)
        problem = [scanned.problem] if scanned.problem else []
        return SearchMatches(matches, len(newest), not problem, problem, sessions, bool(problem))

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

    # --- logs -----------------------------------------------------------------------------------

    def _look_up(self, files: Iterable[int]) -> None:
        self._logs |= self._rows.logs({file for file in files if file not in self._logs})


def place_of(log: TextLogRow, copy: MessageCopy) -> MessagePlace:
    uuid, is_output = id_text(copy.uuid), log.role == TOOL_OUTPUT
    return MessagePlace(log.path, copy.offset, copy.length, uuid, is_output, (log.size, log.mtime))
