"""The format and the order of timestamps.

Equal times are fine, and so are lines written in parallel: parallel calls and their results, hook notes,
lines of one answer. Only a message older than the one it follows is reported.
"""

from __future__ import annotations

from collections.abc import Iterator

from recollect.model.checks import RuleViolation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.moments import parsed_time

# Clients stamp a line when it is created, not when it is written, so lines of one moment may be out of order.
_SAME_MOMENT_MS = 1000


def time_faults(graph: Graph) -> Iterator[RuleViolation]:
    """Times that cannot be read, and messages that are older than what they answer."""
    times = {name: parsed_time(node.timestamp) for name, node in graph.nodes.items()}
    for node in graph.nodes.values():
        moment = times[node.uuid]
        if moment is None:
            problem = f"{node.timestamp[:40]!r} is not a time" if node.timestamp else "it has no time"
            yield RuleViolation("bad-timestamp", problem, node.offset, node.uuid)
            continue
        before = times.get(node.parent or "")
        if before is not None and moment < before:  # seldom, and only then anything else is asked
            yield from _order_fault(graph.nodes[node.parent or ""], node)


def _order_fault(before: Node, node: Node) -> Iterator[RuleViolation]:
    at, earlier = node.at_ms, before.at_ms
    if at is None or earlier is None or not _is_ordered(before, node):
        return
    if at + _SAME_MOMENT_MS < earlier:
        what = f"{(earlier - at) / 1000:g} s older than the entry it follows"
        yield RuleViolation("time-order", what, node.offset, node.uuid)


def _is_ordered(before: Node, node: Node) -> bool:
    same_answer = node.message_id is not None and node.message_id == before.message_id
    # All lines of one command are the user's, and the first of them is stamped last.
    is_dialogue = before.is_message and node.is_message and not before.type == node.type == "user"
    return is_dialogue and not same_answer
