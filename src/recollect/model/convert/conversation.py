"""The conversation of a log in another dialect, whose lines name no parents: read through the conversion, in memory."""

from __future__ import annotations

from collections.abc import Iterable

from recollect.model.codec import decode
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node, node_of
from recollect.model.convert.into_claude import to_claude
from recollect.model.damage import Damage, Line
from recollect.model.entry import Dialect, Entry


def converted_conversation(
    items: Iterable[Entry | Damage], session_id: str, cwd: str = ""
) -> Conversation | None:
    """What was said, in order; None for a log of the client's own dialect, and where nothing was said."""
    entries = list(items)
    if not any(isinstance(one, Entry) and one.dialect is not Dialect.CLAUDE for one in entries):
        return None
    lines, offset = {}, 0
    for data in to_claude(entries, session_id=session_id, cwd=cwd).lines:
        lines[offset] = Line(data, offset)
        offset += len(data) + 1
    graph = Graph(map(node_of, lines.values()))

    def load(node: Node) -> Entry | None:
        item = decode(lines[node.offset])
        return item if isinstance(item, Entry) else None

    return None if graph.active_leaf is None else Conversation(graph, graph.active_leaf, load, whole=True)
