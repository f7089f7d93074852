"""The message graph of one log: which entry follows which.

Every chain entry names its parent, so a log is a forest: several children of one parent are branches, an
entry without children is a leaf, an entry whose parent is not in the log is an orphan. Real logs also repeat
ids (the last copy counts, as for the client) and, when edited by hand, contain circles. Everything here is
linear in the number of entries.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Iterator, Sequence

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


def relinked(nodes: dict[str, Node]) -> dict[str, str]:
    """New parents of the lines that the last compaction preserved, and of what followed its summary.

    The preserved lines go after the anchor (the summary), and what followed the anchor goes after them.
    """
    boundary = next((node for node in reversed(nodes.values()) if node.is_boundary), None)
    if boundary is None or boundary.compact_metadata is None:
        return {}
    try:
        kept = msgspec.json.decode(boundary.compact_metadata, type=_PreservedParts)
    except msgspec.ValidationError:
        return {}
    anchor, lines = _preserved(nodes, kept)
    if anchor not in nodes or not lines:
        return {}
    links = dict(zip(lines, [anchor, *lines[:-1]], strict=True))
    own = set(lines)
    for node in nodes.values():
        if node.parent == anchor and node.uuid not in own:
            links[node.uuid] = lines[-1]
    return links


def _preserved(nodes: dict[str, Node], kept: _PreservedParts) -> tuple[str, list[str]]:
    named, segment = kept.preserved_messages, kept.preserved_segment
    if named is not None:
        return named.anchor_uuid or "", [uuid for uuid in named.uuids if uuid in nodes]
    if segment is None:
        return "", []
    lines: list[str] = []
    current = segment.tail_uuid
    while current in nodes and current not in lines:
        lines.append(current)
        if current == segment.head_uuid:
            return segment.anchor_uuid or "", lines[::-1]
        current = nodes[current].parent
    return "", []


class Graph:
    """Entries of one log and their links."""

    def __init__(self, items: Iterable[Node | LeafMark | None]) -> None:
        self.nodes: dict[str, Node] = {}
        self.duplicates: list[str] = []
        self.marks: list[LeafMark] = []
        self._only_child: dict[str, str] = {}
        self._siblings: dict[str, list[str]] = {}
        for item in items:
            if isinstance(item, LeafMark):
                self.marks.append(item)
            elif item is not None:
                self._take(item)
        self.relinked = relinked(self.nodes)
        for node in self.nodes.values():
            parent = self.parent_of(node)
            if parent is not None:
                self._adopt(parent, node.uuid)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} entries>"

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

    def _take(self, node: Node) -> None:
        known = len(self.nodes)
        self.nodes[node.uuid] = node
        if len(self.nodes) == known:
            # Removed and added again: the last copy counts, at the position where it was written.
            self.nodes[node.uuid] = self.nodes.pop(node.uuid)
            self.duplicates.append(node.uuid)

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
        for start in self.nodes:
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
    def _by_time(self) -> list[tuple[int, int, str]]:
        timed = ((node.at_ms, node) for node in self.nodes.values() if node.is_link and not node.is_sidechain)
        return sorted((at, node.offset, node.uuid) for at, node in timed if at is not None)

    def elder(self, node: Node, without: set[str]) -> Node | None:
        """The entry, at most five seconds older and nearest in time, that the client joins an orphan to."""
        at = node.at_ms
        if at is None or node.is_sidechain:
            return None
        timeline = self._by_time
        position = bisect.bisect_right(timeline, (at, 1 << 62, ""))
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
        """The end of the conversation according to client 2.1.325; None where it finds no conversation.

        That is the last leaf in the file, unless the last mark names an entry on another branch. A mark
        further up the same branch counts only if it is explicit and nothing was written after it.
        """
        leaf = self._chosen_leaf()
        # Without a readable time the client says there is no conversation.
        return leaf if leaf is not None and leaf.at_ms is not None else None

    def _chosen_leaf(self) -> Node | None:
        latest, mark = self._latest_tip(), self._last_mark()
        if latest is None or mark is None:
            return latest
        marked = self.nodes[mark.leaf or ""]
        if any(node.uuid == marked.uuid for node in self.ancestors(latest.uuid)):
            return marked if mark.explicit and latest.offset < mark.offset else latest
        return None if marked.is_sidechain else marked

    def _latest_tip(self) -> Node | None:
        """The end of the branch that the last line of the file is on."""
        for node in reversed(self.nodes.values()):
            if not node.is_link or node.is_sidechain:
                continue
            speaker = self._speaker(node)
            if speaker is not None:
                return None if speaker.is_sidechain else self._end_below(node)
        return None

    def _speaker(self, node: Node) -> Node | None:
        return next((one for one in self.ancestors(node.uuid) if one.is_message), None)

    def _end_below(self, node: Node) -> Node:
        """The leaf below an entry that has the latest time; of equal times the last in the file.

        A link that closes a circle is not followed.
        """
        if not self.children(node.uuid):
            return node
        seen = {one.uuid for one in self.ancestors(node.uuid)}
        leaves: list[Node] = []
        waiting = [node]
        while waiting:
            one = waiting.pop()
            followers = [
                each for each in self._followers(one, seen) if each.is_link and not each.is_sidechain
            ]
            seen.update(each.uuid for each in followers)
            waiting += followers
            if not followers:
                leaves.append(one)
        return max(leaves, key=lambda leaf: (-1 if leaf.at_ms is None else leaf.at_ms, leaf.offset))

    def _followers(self, node: Node, seen: set[str]) -> Iterator[Node]:
        """The entries that follow one.

        The client drops progress lines: their followers count as its followers.
        """
        waiting = [uuid for uuid in self.children(node.uuid) if uuid not in seen]
        while waiting:
            follower = self.nodes[waiting.pop()]
            if follower.type == "progress":
                seen.add(follower.uuid)
                waiting += (uuid for uuid in self.children(follower.uuid) if uuid not in seen)
            else:
                yield follower

    def _last_mark(self) -> LeafMark | None:
        mark = next((mark for mark in reversed(self.marks) if mark.leaf is not None), None)
        marked = self.nodes.get(mark.leaf or "") if mark is not None else None
        return mark if marked is not None and marked.is_link and self._speaker(marked) else None
