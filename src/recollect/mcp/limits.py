"""Limits on what a server may use: time, bytes, messages. Tests can make all of them small."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Exceeding a limit ends that server's connection; other servers continue.

    A line over stdio and an answer over HTTP have the same bound. ``values`` counts list items and
    object members: a short line can hold a million empty lists, and each costs memory.
    """

    start_seconds: float = 30.0
    list_seconds: float = 30.0
    call_seconds: float = 120.0
    stop_seconds: float = 1.0
    message_bytes: int = 3 * MIB
    depth: int = 64
    values: int = 50_000
    messages_per_second: float = 200.0
    message_burst: int = 500
    tools: int = 1_000
    pages: int = 50
    description_chars: int = 4_000
    schema_bytes: int = 64 * 1024
    result_chars: int = 1_000_000
    argument_bytes: int = MIB
    stderr_bytes: int = 64 * 1024
    memory_bytes: int = 4 << 30
    restarts: int = 5
    backoff_seconds: float = 0.5
    backoff_most_seconds: float = 30.0

    def backoff(self, failures: int) -> float:
        """Seconds to wait after this many consecutive failures: doubled each time, with an upper bound."""
        if failures <= 0:
            return 0.0
        return min(self.backoff_seconds * 2.0 ** min(failures - 1, 30), self.backoff_most_seconds)
