"""Count the messages of sessions whose count is unknown, and store it.

A refresh counts new lines directly if it can. After a branch, a compaction or parallel calls the log
must be read again: that happens here, on demand, for the logs concerned.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from recollect.errors import Busy, NotFound, StorageError
from recollect.index import catalogue
from recollect.index.database import Failure
from recollect.model.conversation.message_count import MessageCount
from recollect.services.indexing.access import OpenIndex


def recounted(opened: OpenIndex) -> dict[int, MessageCount]:
    """The counts of all sessions that had none, by number of their log. Needs a database."""
    database = opened.database
    assert database is not None  # noqa: S101 - for the type checker: the caller has looked
    waiting = catalogue.uncounted(database)
    if not waiting:
        return {}
    from recollect.index.catalogue_updates import note_count
    from recollect.storage.logs.log_counts import log_counts

    found: dict[int, MessageCount] = {}
    for file, path, consumed in waiting:
        with contextlib.suppress(NotFound, StorageError):
            found[file] = log_counts(Path(path), consumed).messages
    # Stored only if no other process is writing; else the next query counts again.
    with (
        contextlib.suppress(Busy, StorageError, Failure),
        contextlib.closing(opened.lock(0.0)) as lock,
        lock,
    ):
        if not opened.is_replaced:
            with database.transaction():
                for file, _, consumed in waiting:
                    if file in found:
                        note_count(database, file, consumed, found[file])
    return found
