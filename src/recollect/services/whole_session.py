"""More of a session than the client would load: before compactions, beside the branch, inside agents.

``Session.conversation`` is what the client sees. What is here is for people who
look for something the client no longer shows. A conversation "as before" a
compaction is found among the lines written before it, because the compaction may
have put some of them in another place.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from recollect.errors import Ambiguous, NotFound
from recollect.model.conversation.agents import inline_roots
from recollect.model.conversation.chain import Load, grouped
from recollect.model.conversation.conversation import Conversation, Messages
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import LeafMark, Node
from recollect.model.convert.conversation import converted_conversation
from recollect.model.entry import System
from recollect.model.ids import short_id
from recollect.services.session import Session
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import LogReader


class ConversationSection(Struct, frozen=True):
    """One way a conversation went: the entries it has alone, in order."""

    leaf: str
    forked_at: str | None
    active: bool
    nodes: list[Node]
    messages: Messages


def is_prompt(node: Node) -> bool:
    """Whether a person typed it, as far as can be told without reading it."""
    return node.type == "user" and not node.result_ids and not node.is_compact_summary


def speaks(graph: Graph, node: Node) -> bool:
    """Whether it carries the talk on: a prompt, or the first line of an answer.

    Further lines of one answer and the results of its calls hang off each other
    in ways that look like branches and are none.
    """
    if node.type != "assistant":
        return is_prompt(node)
    before = graph.nodes.get(graph.parent_of(node) or "")
    same = before is not None and before.type == "assistant" and before.message_id == node.message_id
    return not (same and node.message_id)


def whole_nodes(session: Session, conversation: Conversation) -> list[Node]:
    """Every entry that led to a conversation, also across compactions that cut the chain."""
    if not any(node.is_boundary for node in session.graph.nodes.values()):
        return conversation.history  # nothing was cut: the graph need not be built a second time
    uncut = Graph(_uncut(session, node) for node in session.graph.nodes.values())
    return Conversation(uncut, uncut.nodes[conversation.leaf.uuid], session.load, whole=True).nodes


def _uncut(session: Session, node: Node) -> Node:
    """A boundary that follows the line before its cut and has moved nothing; other entries as they are."""
    if not node.is_boundary:
        return node
    before = _line_before(session, node)
    parent = before if node.parent is None and before in session.graph.nodes else node.parent
    return structs.replace(node, parent=parent, compact_metadata=None)


def _line_before(session: Session, boundary: Node) -> str | None:
    entry = session.load(boundary)
    return entry.body.logical_parent_uuid if entry and isinstance(entry.body, System) else None


def whole_messages(session: Session, conversation: Conversation) -> Messages:
    """The same as messages."""
    return Messages(grouped(whole_nodes(session, conversation)), session.load)


def before_compaction(session: Session, number: int) -> Conversation:
    """The conversation as it was before a compaction, counted from 1 in file order."""
    boundaries = [node for node in session.graph.nodes.values() if node.is_boundary]
    if not 1 <= number <= len(boundaries):
        there = f"it has {len(boundaries)}" if boundaries else "it has none"
        raise NotFound(
            f"session {session.id}: no compaction {number}, {there}",
            hint=f"`recollect tree {short_id(session.id)}` shows them",
        )
    found = _before(session, boundaries[number - 1])
    if found is None:
        raise NotFound(
            f"session {session.id}: nothing is left from before compaction {number}",
            hint=f"its lines are in {session.path}",
        )
    return found


def _before(session: Session, boundary: Node) -> Conversation | None:
    older = Graph(node for node in session.graph.nodes.values() if node.offset < boundary.offset)
    named = _line_before(session, boundary) or boundary.parent
    leaf = older.nodes.get(named or "") or older.active_leaf
    return Conversation(older, leaf, session.load) if leaf is not None else None


def sections(session: Session) -> list[ConversationSection]:
    """The active conversation and then, latest first, what every other branch has alone.

    A log in another dialect, of which the client loads nothing, has one section: what its conversion would hold.
    """
    graph = session.graph
    found: list[ConversationSection] = []
    owner: dict[str, int] = {}
    aside: list[tuple[str, list[Node]]] = []
    if graph.active_leaf is not None:
        _take(session, found, owner, _active_nodes(session), None, active=True)
    leaves = [leaf for leaf in graph.leaves if leaf.is_link and not leaf.is_sidechain]
    for leaf in sorted(leaves, key=lambda node: node.offset, reverse=True):
        nodes = _own_nodes(graph, leaf, owner)
        fork = graph.parent_of(nodes[0]) if nodes else None
        if fork in owner and not any(speaks(graph, node) for node in nodes):
            aside.append((fork or "", nodes))
        elif nodes:
            _take(session, found, owner, nodes, fork, active=False)
    for fork, nodes in aside:
        place = found[owner[fork]]
        merged = sorted([*place.nodes, *nodes], key=lambda node: node.offset)
        found[owner[fork]] = _section(session, merged, place.leaf, place.forked_at, active=place.active)
    return found or converted_sections(session)


def converted_sections(session: Session) -> list[ConversationSection]:
    """What was said in a log of another dialect, of which the client loads nothing; empty for a log of its own."""
    one = converted_conversation(LogReader(session.path), session.id)
    return [] if one is None else [ConversationSection(one.leaf.uuid, None, False, one.nodes, one.messages)]


def _active_nodes(session: Session) -> list[Node]:
    return whole_nodes(session, session.conversation())


def _own_nodes(graph: Graph, leaf: Node, owner: dict[str, int]) -> list[Node]:
    own: list[Node] = []
    for node in graph.ancestors(leaf.uuid):
        if node.uuid in owner:
            break
        own.append(node)
    return own[::-1]


def _take(
    session: Session,
    found: list[ConversationSection],
    owner: dict[str, int],
    nodes: list[Node],
    fork: str | None,
    *,
    active: bool,
) -> None:
    owner.update((node.uuid, len(found)) for node in nodes)
    found.append(_section(session, nodes, nodes[-1].uuid, fork, active=active))


def _section(
    session: Session, nodes: list[Node], leaf: str, fork: str | None, *, active: bool
) -> ConversationSection:
    return ConversationSection(leaf, fork, active, nodes, Messages(grouped(nodes), session.load))


class AgentConversation(Struct, frozen=True):
    """A sub-agent's own conversation and the log it stands in."""

    name: str
    log: LogGraph
    conversation: Conversation


def agent_talk(session: Session, name: str) -> AgentConversation:
    """What a sub-agent and the model said to each other; ``name`` is its id or the start of it."""
    files = {str(file.agent_id or file.path.stem): file for file in session.agents()}
    roots = {node.uuid: node for node in inline_roots(session.graph)}
    named = [one for one in (*files, *roots) if name and one.startswith(name)]
    chosen = [one for one in named if one == name] or named
    if len(chosen) > 1:
        raise Ambiguous("agent", name, tuple(chosen))
    if not chosen:
        hint = f"`recollect agents {short_id(session.id)}` lists them"
        raise NotFound(f"agent {name!r}: session {session.id} has none of that name", hint=hint)
    if chosen[0] in files:
        log = LogGraph(files[chosen[0]].path)
        graph = seen_from_inside(log.graph.nodes.values(), log.graph.marks)
    else:
        log = LogGraph(session.path)
        graph = seen_from_inside(_below(session.graph, roots[chosen[0]]), [])
    return AgentConversation(chosen[0], log, _talk(graph, chosen[0], log.load))


def _talk(graph: Graph, name: str, load: Load) -> Conversation:
    leaf = graph.active_leaf
    if leaf is None:
        raise NotFound(
            f"agent {name}: its log holds no conversation", hint="`recollect agents` shows what it holds"
        )
    return Conversation(graph, leaf, load)


def seen_from_inside(nodes: Iterable[Node], marks: Iterable[LeafMark]) -> Graph:
    """For itself an agent is no sidechain: its lines are the conversation."""
    return Graph([*(structs.replace(node, is_sidechain=False) for node in nodes), *marks])


def _below(graph: Graph, root: Node) -> list[Node]:
    found: dict[str, Node] = {}
    waiting = [root.uuid]
    while waiting:
        uuid = waiting.pop()
        if uuid not in found and graph.nodes[uuid].is_sidechain:
            found[uuid] = graph.nodes[uuid]
            waiting += graph.children(uuid)
    return sorted(found.values(), key=lambda node: node.offset)
