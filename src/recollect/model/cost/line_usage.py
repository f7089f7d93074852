"""What a line says of usage: the one place that decides it, for the index, for scans, for ledgers, for the server.

Only an answer has usage of its own. What the client says in the model's place (``<synthetic>``) was asked of
no one and billed by no one. Counts no response can have are no counts. Dollars are kept as the digits that were
written. An advisor that a response asked is a response of its own, under a name made of the first one's. How a line is decoded is the business of ``model.views``; which of several lines counts, of
``model.cost.line_usage``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct, UnsetType

from recollect.model.cost.prices import SYNTHETIC_MODEL
from recollect.model.lines.blocks import CacheCreation, ServerToolUse, Usage, advisors

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


def counted(copies: Sequence[ResponseCopy]) -> list[tuple[int, int]]:
    """The responses that all copies of one message come to: of each the copy it belongs with, and the copy with its amounts, by place."""
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
    return sorted((place, largest[request]) for request, place in best.items())


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


# Beyond these a log says nonsense. They keep every sum over millions of responses within 63 bits.
_MOST_COUNT = (1 << 40) - 1
_LONGEST_MS = 10**10
_DEAREST_RESPONSE, _DEAREST_SESSION = 1_000, 1_000_000
# A model call of another agent, in the mirror of its home: usage without content.
FOREIGN_USAGE = "foreign-usage"
_BILLED = ("assistant", FOREIGN_USAGE)
# Between the id of a response and the number of the advisor it asked.
_ADVISOR_MARK = "#advisor-"
# From this version on a missing stop reason means that the counts are those of the stream's start.
_COUNTS_FROM_START = (2, 1)


class ResponseUsage(Struct, frozen=True, gc=False):
    """What a line says of the response it belongs to."""

    usage: Usage
    speaker: int
    message_id: str | None = None
    request_id: str = ""
    model: str | None = None
    has_stop: bool = False
    tool: str | None = None
    recorded: str | None = None  # dollars as an old client wrote them, digits untouched
    duration_ms: int | None = None
    advisors: tuple[ResponseUsage, ...] = ()

    def each(self) -> tuple[ResponseUsage, ...]:
        """The response and those of the advisors it asked: each is counted and priced by itself."""
        return (self, *self.advisors)


def is_billed(kind: str | None, model: str | None) -> bool:
    """Whether a line of this type and model can speak of a response that cost something."""
    return kind in _BILLED and model != SYNTHETIC_MODEL


def response_usage(
    usage: Usage,
    *,
    is_sidechain: bool | None,
    message_id: str | None,
    request_id: str | None,
    model: str | None,
    stop_reason: str | None,
    tool: str | None,
    cost: bytes | None,
    duration_ms: float | None,
) -> ResponseUsage:
    """What a line that is billed says. ``cost``: the JSON number an old client recorded."""
    speaker, request, has_stop = speaker_of(is_sidechain), request_id or "", stop_reason is not None
    return ResponseUsage(
        believable(usage),
        speaker,
        message_id,
        request,
        model,
        has_stop,
        tool,
        None if cost is None else believable_dollars(cost, _DEAREST_RESPONSE),
        believable_duration(duration_ms),
        # Most responses ask none, and this is called for every line.
        ()
        if isinstance(usage.iterations, UnsetType)
        else _asked(usage, speaker, message_id, request, has_stop),
    )


def _asked(
    usage: Usage, speaker: int, message_id: str | None, request: str, has_stop: bool
) -> tuple[ResponseUsage, ...]:
    return tuple(
        ResponseUsage(
            believable(counts),
            speaker,
            None if message_id is None else f"{message_id}{_ADVISOR_MARK}{number}",
            request,
            model,
            has_stop,
        )
        for number, (model, counts) in enumerate(advisors(usage), start=1)
    )


def said_by(said: ResponseUsage, speaker: int) -> ResponseUsage:
    """The same, said by another speaker."""
    asked = tuple(said_by(one, speaker) for one in said.advisors)
    return msgspec.structs.replace(said, speaker=speaker, advisors=asked)


def speaker_of(is_sidechain: bool | None) -> int:
    """Who speaks in a line of a log; progress of agents is told by its own kind of line."""
    return SIDECHAIN if is_sidechain is True else MAIN


def counts_are_uncertain(version: str | None, has_stop: bool) -> bool:
    """Whether the counts may be those of the stream's start (client 2.1.30 wrote nothing else)."""
    if has_stop or not version:
        return False
    try:
        major, minor, *_ = (int(part) for part in version.split(".")[:2])
    except ValueError:
        return False
    return (major, minor) >= _COUNTS_FROM_START


def believable(usage: Usage) -> Usage:
    """Counts no response can have are no counts: they must not win over true ones, nor burst the sums."""
    split, tools = usage.cache_creation, usage.server_tool_use
    together = (
        (usage.input_tokens or 0)
        | (usage.output_tokens or 0)
        | (usage.cache_creation_input_tokens or 0)
        | (usage.cache_read_input_tokens or 0)
    )
    if split is not None:
        together |= (split.ephemeral_5m_input_tokens or 0) | (split.ephemeral_1h_input_tokens or 0)
    if tools is not None:
        together |= tools.web_search_requests or 0
    # One comparison for all of them: a sign or a high bit of any is one of the whole.
    return usage if 0 <= together <= _MOST_COUNT else _without_nonsense(usage)


def is_believable(count: int) -> bool:
    """Whether a response, or a session, can have so many."""
    return 0 <= count <= _MOST_COUNT


def _without_nonsense(usage: Usage) -> Usage:
    def kept(count: int | None) -> int | None:
        return count if count is not None and is_believable(count) else None

    split, tools = usage.cache_creation, usage.server_tool_use
    return msgspec.structs.replace(
        usage,
        input_tokens=kept(usage.input_tokens),
        output_tokens=kept(usage.output_tokens),
        cache_creation_input_tokens=kept(usage.cache_creation_input_tokens),
        cache_read_input_tokens=kept(usage.cache_read_input_tokens),
        cache_creation=split
        and CacheCreation(kept(split.ephemeral_5m_input_tokens), kept(split.ephemeral_1h_input_tokens)),
        server_tool_use=tools and ServerToolUse(kept(tools.web_search_requests)),
    )


def believable_duration(milliseconds: float | None) -> int | None:
    """Whole milliseconds; None where no answer can have taken so long."""
    return int(milliseconds) if milliseconds is not None and 0 <= milliseconds <= _LONGEST_MS else None


def believable_total(number: bytes) -> str | None:
    """What a client says a whole session cost, as its own digits; None where no session can."""
    return believable_dollars(number, _DEAREST_SESSION)


def believable_dollars(number: bytes, most: int) -> str | None:
    """A JSON number as its own digits: a float would round what was written, and money is exact.

    None where it is no amount anyone could have been charged.
    """
    text = number.decode("ascii", "replace")
    return text if text[:1].isdigit() and float(text) <= most else None
