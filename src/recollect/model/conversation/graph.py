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
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, UnsetType, structs

from recollect.model.lines.damage import Line
from recollect.model.lines.ids import parsed_time
from recollect.model.lines.json_text import Json, loose_object
from recollect.model.views.fact_line import FactLine, graph_line, text_of

# Types the client treats as links of a conversation and as possible ends of one. It passes through progress
# lines; what follows a line of any other type is an orphan.
MESSAGE_TYPES = frozenset(["user", "assistant"])
LINK_TYPES = frozenset(["user", "assistant", "system", "attachment"])
# Notes of the client that are shown as messages. ERROR_NOTE is what a client of another agent noted instead of an
# answer; Claude's writes an answer of its own then.
ERROR_NOTE = "error"
SHOWN_NOTES = frozenset(["local_command", "compact_boundary", ERROR_NOTE])
_ODD_KEY = "<"
_TOOL_ID = b'"tool_use_id"'
_NAMED = re.compile(rb'\s*:\s*"([^"\\]+)"')


class Node(Struct, frozen=True, gc=False):
    """One chain entry. ``type`` is the type named in the line.

    ``uuid`` is its key for the client. Where the line has no id, or one that is not text, it is in brackets.
    """

    uuid: str
    type: str
    offset: int
    length: int
    parent: str | None = None
    subtype: str | None = None
    timestamp: str | None = None
    is_sidechain: bool = False
    message_id: str | None = None
    has_call: bool = False
    result_ids: tuple[str, ...] = ()
    is_compact_summary: bool = False
    # From a compaction boundary: what it preserved, undecoded.
    compact_metadata: bytes | None = None
    # A message without text or blocks: the client passes through it.
    is_silent: bool = False
    is_meta: bool = False

    @property
    def at_ms(self) -> int | None:
        """Its time in milliseconds, or None."""
        moment = parsed_time(self.timestamp)
        return None if moment is None else round(moment.timestamp() * 1000)

    @property
    def has_odd_key(self) -> bool:
        """Whether its id is missing or not text; several lines without one are one entry."""
        return self.uuid.startswith(_ODD_KEY)

    @property
    def is_link(self) -> bool:
        """Whether a conversation can end with it."""
        return self.type in LINK_TYPES and not self.is_silent

    @property
    def is_bridge(self) -> bool:
        """Whether the client only passes through it, to the entry it follows."""
        return self.type == "progress" or self.is_silent

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the user or the model."""
        return self.type in MESSAGE_TYPES and not self.is_silent

    @property
    def is_shown(self) -> bool:
        """Whether it is shown as a message."""
        return self.is_message or (self.type == "system" and self.subtype in SHOWN_NOTES)

    @property
    def is_boundary(self) -> bool:
        """Whether a compaction cut the conversation here."""
        return self.type == "system" and self.subtype == "compact_boundary"


class LeafMark(Struct, frozen=True, gc=False):
    """A ``last-prompt`` line that names an end of the conversation, or null."""

    leaf: str | None
    explicit: bool
    offset: int


def node_of(line: Line) -> Node | LeafMark | None:
    """The point a line is in the graph; None for metadata, blank lines and damage."""
    seen = graph_line(line.data)
    return None if seen is None else point_of(seen, line)


def point_of(seen: FactLine, line: Line) -> Node | LeafMark | None:
    """The graph node of a decoded line."""
    data = line.data
    if seen.type == "last-prompt":
        is_mark = seen.leaf_uuid is not None or b'"leafUuid"' in data
        return LeafMark(seen.leaf_uuid, seen.explicit is True, line.offset) if is_mark else None
    if seen.type is None:
        return None
    content = seen.message_content
    is_silent = seen.type in MESSAGE_TYPES and (content is None or memoryview(content)[0] not in b'"[')
    uuid = seen.uuid
    if uuid is None:
        # All lines without an id have one and the same key for the client.
        if seen.type not in LINK_TYPES or is_silent:
            return None
        uuid = f"{_ODD_KEY}null>" if "uuid" in loose_object(data) else f"{_ODD_KEY}no id>"
    return Node(
        uuid,
        seen.type,
        line.offset,
        line.length,
        seen.parent_uuid or None,
        seen.subtype,
        seen.timestamp,
        seen.is_sidechain is True,
        seen.message.id if seen.message else None,
        seen.type == "assistant" and b'"tool_use"' in data,
        _result_ids(data) if seen.type == "user" else (),
        seen.is_compact_summary is True,
        None if isinstance(seen.compact_metadata, UnsetType) else bytes(seen.compact_metadata),
        is_silent,
        seen.is_meta is True,
    )


def _result_ids(data: bytes) -> tuple[str, ...]:
    """The calls that a user's line has results for, without decoding the results."""
    if b'"tool_result"' not in data:
        return ()
    found = []
    at = data.find(_TOOL_ID)
    while at >= 0:  # faster than a search for the pattern
        named = _NAMED.match(data, at + len(_TOOL_ID))
        if named is not None:
            found.append(named[1].decode("utf-8", "replace"))
        at = data.find(_TOOL_ID, at + len(_TOOL_ID))
    return tuple(found)


ORPHAN_REACH_MS = 5_000


def _preserved_by(boundary: Node) -> tuple[Json | None, Json | None]:
    """What a compaction says that it preserved: lines by their ids, a segment of the chain."""
    said = loose_object(boundary.compact_metadata or b"{}")
    messages, segment = said.get("preservedMessages"), said.get("preservedSegment")
    ids = messages.get("uuids", []) if isinstance(messages, dict) else None
    is_listed = isinstance(ids, list) and all(isinstance(one, str) for one in ids)
    return (messages if is_listed else None), (segment if isinstance(segment, dict) else None)  # type: ignore[return-value]  # a dict


def _preserved(
    nodes: Mapping[str, Node], messages: Json | None, segment: Json | None
) -> tuple[str, list[str]] | None:
    """The anchor and the lines that go after it; None where one of them is missing."""
    if messages is not None:
        uuids = messages.get("uuids", [])
        return (text_of(messages, "anchorUuid") or "", uuids) if nodes.keys() >= set(uuids) else None
    if segment is None:
        return "", []
    lines: dict[str, None] = {}
    current = text_of(segment, "tailUuid")
    while current is not None and current in nodes and current not in lines:
        lines[current] = None
        if current == text_of(segment, "headUuid"):
            return text_of(segment, "anchorUuid") or "", list(lines)[::-1]
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
        self._children: dict[str, list[str]] = {}
        for item in items:
            if isinstance(item, LeafMark):
                self.marks.append(item)
            elif item is not None:
                self._take(item)
        self._preserve()
        for node in self.nodes.values():
            parent = self.parent_of(node)
            if parent is not None:
                self._children.setdefault(parent, []).append(node.uuid)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} entries>"

    def with_parents(self, parents: Mapping[str, str | None]) -> Graph:
        """These entries with other parents; compactions have moved nothing, and there are no marks."""
        chosen = (self.nodes[uuid] for uuid in parents)
        other = Graph(
            node
            if node.parent == parents[node.uuid] and node.compact_metadata is None
            else structs.replace(node, parent=parents[node.uuid], compact_metadata=None)
            for node in chosen
        )
        other._first_offsets = self._first_offsets
        return other

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
        boundaries = {node.uuid: _preserved_by(node) for node in self.nodes.values() if node.is_boundary}
        if not any(one is not None for parts in boundaries.values() for one in parts):
            return
        last, parts = boundaries.popitem()
        found = _preserved({uuid: node for uuid, node in self.nodes.items() if node.is_link}, *parts)
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

    def children(self, uuid: str) -> Sequence[str]:
        """The entries that follow one, in file order."""
        return self._children.get(uuid, ())

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
        return [node for node in self.nodes.values() if node.uuid not in self._children]

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
            # Or the last of the lines that a compaction moved behind this one.
            lines = self._preserved_lines
            is_moved = bool(lines) and self.relinked[lines[0]] == last.uuid
            return None if speaker.is_sidechain else self.nodes[lines[-1]] if is_moved else last
        ends = ((self._speaker(node), node) for node in self.nodes.values() if self._is_end(node))
        spoken = [(one.timestamp or "", self.place(node), node) for one, node in ends if one is not None]
        return max(spoken, default=("", 0, last))[2]

    def _is_end(self, node: Node) -> bool:
        return self._is_talk(node) and not any(self.loaded(child) for child in self.children(node.uuid))

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
            mine, theirs = ((one.timestamp or "", self.place(one)) for one in (node, latest))
            if self._is_talk(node) and (latest is start or mine > theirs):
                latest = node
        is_later = (latest.timestamp or "") >= (start.timestamp or "")
        return latest if is_later else start

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
