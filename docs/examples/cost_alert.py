"""Say so when a session that is open right now has cost more than a limit.

    python cost_alert.py 5.00             # watch the homes of this machine until interrupted
    python cost_alert.py 5.00 --once      # look once; exit status 1 where a session is above the limit
    python cost_alert.py 5.00 --home DIR

Money is a Decimal from the log to the screen: a limit of 0.1 means 0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from decimal import Decimal

import recollect
from recollect import aio


def above(snapshot: recollect.WatchSnapshot, limit: Decimal) -> list[recollect.WatchedSession]:
    """The open sessions that have cost more than the limit. One whose cost is not known is not among them."""
    return [session for session in snapshot.sessions if session.usd is not None and session.usd > limit]


def line(session: recollect.WatchedSession) -> str:
    """One line about a session. Its title comes from a transcript: shown with control characters escaped."""
    speed = f", {session.usd_per_hour:.2f} an hour" if session.usd_per_hour else ""
    return f"{session.id[:8]} {session.title[:40]!a}: {session.usd} dollars{speed}"


async def watch(limit: Decimal, home: aio.Home) -> None:
    """Print each session once, when it first goes above the limit."""
    told: set[str] = set()
    async for snapshot in home.watch(interval=5.0):
        for session in above(snapshot, limit):
            if session.id not in told:
                told.add(session.id)
                print(line(session), flush=True)


async def look(limit: Decimal, home: aio.Home) -> int:
    """Look once."""
    found = above(await home.look(), limit)
    for session in found:
        print(line(session))
    return 1 if found else 0


def main() -> int:
    """Read the command line and watch."""
    parser = argparse.ArgumentParser(description="Warn about sessions that cost more than a limit.")
    parser.add_argument("limit", type=Decimal, help="dollars")
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--home", action="append", default=[])
    options = parser.parse_args()
    home = aio.Home(*options.home)
    if options.once:
        return asyncio.run(look(options.limit, home))
    try:
        asyncio.run(watch(options.limit, home))
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
