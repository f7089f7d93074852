"""Times and links, so that the client finds the whole conversation.

Measured on clients 2.0.76 to 2.1.325: without a readable time on its last message a session is "not found";
where a parent is missing, the history starts at the orphan, unless another entry is at most five seconds
older; 2.0.76 never joins, and hangs on circles. So the path from the active leaf to the root is walked as the
client walks it, and every place where it would jump or stop gets a real link. Branches that are not resumed
stay unchanged, except that circles are cut.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from msgspec import structs

from recollect.model.checks.chain import NO_PARENT, broken_link, is_answer
from recollect.model.conversation.chain import parent_step
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import LeafMark, Node
from recollect.model.draft import iso_time
from recollect.model.moments import parsed_time
from recollect.model.repair.draft import RepairDraft

_ANY_TIME = "2000-01-01T00:00:00.000Z"
_UUID = re.compile(rb'"uuid"\s*:\s*"([^"\\]{1,200})"')
_PARENT = re.compile(rb'"parentUuid"\s*:\s*"([^"\\]{1,200})"')
_SEARCHED = 1 << 20
# The new parent, the code of the action, and why.
_Link = tuple[str | None, str, str]


def fill_times(draft: RepairDraft, fallback: dt.datetime) -> bool:
    """If the client would find no conversation for lack of a time, take times from neighbouring entries."""
    graph = draft.graph()
    if graph.active_leaf is not None:
        return False
    timed = Graph(_timed(graph))
    leaf = timed.active_leaf
    if leaf is None:
        return False
    first = next((at for node in graph.nodes.values() if (at := parsed_time(node.timestamp))), None)
    before = first or fallback
    chain = {node.uuid for node in timed.ancestors(leaf.uuid)}
    for node in sorted(graph.nodes.values(), key=lambda one: one.offset):
        at = parsed_time(node.timestamp)
        if at is None and node.uuid in chain:
            before += dt.timedelta(milliseconds=1)
            why = "no time that can be read: the client would not find the session"
            draft.change(node.offset, {"timestamp": iso_time(before)}, "time-filled", why)
        before = at or before
    return True


def _timed(graph: Graph) -> Iterator[Node | LeafMark]:
    """The same graph as if every entry had a time."""
    for node in graph.nodes.values():
        yield node if node.at_ms is not None else structs.replace(node, timestamp=_ANY_TIME)
    yield from graph.marks


def mend_links(draft: RepairDraft) -> bool:
    """Give the active chain real links where the client would jump, stop or run in a circle."""
    graph = draft.graph()
    leaf = graph.active_leaf
    links = links_of_chain(draft, graph, leaf) if leaf is not None else {}
    links.update(_cuts(graph, links))
    for uuid, (parent, code, why) in links.items():
        draft.change(graph.nodes[uuid].offset, {"parentUuid": parent}, code, why)
    return bool(links)


def links_of_chain(draft: RepairDraft, graph: Graph, leaf: Node) -> dict[str, _Link]:
    """The links missing in the chain to a leaf: by entry its new parent, the action's code, and why."""
    links: dict[str, _Link] = {}
    lost = _lost_parents(draft)
    seen: set[str] = set()
    current: Node | None = leaf
    first: Node | None = None
    while current is not None:
        seen.add(current.uuid)
        step = parent_step(graph, current, seen)
        first = current if current.is_message else first
        parent = step.parent
        if current.uuid in graph.relinked:
            # A compaction moved it here; its own link does not count.
            parent = graph.elder(current, seen) if step.broken_at is not None else parent
        elif step.broken_at is not None:
            parent = _joined(graph, current, seen, lost)
            code = "circle-cut" if step.is_circle else "relinked"
            why = broken_link(step.broken_at, is_circle=step.is_circle)
            if parent is not None:
                links[current.uuid] = (parent.uuid, code, f"{why}; now follows {parent.uuid}")
            elif step.is_circle:
                links[current.uuid] = (None, code, f"{why}; now the first entry")
        elif parent is None and not current.is_boundary and first is not None and is_answer(first):
            parent = _earlier(graph, current, seen)
            if parent is not None:
                links[current.uuid] = (parent.uuid, "relinked", f"{NO_PARENT}; now follows {parent.uuid}")
        current = parent
    return links


def _joined(graph: Graph, node: Node, seen: set[str], lost: dict[str, str]) -> Node | None:
    """The new parent of an orphan: the client's choice, else its lost parent's position, else the entry
    before it.
    """
    elder = graph.elder(node, seen)
    if elder is not None:
        return elder
    name, passed = node.parent, 0
    while name in lost and passed < len(lost):
        name, passed = lost[name], passed + 1
    named = graph.nodes.get(name or "")
    if named is not None and named.is_link and not named.is_sidechain and named.uuid not in seen:
        return named
    return _earlier(graph, node, seen)


def _earlier(graph: Graph, node: Node, seen: set[str]) -> Node | None:
    """The nearest earlier entry that is not on the path yet."""
    earlier = (
        one
        for one in reversed(graph.nodes.values())
        if one.offset < node.offset and one.is_link and not one.is_sidechain and one.uuid not in seen
    )
    return next(earlier, None)


def _lost_parents(draft: RepairDraft) -> dict[str, str]:
    """The id and parent of lines that were set aside, where they can be read."""
    lost: dict[str, str] = {}
    for span in draft.set_aside():
        data = draft.read(span.offset, min(span.length, _SEARCHED))
        uuids, parent = _UUID.findall(data), _PARENT.search(data)
        if uuids and parent:
            lost[uuids[-1].decode("utf-8", "replace")] = parent.group(1).decode("utf-8", "replace")
    return lost


def _cuts(graph: Graph, known: dict[str, _Link]) -> dict[str, _Link]:
    """Circles beside the chain: the first line becomes a root."""
    cuts: dict[str, _Link] = {}
    why = broken_link(None, is_circle=True)
    for circle in graph.cycles:
        if not known.keys() & set(circle):
            first = min((graph.nodes[uuid] for uuid in circle), key=lambda node: node.offset)
            if first.uuid not in graph.relinked:
                cuts[first.uuid] = (None, "circle-cut", f"{why}; now the first entry")
    return cuts
