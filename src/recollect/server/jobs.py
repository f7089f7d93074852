"""Jobs beside the requests: one that fails is logged, and tried again where it is repeated, whatever it failed with.

Nothing restarts a task that ended, and what stops a job mostly passes: a full disk, a lock, a database that is read-only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Any

from recollect.server.database.contract import Unavailable

_log = logging.getLogger("recollect.server")
_NOTE_SECONDS = 0.25


async def is_done(name: str, job: Awaitable[None]) -> bool:
    """Do a job once; False where it failed."""
    try:
        await job
    except Unavailable as problem:
        _log.warning(name, extra={"fields": {"problem": str(problem)[:200]}})
    except Exception:  # noqa: BLE001 - see the module
        # Its type and its places: the text of a database's error may quote what is stored.
        _log.exception(name)
    else:
        return True
    return False


class SideNotes:
    """Notes about requests: who used a token, what was refused. A database that is read-only, or waits for its standby, still
    answers reads: an answer waits for its note only briefly, and the note goes on without it."""

    def __init__(self) -> None:
        self._writing: set[asyncio.Task[bool]] = set()

    async def write(self, name: str, note: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(is_done(name, note))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        await asyncio.wait((task,), timeout=_NOTE_SECONDS)
