"""Runs a function in a thread from an event loop, and waits for it even when cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """The result of ``work``, run in a thread. A cancellation waits for the thread to end."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        # Not left running: after a cancellation the caller may close, delete or repeat.
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # retrieved, so that the loop does not complain about it
        raise
