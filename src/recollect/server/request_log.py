"""One JSON line per request, without its query, headers or contents.

Lines are buffered for a moment: a write for each would cost more than the rest of a small request.
Closing the server writes the rest.
"""

from __future__ import annotations

import asyncio
import time
from typing import BinaryIO

import msgspec
from msgspec import Struct

_MOMENT = 0.05


class RequestLine(Struct):
    """The log record of a request; ``at`` in milliseconds since 1970."""

    id: str
    method: str
    route: str
    status: int
    ms: float
    bytes: int
    token: str | None
    at: int = 0
    level: str = "info"
    event: str = "request"


class RequestLog:
    """Writes lines about requests to a stream."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[RequestLine] = []

    def add(self, line: RequestLine) -> None:
        """Write a line soon."""
        line.at = time.time_ns() // 1_000_000
        if not self._lines:
            asyncio.get_running_loop().call_later(_MOMENT, self.flush)
        self._lines.append(line)

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if lines:
            self._stream.write(msgspec.json.Encoder().encode_lines(lines))
            self._stream.flush()
