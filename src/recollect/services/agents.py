"""The sub-agents of a session: found in every layout, tied to the calls that sent them, nested."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import structs

from recollect.errors import NotFound, RecollectError
from recollect.model.blocks import TextBlock
from recollect.model.conversation.agents import (
    SubAgent,
    inline_roots,
    is_warm_up,
    linked,
    read_meta,
    with_meta,
)
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.conversation.tool_calls import tool_calls
from recollect.model.damage import readable_entries
from recollect.model.entry import Entry, User
from recollect.services.session import Session
from recollect.services.whole_session import agent_talk
from recollect.storage.home import AgentFile
from recollect.storage.logs.log_graph import LogGraph
from recollect.storage.logs.reader import LogReader
from recollect.system.peek import open_regular


def agents_of(session: Session, *, warm_ups: bool = False) -> list[SubAgent]:
    """All sub-agents of a session, first sent first. Warm-up files are left out unless asked for."""
    files = session.agents()
    found = [_from_file(session, file) for file in files]
    found += [_inline(session, node) for node in inline_roots(session.graph)]
    calls = [
        *session.tool_calls(),
        *(call for file in files for call in tool_calls(readable_entries(LogReader(file.path)))),
    ]
    agents = _nested(linked(found, calls), files, session.graph)
    kept = [agent for agent in agents if warm_ups or not agent.is_warm_up]
    return sorted(kept, key=lambda agent: (agent.first_at is None, str(agent.first_at), agent.id))


def agent_count(session: Session) -> int:
    """How many sub-agents ``agents_of`` finds, without reading more of their logs than their first prompts."""
    files = sum(not is_warm_up(first_prompt(file.path)) for file in session.agents())
    return files + len(inline_roots(session.graph))


def first_prompt(log: Path) -> str:
    """What an agent was asked first, as its log has it; "" where it cannot be read or says nothing."""
    try:
        return _asked(readable_entries(LogReader(log)))
    except RecollectError:
        return ""


def _asked(entries: Iterable[Entry]) -> str:
    """The task: before it may stand what the client told the agent by itself, and history of who sent it."""
    first = copied = None
    for entry in entries:
        body = entry.body
        if isinstance(body, User):
            if not body.is_meta and body.forked_from is None:
                return _first_text(body)
            first, copied = first or body, copied or (None if body.is_meta else body)
    told = copied or first  # all of it was copied: with the session it belongs to
    return _first_text(told) if told is not None else ""


def _first_text(body: User) -> str:
    return "".join(block.text for block in body.message.blocks[:1] if isinstance(block, TextBlock))


def _messages(session: Session, name: str) -> int:
    """How many messages an agent and the model exchanged; none where its lines make no conversation."""
    try:
        return len(agent_talk(session, name).conversation.messages)
    except NotFound:
        return 0


def _from_file(session: Session, file: AgentFile) -> SubAgent:
    entries = list(readable_entries(LogReader(file.path)))
    name = str(file.agent_id) if file.agent_id is not None else file.path.stem.removeprefix("agent-")
    messages = _messages(session, str(file.agent_id or file.path.stem))
    agent = _summary(SubAgent(name, file.layout, path=str(file.path), messages=messages), entries)
    if file.meta_path is None:
        return agent
    with open_regular(file.meta_path) as meta:
        return with_meta(agent, read_meta(meta.read(1 << 20)))


def _inline(session: Session, root: Node) -> SubAgent:
    entries = [entry for node in _below(session.graph, root) if (entry := session.load(node)) is not None]
    messages = _messages(session, root.uuid)
    return _summary(SubAgent(root.uuid, "inline", root=root.uuid, messages=messages), entries)


def _below(graph: Graph, root: Node) -> list[Node]:
    found, waiting, seen = [], [root.uuid], set[str]()
    while waiting:
        uuid = waiting.pop()
        if uuid not in seen:
            seen.add(uuid)
            found.append(graph.nodes[uuid])
            waiting += graph.children(uuid)
    return sorted(found, key=lambda node: node.offset)


def _summary(agent: SubAgent, entries: list[Entry]) -> SubAgent:
    times = [entry.at for entry in entries if entry.at is not None]
    return structs.replace(
        agent,
        prompt=_asked(entries),
        first_at=min(times, default=None),
        last_at=max(times, default=None),
    )


def _nested(agents: list[SubAgent], files: list[AgentFile], graph: Graph) -> list[SubAgent]:
    """Tell whose agent an agent is: the one in whose log its call stands.

    A call of the session itself stays its own, also where an agent began with a copy of the conversation.
    """
    senders = {agent.spawned_by for agent in agents if agent.spawned_by not in graph.nodes}
    home_of = {
        node.uuid: str(file.agent_id)
        for file in files
        for node in LogGraph(file.path).graph.nodes.values()
        if node.uuid in senders
    }
    named = [
        structs.replace(a, parent_agent=a.parent_agent or home_of.get(a.spawned_by or "")) for a in agents
    ]
    parents = {agent.id: agent.parent_agent for agent in named}
    return [structs.replace(agent, depth=_depth(agent.id, parents)) for agent in named]


def _depth(agent: str, parents: dict[str, str | None]) -> int:
    depth, seen = 1, {agent}
    above = parents.get(agent)
    while above is not None and above not in seen:
        seen.add(above)
        depth += 1
        above = parents.get(above)
    return depth
