"""Jobs that a server repeats: one that fails is logged and tried again, whatever it failed with.

Nothing restarts a task that ended, and what stops a job mostly passes: a full disk, a lock, a database that is read-only.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from recollect.server.database.contract import Unavailable

_log = logging.getLogger("recollect.server")


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
