"""The newest ids of a log and their positions, so that a repeated append is recognised (P9).

Two sources: what this process appended, and the whole lines at the end of the file when it was opened or has
grown. Only positions and hashes are stored, never lines: a repeat is compared with the bytes in the file. If other
bytes are at a position now, another program has written the file again; then nothing known of it counts, and its end
is read once more.

An id that is no longer remembered is not an error: the line is then stored twice, and readers use the first
(L8).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from recollect.model.line_views.links import line_key

REMEMBERED = 4096
TAIL_WINDOW = 64 * 1024


class _IdPlace(NamedTuple):
    """Where the line of an id is, and the hash of that line within this process."""

    offset: int
    length: int
    hash: int


class RecentIds:
    """The last few thousand ids of one file, which is read through ``read(offset, length)``."""

    def __init__(self, read: Callable[[int, int], bytes], capacity: int = REMEMBERED) -> None:
        self._read = read
        self._capacity = capacity
        self._places: OrderedDict[str, _IdPlace] = OrderedDict()
        # Always the start of a line. Every whole line before it is known, or was too far from the end.
        self._known_to = 0

    def catch_up(self, end: int) -> None:
        """Read the lines that were added since the last time; the file now ends at ``end``."""
        if end < self._known_to:
            self.forget()  # the file was cut: positions beyond the cut are invalid
        start = max(self._known_to, end - TAIL_WINDOW)
        if start >= end:
            return
        data = self._read(start, end - start)
        first = 0 if start == self._known_to else data.find(b"\n") + 1
        if first or start == self._known_to:
            self._known_to = self._learn(data, first, start)

    def remember(self, entry_id: str, offset: int, line: bytes) -> None:
        """Record the position of an id; of two positions the first counts (L8)."""
        self._places.setdefault(entry_id, _IdPlace(offset, len(line) + 1, hash(line)))
        if len(self._places) > self._capacity:
            self._places.popitem(last=False)

    def reached(self, start: int, end: int) -> None:
        """The lines from ``start`` to ``end`` are our own: no need to read them back."""
        if self._known_to == start:
            self._known_to = end

    def find(self, entry_id: str, end: int) -> tuple[int, bytes] | None:
        """The offset and the bytes of the first known line with this id, in a file that ends at ``end``."""
        self.catch_up(end)
        found = self._line(entry_id)
        if found is None and entry_id in self._places:
            self.forget()
            self.catch_up(end)
            found = self._line(entry_id)
        return found

    def _line(self, entry_id: str) -> tuple[int, bytes] | None:
        """The line of an id, unless other bytes are in its place now."""
        place = self._places.get(entry_id)
        data = b"" if place is None else self._read(place.offset, place.length)
        if place is None or not data.endswith(b"\n") or hash(data[:-1]) != place.hash:
            return None
        return place.offset, data[:-1]

    def forget(self) -> None:
        """Drop everything: the file is another one."""
        self._places.clear()
        self._known_to = 0

    def _learn(self, data: bytes, start: int, offset: int) -> int:
        while (end := data.find(b"\n", start)) >= 0:
            entry_id = _id_of(data[start:end])
            if entry_id is not None:
                self.remember(entry_id, offset + start, data[start:end])
            start = end + 1
        return offset + start


def _id_of(line: bytes) -> str | None:
    # Only the top-level field counts: progress lines contain whole entries with their ids.
    if b'"uuid"' not in line:
        return None
    # A damaged line is never a repeat: the entry is stored again, complete.
    seen = line_key.sound(line)
    return None if seen is None else seen.uuid
