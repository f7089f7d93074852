"""A log as a graph: one pass for ids and links, contents read by offset when asked for."""

from __future__ import annotations

import functools
from pathlib import Path

from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import LeafMark, Node, node_of
from recollect.model.damage import Damage, Line
from recollect.model.entry import Entry
from recollect.model.line_views.scan import damage_of
from recollect.storage.logs.reader import LogReader, read_lines


class LogGraph:
    """The message graph of one log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = LogReader(path)

    @functools.cached_property
    def graph(self) -> Graph:
        """Built from one pass over the log; damaged lines are no part of it."""
        return Graph(self._points())

    def _points(self) -> list[Node | LeafMark]:
        points = (node_of(item) for item in read_lines(self.path) if isinstance(item, Line))
        return [point for point in points if point is not None]

    def load(self, node: Node) -> Entry | None:
        """The entry a node stands for; None where the log was changed under us."""
        item = self._reader.entry_at(node.offset)
        entry = item.readable if isinstance(item, Damage) else item
        return entry if entry is not None and entry.uuid == node.uuid else None

    def damage(self) -> list[Damage]:
        """Every line that cannot be read."""
        lines = (item if isinstance(item, Damage) else damage_of(item) for item in read_lines(self.path))
        return [item for item in lines if item is not None]
