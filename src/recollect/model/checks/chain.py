"""Ids and links: does the client find the conversation, and does it find all of it?

The way from the active leaf to the root is walked as client 2.1.325 walks it. A missing parent on that way is an error only
where history is lost by it: the client joins an orphan to what is at most five
seconds older, and what stands before the last compaction is not sent anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from recollect.model.checks import RuleViolation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Dialect, Entry, Kind, UnknownShapeBody, User
from recollect.model.ids import is_uuid

_How = Literal["parent", "root", "joined", "cut", "boundary"]


class ChainBreak(Struct, frozen=True):
    """Where the walk could not follow a parent: the entry, and how the client goes on."""

    node: Node
    how: _How
    is_circle: bool = False


def id_fault(entry: Entry) -> RuleViolation | None:
    """A message without id, or with one that is no UUID."""
    if entry.dialect != Dialect.CLAUDE or not _is_link(entry):
        return None
    uuid = entry.uuid
    if not uuid:
        return RuleViolation("missing-id", "a message without id", entry.offset)
    if not is_uuid(uuid):
        return RuleViolation("invalid-id", f"the id {uuid[:60]!r} is not a UUID", entry.offset, uuid)
    return None


def _is_link(entry: Entry) -> bool:
    body = entry.body
    named = body.type_name if isinstance(body, UnknownShapeBody) else ""
    return isinstance(body, User | Assistant) or named in (Kind.USER.value, Kind.ASSISTANT.value)


def duplicate_fault(first: Line, again: Line, uuid: str) -> RuleViolation:
    """Two lines with one id."""
    if first.data == again.data:
        return RuleViolation("repeated-entry", f"the same line as at byte {first.offset}", again.offset, uuid)
    return RuleViolation(
        "duplicate-id", f"another line with this id is at byte {first.offset}", again.offset, uuid
    )


def link_faults(graph: Graph) -> Iterator[RuleViolation]:
    """Everything that is wrong with the links of a session's log."""
    breaks, walked = _walk(graph)
    cut = _cut(graph, breaks, walked)
    if cut is not None:
        yield cut
    known = {cut.uuid} if cut is not None else set()
    joined = {one.node.uuid for one in breaks if one.how == "joined"}
    for orphan in graph.orphans:
        if orphan.uuid not in known:
            how = "the client joins it to what is at most five seconds older" if orphan.uuid in joined else ""
            yield _missing(orphan, how)
    yield from circles(graph)
    yield from _second_roots(graph, walked)


def orphan_faults(graph: Graph) -> Iterator[RuleViolation]:
    """The same for a sub-agent's log, which no client resumes by itself."""
    for orphan in graph.orphans:
        yield _missing(orphan, "")


def circles(graph: Graph) -> Iterator[RuleViolation]:
    """Entries that are their own ancestors."""
    for circle in graph.cycles:
        first = min((graph.nodes[uuid] for uuid in circle), key=lambda node: node.offset)
        what = "an entry follows itself" if len(circle) == 1 else f"{len(circle)} entries in a circle"
        yield RuleViolation("circle", what, first.offset, first.uuid)


def _missing(orphan: Node, how: str) -> RuleViolation:
    what = f"its parent {(orphan.parent or '')[:60]!r} is not in the log"
    return RuleViolation("missing-parent", f"{what}; {how}" if how else what, orphan.offset, orphan.uuid)


# ---- the way the client takes ----------------------------------------------------------------------------


def _walk(graph: Graph) -> tuple[list[ChainBreak], dict[str, Node]]:
    """From the active leaf back to where the history that is sent begins."""
    breaks: list[ChainBreak] = []
    walked: dict[str, Node] = {}
    seen: set[str] = set()
    current = graph.active_leaf
    while current is not None:
        walked[current.uuid] = current
        seen.add(current.uuid)
        if current.is_boundary:
            breaks.append(ChainBreak(current, "boundary"))
            break
        following, passed = _step(graph, current, seen)
        if passed is not None:
            breaks.append(passed)
        current = following
    return breaks, walked


def _step(graph: Graph, node: Node, seen: set[str]) -> tuple[Node | None, ChainBreak | None]:
    name = graph.parent_of(node)
    while name is not None:
        parent = graph.nodes.get(name)
        if parent is None or parent.uuid in seen:
            elder = graph.elder(node, seen)
            return elder, ChainBreak(node, "joined" if elder is not None else "cut", parent is not None)
        if parent.is_link:
            return parent, None
        seen.add(parent.uuid)
        name = graph.parent_of(parent)
    return None, ChainBreak(node, "root")


def _cut(graph: Graph, breaks: Sequence[ChainBreak], walked: dict[str, Node]) -> RuleViolation | None:
    """Where the history that is sent begins too late; None where it begins where it should."""
    if not breaks or breaks[-1].how in ("joined", "boundary"):
        return None
    last = breaks[-1]
    begins = next((node for node in reversed(walked.values()) if node.is_message), None)
    lost = _lost_before(graph, last.node, walked)
    if begins is None or not lost:
        return None
    code = "history-cut"
    if last.how == "cut" and not last.is_circle:
        why = f"its parent {(last.node.parent or '')[:60]!r} is not in the log"
    elif last.how == "cut":
        why = "it runs in a circle"
    elif begins.type == "assistant" or begins.result_ids:
        code, why = "unlinked-answer", "it names no parent"
    else:
        return None  # a conversation of its own: somebody began anew
    what = f"{why}: {lost} earlier message{'s are' if lost > 1 else ' is'} not sent on resume"
    return RuleViolation(code, what, last.node.offset, last.node.uuid)


def _lost_before(graph: Graph, node: Node, walked: dict[str, Node]) -> int:
    return sum(
        one.is_message and not one.is_sidechain and one.offset < node.offset and one.uuid not in walked
        for one in graph.nodes.values()
    )


def _second_roots(graph: Graph, walked: dict[str, Node]) -> Iterator[RuleViolation]:
    for root in graph.roots:
        is_talk = root.type == "user" and not root.is_sidechain and not root.is_compact_summary
        if is_talk and walked and root.uuid not in walked and graph.children(root.uuid):
            yield RuleViolation(
                "second-root", "a conversation that is not resumed begins here", root.offset, root.uuid
            )


# ---- is there a conversation at all ----------------------------------------------------------------------


def conversation_fault(graph: Graph, size: int, *, is_sent: bool) -> RuleViolation | None:
    """Why a client would find no conversation; None where it finds one. ``is_sent``: something would be sent."""
    if size == 0:
        return RuleViolation("empty-log", "the file has no bytes")
    messages = [node for node in graph.nodes.values() if node.is_message]
    own = [node for node in messages if not node.is_sidechain]
    if not own:
        only = "sub-agent lines" if messages else "lines that are no messages"
        return RuleViolation("no-conversation", f"it holds {only} only")
    leaf = graph.active_leaf
    if leaf is not None and is_sent:
        return None
    end = own[-1]
    if leaf is not None:
        return RuleViolation("nothing-said", "the client says there is no conversation", end.offset, end.uuid)
    what = "the client says there is no conversation: its end has no time that can be read"
    return RuleViolation("session-not-found", what, end.offset, end.uuid)
