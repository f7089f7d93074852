"""Lines of several callers combined into one write.

A job is one caller's request: lines that are stored together or not at all. The layout decides for each line
whether it is new, a repeat of a line in the file or in this batch, or a conflict; a conflict fails its own
job and no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from recollect.errors import IdConflict, Outcome, RecollectError
from recollect.storage.logs.recent_ids import RecentIds

BatchLines = Sequence[tuple[bytes, str | None]]


class AppendResult(msgspec.Struct, frozen=True):
    """The position of a line. ``length`` counts the newline; ``repeated``: it was already there."""

    offset: int
    length: int
    repeated: bool


class Slot:
    """One line and its position in the file, which is -1 until it has one."""

    __slots__ = ("entry_id", "line", "offset")

    def __init__(self, line: bytes, entry_id: str | None, offset: int = -1) -> None:
        self.line = line
        self.entry_id = entry_id
        self.offset = offset


class AppendJob:
    """One caller's request and, in the end, a result or an error."""

    __slots__ = ("error", "lines", "result", "slots")

    def __init__(self, lines: BatchLines) -> None:
        self.lines = lines
        self.slots: list[tuple[Slot, bool]] = []
        self.result: list[AppendResult] | None = None
        self.error: RecollectError | None = None

    def outcome(self, of_the_write: Outcome) -> Outcome:
        """The outcome when the batch failed: a line that was in the file before is not "not stored"."""
        return Outcome.UNKNOWN if any(slot.offset >= 0 for slot, _ in self.slots) else of_the_write

    def succeed(self) -> None:
        """Set the result from the slots' positions."""
        self.result = [
            AppendResult(slot.offset, len(slot.line) + 1, repeated) for slot, repeated in self.slots
        ]


class BatchLayout:
    """The new lines of a batch in writing order, for a file that ends at ``end``."""

    def __init__(self, path: Path, recent: RecentIds, end: int) -> None:
        self.new: list[Slot] = []
        self._path = path
        self._recent = recent
        self._end = end
        self._by_id: dict[str, Slot] = {}

    def add(self, job: AppendJob) -> None:
        """Add one job; if one of its lines conflicts, none of them is part of the batch."""
        new: list[Slot] = []
        own: dict[str, Slot] = {}
        for line, entry_id in job.lines:
            slot = None if entry_id is None else self._stored(entry_id, own)
            if slot is None:
                slot = Slot(line, entry_id)
                new.append(slot)
                job.slots.append((slot, False))
                if entry_id is not None:
                    own[entry_id] = slot
            elif slot.line == line:
                job.slots.append((slot, True))
            else:
                job.error = IdConflict(self._path, slot.entry_id or "")
                return
        self.new += new
        self._by_id.update(own)

    def payload(self) -> bytes:
        """All new lines, each with its newline."""
        lines = [slot.line for slot in self.new]
        lines.append(b"")
        return b"\n".join(lines)

    def settle(self, start: int) -> None:
        """The payload was written at ``start``: set every slot's position and remember the ids."""
        offset = start
        for slot in self.new:
            slot.offset = offset
            if slot.entry_id is not None:
                self._recent.remember(slot.entry_id, offset, slot.line)
            offset += len(slot.line) + 1
        self._recent.reached(start, offset)

    def _stored(self, entry_id: str, own: dict[str, Slot]) -> Slot | None:
        slot = self._by_id.get(entry_id) or own.get(entry_id)
        if slot is not None:
            return slot
        found = self._recent.find(entry_id, self._end)
        return None if found is None else Slot(found[1], entry_id, found[0])
