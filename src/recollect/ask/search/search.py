"""Search all texts of all logs.

Words are answered by the index. A substring or a pattern is verified in the original text: if every
match must contain certain words, the index names the lines to read, else all logs are read.

A message is found once, however many forks have a copy, and shown where it was written first, unless
the filters say otherwise. Newest first goes by the messages' own times; a message without a time comes
last. ``notes`` says what an answer leaves out.
"""

from __future__ import annotations

import datetime as dt
import functools
import time
from collections.abc import Sequence

from msgspec import structs

from recollect.ask.search.hits import SearchResult
from recollect.ask.search.matches import IndexSearch, SearchRequest
from recollect.ask.search.question import (
    BEST,
    HOW,
    WORDS,
    QuoteReader,
    SearchQuery,
    finder_of,
)
from recollect.ask.sessions.projects import ProjectFilter
from recollect.errors import UsageError
from recollect.index.access import OpenIndex
from recollect.model.lines.ids import milliseconds_of, moment_of
from recollect.model.recall import TEXT_KIND
from recollect.model.text.query import WordQuery
from recollect.model.views.facts import TEXT_KINDS
from recollect.system.pool import ProgressCallback


def search(
    query: str,
    *,
    opened: OpenIndex,
    how: str = WORDS,
    kinds: Sequence[str] | None = None,
    project: str | None = None,
    since: dt.datetime | None = None,
    until: dt.datetime | None = None,
    session: str | None = None,
    among: frozenset[str] | None = None,
    rank: bool = False,
    case: bool = False,
    limit: int = 20,
    sessions: int = 0,
    width: int = 160,
    seconds: float = 10.0,
    loose: bool = False,
    with_hits: bool = True,
    progress: ProgressCallback | None = None,
) -> SearchResult:
    """Matching messages, newest first or best first; each once. ``sessions`` is how many sessions to return as well.

    ``among`` are the sessions to search; None: all. Without ``with_hits`` only sessions are asked for. ``progress`` is told (done, total) in bytes where logs are read.

    ``how="best"`` asks for the sessions that answer a question best, by any of its words (``ask.search.recall``).
    ``loose``: if no message has all the words, those are the answer.
    """
    started = time.perf_counter()
    question = SearchQuery(how, query, case, _checked_kinds(kinds), milliseconds(since), milliseconds(until))
    _check(question, rank=rank, limit=limit, width=width, seconds=seconds)
    best = functools.partial(
        _best_sessions,
        question,
        opened,
        project=project,
        session=session,
        limit=limit,
        sessions=sessions,
        width=width,
    )
    if how == BEST:
        return best()
    request = SearchRequest(
        question,
        finder_of(question),
        None if project is None else ProjectFilter(project).fits,
        session,
        rank,
        limit if with_hits or not sessions else 0,
        time.monotonic() + seconds,
        width,
        sessions,
        progress,
        among,
    )
    with QuoteReader() as quotes:
        found = IndexSearch(opened, request, quotes).answer()
        if loose and not found.total and not found.is_cut_short:
            if _can_be_recalled(request) and (recalled := best()).total:
                return recalled
            found = _loosened(request, found, opened, quotes)
    partly = [f"{opened.coverage} searched, the newest: the others are being read"] if opened.coverage else []
    return structs.replace(
        found,
        is_complete=found.is_complete and not partly,
        took_ms=(time.perf_counter() - started) * 1000,
        notes=partly + found.notes,
    )


# --- validation --------------------------------------------------------------------------------------------


def _check(question: SearchQuery, *, rank: bool, limit: int, width: int, seconds: float) -> None:
    if question.how not in HOW:
        raise UsageError(
            f"search by {question.how!a}: unknown kind of search", hint=f"one of {', '.join(HOW)}"
        )
    for name, number, least in (("limit", limit, 1), ("width", width, 20)):
        if number < least:
            raise UsageError(f"{name} {number}: too small", hint=f"give {least} or more")
    if not seconds > 0:
        raise UsageError(
            f"seconds {seconds:g}: must be more than 0", hint="give a number of seconds, or leave it out"
        )
    if question.how == BEST and (question.kinds != TEXT_KINDS or rank):
        raise UsageError("best: takes neither kinds nor rank", hint="leave them out")
    if rank and question.how != WORDS:
        raise UsageError(f"rank: a {question.how} search cannot be ranked", hint="leave it out: newest first")
    if question.is_case_exact and question.how == WORDS:
        raise UsageError("case: a search for words ignores case", hint="use --substring or --regex with it")


def _checked_kinds(kinds: Sequence[str] | None) -> tuple[str, ...]:
    request = TEXT_KINDS if kinds is None else tuple(kinds)
    for kind in request:
        if kind not in TEXT_KINDS:
            raise UsageError(
                f"kind {kind!a}: no such kind of text", hint=f"one or more of {', '.join(TEXT_KINDS)}"
            )
    if not request:
        raise UsageError("kind: none given", hint=f"one or more of {', '.join(TEXT_KINDS)}")
    return tuple(kind for kind in TEXT_KINDS if kind in request)


def milliseconds(moment: dt.datetime | None) -> int | None:
    """A moment without a time zone is in local time."""
    return milliseconds_of(None if moment is None else moment.astimezone(dt.UTC))


def _can_be_recalled(request: SearchRequest) -> bool:
    finder, question = request.finder, request.question
    return (
        # What it quotes from; it has nothing of the other kind.
        {*TEXT_KIND} <= {*question.kinds}
        and isinstance(finder, WordQuery)
        and finder.is_loosenable
        and finder.is_plain
    )


def _best_sessions(
    asked: SearchQuery,
    opened: OpenIndex,
    *,
    project: str | None,
    session: str | None,
    limit: int,
    sessions: int,
    width: int,
) -> SearchResult:
    """The sessions that answer best, as an answer of a search."""
    from recollect.ask.search.recall import recall

    found = recall(
        asked.text,
        opened=opened,
        project=project,
        since=moment_of(asked.since),
        until=moment_of(asked.until),
        session=session,
        limit=sessions or limit,
        width=width,
        with_answers=sessions > 0,
    )
    is_fallback = asked.how != BEST
    notes = ["No message has all the words; the best with some of them"] if is_fallback else []
    if found.missing:
        words = f"not found anywhere: {', '.join(found.missing)}"
        notes = [f"{notes[0]} ({words})"] if notes else [words]
    if found.sessions and found.is_weak:
        notes.append("weak: even the best answer has little of the question")
    return SearchResult(
        [hit for one in found.sessions for hit in one.hits][:limit],
        sum(one.count for one in found.sessions),
        len(found.sessions) == found.total,
        found.took_ms,
        notes,
        found.sessions if sessions else [],
        is_loose=is_fallback,
        is_weak=bool(found.sessions) and found.is_weak,
    )


def _loosened(
    request: SearchRequest, nothing: SearchResult, opened: OpenIndex, quotes: QuoteReader
) -> SearchResult:
    """Any of the words instead of all, best first; nothing if that finds nothing either."""
    finder = request.finder
    if not isinstance(finder, WordQuery) or not finder.is_loosenable:
        return nothing
    question = structs.replace(request.question, is_loose=True)
    wanted = structs.replace(request, question=question, finder=finder_of(question), rank=True)
    found = IndexSearch(opened, wanted, quotes).answer()
    if not found.total:
        return nothing
    note = "No message has all the words; the best with some of them"
    missing = IndexSearch(opened, request, quotes).missing_words(finder)
    note += f" (not found anywhere: {', '.join(missing)})" if missing else ""
    return structs.replace(found, notes=[note, *found.notes], is_loose=True)
