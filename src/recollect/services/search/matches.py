"""What both ways of searching share: the request, and matching messages.

``services.index_matches`` queries the index, ``services.log_matches`` reads the logs. Both return the
same messages, each once: not from a fork if there is another copy, and of several the one in the log
whose last change is oldest, which was there first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from recollect.index.text_queries import UNDATED
from recollect.services.search.question import AnyFinder, SearchQuery
from recollect.services.search.quotes import MessagePlace
from recollect.services.search.text_scan_worker import SpottedLine, is_uuid

_Log = TypeVar("_Log")


class SearchRequest(NamedTuple):
    """A validated request. ``deadline`` is a ``time.monotonic`` time."""

    question: SearchQuery
    finder: AnyFinder
    project: Callable[[str | None], bool] | None
    session: str | None
    rank: bool
    limit: int
    deadline: float


class MatchOrigin(NamedTuple):
    """The session and agent of a message, its directory, and where the session continues."""

    session: str | None
    agent: str | None
    project: str | None
    branch: str | None
    title: str | None
    directory: str | None


class SearchMatch(NamedTuple):
    """A message to show."""

    place: MessagePlace
    at: int | None
    origin: MatchOrigin


class SearchMatches(NamedTuple):
    """An answer without quotes; ``total`` is a lower bound if it is not complete."""

    shown: list[SearchMatch]
    total: int
    is_complete: bool
    notes: list[str]


def newest_of(
    found: Iterable[tuple[int, _Log, SpottedLine]], limit: int
) -> tuple[list[tuple[_Log, SpottedLine]], int]:
    """The newest messages of the spotted lines, and how many different messages there are.

    The number says how many logs were changed later than this one.
    """
    best: dict[object, tuple[tuple[bool, int], _Log, SpottedLine]] = {}
    for number, log, line in found:
        order = (line.is_forked, -number)
        key = _message(number, line)
        if key not in best or order < best[key][0]:
            best[key] = order, log, line
    newest = sorted(best.values(), key=_time_and_place, reverse=True)
    return [(log, line) for _, log, line in newest[:limit]], len(newest)


def _message(number: int, line: SpottedLine) -> object:
    """The identity of a message. Ids that are not uuids repeat between logs."""
    if line.uuid is None:
        return number, line.offset
    return line.uuid if is_uuid(line.uuid) else (line.uuid, line.digest)


def _time_and_place(one: tuple[tuple[bool, int], _Log, SpottedLine]) -> tuple[int, int, int]:
    (_, place), _, line = one
    return UNDATED if line.at is None else line.at, place, line.offset
