"""What both ways of searching share: the request, and matching messages.

``services.index_matches`` queries the index, ``services.log_matches`` reads the logs. Both return the
same messages, each once: not from a fork if there is another copy, and of several the one in the log
whose last change is oldest, which was there first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from recollect.index.text_queries import UNDATED
from recollect.services.search.question import AnyFinder, SearchQuery
from recollect.services.search.quotes import MessagePlace
from recollect.system.progress import ProgressCallback

# A question about words reads no log but those of its hits.
if TYPE_CHECKING:
    from recollect.services.search.text_scan_worker import SpottedLine

_Log = TypeVar("_Log")
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


class MatchOrigin(Struct, frozen=True):
    """The session and agent of a message, its directory, and where the session continues."""

    session: str | None
    agent: str | None
    project: str | None
    branch: str | None
    title: str | None
    directory: str | None


class SearchMatch(Struct, frozen=True):
    """A message to show."""

    place: MessagePlace
    at: int | None
    origin: MatchOrigin


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


def newest_of(found: Iterable[tuple[int, _Log, SpottedLine]]) -> list[tuple[_Log, SpottedLine]]:
    """The different messages of the spotted lines, newest first.

    The number says how many logs were changed later than this one.
    """
    best: dict[object, tuple[tuple[bool, int], _Log, SpottedLine]] = {}
    for number, log, line in found:
        order = (line.is_forked, -number)
        key = _message(number, line)
        if key not in best or order < best[key][0]:
            best[key] = order, log, line
    newest = sorted(best.values(), key=_time_and_place, reverse=True)
    return [(log, line) for _, log, line in newest]


def by_session(
    newest: Iterable[tuple[_Log, SpottedLine]],
    session_of: Callable[[_Log, SpottedLine], str | None],
    match: Callable[[_Log, SpottedLine], SearchMatch | None],
    sessions: int,
) -> list[SessionMatches]:
    """The sessions of messages that come newest first, each with a few to quote from: what people read before the rest."""
    found: dict[str | None, list[tuple[_Log, SpottedLine]]] = {}
    for log, line in newest if sessions else ():
        found.setdefault(session_of(log, line), []).append((log, line))
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
    from recollect.services.search.text_scan_worker import is_uuid

    return line.uuid if is_uuid(line.uuid) else (line.uuid, line.digest)


def _time_and_place(one: tuple[tuple[bool, int], _Log, SpottedLine]) -> tuple[int, int, int]:
    (_, place), _, line = one
    return UNDATED if line.at is None else line.at, place, line.offset
