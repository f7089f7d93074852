"""Everything that was said in a session: its conversation or all branches, with or without its sub-agents.

A log is held as a graph while its messages are handed out; texts are read one message at a time. So memory is
that of the longest log's links, however many logs are walked over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import structs

from recollect.errors import NotFound
from recollect.model.conversation.chain import Load, grouped
from recollect.model.conversation.conversation import (
    Conversation,
    Message,
    spoken,
)
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.conversation.tool_calls import ToolCall, tool_calls
from recollect.model.damage import readable_entries
from recollect.services import whole_session
from recollect.services.session import Branches, Session
from recollect.storage.home import AgentFile
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import LogReader


def session_messages(session: Session, branches: Branches, *, agents: bool) -> Iterator[Message]:
    """The messages of a session's own log, then those of its sub-agents' logs."""
    # Read afresh, not through the cache: a walk over a home would drop everything else from it.
    log = LogGraph(session.path)
    nodes = _active_nodes(session, log) if branches == "active" else None
    yield from _own_messages(log, session.id, nodes, agents=agents)
    for file in session.agents() if agents else ():
        yield from _agent_messages(file.path, session.id, agent_name(file), branches)


def log_messages(path: Path, session: str, agent: str | None) -> Iterator[Message]:
    """The messages of all branches of one log: a session's own with the sub-agents inside it, or an agent's."""
    if agent is None:
        return _own_messages(LogGraph(path), session, None, agents=True)
    return _agent_messages(path, session, agent, "all")


def _agent_messages(path: Path, session: str, agent: str, branches: Branches) -> Iterator[Message]:
    log = LogGraph(path)
    graph = whole_session.seen_from_inside(log.graph.nodes.values(), log.graph.marks)
    yield from _placed(_groups(graph, log.load, branches), log.load, session, agent)


def _own_messages(
    log: LogGraph, session: str, nodes: list[Node] | None, *, agents: bool
) -> Iterator[Message]:
    """``nodes``: those of the conversation; None for all branches."""
    if nodes is None:
        nodes = [node for node in log.graph.nodes.values() if not node.is_sidechain]
    yield from _placed(grouped(nodes), log.load, session, None)
    if not agents:
        return
    names: dict[str, str] = {}
    for group in grouped(node for node in log.graph.nodes.values() if node.is_sidechain):
        yield from _placed([group], log.load, session, _inline_agent(group[0], log.graph, names))


def _active_nodes(session: Session, log: LogGraph) -> list[Node]:
    """The conversation the client would load, with what compactions hide."""
    own = Session(session.home, session.file)
    own.log = log
    try:
        return whole_session.whole_nodes(own, own.conversation())
    except NotFound:
        return []  # a log without a conversation has no messages in it


def _groups(graph: Graph, load: Load, branches: Branches) -> list[tuple[Node, ...]]:
    if branches == "all":
        return grouped(graph.nodes.values())
    leaf = graph.active_leaf
    return [] if leaf is None else grouped(Conversation(graph, leaf, load, whole=True).nodes)


def _placed(
    groups: Iterable[tuple[Node, ...]], load: Load, session: str, agent: str | None
) -> Iterator[Message]:
    for group in groups:
        yield structs.replace(spoken(group, load), session=session, agent=agent)


def _inline_agent(node: Node, graph: Graph, names: dict[str, str]) -> str:
    """A sub-agent inside the session's own log is known by its first line, as ``recollect agents`` names it."""
    way: list[str] = []
    current: Node | None = node
    while current is not None and current.is_sidechain and current.uuid not in names:
        if current.uuid in way:
            break
        way.append(current.uuid)
        current = graph.nodes.get(graph.parent_of(current) or "")
    name = names.get(current.uuid) if current is not None and current.is_sidechain else None
    name = name or (way[-1] if way else node.uuid)
    names.update(dict.fromkeys(way, name))
    return name


def agent_name(file: AgentFile) -> str:
    """The id of a sub-agent, or what its file is called."""
    return str(file.agent_id) if file.agent_id is not None else file.path.stem.removeprefix("agent-")


def session_tool_calls(session: Session, *, agents: bool) -> Iterator[ToolCall]:
    """The tool calls of a session's own log, then those of its sub-agents' logs, with what became of them."""
    logs: list[tuple[str | None, Path]] = [(None, session.path)]
    if agents:
        logs += [(agent_name(file), file.path) for file in session.agents()]
    for agent, path in logs:
        for call in log_tool_calls(path):
            yield structs.replace(call, session=session.id, by_agent=agent)


def log_tool_calls(path: Path) -> list[ToolCall]:
    """The tool calls of one log."""
    return tool_calls(readable_entries(LogReader(path)))
