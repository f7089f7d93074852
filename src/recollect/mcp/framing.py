"""Splits a server's bytes into lines that are safe to parse: bounded in length, depth, values and rate.

A line is refused as soon as it is too long, and a message is counted before it is parsed, since parsing
multiplies its size. Pure: bytes and times in, lines or ``BrokenFrame`` out.
"""

from __future__ import annotations

import re

from recollect.mcp.limits import McpLimits

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPENING_OR_CLOSING = re.compile(rb"[\[\]{}]")


class BrokenFrame(Exception):
    """The server broke a limit, and its connection ends. The message is ours, not the server's."""


class LineSplitter:
    """Splits a stream of bytes at newlines."""

    def __init__(self, limits: McpLimits) -> None:
        self._most = limits.message_bytes
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, without their newline."""
        *complete, rest = data.split(b"\n")
        lines: list[bytes] = []
        for piece in complete:
            self._add(piece)
            lines.append(b"".join(self._parts).rstrip(b"\r"))
            self._parts, self._length = [], 0
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._most:
            self._parts = []
            raise BrokenFrame(f"a message of more than {self._most:,} bytes")
        if piece:
            self._parts.append(piece)


def require_small(message: bytes, limits: McpLimits) -> None:
    """Refuse a message with too much nesting or too many values, before it is parsed."""
    if len(message) > limits.message_bytes:
        raise BrokenFrame(f"a message of more than {limits.message_bytes:,} bytes")
    opened = message.count(b"[") + message.count(b"{")
    # Counting inside strings too is fast and never too low; only a suspicious message is checked closely.
    if opened <= limits.depth and opened + message.count(b",") <= limits.values:
        return
    bare = _STRING.sub(b"", message)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > limits.values:
        raise BrokenFrame(f"a message of more than {limits.values:,} values")
    depth = 0
    for bracket in _OPENING_OR_CLOSING.finditer(bare):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > limits.depth:
            raise BrokenFrame(f"a message nested deeper than {limits.depth}")


def require_few_tools(result: object, limits: McpLimits) -> None:
    """Refuse a list with too many tools before they become SDK objects."""
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list) and len(tools) > limits.tools:
        raise BrokenFrame(f"more than {limits.tools:,} tools")


class MessageRateLimit:
    """Limits messages to a burst and a steady rate per second."""

    def __init__(self, limits: McpLimits) -> None:
        self._per_second = limits.messages_per_second
        self._burst = float(limits.message_burst)
        self._left = self._burst
        self._last: float | None = None

    def count(self, now: float) -> None:
        """Count one message at this time (seconds of a monotonic clock)."""
        if self._last is not None:
            self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left < 0:
            raise BrokenFrame(f"more than {self._per_second:g} messages a second")
