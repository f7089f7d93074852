"""Search with the index. Logs are read only to verify what its words cannot decide.

A substring or a pattern may contain words that every match must have: then the index names the lines
to read. If it has no such words, there is no answer from the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import structs

from recollect.index.schema import TOOL_OUTPUT, id_text
from recollect.index.session_texts import SessionTextQueries
from recollect.index.text_queries import (
    RANKED,
    MessageCopy,
    TextFilter,
    TextLogRow,
    TextMatch,
    TextQueryResult,
)
from recollect.model.line_views.facts import TEXT_KINDS
from recollect.model.search.query import WordQuery
from recollect.services.search.matches import (
    MatchOrigin,
    SearchMatch,
    SearchMatches,
    SearchRequest,
    SessionMatches,
    by_session,
    newest_of,
)
from recollect.services.search.question import OUTPUT_WINDOW, narrowing
from recollect.services.search.quotes import MessagePlace, QuoteReader

if TYPE_CHECKING:
    from recollect.services.search.text_scan_worker import SpottedLine, TextScanTask

# Copies of a message that are checked for one that is not from a fork.
_COPIES = 8


class IndexSearch:
    """One search of one index."""

    def __init__(self, rows: SessionTextQueries, request: SearchRequest, quotes: QuoteReader) -> None:
        self._rows = rows
        self._wanted = request
        self._quotes = quotes
        question = request.question
        self._only = TextFilter(self._files(), question.since, question.until)
        self._columns = None if question.kinds == TEXT_KINDS else question.kinds
        self._logs: dict[int, TextLogRow] = {}

    def answer(self) -> SearchMatches | None:
        """None if only the logs can answer."""
        finder = self._wanted.finder
        if isinstance(finder, WordQuery):
            return self._by_words(finder)
        may_fit = narrowing(self._wanted.question)
        return None if may_fit is None else self._verified(may_fit.fts(self._columns))

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
        return None if log is None else SearchMatch(place_of(log, copy), copy.at, origin_of(log))

    # --- verified by reading --------------------------------------------------------------------

    def _verified(self, match: str) -> SearchMatches:
        """Read the lines that may match, one copy of each: the others hold the same text."""
        from recollect.services.search.text_scan import scan

        request = self._wanted
        texts = {
            (text.copies[0].file, text.copies[0].offset): text for text in self._rows.all(match, self._only)
        }
        logs, tasks = self._tasks(texts)
        scanned = scan(tasks, request.question, request.deadline, request.progress)
        found = ((number, logs[number], line) for number, line in scanned.lines)
        newest = newest_of(found)

        def match_of(log: TextLogRow, line: SpottedLine) -> SearchMatch | None:
            text = texts.get((log.id, line.offset))
            # A side file may match in a part that is not indexed.
            return self._match(
                MessageCopy(0, log.id, line.offset, line.length, None, None, 0)
                if text is None
                else self._best(text)
            )

        matches = [one for log, line in newest[: request.limit] if (one := match_of(log, line))]
        sessions = by_session(newest, lambda log, _: log.session or log.path, match_of, request.sessions)
        problem = [scanned.problem] if scanned.problem else []
        return SearchMatches(matches, len(newest), not problem, problem, sessions, bool(problem))

    def _tasks(self, texts: dict[tuple[int, int], TextMatch]) -> tuple[list[TextLogRow], list[TextScanTask]]:
        from recollect.services.search.text_scan_worker import TextScanTask

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


def origin_of(log: TextLogRow) -> MatchOrigin:
    """From the log's row and that of its session."""
    return MatchOrigin(
        log.session,
        log.agent,
        log.cwd or log.session_cwd,
        log.branch or log.session_branch,
        log.title or None,
        log.session_cwd or log.cwd,
    )


def place_of(log: TextLogRow, copy: MessageCopy) -> MessagePlace:
    uuid, is_output = id_text(copy.uuid), log.role == TOOL_OUTPUT
    return MessagePlace(log.path, copy.offset, copy.length, uuid, is_output, (log.size, log.mtime))
