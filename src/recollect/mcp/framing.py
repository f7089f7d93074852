"""From a server's bytes to lines that are safe to parse: bounded in length, depth, values and rate.

A server is not trusted to be short. A line that never ends is given up when it is too long, not when memory is;
a message is counted before it is built, since parsing is where a small line becomes large. Pure: bytes and
moments in, lines or ``BrokenFrame`` out.
"""

from __future__ import annotations

import re

from recollect.mcp.limits import McpLimits

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPENING_OR_CLOSING = re.compile(rb"[\[\]{}]")


class BrokenFrame(Exception):
    """The server broke a limit of the protocol; its connection ends. The text is ours, not the server's."""


class LineSplitter:
    """Cuts a stream of bytes at its newlines."""

    def __init__(self, limits: McpLimits) -> None:
        self._most = limits.message_bytes
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines these bytes complete, without their newline."""
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
    """Refuse a message that is nested too deep or holds too many values, before anything is made of it."""
    if len(message) > limits.message_bytes:
        raise BrokenFrame(f"a message of more than {limits.message_bytes:,} bytes")
    opened = message.count(b"[") + message.count(b"{")
    # Counting what stands inside of texts too is fast and never too low; only a suspicious one is looked at closely.
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
    """Refuse a list of tools that is too long before each of them becomes an object of the SDK."""
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list) and len(tools) > limits.tools:
        raise BrokenFrame(f"more than {limits.tools:,} tools")


class MessageRateLimit:
    """Counts messages: so many at once, so many a second for good."""

    def __init__(self, limits: McpLimits) -> None:
        self._per_second = limits.messages_per_second
        self._burst = float(limits.message_burst)
        self._left = self._burst
        self._last: float | None = None

    def count(self, now: float) -> None:
        """One more message at this moment (seconds of a clock that only goes forward)."""
        if self._last is not None:
            self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left < 0:
            raise BrokenFrame(f"more than {self._per_second:g} messages a second")
