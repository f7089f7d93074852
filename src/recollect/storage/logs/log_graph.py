"""A log as a graph: one pass for ids and links, contents read by offset on demand.

A graph built from earlier points reads only what was appended since, if the bytes before are unchanged;
otherwise it starts again. The points may also come from a file of an earlier process (``kept_points``). Texts
are read on demand and not held: memory grows with the number of lines, not with their length.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path

from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node, node_of
from recollect.model.damage import Damage, Line
from recollect.model.entry import Entry
from recollect.model.line_views.call_line import call_ids, has_more_than_results
from recollect.model.line_views.damage import damage_of
from recollect.model.prompts import client_written
from recollect.storage.logs.kept_points import LogPoints, PointsCache
from recollect.storage.logs.reader import LogReader, OpenLog, read_lines

_META = re.compile(rb'"isMeta"[ \t]*:[ \t]*true')
# Reading fewer bytes than this takes less time than writing a cache file.
WORTH_KEEPING = 4 << 20
_PAUSE_LINES = 100


class LogGraph:
    """The message graph of one log, as of its first use.

    ``_known`` are the points of an earlier read, ``_kept`` the cache for other processes.
    """

    def __init__(self, path: Path, _known: LogPoints | None = None, _kept: PointsCache | None = None) -> None:
        self.path = path
        self.points = _known or LogPoints()
        self._reader = LogReader(path)
        self._kept = _kept
        self._unkept: tuple[int, os.stat_result] | None = None
        self._is_read = False
        self._conversation: tuple[tuple[str, bool], Conversation] | None = None

    def __repr__(self) -> str:
        return f"<LogGraph of {self.path}>"

    @functools.cached_property
    def graph(self) -> Graph:
        """Ids and links of every entry, without damaged lines."""
        if not self._is_read:
            self.read_on()
        return Graph(self.points.points)

    def read_on(self, pause: Callable[[], None] | None = None) -> os.stat_result:
        """Read what is new, and return the log's status from before; ``pause`` is called repeatedly."""
        with OpenLog(self.path) as log:
            status, read = log.stat(), self._begun(log)
            start = read.end
            for number, line in enumerate(log.lines(start)):
                point = node_of(line) if isinstance(line, Line) else None
                if point is not None:
                    read.points.append(point)
                if isinstance(point, Node) and isinstance(line, Line):
                    _note(read, point, line)
                read.end = line.end
                if pause is not None and number % _PAUSE_LINES == 0:
                    pause()
            read.before_end = log.fingerprint(read.end)
            if read.end - start >= WORTH_KEEPING:
                self._unkept = (read.end, status)
        self._is_read = True
        return status

    def _begun(self, log: OpenLog) -> LogPoints:
        """The points that need not be read again."""
        known = self.points
        if self._kept is not None and not known.end and log.size() >= WORTH_KEEPING:
            known = self._kept.read(log) or known
        if log.size() < known.end or log.fingerprint(known.end) != known.before_end:
            known = LogPoints()
        self.points = known
        return known

    def keep(self) -> None:
        """Save the points for the next process, if the log is large enough."""
        unkept, self._unkept = self._unkept, None
        if self._kept is None or unkept is None or unkept[0] != self.points.end:
            return
        with OpenLog(self.path) as log:
            self._kept.write(log, unkept[1], self.points)

    def conversation(self, leaf: Node, *, whole: bool = False) -> Conversation:
        """The entries from a root to ``leaf``.

        The last result is cached: finding it takes longer than reading a page.
        """
        known = self._conversation
        if known is None or known[0] != (leaf.uuid, whole):
            # Not self.load: a circle of references would keep the graph until the next collection.
            load = functools.partial(_loaded, self._reader)
            found = Conversation(self.graph, leaf, load, whole=whole)
            self._conversation = known = ((leaf.uuid, whole), found)
        return known[1]

    def load(self, node: Node) -> Entry | None:
        """The entry of a node; None where the log has changed since."""
        return _loaded(self._reader, node)

    def damage(self) -> list[Damage]:
        """Every line that cannot be read."""
        lines = (item if isinstance(item, Damage) else damage_of(item) for item in read_lines(self.path))
        return [item for item in lines if item is not None]


def _note(read: LogPoints, point: Node, line: Line) -> None:
    if point.has_call:
        read.calls[line.offset] = call_ids(line.data)
    elif point.result_ids:
        if has_more_than_results(line.data):
            read.mixed.add(line.offset)
    elif point.type == "user":
        written = client_written(line)
        if written == "command":
            read.commands.add(line.offset)
        elif written == "note" or _META.search(line.data):
            read.meta.add(line.offset)


def _loaded(reader: LogReader, node: Node) -> Entry | None:
    return entry_of(reader.entry_at(node.offset, node.length), node)


def entry_of(item: Entry | Damage | None, node: Node) -> Entry | None:
    """What was read at the place of a node, if it is still that entry."""
    entry = item.readable if isinstance(item, Damage) else item
    is_same = entry is not None and (entry.uuid == node.uuid or node.has_odd_key)
    return entry if is_same else None
