"""The shape and the order of times.

Equal times are fine, and so are lines that were written side by side: parallel calls and their
results, notes of hooks, lines of one answer. What is odd is a message that is older
than the message it follows.
"""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.checks import RuleViolation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node

# Clients stamp a line when it is made, not when it is written: lines of one moment overtake each other.
_SAME_MOMENT_MS = 1000


def time_faults(graph: Graph) -> Iterator[RuleViolation]:
    """Times that cannot be read, and messages that are older than what they answer."""
    for node in graph.nodes.values():
        at = node.at_ms
        if at is None:
            told = f"{node.timestamp[:40]!r} is no time" if node.timestamp else "it has no time"
            yield RuleViolation("bad-timestamp", told, node.offset, node.uuid)
            continue
        before = graph.nodes.get(node.parent or "")
        if before is not None and _is_ordered(before, node):
            earlier = before.at_ms
            if earlier is not None and at + _SAME_MOMENT_MS < earlier:
                seconds = (earlier - at) / 1000
                what = f"{seconds:g} s older than the entry it follows"
                yield RuleViolation("time-order", what, node.offset, node.uuid)


def _is_ordered(before: Node, node: Node) -> bool:
    same_answer = node.message_id is not None and node.message_id == before.message_id
    # Lines of one command are all the user's, and the first of them is stamped last.
    is_dialogue = before.is_message and node.is_message and not before.type == node.type == "user"
    return is_dialogue and not same_answer
