"""The number of messages of a conversation, updated while its log grows.

The count is that of ``Conversation.messages``: it depends on the whole graph, because one line can move the
end of the conversation. Most lines do not: they follow the last entry of a log in which every entry of the
main conversation follows the one before. Such a line is counted by itself (``continued``). After anything
else (a branch, parallel calls, a compaction, a mark elsewhere) the count is unknown until the graph has been
built again (``counted``).
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from recollect.model.conversation.node import LeafMark, Node

# The graph builder is imported on use: counting one more line does not need it.
if TYPE_CHECKING:
    from recollect.model.conversation.chain import Load
    from recollect.model.conversation.graph import Graph

Point = Node | LeafMark


class MessageCount(NamedTuple):
    """``messages`` is None where the graph has to be built to know it.

    ``leaf`` is set where the next line can be counted by itself: the entry it has to follow. ``bridge`` is
    the last non-link entry that leads to the leaf; ``answer`` is the answer in the last message.
    ``inline_agents`` counts the sub-agents inside the log itself.
    """

    messages: int | None = None
    has_conversation: bool = False
    leaf: str | None = None
    bridge: str | None = None
    answer: str | None = None
    inline_agents: int = 0


def counted(points: Iterable[Point], load: Load) -> MessageCount:
    """The count of a whole log."""
    from recollect.model.conversation.agents import inline_roots
    from recollect.model.conversation.chain import after_compaction, chain_to, grouped
    from recollect.model.conversation.graph import Graph

    graph = Graph(points)
    leaf, roots = graph.active_leaf, inline_roots(graph)
    agents = len(roots)
    if leaf is None:
        return MessageCount(0, inline_agents=agents)
    chain = chain_to(graph, leaf, load)
    messages = grouped(after_compaction(chain))
    # The parent that a sub-agent's first entry names may still come: then it is no longer the first.
    if not _is_plain(graph, chain) or any(root.parent is not None for root in roots):
        return MessageCount(len(messages), True, inline_agents=agents)
    last = messages[-1][-1] if messages else None
    answer = last.message_id if last is not None and last.type == "assistant" else None
    return MessageCount(len(messages), True, leaf.uuid, None, answer, agents)


def _is_plain(graph: Graph, chain: list[Node]) -> bool:
    """Whether every entry of the main conversation is on the chain, in file order, up to its end."""
    if graph.duplicates or graph.relinked:
        return False
    links = [node for node in graph.nodes.values() if not node.is_sidechain and node.is_link]
    marks = [mark.leaf for mark in graph.marks if mark.leaf is not None]
    return (
        len(links) == len(chain)
        and all(map(operator.is_, links, chain))
        and (not marks or any(node.uuid == marks[-1] for node in chain))
    )


def _agents_begun(points: Sequence[Point], known: set[str | None]) -> int | None:
    """How many sub-agents begin in these lines; None where the parent of one may be missing.

    ``known`` are ids that the log has.
    """
    seen = {point.uuid for point in points if isinstance(point, Node)} | known
    prompts = [
        point for point in points if isinstance(point, Node) and point.is_sidechain and point.type == "user"
    ]
    if any(point.parent is not None and point.parent not in seen for point in prompts):
        return None
    return sum(point.parent is None for point in prompts)


def continued(before: MessageCount, points: Sequence[Point]) -> MessageCount:
    """The count after more lines with new ids; unknown where one of them is not plain."""
    messages, _, leaf, bridge, answer, agents = before
    begun = _agents_begun(points, {leaf, bridge})
    if messages is None or leaf is None or begun is None:
        return MessageCount()
    seen: set[str] = set()
    for point in points:
        if isinstance(point, LeafMark):
            if point.leaf is not None and (point.explicit or point.leaf != leaf):
                return MessageCount()
            continue
        if point.uuid in seen or point.uuid in (leaf, bridge) or point.has_odd_key:
            return MessageCount()
        seen.add(point.uuid)
        if point.is_sidechain:
            continue
        follows = point.parent is not None and point.parent in (leaf, bridge)
        if not point.is_link:
            bridge = point.uuid if follows and point.is_bridge else bridge
            continue
        if not follows or point.is_boundary or point.at_ms is None:
            return MessageCount()
        leaf, bridge = point.uuid, None
        is_same_answer = point.type == "assistant" and point.message_id and point.message_id == answer
        if not is_same_answer and point.is_shown:
            messages += 1
            answer = point.message_id if point.type == "assistant" else None
    return MessageCount(messages, True, leaf, bridge, answer, agents + begun)
