"""Count the messages of the sessions whose count is not known, and keep the answer.

A refresh counts a new line by itself where it can. After a branch, a compaction or parallel calls the log
has to be read once more: that is done here, when somebody asks for counts, for the logs that changed so.
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
    """The counts of all sessions that had none, by the number of their log. Needs a database."""
    database = opened.database
    assert database is not None  # noqa: S101 - for the type checker: the caller has looked
    waiting = catalogue.uncounted(database)
    if not waiting:
        return {}
    from recollect.storage.logs.log_counts import log_counts

    found: dict[int, MessageCount] = {}
    for file, path, consumed in waiting:
        with contextlib.suppress(NotFound, StorageError):
            found[file] = log_counts(Path(path), consumed).messages
    # Kept where nobody else is writing; otherwise it is counted again by the next one who asks.
    with (
        contextlib.suppress(Busy, StorageError, Failure),
        contextlib.closing(opened.lock(0.0)) as lock,
        lock,
    ):
        if not opened.is_replaced:
            with database.transaction():
                for file, _, consumed in waiting:
                    if file in found:
                        catalogue.note_count(database, file, consumed, found[file])
    return found
