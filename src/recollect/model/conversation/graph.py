"""The message graph of one log: which entry follows which.

Every chain entry names its parent, so a log is a forest: several children of one parent are branches, an
entry without children is a leaf, an entry whose parent is not in the log is an orphan. Real logs also repeat
ids (the last copy counts, as for the client) and, when edited by hand, contain circles. Everything here is
linear in the number of entries.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from recollect.model.conversation.node import LeafMark, Node

ORPHAN_REACH_MS = 5_000


class _PreservedSegment(Struct, rename="camel"):
    head_uuid: str | None = None
    anchor_uuid: str | None = None
    tail_uuid: str | None = None


class _PreservedMessages(Struct, rename="camel"):
    anchor_uuid: str | None = None
    uuids: list[str] = []


class _PreservedParts(Struct, rename="camel"):
    preserved_segment: _PreservedSegment | None = None
    preserved_messages: _PreservedMessages | None = None

    @property
    def is_any(self) -> bool:
        """Whether the compaction says that it preserved something."""
        return self.preserved_segment is not None or self.preserved_messages is not None


def _parts_of(boundary: Node) -> _PreservedParts:
    try:
        return msgspec.json.decode(boundary.compact_metadata or b"{}", type=_PreservedParts)
    except msgspec.DecodeError:
        return _PreservedParts()


def _preserved(nodes: Mapping[str, Node], kept: _PreservedParts) -> tuple[str, list[str]] | None:
    """The anchor and the lines that go after it; None where one of them is missing."""
    named, segment = kept.preserved_messages, kept.preserved_segment
    if named is not None:
        return (named.anchor_uuid or "", named.uuids) if nodes.keys() >= set(named.uuids) else None
    if segment is None:
        return "", []
    lines: dict[str, None] = {}
    current = segment.tail_uuid
    while current is not None and current in nodes and current not in lines:
        lines[current] = None
        if current == segment.head_uuid:
            return segment.anchor_uuid or "", list(lines)[::-1]
        current = nodes[current].parent
    return None


class Graph:
    """Entries of one log and their links.

    ``nodes`` are in file order, each at the place of its first copy and with the links of its last.
    ``relinked`` are the new parents that the last compaction gave to the lines it preserved and to what
    followed its summary; ``removed`` is what it hides for good by preserving others.
    """

    def __init__(self, items: Iterable[Node | LeafMark | None]) -> None:
        self.nodes: dict[str, Node] = {}
        self.duplicates: list[str] = []
        self.marks: list[LeafMark] = []
        self.relinked: dict[str, str] = {}
        self.removed: set[str] = set()
        self._preserved_lines: list[str] = []
        self._first_offsets: dict[str, int] = {}
        self._only_child: dict[str, str] = {}
        self._siblings: dict[str, list[str]] = {}
        for item in items:
            if isinstance(item, LeafMark):
                self.marks.append(item)
            elif item is not None:
                self._take(item)
        self._preserve()
        for node in self.nodes.values():
            parent = self.parent_of(node)
            if parent is not None:
                self._adopt(parent, node.uuid)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} entries>"

    def _take(self, node: Node) -> None:
        before = self.nodes.get(node.uuid)
        if before is not None:
            self.duplicates.append(node.uuid)
            self._first_offsets.setdefault(node.uuid, before.offset)
            if before.is_link and not node.is_link:
                return  # to the client such a line is no copy
        self.nodes[node.uuid] = node

    def _preserve(self) -> None:
        """Move the lines that the last compaction preserved behind its summary, and remove the others.

        What followed the summary, or one of the removed, follows the preserved lines. The client does this
        only in logs where some compaction preserved lines, and where it finds all those of the last one.
        """
        boundaries = {node.uuid: _parts_of(node) for node in self.nodes.values() if node.is_boundary}
        if not any(kept.is_any for kept in boundaries.values()):
            return
        last, kept = boundaries.popitem()
        found = _preserved({uuid: node for uuid, node in self.nodes.items() if node.is_link}, kept)
        if found is None:
            return
        anchor, lines = found
        own = set(lines)
        self.removed = set(itertools.takewhile(lambda uuid: uuid != last, self.nodes)) - own
        if not lines:
            return
        self._preserved_lines = lines
        self.relinked = dict(zip(lines, [anchor, *lines[:-1]], strict=True))
        for node in self.nodes.values():
            if node.uuid in own or node.is_bridge:
                continue
            parent = self._passed_through(node)
            if parent == anchor or parent in self.removed:
                self.relinked[node.uuid] = lines[-1]

    def _passed_through(self, node: Node) -> str | None:
        """The parent of an entry behind lines that are only passed through."""
        passed: set[str] = set()
        name = node.parent
        while name in self.nodes and self.nodes[name].is_bridge and name not in passed:
            passed.add(name)
            name = self.nodes[name].parent
        return name

    def _adopt(self, parent: str, child: str) -> None:
        # One list per parent would give the garbage collector one more object per entry to traverse: with
        # 100,000 entries that alone added half to the cost of each collection.
        first = self._only_child.setdefault(parent, child)
        if first is not child:
            self._siblings.setdefault(parent, [first]).append(child)

    def children(self, uuid: str) -> Sequence[str]:
        """The entries that follow one, in file order."""
        several = self._siblings.get(uuid)
        if several is not None:
            return several
        only = self._only_child.get(uuid)
        return () if only is None else (only,)

    def parent_of(self, node: Node) -> str | None:
        """The entry it follows, after a compaction has moved the lines it preserved."""
        return self.relinked.get(node.uuid, node.parent)

    def place(self, node: Node) -> int:
        """Where its first copy is in the file."""
        return self._first_offsets.get(node.uuid, node.offset)

    def loaded(self, uuid: str | None) -> Node | None:
        """The entry as the client has it: none of a type unknown to it, nor what a compaction removed."""
        node = self.nodes.get(uuid or "")
        if node is None or not (node.is_link or node.is_bridge) or uuid in self.removed:
            return None
        return node

    @property
    def roots(self) -> list[Node]:
        """Entries without a parent."""
        return [node for node in self.nodes.values() if node.parent is None]

    @property
    def orphans(self) -> list[Node]:
        """Entries whose parent is not in this log."""
        return [node for node in self.nodes.values() if node.parent and node.parent not in self.nodes]

    @property
    def leaves(self) -> list[Node]:
        """Entries without children, in file order."""
        return [node for node in self.nodes.values() if node.uuid not in self._only_child]

    @functools.cached_property
    def cycles(self) -> list[list[str]]:
        """Entries that are their own ancestors, one list per circle."""
        done: set[str] = set()
        found = []
        for start, node in self.nodes.items():
            parent = self.parent_of(node)
            if parent in done or parent not in self.nodes:  # so it is with nearly all, as parents come first
                done.add(start)
                continue
            path: dict[str, int] = {}
            current: str | None = start
            while current in self.nodes and current not in done and current not in path:
                path[current] = len(path)
                current = self.parent_of(self.nodes[current])
            if current in path:
                found.append(list(path)[path[current] :])
            done.update(path)
        return found

    def ancestors(self, uuid: str) -> Iterator[Node]:
        """The entry and its ancestors, nearest first; a circle is walked once."""
        seen: set[str] = set()
        current: str | None = uuid
        while current in self.nodes and current not in seen:
            seen.add(current)
            node = self.nodes[current]
            yield node
            current = self.parent_of(node)

    @functools.cached_property
    def continued_notes(self) -> set[str]:
        """Notes and lines of the client after which, perhaps after more of them, a prompt or an answer comes."""
        found: set[str] = set()
        for node in self.nodes.values():
            if not node.is_message or node.is_meta or node.result_ids:
                continue
            before = self.loaded(self.parent_of(node))
            while (
                before is not None and before.uuid not in found and (before.is_meta or not before.is_message)
            ):
                found.add(before.uuid)
                before = self.loaded(self.parent_of(before))
        return found

    @functools.cached_property
    def _by_time(self) -> list[tuple[int, int, str]]:
        """By time; of equal times the first in the file is the last here, where ``elder`` looks first."""
        links = (node for node in self.nodes.values() if self._is_talk(node))
        timed = ((node.at_ms, -self.place(node), node.uuid) for node in links)
        return sorted((at, place, uuid) for at, place, uuid in timed if at is not None)

    def _is_talk(self, node: Node) -> bool:
        return node.is_link and not node.is_sidechain and node.uuid not in self.removed

    def elder(self, node: Node, without: set[str]) -> Node | None:
        """The entry, at most five seconds older and nearest in time, that the client joins an orphan to."""
        at = node.at_ms
        if at is None or node.is_sidechain:
            return None
        timeline = self._by_time
        position = bisect.bisect_right(timeline, (at, 1, ""))
        while position > 0:
            position -= 1
            when, _, uuid = timeline[position]
            if at - when > ORPHAN_REACH_MS:
                return None
            if uuid not in without:
                return self.nodes[uuid]
        return None

    @functools.cached_property
    def active_leaf(self) -> Node | None:
        """The end of the conversation according to client 2.1.325; None where it finds no conversation."""
        return None if self.timeless is not None else self._chosen_leaf

    @functools.cached_property
    def timeless(self) -> Node | None:
        """The last message, if it has no readable time: then the client says there is no conversation."""
        leaf = self._chosen_leaf
        last = None if leaf is None else self._speaker(leaf) or leaf
        return None if last is None or last.at_ms is not None else last

    @functools.cached_property
    def _chosen_leaf(self) -> Node | None:
        """Without marks the latest entry below the last line; with marks that line, or the marked entry.

        The last mark counts where it names an entry on another branch. On the same branch it counts only if
        it is explicit and nothing was written after it. A plain mark on a call that was made in parallel, or
        on its result, is on the same branch.
        """
        last = self._last_line()
        if last is None or not self.marks:
            return last and self._latest_below(last)
        mark = self._last_mark()
        if mark is None:
            return last
        marked = self.nodes[mark.leaf or ""]
        path = {node.uuid: node for node in self._loaded_ancestors(self._last_written or last)}
        if marked.uuid in path:
            return marked if mark.explicit and last.offset < mark.offset else last
        if not mark.explicit and self._is_parallel(marked, path):
            return last
        return None if marked.is_sidechain else marked

    @property
    def _last_written(self) -> Node | None:
        """The last line that a conversation can end with, also one that follows no message."""
        return max(filter(self._is_talk, self.nodes.values()), key=lambda node: node.offset, default=None)

    def _is_parallel(self, marked: Node, path: dict[str, Node]) -> bool:
        """Whether it is a call of an answer on the path, the result of one, or a note after such a result."""
        spoken = (one for one in self._loaded_ancestors(marked) if one.is_message and not one.is_meta)
        result = next(spoken, marked)
        caller = self.loaded(self.parent_of(result)) if result.result_ids else marked
        if caller is None or not caller.has_call:
            return False
        answers = {node.message_id for node in path.values() if node.has_call}
        is_of_one = caller.message_id is not None and caller.message_id in answers
        return caller.uuid in path or (
            is_of_one and any(one.uuid in path for one in self._loaded_ancestors(caller))
        )

    def _last_line(self) -> Node | None:
        """The last line of the file that belongs to a conversation.

        Where it follows no message: of the ends of branches the one whose last message has the latest time. A log without any
        message ends with it all the same.
        """
        last = self._last_written
        if last is None:
            return None
        speaker = self._speaker(last)
        if speaker is not None:
            return None if speaker.is_sidechain else self._after_preserved(last)
        ends = ((self._speaker(node), node) for node in self.nodes.values() if self._is_end(node))
        spoken = [(one.timestamp or "", self.place(node), node) for one, node in ends if one is not None]
        return max(spoken, default=("", 0, last))[2]

    def _is_end(self, node: Node) -> bool:
        return self._is_talk(node) and not any(self.loaded(child) for child in self.children(node.uuid))

    def _after_preserved(self, node: Node) -> Node:
        """The last of the lines that a compaction moved behind this one, or else the line itself."""
        lines = self._preserved_lines
        return self.nodes[lines[-1]] if lines and self.relinked[lines[0]] == node.uuid else node

    def _speaker(self, node: Node) -> Node | None:
        return next((one for one in self._loaded_ancestors(node) if one.is_message), None)

    def _loaded_ancestors(self, node: Node) -> Iterator[Node]:
        """The entry and its ancestors as far as the client has them."""
        return itertools.takewhile(lambda one: self.loaded(one.uuid) is not None, self.ancestors(node.uuid))

    def _latest_below(self, start: Node) -> Node:
        """Of an entry and all that follow it the one with the latest time, compared as text.

        Of equal times the last in the file; ``start`` itself only where it is later than all the others.
        """
        seen = {start.uuid}
        latest = start
        waiting = list(self.children(start.uuid))
        while waiting:
            uuid = waiting.pop()
            node = self.loaded(uuid)
            if node is None or uuid in seen:
                continue
            seen.add(uuid)
            waiting += self.children(uuid)
            if self._is_talk(node) and (latest is start or self._is_later(node, latest)):
                latest = node
        is_later = (latest.timestamp or "") >= (start.timestamp or "")
        return latest if is_later else start

    def _is_later(self, node: Node, other: Node) -> bool:
        mine, theirs = node.timestamp or "", other.timestamp or ""
        return mine > theirs or (mine == theirs and self.place(node) > self.place(other))

    def _last_mark(self) -> LeafMark | None:
        """The last mark, where it names an entry; a compaction voids the marks before it.

        A mark that repeats an explicit one is that one.
        """
        cut = max((node.offset for node in self.nodes.values() if node.is_boundary), default=-1)
        marks = (mark for mark in reversed(self.marks) if mark.leaf is not None and mark.offset > cut)
        mark = next(marks, None)
        marked = self.loaded(mark.leaf) if mark is not None else None
        if mark is None or marked is None or not marked.is_link or self._speaker(marked) is None:
            return None
        same = itertools.takewhile(lambda one: one.leaf == mark.leaf, marks)
        return mark if mark.explicit else next((one for one in same if one.explicit), mark)
