"""A conversation to be read: messages in order, decoded on demand.

A ``Conversation`` knows which entries belong to it and in which order; their contents are read from the log
when a message is accessed. Taking the last fifty messages of a 50 MB session decodes only those fifty.

The lines of one answer are one message, as a reader sees it. What the client would send to the model is
another list, ``to_api()``.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Sequence
from typing import Any, overload

from msgspec import Struct

from recollect.model.blocks import Block, TextBlock
from recollect.model.brief_repr import brief_repr
from recollect.model.conversation.api import api_messages
from recollect.model.conversation.chain import Load, after_compaction, chain_to, entries_of, grouped
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import ERROR_NOTE, Node
from recollect.model.cost.usage import Usage
from recollect.model.entry import Assistant, Attachment, Entry, System, User


class Message(Struct, frozen=True):
    """One message of a conversation, made of one entry or of the lines of one answer.

    ``session`` and ``agent`` are set in a walk over a session or a home; ``agent`` is None in the session's
    own conversation.
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

    def __init__(self, groups: Sequence[tuple[Node, ...]], load: Load) -> None:
        self._groups, self._load = groups, load

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
            return [spoken(group, self._load) for group in self._groups[index]]
        return spoken(self._groups[index], self._load)


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


def branches(graph: Graph) -> list[Branch]:
    """Every branch of the conversation, the active one first, then by time, latest first."""
    active = graph.active_leaf
    on_the_way = {node.uuid for node in graph.ancestors(active.uuid)} if active is not None else set()
    found = []
    for leaf in graph.leaves:
        if not leaf.is_link or leaf.is_sidechain:
            continue
        own: list[Node] = []
        for node in graph.ancestors(leaf.uuid):
            if own and len(_spoken_children(graph, node)) > 1:
                break
            own.append(node)
        fork = graph.parent_of(own[-1])
        found.append(Branch(leaf.uuid, fork, len(own), leaf.timestamp, leaf.uuid in on_the_way))
    order = {leaf.uuid: leaf.offset for leaf in graph.leaves}
    return sorted(found, key=lambda branch: (branch.active, order[branch.leaf]), reverse=True)


def _spoken_children(graph: Graph, node: Node) -> list[str]:
    return [uuid for uuid in graph.children(node.uuid) if not graph.nodes[uuid].is_sidechain]


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
