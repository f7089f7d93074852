"""Sub-agents and the calls that started them, in all four layouts clients have used.

    1.0       lines inside the main log, marked as sidechain, without an id
    2.0       ``agent-<id>.jsonl`` beside the session's log
    2.1       ``<session>/subagents/agent-<id>.jsonl``
    later     the same with ``agent-<id>.meta.json``, which names the call

The best available link from an agent to its call is used: the meta file, the agent's id in the call's result,
the id in the result's text, or, where there is no id at all, the prompt. ``link`` says which.
"""

from __future__ import annotations

import datetime as dt
import enum
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Struct, structs

from recollect.model.conversation.chain import Load, after_compaction, chain_to, grouped
from recollect.model.conversation.graph import Graph, LeafMark, Node
from recollect.model.lines.json_text import loose_object
from recollect.model.views.fact_line import AGENT_TOOLS

if TYPE_CHECKING:
    from recollect.model.conversation.tool_calls import ToolCall

_WARM_UP = "Warmup"


class AgentLink(enum.StrEnum):
    """What connects an agent to its call, most reliable first."""

    META = "meta file"
    RESULT = "agent id in the result"
    TEXT = "agent id in the result's text"
    PROMPT = "same prompt"
    NONE = "none"


class AgentMeta(Struct, rename="camel"):
    """The contents of ``agent-<id>.meta.json``."""

    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    parent_agent_id: str | None = None
    spawn_depth: int | None = None


class SubAgent(Struct, frozen=True, rename={"root": "root_uuid"}):
    """One sub-agent. ``root`` is its first entry where it is part of the main log.

    ``is_warm_up``: the client made it to warm its cache; it belongs to no call.
    """

    id: str
    layout: str  # inline, flat, nested
    path: str | None = None
    root: str | None = None
    prompt: str = ""
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    messages: int = 0
    agent_type: str | None = None
    description: str | None = None
    tool_use_id: str | None = None
    spawned_by: str | None = None
    parent_agent: str | None = None
    depth: int = 1
    link: AgentLink = AgentLink.NONE
    is_warm_up: bool = False


def read_meta(data: bytes) -> AgentMeta:
    """Parse a meta file; empty where it cannot be read."""
    try:
        return msgspec.json.decode(data, type=AgentMeta)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return AgentMeta()


def with_meta(agent: SubAgent, meta: AgentMeta) -> SubAgent:
    """An agent with what its meta file says."""
    return structs.replace(
        agent,
        agent_type=meta.agent_type,
        description=meta.description,
        tool_use_id=meta.tool_use_id,
        parent_agent=meta.parent_agent_id,
        depth=meta.spawn_depth or 1,
        link=AgentLink.META if meta.tool_use_id else AgentLink.NONE,
    )


def inline_roots(graph: Graph) -> list[Node]:
    """First entries of the sub-agents that are part of a main log."""
    return [
        node
        for node in graph.nodes.values()
        if node.is_sidechain
        and node.type == "user"
        and (node.parent is None or node.parent not in graph.nodes)
    ]


def is_warm_up(prompt: str) -> bool:
    """Whether this prompt is the client's cache warm-up; no call starts such an agent."""
    return prompt.strip() == _WARM_UP


def linked(agents: Sequence[SubAgent], calls: Iterable[ToolCall]) -> list[SubAgent]:
    """The agents with the calls that started them. Each call is assigned to at most one agent."""
    named = {agent.tool_use_id for agent in agents}
    sending = [call for call in calls if call.name in AGENT_TOOLS or call.agent_id or call.id in named]
    by_id = {call.id: call for call in sending}
    free = dict(by_id)
    done: dict[str, SubAgent] = {}
    for how in (AgentLink.META, AgentLink.RESULT, AgentLink.TEXT, AgentLink.PROMPT):
        for agent in agents:
            if agent.id in done or agent.is_warm_up:
                continue
            call = _call_for(agent, how, by_id if how is AgentLink.META else free)
            if call is not None:
                free.pop(call.id, None)
                done[agent.id] = _sent_by(agent, call, how)
    return [done.get(agent.id, agent) for agent in agents]


def _call_for(agent: SubAgent, how: AgentLink, calls: dict[str, ToolCall]) -> ToolCall | None:
    if how is AgentLink.META:
        return calls.get(agent.tool_use_id or "")
    if how is AgentLink.RESULT:
        return next((call for call in calls.values() if call.agent_id == agent.id), None)
    if how is AgentLink.TEXT:
        wanted = f"agentId: {agent.id}"
        return next((call for call in calls.values() if wanted in call.text), None)
    # Equal prompts can only be matched by order: the first agent gets the first call.
    same = (call for call in calls.values() if agent.prompt and _prompt(call) == agent.prompt)
    return next(same, None)


def _sent_by(agent: SubAgent, call: ToolCall, how: AgentLink) -> SubAgent:
    given = loose_object(call.input)
    kind, about = given.get("subagent_type"), given.get("description")
    return structs.replace(
        agent,
        tool_use_id=call.id,
        spawned_by=call.uuid,
        agent_type=agent.agent_type or (kind if isinstance(kind, str) else None),
        description=agent.description or (about if isinstance(about, str) else None),
        link=how,
    )


def _prompt(call: ToolCall) -> str:
    prompt = loose_object(call.input).get("prompt")
    return prompt if isinstance(prompt, str) else ""


Point = Node | LeafMark


class MessageCount(NamedTuple):
    """``messages`` is None where the graph has to be built to know it.

    ``leaf`` is set where the next line can be counted by itself: the entry it has to follow. ``bridge`` is
    the last non-link entry that leads to the leaf; ``answer`` is the answer in the last message.
    ``inline_agents`` counts the sub-agents inside the log itself.
    """

    messages: int | None = None
    has_conversation: bool = False
    leaf: str | None = None
    bridge: str | None = None
    answer: str | None = None
    inline_agents: int = 0


def counted(points: Iterable[Point], load: Load) -> MessageCount:
    """The count of a whole log."""

    graph = Graph(points)
    leaf, roots = graph.active_leaf, inline_roots(graph)
    agents = len(roots)
    if leaf is None:
        return MessageCount(0, inline_agents=agents)
    chain = chain_to(graph, leaf, load)
    messages = grouped(after_compaction(chain))
    # The parent that a sub-agent's first entry names may still come: then it is no longer the first.
    if not _is_plain(graph, chain) or any(root.parent is not None for root in roots):
        return MessageCount(len(messages), True, inline_agents=agents)
    last = messages[-1][-1] if messages else None
    answer = last.message_id if last is not None and last.type == "assistant" else None
    return MessageCount(len(messages), True, leaf.uuid, None, answer, agents)


def _is_plain(graph: Graph, chain: list[Node]) -> bool:
    """Whether every entry of the main conversation is on the chain, in file order, up to its end."""
    if graph.duplicates or graph.relinked:
        return False
    links = [node for node in graph.nodes.values() if not node.is_sidechain and node.is_link]
    marks = [mark.leaf for mark in graph.marks if mark.leaf is not None]
    return (
        len(links) == len(chain)
        and all(map(operator.is_, links, chain))
        and (not marks or any(node.uuid == marks[-1] for node in chain))
    )


def _agents_begun(points: Sequence[Point], known: set[str | None]) -> int | None:
    """How many sub-agents begin in these lines; None where the parent of one may be missing.

    ``known`` are ids that the log has.
    """
    seen = {point.uuid for point in points if isinstance(point, Node)} | known
    prompts = [
        point for point in points if isinstance(point, Node) and point.is_sidechain and point.type == "user"
    ]
    if any(point.parent is not None and point.parent not in seen for point in prompts):
        return None
    return sum(point.parent is None for point in prompts)


def continued(before: MessageCount, points: Sequence[Point]) -> MessageCount:
    """The count after more lines with new ids; unknown where one of them is not plain."""
    messages, _, leaf, bridge, answer, agents = before
    begun = _agents_begun(points, {leaf, bridge})
    if messages is None or leaf is None or begun is None:
        return MessageCount()
    seen: set[str] = set()
    for point in points:
        if isinstance(point, LeafMark):
            if point.leaf is not None and (point.explicit or point.leaf != leaf):
                return MessageCount()
            continue
        if point.uuid in seen or point.uuid in (leaf, bridge) or point.has_odd_key:
            return MessageCount()
        seen.add(point.uuid)
        if point.is_sidechain:
            continue
        follows = point.parent is not None and point.parent in (leaf, bridge)
        if not point.is_link:
            bridge = point.uuid if follows and point.is_bridge else bridge
            continue
        if not follows or point.is_boundary or point.at_ms is None:
            return MessageCount()
        leaf, bridge = point.uuid, None
        is_same_answer = point.type == "assistant" and point.message_id and point.message_id == answer
        if not is_same_answer and point.is_shown:
            messages += 1
            answer = point.message_id if point.type == "assistant" else None
    return MessageCount(messages, True, leaf, bridge, answer, agents + begun)
