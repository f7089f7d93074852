"""One hop from an event loop into a thread, and safely back when the waiting is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """What ``work`` returns, done in a thread. A cancellation waits for the thread to end."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # Not left running: whoever cancels may close, delete or repeat next, and must not meet it.
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # looked at, so that the loop does not complain about it
        raise
