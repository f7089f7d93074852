"""The way to an entry: all it follows, the first one first.

In a session's own log the client's rules decide what belongs to a conversation.
A sub-agent's lines all count as being beside one, so there the parents alone
lead the way.
"""

from __future__ import annotations

from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.services.session import Session


def way_to(session: Session, leaf: str) -> list[Node]:
    """The entries up to a leaf; compactions hide nothing.

    Results of the leaf's own calls hang off it and are gathered by the client; here they come after.
    """
    nodes = session.conversation(leaf, whole=True).nodes
    end = next((index for index, node in enumerate(nodes, 1) if node.uuid == leaf), len(nodes))
    return nodes[:end]


def own_way_to(graph: Graph, leaf: Node) -> list[Node]:
    """The entries up to a leaf of a sub-agent, all of whose lines count as being beside a conversation."""
    return list(graph.ancestors(leaf.uuid))[::-1]
