"""The first build of an index: who does it, and how long others wait for it.

At a gigabyte it takes fifteen times as long as a cost report from the logs, or a search in them. So a command that the logs can
answer leaves it to a background process. A command that needs the index waits for that process and shows its progress.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import Busy
from recollect.index.database import Failure, IndexDatabase
from recollect.system.progress import ProgressCallback

if TYPE_CHECKING:
    from recollect.services.indexing.access import OpenIndex

# Bytes of logs that are indexed in about the time in which they are read.
_SOON_BUILT = 64 << 20
# A search may wait for this build, so it gets a share of a busy machine.
_NICENESS = 5
_LOOK_SECONDS = 0.5


def is_soon_built(homes: Sequence[Path]) -> bool:
    """Whether the first build takes hardly longer than reading the logs."""
    from recollect.storage.home_walk import scan_logs

    size = sum(log.size for home in homes for log in scan_logs(home) if log.role != "tool-output")
    return size <= _SOON_BUILT


def left_to_background(opened: OpenIndex, *, is_older_asked: bool = True) -> bool:
    """Start the first build in the background, and say whether the logs should answer meanwhile.

    False where an earlier build in the background ended without an index: building it here tells the user why. With
    ``is_older_asked`` also False where an older index is there: it may know deleted sessions, which no log has.
    """
    from recollect.services.indexing.background_refresh import start_refresh
    from recollect.services.indexing.gone_sessions import predecessors

    if is_soon_built(opened.homes) or (is_older_asked and predecessors(opened.path)) or _has_failed(opened):
        return False
    start_refresh(str(opened.path), [os.fspath(home) for home in opened.homes], niceness=_NICENESS)
    return True


def _has_failed(opened: OpenIndex) -> bool:
    from recollect.services.indexing.background_refresh import PAUSE_SECONDS, marker_of
    from recollect.storage.refresh_turn import is_recent

    marker = marker_of(str(opened.path))
    if not Path(marker).exists() or is_recent(
        marker, PAUSE_SECONDS
    ):  # one just started may not have the lock yet
        return False
    try:
        with contextlib.closing(opened.lock(0.0)) as lock, lock:
            return True
    except Busy:
        return False


@contextlib.contextmanager
def locked_after_first_build(
    opened: OpenIndex, patience: float, progress: ProgressCallback | None
) -> Iterator[None]:
    """The lock of the index, once no one else is building it; ``Busy`` after ``patience`` seconds."""
    until = time.monotonic() + patience
    with contextlib.ExitStack() as stack:
        while True:
            left = until - time.monotonic()
            lock = stack.enter_context(contextlib.closing(opened.lock(max(0.0, min(left, _LOOK_SECONDS)))))
            try:
                stack.enter_context(lock)
                break
            except Busy:
                if left <= _LOOK_SECONDS:
                    raise
                stack.close()
                if progress is not None and opened.database is not None:
                    _tell(opened.database, progress)
        yield


def _tell(database: IndexDatabase, progress: ProgressCallback) -> None:
    """How much the other process has read. It may set the file aside at any moment."""
    with contextlib.suppress(Failure):
        ((done, total),) = database.rows("SELECT sum(consumed), sum(size) FROM files")
        if isinstance(done, int) and isinstance(total, int):
            progress(done, total)
