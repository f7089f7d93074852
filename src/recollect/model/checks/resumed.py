"""What the client would send on resuming a log: the entries, the messages, and the history behind them.

A check asks this about the log as it is, a repair about the log as it would be. A conversation is held in
memory as a whole and takes three to four times its bytes. Above ``LARGEST_CONVERSATION`` its texts are
shortened, which changes neither the number of messages nor which rules they violate; if that is still too
large, nothing is built.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from recollect.model import codec
from recollect.model.checks.shortened import LONG_LINE, shortened
from recollect.model.conversation.api import api_messages
from recollect.model.conversation.chain import after_compaction, chain_to
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.damage import Damage, Limits, Line
from recollect.model.entry import Entry, System
from recollect.model.json.text import Json

LineOf = Callable[[Node], Line]
# Any line the client can hold is read: leaving one out would lose history.
LIMITS = Limits(line_bytes=512 * 1024 * 1024)
LARGEST_CONVERSATION = 64 << 20


class ResumedLog(Struct, frozen=True):
    """What a client makes of a log. ``entries`` is None where the conversation is too large to hold.

    ``history`` holds the ids of the messages from the root to the active leaf, including those hidden by
    compactions.
    """

    leaf: Node | None
    history: tuple[str, ...] = ()
    entries: Sequence[Entry] | None = ()
    messages: Sequence[Json] = ()


def resumed_log(
    graph: Graph, line_of: LineOf, *, is_bounded: bool = True, known: Mapping[int, Entry] | None = None
) -> ResumedLog:
    """Build what would be resumed; empty where the client finds no conversation.

    Without a bound every text is held, for any size of the conversation. ``known`` are entries that were read
    already, by their offsets.
    """
    leaf = graph.active_leaf
    if leaf is None:
        return ResumedLog(None)

    def load(node: Node) -> Entry | None:
        return entry_of(node, line_of(node))

    chain = chain_to(graph, leaf, load)
    largest = LARGEST_CONVERSATION if is_bounded else sys.maxsize
    entries = _entries(after_compaction(chain), line_of, largest, known or {})
    messages = api_messages(entries) if entries is not None else []
    return ResumedLog(leaf, tuple(_history(graph, chain, load)), entries, messages)


def entry_of(node: Node, line: Line) -> Entry | None:
    """The entry of a node, given its line; None where the line has changed since."""
    item = codec.decode(line, LIMITS)
    entry = item.readable if isinstance(item, Damage) else item
    return entry if entry is not None and (entry.uuid == node.uuid or node.has_odd_key) else None


def _entries(
    nodes: Sequence[Node], line_of: LineOf, largest: int, known: Mapping[int, Entry]
) -> list[Entry] | None:
    """The resumed entries; those of a large conversation have shortened texts."""
    is_large = sum(node.length for node in nodes) > largest
    if sum(node.length for node in nodes if node.length <= LONG_LINE) > largest:
        return None  # there is nothing to cut in these
    entries: list[Entry] = []
    size = 0
    for node in nodes:
        entry = None if is_large else known.get(node.offset)
        if entry is None:
            line = line_of(node)
            entry = entry_of(node, Line(shortened(line.data), line.offset) if is_large else line)
        if entry is not None:
            entries.append(entry)
            size += len(entry.raw)
        if size > largest:
            return None
    return entries


def _history(graph: Graph, chain: list[Node], load: Callable[[Node], Entry | None]) -> list[str]:
    found: dict[str, None] = {}
    walked: set[str] = set()
    while chain and chain[0].uuid not in walked:
        walked.update(node.uuid for node in chain)
        found.update(dict.fromkeys(node.uuid for node in chain if node.is_message))
        hidden = _hidden_by(graph, chain[0], load)
        # A long session has many compactions: only what the client loads is collected in full.
        chain = list(graph.ancestors(hidden))[::-1] if hidden is not None else []
    return list(found)


def _hidden_by(graph: Graph, first: Node, load: Callable[[Node], Entry | None]) -> str | None:
    """The last entry before a compaction, where a conversation starts with one."""
    entry = load(first) if first.is_boundary else None
    name = entry.body.logical_parent_uuid if entry is not None and isinstance(entry.body, System) else None
    return name if name in graph.nodes else None
