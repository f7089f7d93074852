"""A conversation to be read: messages in order, decoded on demand.

A ``Conversation`` knows which entries belong to it and in which order; their contents are read from the log
when a message is accessed. Taking the last fifty messages of a 50 MB session decodes only those fifty.

The lines of one answer are one message, as a reader sees it. What the client would send to the model is
another list, ``to_api()``.
"""

from __future__ import annotations

import datetime as dt
import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import msgspec
from msgspec import Raw, Struct, UnsetType, structs

from recollect.model.conversation.api import api_messages
from recollect.model.conversation.chain import Load, after_compaction, chain_to, entries_of, grouped
from recollect.model.conversation.graph import ERROR_NOTE, Graph, Node
from recollect.model.lines.blocks import Block, TextBlock, UnknownBlock, Usage
from recollect.model.lines.damage import Damage, brief_repr, readable_entries
from recollect.model.lines.entry import Assistant, Attachment, Entry, System, User
from recollect.model.lines.json_text import loose_object
from recollect.model.views.fact_line import REFUSED, graph_line

# The entry that a compaction boundary names as the last one before the cut.
LineBefore = Callable[[Node], str | None]


class Seam(enum.StrEnum):
    """What is to be known before a message is read: why another tree begins, or what a resume would load."""

    SUMMARY = "summary"
    GAP = "gap"
    START = "start"
    LOADED = "loaded"

    @property
    def words(self) -> str:
        """The line that people read."""
        return _WORDS[self]


_WORDS = {
    Seam.SUMMARY: "continued from a summary",
    Seam.GAP: "the log has a gap here",
    Seam.START: "the log starts over here",
    Seam.LOADED: "what a resume would load begins here",
}


class Story(Struct, frozen=True):
    """The entries of ``log`` as one tree, without those that the client only passes through.

    ``seams`` are the entries at which another tree of the log begins.
    """

    log: Graph
    graph: Graph
    seams: Mapping[str, Seam]


def way_to(story: Story, leaf: Node, load: Load) -> list[Node]:
    """Every entry that led to a leaf, as the log has them."""
    end = leaf.uuid if leaf.is_link else _links_before(story.log).get(leaf.uuid)
    if end is None or end not in story.graph.nodes:
        return chain_to(story.log, leaf, load)
    return [story.log.nodes[node.uuid] for node in chain_to(story.graph, story.graph.nodes[end], load)]


def story_of(graph: Graph, line_before: LineBefore) -> Story:
    """The story of a log; the same graph where there is nothing to put together."""
    if _is_one_tree(graph):
        return Story(graph, graph, {})
    links = [node for node in graph.nodes.values() if node.is_link]
    passed = _links_before(graph)
    named: dict[str, str | None] = {}
    for node in links:
        name = _named(graph, node, line_before)
        named[node.uuid] = passed.get(name or "", name)
    parents = {uuid: name if name in named else None for uuid, name in named.items()}
    seams = _joined(graph, links, named, parents, _roots(parents))
    return Story(graph, graph.with_parents(parents), seams)


def _is_one_tree(graph: Graph) -> bool:
    """Whether all entries are links and each but the first follows one before it."""
    seen: set[str | None] = {None}
    for node in graph.nodes.values():
        if node.parent not in seen or not node.is_link or node.is_boundary:
            return False
        seen.discard(None)
        seen.add(node.uuid)
    return True


def _named(graph: Graph, node: Node, line_before: LineBefore) -> str | None:
    """The entry that a line says it follows; a boundary without parent says what it cut off."""
    return line_before(node) if node.is_boundary and node.parent is None else node.parent


def _links_before(graph: Graph) -> dict[str, str | None]:
    """For each entry that a conversation passes through: the nearest one before it that it does not."""
    found: dict[str, str | None] = {}
    for start, node in graph.nodes.items():
        way: dict[str, None] = {}
        current: str | None = None if node.is_link else start
        while current in graph.nodes and not graph.nodes[current].is_link and current not in way:
            if current in found:
                break
            way[current] = None
            current = graph.nodes[current].parent
        end = None if current in way else found.get(current or "", current)
        found.update(dict.fromkeys(way, end))
    return found


def _roots(parents: dict[str, str | None]) -> dict[str, str]:
    """The first entry of the tree of each. A circle is cut before that of its entries which the file has first."""
    places = {uuid: place for place, uuid in enumerate(parents)}
    found: dict[str, str] = {}
    for start in parents:
        way: dict[str, int] = {}
        current = start
        while current not in found:
            if current in way:
                circle = list(way)[way[current] :]
                root = min(circle, key=places.__getitem__)
                parents[root] = None
                found[root] = root
                current = root
                break
            way[current] = len(way)
            parent = parents[current]
            if parent is None:
                found[current] = current
                break
            current = parent
        found.update(dict.fromkeys(way, found[current]))
    return found


def _joined(
    graph: Graph,
    links: Sequence[Node],
    named: Mapping[str, str | None],
    parents: dict[str, str | None],
    roots: Mapping[str, str],
) -> dict[str, Seam]:
    """Let every tree but the first follow an entry before it, and say why it had to be put there.

    Only entries of trees that begin before it count, so that no circle can arise: a child may stand before its
    parent. Where the client itself would join the two, there is nothing to say.
    """
    places = {node.uuid: place for place, node in enumerate(links)}
    spoken = {roots[node.uuid] for node in links if not node.is_sidechain}
    seams: dict[str, Seam] = {}
    last: str | None = None
    for place, node in enumerate(links):
        root = roots[node.uuid]
        if root == node.uuid and root in spoken and last is not None:
            is_broken = named[root] is not None
            elder = graph.elder(node, {root}) if is_broken and not node.is_boundary else None
            is_joined = elder is not None and places[roots[elder.uuid]] < place
            parents[root] = elder.uuid if elder is not None and is_joined else last
            seam = None if is_joined else _seam(node, is_broken=is_broken)
            if seam is not None:
                seams[root] = seam
        if not node.is_sidechain and places[root] <= place:
            last = node.uuid
    return seams


def _seam(root: Node, *, is_broken: bool) -> Seam | None:
    if root.is_compact_summary:
        return Seam.SUMMARY
    if is_broken:
        return Seam.GAP
    return None if root.is_boundary else Seam.START


def seams_of(
    nodes: Sequence[Node], groups: Sequence[tuple[Node, ...]], seams: Mapping[str, Seam], loaded: str | None
) -> dict[int, tuple[Seam, ...]]:
    """What is to be said before each message: also where what begins there is not shown itself.

    ``loaded`` is the first entry that the client would load; nothing is said of it before the first message.
    """
    places = {node.uuid: place for place, group in enumerate(groups) for node in group}
    found: dict[int, tuple[Seam, ...]] = {}
    waiting: list[Seam] = []
    for node in nodes:
        waiting += [seams[node.uuid]] if node.uuid in seams else []
        waiting += [Seam.LOADED] if node.uuid == loaded else []
        place = places.get(node.uuid)
        if place is not None and waiting:
            notes = [one for one in waiting if place > 0 or one is not Seam.LOADED]
            if notes:
                found[place] = (*found.get(place, ()), *dict.fromkeys(notes))
            waiting = []
    return found


class Message(Struct, frozen=True):
    """One message of a conversation, made of one entry or of the lines of one answer.

    ``session`` and ``agent`` are set in a walk over a session or a home; ``agent`` is None in the session's
    own conversation. ``seams`` are set in the whole story: what begins with this message.
    """

    uuid: str
    parent_uuid: str | None
    role: str
    at: dt.datetime | None
    blocks: tuple[Block, ...]
    entries: tuple[Entry, ...]
    model: str | None = None
    usage: Usage | None = None
    is_meta: bool = False
    is_summary: bool = False
    session: str = ""
    agent: str | None = None
    seams: tuple[Seam, ...] = ()

    @property
    def text(self) -> str:
        """Its text, one block per paragraph."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def is_error(self) -> bool:
        """Whether it is an error that the client noted instead of an answer."""
        return any(isinstance(one.body, System) and one.body.subtype == ERROR_NOTE for one in self.entries)

    __repr__ = brief_repr


def model_name(model: str | None) -> str:
    """Who answered, in one word: what the client writes itself goes by the model's name."""
    return "Claude" if model is None or "claude" in model or model.startswith("<") else "Model"


class Messages(Sequence[Message]):
    """The messages of a conversation; each is read from the log on access."""

    def __init__(
        self,
        groups: Sequence[tuple[Node, ...]],
        load: Load,
        seams: Mapping[int, tuple[Seam, ...]] | None = None,
    ) -> None:
        self._groups, self._load, self._seams = groups, load, seams or {}

    def __repr__(self) -> str:
        return f"<Messages {len(self)}>"

    def __len__(self) -> int:
        return len(self._groups)

    def place_of(self, uuid: str) -> int | None:
        """Where the message with this entry stands; nothing is read for it."""
        places = (
            place for place, group in enumerate(self._groups) if any(node.uuid == uuid for node in group)
        )
        return next(places, None)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self._spoken(place) for place in range(len(self))[index]]
        return self._spoken(range(len(self))[index])

    def _spoken(self, place: int) -> Message:
        said = spoken(self._groups[place], self._load)
        return structs.replace(said, seams=self._seams[place]) if place in self._seams else said


class Conversation:
    """The entries from a root to one leaf, as client 2.1.325 would load them; followed when they are first needed."""

    def __init__(self, graph: Graph, leaf: Node, load: Load, *, whole: bool = False) -> None:
        self.graph, self.leaf, self._load, self._is_whole = graph, leaf, load, whole

    @functools.cached_property
    def history(self) -> list[Node]:
        """All of them, also what the last compaction hides."""
        return chain_to(self.graph, self.leaf, self._load)

    @functools.cached_property
    def nodes(self) -> list[Node]:
        """Those that are loaded."""
        return self.history if self._is_whole else after_compaction(self.history)

    @functools.cached_property
    def messages(self) -> Messages:
        """The same as messages."""
        return Messages(grouped(self.nodes), self._load)

    def __repr__(self) -> str:
        return f"<Conversation {len(self.messages)} messages to {self.leaf.uuid!a}>"

    @property
    def hidden(self) -> int:
        """How many entries the last compaction hides from the model; they are still in ``history``."""
        return len(self.history) - len(self.nodes)

    def entries(self) -> list[Entry]:
        """Every entry of the conversation, read from the log."""
        return entries_of(self.nodes, self._load)

    def to_api(self) -> list[dict[str, Any]]:
        """The Messages API list client 2.1.325 would send, before the new prompt and without its fillers."""
        return api_messages(self.entries())


def spoken(group: Sequence[Node], load: Load) -> Message:
    """Read one message from the log. A message that can no longer be read is empty."""
    entries = tuple(entries_of(group, load))
    first, last = group[0], group[-1]
    answer = next((entry.body for entry in reversed(entries) if isinstance(entry.body, Assistant)), None)
    users = [entry.body for entry in entries if isinstance(entry.body, User)]
    times = [entry.at for entry in entries if entry.at is not None]
    return Message(
        uuid=last.uuid,
        parent_uuid=first.parent,
        role=first.type,
        at=times[0] if times else None,
        blocks=tuple(block for entry in entries for block in _blocks(entry)),
        entries=entries,
        model=answer.message.model if answer else None,
        usage=answer.message.usage if answer else None,
        is_meta=any(user.is_meta for user in users),
        is_summary=any(user.is_compact_summary for user in users),
    )


def _blocks(entry: Entry) -> Sequence[Block]:
    body = entry.body
    if isinstance(body, System):
        return [TextBlock(body.text)]
    if isinstance(body, Attachment) or entry.message is None:
        return []
    return entry.message.blocks


class Branch(Struct, frozen=True):
    """One branch of the conversation: from where it diverged to its leaf."""

    leaf: str
    forked_at: str | None
    length: int
    at: str | None
    active: bool


def branches(graph: Graph, leaves: Iterable[Node], active: Node | None) -> list[Branch]:
    """The branches with these ends, the one with the active leaf first, then by time, latest first.

    What goes on after one of them is a branch that leaves it.
    """
    found = []
    ends = {leaf.uuid: leaf for leaf in leaves}
    for leaf in ends.values():
        if not leaf.is_link or leaf.is_sidechain:
            continue
        own: list[Node] = []
        for node in graph.ancestors(leaf.uuid):
            spoken_children = [
                uuid for uuid in graph.children(node.uuid) if not graph.nodes[uuid].is_sidechain
            ]
            if own and (len(spoken_children) > 1 or node.uuid in ends):
                break
            own.append(node)
        fork = graph.parent_of(own[-1])
        is_active = active is not None and leaf.uuid == active.uuid
        found.append(Branch(leaf.uuid, fork, len(own), leaf.timestamp, is_active))
    return sorted(found, key=lambda branch: (branch.active, ends[branch.leaf].offset), reverse=True)


class BranchDifference(Struct, frozen=True):
    """Two branches side by side: their common part, and what only one of them has."""

    common: int
    last_common: str | None
    only_left: list[Message]
    only_right: list[Message]

    __repr__ = brief_repr


def difference(graph: Graph, left: Node, right: Node, load: Load) -> BranchDifference:
    ours, theirs = (Conversation(graph, leaf, load, whole=True) for leaf in (left, right))
    common = 0
    for mine, other in zip(ours.nodes, theirs.nodes, strict=False):
        if mine.uuid != other.uuid:
            break
        common += 1
    return BranchDifference(
        common,
        ours.nodes[common - 1].uuid if common else None,
        [spoken(group, load) for group in grouped(ours.nodes[common:])],
        [spoken(group, load) for group in grouped(theirs.nodes[common:])],
    )


class Influence(Struct, frozen=True):
    """One entry that is sent in the client's name."""

    uuid: str | None
    offset: int
    what: str  # prompt_snapshot or rendered

    __repr__ = brief_repr


def influences(items: Iterable[Entry | Damage]) -> Iterator[Influence]:
    """All of them, in file order."""
    for entry in readable_entries(items):
        if isinstance(entry.body, Attachment):
            if loose_object(bytes(entry.body.attachment)).get("type") == "prompt_snapshot":
                yield Influence(entry.uuid, entry.offset, "prompt_snapshot")
            if not isinstance(entry.body.rendered, UnsetType):
                yield Influence(entry.uuid, entry.offset, "rendered")


_written = msgspec.json.Decoder(str | list[Raw])


def content_of(entry: Entry) -> str | list[Raw] | None:
    """The undecoded content of a line's message; None where it is not available."""
    try:
        entry.raw.decode()
        line = graph_line(entry.raw)
        content = None if line is None else line.message_content
        return None if content is None else _written.decode(content)
    except REFUSED:
        return None


def is_said(spoken: Message) -> bool:
    """Whether all its lines hold messages, and not notes of the client."""
    return all(isinstance(entry.body, User | Assistant) for entry in spoken.entries)


def made_of(entry: Entry) -> list[Block]:
    """The line's blocks as decoded by the codec."""
    return list(entry.message.blocks) if entry.message is not None else []


def as_json(block: Block) -> Raw | Block:
    """A block ready for encoding; for an unknown type, its original bytes."""
    return Raw(block.json) if isinstance(block, UnknownBlock) else block


def text_block(text: str) -> dict[str, str]:
    """The block that plain text content is equivalent to."""
    return {"type": "text", "text": text}
