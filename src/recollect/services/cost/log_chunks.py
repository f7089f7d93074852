"""A log in chunks of whole lines, and the lines of a chunk in which a word occurs: no other line is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from recollect.model.damage import Line
from recollect.model.line_split import NEWLINE, SEAM, split_lines
from recollect.model.literal_search import LiteralSearch
from recollect.storage.logs.reader import OpenLog

_CHUNK = 256 * 1024


class LogChunk(NamedTuple):
    """Bytes of a log; the lines before ``end`` are whole, and a new one begins there."""

    data: bytes
    end: int

    def has(self, word: bytes) -> bool:
        """Whether the word occurs."""
        return self.data.find(word, 0, self.end) >= 0

    def lines_with(self, word: bytes) -> Iterator[bytes]:
        """The lines in which the word occurs, from the first to the last."""
        place = self.data.find(word, 0, self.end)
        while place >= 0:
            line = self._line_at(place)
            _, stop = self._around(place) if line is None else line
            yield from self._odd_lines(word, place) if line is None else [self.data[slice(*line)]]
            place = self.data.find(word, stop, self.end)

    def all_lines_with(self, word: bytes, search: LiteralSearch) -> list[bytes]:
        """The same at once; ``search`` is for the same word."""
        # Written out, with ``_line_at``: this runs for every line of an answer.
        data, end = self
        found: list[bytes] = []
        stop = 0
        for place in search.ends(data):
            if place <= stop:
                continue  # the word occurs again in the same line
            if place > end:
                break
            start, stop = data.rfind(NEWLINE, stop, place) + 1, data.find(NEWLINE, place, end)
            if data[start - 2 : start + 1] == SEAM == data[stop - 1 : stop + 2] and 0 < stop < end - 1:
                found.append(data[start:stop])
                continue
            line = self._line_at(place - 1)
            if line is not None:
                start, stop = line
                found.append(data[start:stop])
            else:
                _, stop = self._around(place - 1)
                found += self._odd_lines(word, place - 1)
        return found

    def _line_at(self, place: int) -> tuple[int, int] | None:
        """Where the line at a place begins and ends; None where that is not sure."""
        data, end = self
        start, stop = data.rfind(NEWLINE, 0, place) + 1, data.find(NEWLINE, place, end)
        stop = stop if stop >= 0 else end
        begins = not start or data.startswith(SEAM, start - 2)
        return (start, stop) if begins and (stop >= end - 1 or data.startswith(SEAM, stop - 1)) else None

    def _around(self, place: int) -> tuple[int, int]:
        """The nearest places where a line certainly begins, around another."""
        start, stop = self.data.rfind(SEAM, 0, place), self.data.find(SEAM, place, self.end)
        return (start + 2 if start >= 0 else 0), (stop + 2 if stop >= 0 else self.end)

    def _odd_lines(self, word: bytes, place: int) -> Iterator[bytes]:
        (start, stop), read = self._around(place), self.data.__getitem__
        for line in split_lines(lambda size, at: read(slice(at, at + size)), start, stop, goes_on=True):
            if isinstance(line, Line) and word in line.data:
                yield line.data


def chunks(log: OpenLog) -> Iterator[LogChunk]:
    """The whole lines of a log; a line over the limit is left out (L3)."""
    position, size = 0, log.size()
    while data := log.read_all(min(_CHUNK, size - position), position):
        end = data.rfind(SEAM) + 2
        if end > 1:
            yield LogChunk(data, end)
            position += end
        else:
            end = 0
        if position - end + len(data) >= size and data.find(NEWLINE, end, -1) < 0:
            yield LogChunk(data[end:], len(data) - end)  # half an entry says nothing to those who decode it
            return
        if not end:
            for item in log.lines(position, size):
                if isinstance(item, Line):
                    yield LogChunk(item.data, len(item.data))
                position = item.end
                if position >= size or len(item.data) >= _CHUNK:
                    break
            else:
                return
