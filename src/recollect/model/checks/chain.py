"""Ids and links: does the client find the conversation, and does it find all of it?

The path from the active leaf to the root is walked as client 2.1.325 walks it. A missing parent on that path
is an error only where history is lost by it: the client joins an orphan to an entry at most five seconds
older, and entries before the last compaction are not sent anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from recollect.model.checks import RuleViolation
from recollect.model.conversation.chain import parent_step
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.damage import Line
from recollect.model.entry import Assistant, Dialect, Entry, Kind, UnknownShapeBody, User
from recollect.model.ids import is_uuid

_How = Literal["parent", "root", "joined", "cut", "boundary"]


NO_PARENT = "an answer that names no parent"


class ChainBreak(Struct, frozen=True):
    """Where the walk could not follow a parent: the entry, where the client continues, and the missing id."""

    node: Node
    how: _How
    broken_at: str | None = None
    is_circle: bool = False


def id_fault(entry: Entry) -> RuleViolation | None:
    """A message without an id, or with one that is not a UUID."""
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
    if first.data == again.data:
        return RuleViolation("repeated-entry", f"the same line as at byte {first.offset}", again.offset, uuid)
    return RuleViolation(
        "duplicate-id", f"another line with this id is at byte {first.offset}", again.offset, uuid
    )


def link_faults(graph: Graph) -> Iterator[RuleViolation]:
    """Every link problem of a session's log."""
    breaks, walked = _walk(graph)
    cut = _cut(graph, breaks, walked)
    if cut is not None:
        yield cut
    known = {cut.uuid} if cut is not None else set()
    around = {uuid for circle in graph.cycles for uuid in circle}
    for one in breaks:
        if one.how == "joined" and not one.is_circle:
            yield _missing(
                one.node, one.broken_at, "the client joins it to an entry at most five seconds older"
            )
        elif one.is_circle and one.node.uuid not in known | around:
            what = "the path to the root returns to an entry that was already visited"
            yield RuleViolation("circle", what, one.node.offset, one.node.uuid)
    known |= {one.node.uuid for one in breaks if one.how == "joined"}
    passed = {one.broken_at for one in breaks}
    for orphan in graph.orphans:
        # Non-link entries are only passed through; the entry that follows them has the finding.
        if orphan.uuid not in known and (orphan.is_link or orphan.parent not in passed):
            yield _missing(orphan, orphan.parent)
    yield from circles(graph)
    yield from _second_roots(graph, walked)


def orphan_faults(graph: Graph) -> Iterator[RuleViolation]:
    """The same for a sub-agent's log, which no client resumes directly."""
    for orphan in graph.orphans:
        yield _missing(orphan, orphan.parent)


def circles(graph: Graph) -> Iterator[RuleViolation]:
    """Entries that are their own ancestors."""
    for circle in graph.cycles:
        first = min((graph.nodes[uuid] for uuid in circle), key=lambda node: node.offset)
        what = "an entry follows itself" if len(circle) == 1 else f"{len(circle)} entries in a circle"
        yield RuleViolation("circle", what, first.offset, first.uuid)


def _missing(orphan: Node, name: str | None, how: str = "") -> RuleViolation:
    what = broken_link(name, is_circle=False)
    return RuleViolation("missing-parent", f"{what}; {how}" if how else what, orphan.offset, orphan.uuid)


# ---- the path the client takes ---------------------------------------------------------------------------


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
        step = parent_step(graph, current, seen)
        following = step.parent
        if step.broken_at is not None:
            following = graph.elder(current, seen)
            how: _How = "cut" if following is None else "joined"
            breaks.append(ChainBreak(current, how, step.broken_at, step.is_circle))
        elif following is None:
            breaks.append(ChainBreak(current, "root"))
        current = following
    return breaks, walked


def is_answer(node: Node) -> bool:
    """Whether it answers something, so that no conversation can begin with it."""
    return node.type == "assistant" or bool(node.result_ids)


def broken_link(name: str | None, *, is_circle: bool) -> str:
    """Why the history stops at an entry. Check and repair share this text."""
    return (
        "it follows itself in a circle"
        if is_circle
        else f"its parent {(name or '')[:60]!r} is not in the log"
    )


def _cut(graph: Graph, breaks: Sequence[ChainBreak], walked: dict[str, Node]) -> RuleViolation | None:
    """Where the history that is sent begins too late; None where it begins where it should."""
    if not breaks or breaks[-1].how in ("joined", "boundary"):
        return None
    last = breaks[-1]
    begins = next((node for node in reversed(walked.values()) if node.is_message), None)
    if begins is None or not _is_something_before(graph, last.node, walked):
        return None
    if last.how == "cut":
        code, why = "history-cut", broken_link(last.broken_at, is_circle=last.is_circle)
    elif is_answer(begins):
        code, why = "unlinked-answer", NO_PARENT
    else:
        return None  # a prompt that follows nothing is a new conversation
    return RuleViolation(
        code, f"{why}: nothing before it is sent on resume", last.node.offset, last.node.uuid
    )


def _is_something_before(graph: Graph, node: Node, walked: dict[str, Node]) -> bool:
    return any(
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
    """Why a client would find no conversation; None where it finds one.

    ``is_sent``: something would be sent.
    """
    if size == 0:
        return RuleViolation("empty-log", "the file has no bytes")
    messages = [node for node in graph.nodes.values() if node.is_message]
    own = [node for node in messages if not node.is_sidechain]
    if not own:
        only = "sub-agent lines" if messages else "lines other than messages"
        return RuleViolation("no-conversation", f"it holds only {only}")
    leaf = graph.active_leaf
    if leaf is not None and is_sent:
        return None
    end = own[-1]
    if leaf is not None:
        return RuleViolation("nothing-said", "the client says there is no conversation", end.offset, end.uuid)
    why = (
        "its last entry has no readable time"
        if end.at_ms is None
        else "its last entry belongs to a sub-agent"
    )
    what = f"the client says there is no conversation: {why}"
    return RuleViolation("session-not-found", what, end.offset, end.uuid)
