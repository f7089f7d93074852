"""Which copy of a response counts, among all lines and files that speak of it.

One answer of the API is spread over several lines that share ``message.id`` and ``requestId`` and repeat
its usage, some with the counts of the stream's start. Forks copy those lines into other files; side
questions replay them in sub-agents' files, under another request id; agents' news repeat them in the
parent's file. Which copy counts is decided here, by pure functions of the copies alone: in whatever
order they are found, by a scan or by the index, the same one wins.

Among copies with the same request id: the conversation's own before a side chain's before an agent's
news; then the largest output; then one with a stop reason; then the latest, so that a response that
spans midnight belongs to the day of its last line; then one that no fork copied; then the smallest path.

Where the conversation itself speaks of a message, only its own copies can count, one for each request.
Where it does not, one copy counts for the whole message, whatever request ids the replays invented.

Imports nothing of ours: every cost report begins here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

# Who speaks of a response.
MAIN, SIDECHAIN, AGENT_PROGRESS = 2, 1, 0


class ResponseCopy(NamedTuple):
    """What one line, or all lines of one file together, say of a response."""

    request_id: str = ""
    speaker: int = MAIN
    output: int = 0
    has_stop: bool = False
    at: int = 0  # milliseconds since 1970
    forked: bool = False
    path: str = ""


def preference(copy: ResponseCopy) -> tuple[int, int, bool, int, bool]:
    """The larger, the better; where equal, the smaller path decides."""
    return copy.speaker, copy.output, copy.has_stop, copy.at, not copy.forked


def better(one: ResponseCopy, other: ResponseCopy) -> bool:
    """Whether ``one`` speaks for the response rather than ``other``."""
    mine, theirs = preference(one), preference(other)
    # The request id decides last and only between replays: without it their order would.
    place, other_place = (one.path, one.request_id), (other.path, other.request_id)
    return mine > theirs or (mine == theirs and place < other_place)


def counted(copies: Sequence[ResponseCopy]) -> list[int]:
    """Which of all copies of one message count, by their place in ``copies``."""
    has_main = any(copy.speaker == MAIN for copy in copies)
    best: dict[str, int] = {}
    for place, copy in enumerate(copies):
        if has_main and copy.speaker != MAIN:
            continue
        request = copy.request_id if has_main else ""
        if request not in best or better(copy, copies[best[request]]):
            best[request] = place
    return sorted(best.values())
