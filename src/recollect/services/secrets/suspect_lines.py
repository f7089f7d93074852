"""Which lines of an open log need a closer look for secrets, found in one pass over its blocks.

For those who read single lines in an order of their own: looking at each line as it is read takes several times as
long as passing over whole blocks.
"""

from __future__ import annotations

from bisect import bisect_left

from recollect.model.secrets.prefilter import suspects
from recollect.services.secrets.file_scan import line_blocks
from recollect.storage.logs.reader import OpenLog


class SuspectLines:
    """The suspect parts of a log as it was when they were looked for."""

    def __init__(self, log: OpenLog) -> None:
        self._file, self._end = _file_of(log), log.size()
        spans = (
            (position + start, position + stop)
            for position, block, is_part in line_blocks(log, self._end)
            for start, stop in ([(0, len(block))] if is_part else suspects(block))
        )
        self._starts, self._stops = [], []
        for start, stop in spans:
            self._starts.append(start)
            self._stops.append(stop)

    def are_of(self, log: OpenLog) -> bool:
        """Whether this is the same file, with nothing changed but what was appended."""
        return self._file == _file_of(log) and self._end <= log.size()

    def may_be_in(self, offset: int, length: int) -> bool:
        """Whether some of these bytes are suspect, or were not there yet."""
        at = bisect_left(self._starts, offset + length)
        return offset + length > self._end or (at > 0 and self._stops[at - 1] > offset)


def _file_of(log: OpenLog) -> tuple[int, int]:
    found = log.stat()
    return found.st_dev, found.st_ino
