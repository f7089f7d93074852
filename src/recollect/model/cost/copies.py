"""Which copy of a response counts, among all lines and files that speak of it.

One answer of the API is spread over several lines that share ``message.id`` and ``requestId`` and repeat
its usage, some with the counts of the stream's start. Forks copy those lines into other files; side
questions replay them in sub-agents' files, under another request id; the parent's file repeats some lines of
its agents as progress. Which copy counts is decided here, by pure functions of the copies alone: in whatever
order they are found, by a scan or by the index, the same one wins.

Two questions are asked of the copies of a response. Where does it belong: to which session, agent and day?
To the conversation's own copy before a side chain's before an agent's progress; then to one that no fork
copied; then to the largest output; then to one with a stop reason; then to the latest, so that a response that
spans midnight belongs to the day of its last line; then to the smallest path. And which counts are true? Those of
the largest output, in the main log, an agent's, its progress or another session's copy: a line may hold what was
counted when the stream began.

Where the conversation itself speaks of a message, each request of its own copies is a response, and copies
of that request alone are asked. Where it does not, all copies are one response, whatever request ids the
replays invented.

Imports nothing of ours: every cost report begins here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# Who speaks of a response.
MAIN, SIDECHAIN, AGENT_PROGRESS = 2, 1, 0
# What a copy is to a response that counts: bits of ``marks``. Nearly always one copy is both.
BELONGS, AMOUNTS = 1, 2
BOTH = BELONGS | AMOUNTS


class ResponseCopy(NamedTuple):
    """What one line, or all lines of one speaker in one file together, say of a response."""

    request_id: str = ""
    speaker: int = MAIN
    output: int = 0
    has_stop: bool = False
    at: int = 0  # milliseconds since 1970
    forked: bool = False
    path: str = ""


class CountedResponse(NamedTuple):
    """One response that counts: the copy it belongs with, and the copy with its amounts, by their places."""

    place: int
    amounts: int


def line_rank(copy: ResponseCopy) -> tuple[int, bool, int]:
    """Which of several lines of one log and speaker stands for them: the larger, the later of equals."""
    return copy.output, copy.has_stop, copy.at


def preference(copy: ResponseCopy) -> tuple[int, bool, int, bool, int]:
    """The larger, the better; where equal, the smaller path decides."""
    return copy.speaker, not copy.forked, *line_rank(copy)


def better(one: ResponseCopy, other: ResponseCopy) -> bool:
    """Whether a response belongs with ``one`` rather than with ``other``."""
    mine, theirs = preference(one), preference(other)
    return mine > theirs or (mine == theirs and _place(one) < _place(other))


def counted(copies: Sequence[ResponseCopy]) -> list[CountedResponse]:
    """The responses that all copies of one message come to."""
    has_main = any(copy.speaker == MAIN for copy in copies)
    best: dict[str, int] = {}
    largest: dict[str, int] = {}
    for place, copy in enumerate(copies):
        request = copy.request_id if has_main else ""
        if request not in largest or _is_larger(copy, copies[largest[request]]):
            largest[request] = place
        if has_main and copy.speaker != MAIN:
            continue
        if request not in best or better(copy, copies[best[request]]):
            best[request] = place
    return sorted(CountedResponse(place, largest[request]) for request, place in best.items())


def marks(copies: Sequence[ResponseCopy]) -> list[int]:
    """For each copy of one message: whether a response belongs with it, and whether its amounts count."""
    found = [0] * len(copies)
    for place, amounts in counted(copies):
        found[place] |= BELONGS
        found[amounts] |= AMOUNTS
    return found


def _is_larger(one: ResponseCopy, other: ResponseCopy) -> bool:
    """Whether the counts of ``one`` are believed; where outputs are equal, as a response would belong."""
    mine, theirs = (one.output, one.has_stop, one.speaker), (other.output, other.has_stop, other.speaker)
    return mine > theirs or (mine == theirs and better(one, other))


def _place(copy: ResponseCopy) -> tuple[str, str]:
    # The request id decides last and only between replays: without it their order would.
    return copy.path, copy.request_id
