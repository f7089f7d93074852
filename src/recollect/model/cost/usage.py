"""Token counts as the API reports them, with every field the clients have written so far.

Counts are added as integers and priced once, at the end (law 6). Two rules are
easy to get wrong and stand here: a line that gives only the sum of cache writes
means the five-minute class, and a line that gives the split is believed over
the sum.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import UNSET, Raw, Struct, UnsetType


class CacheLifetimes(Protocol):
    """Cache writes by lifetime, in whatever view of a line."""

    @property
    def ephemeral_5m_input_tokens(self) -> int | None:
        """Those that live five minutes."""

    @property
    def ephemeral_1h_input_tokens(self) -> int | None:
        """Those that live an hour."""


def cache_writes(whole: int | None, split: CacheLifetimes | None) -> tuple[int, int]:
    """Cache writes of five minutes and of an hour, of a line's sum and its split where it has one."""
    hour = (split.ephemeral_1h_input_tokens or 0) if split is not None else 0
    five = None if split is None else split.ephemeral_5m_input_tokens
    return (max((whole or 0) - hour, 0) if five is None else five), hour


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


class Tokens(Struct, frozen=True):
    """Counts that can be added. ``input`` excludes everything cached."""

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    web_searches: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_write_5m + other.cache_write_5m,
            self.cache_write_1h + other.cache_write_1h,
            self.cache_read + other.cache_read,
            self.web_searches + other.web_searches,
        )

    @property
    def total(self) -> int:
        """All tokens of all classes; searches are not tokens."""
        return self.input + self.output + self.cache_write_5m + self.cache_write_1h + self.cache_read
