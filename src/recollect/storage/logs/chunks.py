"""A log in chunks of whole lines, and the lines of a chunk in which a word occurs: no other line is looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recollect.model.damage import Line
from recollect.model.line_split import NEWLINE, SEAM, split_lines
from recollect.storage.logs.reader import OpenLog

_CHUNK = 256 * 1024


class LogChunk(NamedTuple):
    """Bytes of a log; the lines before ``end`` are whole, and a new one begins there. ``offset`` is where the bytes begin in the log."""

    data: bytes
    end: int
    offset: int

    def has(self, word: bytes) -> bool:
        """Whether the word occurs."""
        return self.data.find(word, 0, self.end) >= 0

    def lines_with(self, word: bytes) -> Iterator[bytes]:
        """The lines in which the word occurs, from the first to the last."""
        place = self.data.find(word, 0, self.end)
        while place >= 0:
            line = self._line_at(place)
            low, stop = self._around(place) if line is None else line
            for start, end in self._odd_lines(low, stop) if line is None else [line]:
                if self.data.find(word, start, end) >= 0:
                    yield self.data[start:end]
            place = self.data.find(word, stop, self.end)

    def spans(self, ends: Sequence[int]) -> list[tuple[int, int]]:
        """Where the lines begin and end in which a ``LinesWith`` found something: ``ends`` is what it says of the data."""
        # Written out, with ``_line_at``: this runs for every line of an answer.
        data, last = self.data, self.end
        found: list[tuple[int, int]] = []
        stop = 0
        for end in ends:
            if end <= stop:
                continue  # looked at already, with odd lines before it
            if end > last:
                break
            start, stop = data.rfind(NEWLINE, stop, end - 1) + 1, end - 1
            if data[start - 2 : start + 1] == SEAM == data[stop - 1 : stop + 2] and stop < last - 1:
                found.append((start, stop))
                continue
            line = self._line_at(stop)
            if line is not None:
                found.append(line)
                stop = line[1]
            else:
                low, stop = self._around(end - 1)
                found += [
                    (start, stop)
                    for start, stop in self._odd_lines(low, stop)
                    if bisect_right(ends, start) < bisect_right(ends, stop + 1)
                ]
        return found

    def _line_at(self, place: int) -> tuple[int, int] | None:
        """Where the line at a place begins and ends; None where that is not sure."""
        data, end = self.data, self.end
        start, stop = data.rfind(NEWLINE, 0, place) + 1, data.find(NEWLINE, place, end)
        stop = stop if stop >= 0 else end
        begins = data.startswith(SEAM, start - 2) if start else data.startswith(b"{")
        return (start, stop) if begins and (stop >= end - 1 or data.startswith(SEAM, stop - 1)) else None

    def _around(self, place: int) -> tuple[int, int]:
        """The nearest places where a line certainly begins, around another."""
        start, stop = self.data.rfind(SEAM, 0, place), self.data.find(SEAM, max(place - 1, 0), self.end)
        return (start + 2 if start >= 0 else 0), (stop + 2 if stop >= 0 else self.end)

    def _odd_lines(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        # By their places in the log: only at its start may a byte order mark stand before a line.
        data, offset = self.data, self.offset

        def read(size: int, at: int) -> bytes:
            return data[at - offset : at - offset + size]

        for line in split_lines(read, offset + start, offset + stop, goes_on=True):
            if isinstance(line, Line):
                yield line.offset - offset, line.offset - offset + len(line.data)


def chunks(log: OpenLog) -> Iterator[LogChunk]:
    """The whole lines of a log; a line over the limit is left out (L3)."""
    position, size = 0, log.size()
    while data := log.read_all(min(_CHUNK, size - position), position):
        end = data.rfind(SEAM) + 2
        if end > 1:
            yield LogChunk(data, end, position)
            position += end
        else:
            end = 0
        if (
            position - end + len(data) >= size
            and data.startswith(b"{", end)
            and data.endswith(b"}\n")
            and data.find(NEWLINE, end, -1) < 0
        ):
            # One line. Half an entry says nothing to those who decode it.
            yield LogChunk(data[end:], len(data) - end, position)
            return
        if not end or position - end + len(data) >= size:
            for item in log.lines(position, size):
                if isinstance(item, Line):
                    yield LogChunk(item.data + NEWLINE * item.ended, item.length, item.offset)
                position = item.end
                if position >= size or len(item.data) >= _CHUNK:
                    break
            else:
                return
