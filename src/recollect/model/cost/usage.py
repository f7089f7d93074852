"""Token counts as the API reports them, with every field the clients have written so far.

Counts are added as integers and priced once, at the end (law 6). Two rules are easy to get wrong and stand
here, both as the client counts. The sum of cache writes is believed, and what of it is not said to live an hour
lives five minutes: a split of 0/0 beside a sum is five-minute writes. What a response asked of an advisor stands
in ``iterations``, outside the counts of the response, and is billed under the advisor's own model.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

# A line without these bytes in its iterations asked no advisor.
ADVISOR = b"advisor_message"


class CacheLifetimes(Protocol):
    """Cache writes by lifetime, in whatever view of a line."""

    @property
    def ephemeral_5m_input_tokens(self) -> int | None:
        """Those that live five minutes."""

    @property
    def ephemeral_1h_input_tokens(self) -> int | None:
        """Those that live an hour."""


def cache_writes(whole: int | None, split: CacheLifetimes | None) -> tuple[int, int]:
    """Cache writes of five minutes and of an hour. Without a sum the split alone is counted."""
    if split is None:
        return whole or 0, 0
    hour = split.ephemeral_1h_input_tokens or 0
    if not whole:
        return split.ephemeral_5m_input_tokens or 0, hour
    hour = min(hour, whole)
    return whole - hour, hour


class CacheCreation(Struct, frozen=True):
    """Cache writes by lifetime; an hour costs more than five minutes."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class ServerToolUse(Struct, frozen=True):
    """Calls the API made itself; searches are billed one by one."""

    web_search_requests: int | None = None
    web_fetch_requests: int | None = None


class OutputDetails(Struct, frozen=True):
    """How the output divides."""

    thinking_tokens: int | None = None


class Usage(Struct, frozen=True):
    """The ``usage`` of one response."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUse | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    output_tokens_details: OutputDetails | None = None
    iterations: Raw | UnsetType = UNSET
    fallback_credit: Raw | UnsetType = UNSET

    @property
    def cache_write_1h_tokens(self) -> int:
        """Cache writes that live an hour."""
        return cache_writes(self.cache_creation_input_tokens, self.cache_creation)[1]

    @property
    def cache_write_5m_tokens(self) -> int:
        """Cache writes that live five minutes: what is not said to live an hour."""
        return cache_writes(self.cache_creation_input_tokens, self.cache_creation)[0]

    @property
    def web_searches(self) -> int:
        """Searches the API made for this response."""
        return (self.server_tool_use.web_search_requests or 0) if self.server_tool_use else 0

    def tokens(self) -> Tokens:
        """The counts that are added and priced. A count below zero must not lower a total."""
        five, hour = cache_writes(self.cache_creation_input_tokens, self.cache_creation)
        return Tokens(
            input=max(self.input_tokens or 0, 0),
            output=max(self.output_tokens or 0, 0),
            cache_write_5m=max(five, 0),
            cache_write_1h=max(hour, 0),
            cache_read=max(self.cache_read_input_tokens or 0, 0),
            web_searches=max(self.web_searches, 0),
        )


class AdvisorUsage(Struct, frozen=True):
    """One answer of an advisor."""

    model: str
    usage: Usage


class _Iteration(Struct, frozen=True):
    type: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None


def advisors(usage: Usage) -> list[AdvisorUsage]:
    """What a response asked of advisors; an iteration that names no model is billed to no one."""
    if isinstance(usage.iterations, UnsetType) or ADVISOR not in bytes(usage.iterations):
        return []
    try:
        found = msgspec.json.decode(usage.iterations, type=list[_Iteration])  # rare: not worth a decoder
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [
        AdvisorUsage(
            one.model,
            Usage(
                input_tokens=one.input_tokens,
                output_tokens=one.output_tokens,
                cache_creation_input_tokens=one.cache_creation_input_tokens,
                cache_read_input_tokens=one.cache_read_input_tokens,
                cache_creation=one.cache_creation,
                # An advisor answers at the usual speed, in the same place.
                inference_geo=usage.inference_geo,
            ),
        )
        for one in found
        if one.type == "advisor_message" and one.model
    ]


# The classes of tokens, and searches, of anything that has them; in the order in which ``Price.cost`` takes them.
counts_of: Callable[[object], tuple[int, int, int, int, int, int]] = operator.attrgetter(
    "input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches"
)


class Tokens(Struct, frozen=True):
    """Counts that can be added. ``input`` excludes everything cached."""

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    web_searches: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*map(operator.add, self.counts, other.counts))

    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """All of them, in the order in which ``Price.cost`` takes them."""
        return counts_of(self)

    @property
    def total(self) -> int:
        """All tokens of all classes; searches are not tokens."""
        return self.input + self.output + self.cache_write_5m + self.cache_write_1h + self.cache_read
