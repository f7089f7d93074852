"""Five-hour windows, as subscriptions meter them, and how fast the running one fills.

A block starts at the full hour (UTC) of its first response and lasts five hours; the next one starts
with the first response after it. All edges are full hours, so the quarters of an hour that the index
keeps are enough to tell which block a response belongs to.

Times are quarters of an hour or milliseconds since 1970 (UTC); money is pico-dollars. Nothing is
imported, so that the status line can use this at every turn. What the vendor allows in a block is not
known here, and not guessed.
"""

QUARTERS_AN_HOUR = 4
BLOCK_QUARTERS = 5 * QUARTERS_AN_HOUR
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_QUARTER_MS = 15 * _MINUTE_MS


def blocks(quarters: "list[int]") -> list[tuple[int, int]]:
    """Start and end of every block, given the quarters with a response in rising order."""
    found: list[tuple[int, int]] = []
    for quarter in quarters:
        if not found or quarter >= found[-1][1]:
            start = quarter - quarter % QUARTERS_AN_HOUR
            found.append((start, start + BLOCK_QUARTERS))
    return found


class BurnRate:
    """How fast a running block fills, over the time since its first response (at least a minute)."""

    __slots__ = (
        "minutes_left",
        "pico_usd_per_hour",
        "projected_pico_usd",
        "projected_tokens",
        "tokens_per_minute",
    )

    def __init__(self, tokens: int, pico_usd: int, first_at: int, now: int, end: int) -> None:
        elapsed = max(now - first_at, _MINUTE_MS)
        left = max(end * _QUARTER_MS - now, 0)
        self.tokens_per_minute = tokens * _MINUTE_MS // elapsed
        self.pico_usd_per_hour = pico_usd * _HOUR_MS // elapsed
        self.projected_tokens = tokens + tokens * left // elapsed
        self.projected_pico_usd = pico_usd + pico_usd * left // elapsed
        self.minutes_left = left // _MINUTE_MS
