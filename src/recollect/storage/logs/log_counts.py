"""Counts of a log: lines, messages of its conversation, damaged lines. Reads it once, from start to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from recollect.model.conversation.message_count import MessageCount, Point, counted
from recollect.model.conversation.node import Node, node_of
from recollect.model.damage import Damage, Line
from recollect.model.line_views.damage import damage_code
from recollect.model.line_views.mirrored_damage import RecordGenerations
from recollect.storage.logs.reader import LogReader, read_lines

if TYPE_CHECKING:
    from recollect.model.entry import Entry


class LogCounts(NamedTuple):
    """Lines, messages and damaged lines of a log."""

    lines: int
    messages: MessageCount
    damaged: int


def log_counts(path: Path, stop: int | None = None) -> LogCounts:
    """The counts of a log, as if it ended at ``stop``."""
    lines = damaged = 0
    points: list[Point] = []
    generations = RecordGenerations()
    for line in read_lines(path, stop=stop):
        lines += line.text_lines
        damaged += (damage_code(line) is not None) - len(generations.take(line))
        point = node_of(line) if isinstance(line, Line) else None
        if point is not None:
            points.append(point)
    reader = LogReader(path)

    def load(node: Node) -> Entry | None:
        item = reader.entry_at(node.offset)
        return item.readable if isinstance(item, Damage) else item

    return LogCounts(lines, counted(points, load), damaged)
