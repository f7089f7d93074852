"""More of a session than the client would load: before compactions, beside the branch, inside agents.

``Session.conversation`` is what the client sees. What is here is for people who
look for something the client no longer shows: ``model/conversation/conversation.py`` says how all of a log is one story. A conversation "as before" a
compaction is found among the lines written before it, because the compaction may
have put some of them in another place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, structs

from recollect.ask.sessions.session import Branches, Session
from recollect.errors import Ambiguous, NotFound, RecollectError
from recollect.model.conversation.agents import (
    SubAgent,
    inline_roots,
    is_warm_up,
    linked,
    read_meta,
    with_meta,
)
from recollect.model.conversation.chain import Load, grouped
from recollect.model.conversation.conversation import (
    Branch,
    Conversation,
    Message,
    Messages,
    Seam,
    branches,
    seams_of,
    spoken,
    way_to,
)
from recollect.model.conversation.graph import Graph, LeafMark, Node
from recollect.model.conversation.tool_calls import ToolCall, tool_calls
from recollect.model.convert.into_claude import converted_conversation
from recollect.model.lines.blocks import TextBlock
from recollect.model.lines.damage import readable_entries
from recollect.model.lines.entry import Entry, User
from recollect.model.lines.ids import hint_name
from recollect.store.home import AgentFile
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.reader import LogReader
from recollect.system.peek import open_regular


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


class WholeStory(Struct, frozen=True):
    """Every entry that led to the end of a conversation, and as messages; also what the client would not load.

    ``seams``: what is to be said before a message.
    """

    nodes: list[Node]
    groups: list[tuple[Node, ...]]
    seams: dict[int, tuple[Seam, ...]]
    messages: Messages


def whole_story(session: Session, branch: str | None = None) -> WholeStory:
    """The whole story to the active leaf, or to the end of another branch."""
    conversation = session.conversation(branch)
    story = session.log.story
    is_one_tree = story.graph is story.log  # then the way is known already
    nodes = conversation.history if is_one_tree else way_to(story, conversation.leaf, session.load)
    # On another branch a resume would load nothing: there is no line for where that begins.
    loaded = conversation.nodes[0] if conversation.leaf is session.graph.active_leaf else None
    return _story(session, nodes, loaded)


def _story(session: Session, nodes: list[Node], loaded: Node | None) -> WholeStory:
    groups = grouped(nodes)
    seams = seams_of(nodes, groups, session.log.story.seams, None if loaded is None else loaded.uuid)
    return WholeStory(nodes, groups, seams, Messages(groups, session.load, seams))


def whole_branches(session: Session) -> list[Branch]:
    """Every end of the whole story, the active one first.

    Where another tree begins is no end, and what stands in the whole story beside the way to its end, such as
    results of parallel calls, is no branch.
    """
    leaf, graph = session.graph.active_leaf, session.log.story.graph
    aside = set() if leaf is None else {node.uuid for node in whole_story(session).nodes}
    every = branches(graph, [*graph.leaves, *([] if leaf is None else [leaf])], leaf)
    return [one for one in every if one.active or one.leaf not in aside]


def before_compaction(session: Session, number: int) -> Conversation:
    """The conversation as it was before a compaction, counted from 1 in file order."""
    boundaries = [node for node in session.graph.nodes.values() if node.is_boundary]
    if not 1 <= number <= len(boundaries):
        there = f"it has {len(boundaries)}" if boundaries else "it has none"
        raise NotFound(
            f"session {session.id}: no compaction {number}, {there}",
            hint=f"`recollect show {hint_name(session.id, session.path)} --tree` shows them",
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
    named = session.log.line_before(boundary) or boundary.parent
    leaf = older.nodes.get(named or "") or older.active_leaf
    return Conversation(older, leaf, session.load) if leaf is not None else None


def sections(session: Session) -> list[ConversationSection]:
    """The whole story and then, latest first, what every other branch has alone.

    A log in another dialect, of which the client loads nothing, has one section: what its conversion would hold.
    """
    graph, active = session.log.story.graph, session.graph.active_leaf
    ways: list[tuple[list[Node], str | None]] = []
    owner: dict[str, int] = {}
    aside: list[tuple[str, list[Node]]] = []

    def take(nodes: list[Node], fork: str | None) -> None:
        owner.update((node.uuid, len(ways)) for node in nodes)
        ways.append((nodes, fork))

    if active is not None:
        take(whole_story(session).nodes, None)
    leaves = [leaf for leaf in graph.leaves if leaf.is_link and not leaf.is_sidechain]
    for leaf in sorted(leaves, key=lambda node: node.offset, reverse=True):
        nodes = _own_nodes(graph, leaf, owner)
        fork = graph.parent_of(nodes[0]) if nodes else None
        if fork in owner and not any(speaks(graph, node) for node in nodes):
            aside.append((fork or "", nodes))
        elif nodes:
            take(nodes, fork)
    ends = [nodes[-1].uuid for nodes, _ in ways]
    for fork, nodes in aside:
        ways[owner[fork]][0].extend(nodes)
        ways[owner[fork]][0].sort(key=lambda node: node.offset)
    found = []
    for number, (nodes, fork) in enumerate(ways):
        is_active = active is not None and number == 0
        own = [session.graph.nodes[node.uuid] for node in nodes]
        loaded = session.conversation().nodes[0] if is_active else None
        found.append(
            ConversationSection(ends[number], fork, is_active, own, _story(session, own, loaded).messages)
        )
    return found or converted_sections(session)


def converted_sections(session: Session) -> list[ConversationSection]:
    """What was said in a log of another dialect, of which the client loads nothing; empty for a log of its own."""
    one = converted_conversation(LogReader(session.path), session.id)
    return [] if one is None else [ConversationSection(one.leaf.uuid, None, False, one.nodes, one.messages)]


def _own_nodes(graph: Graph, leaf: Node, owner: dict[str, int]) -> list[Node]:
    own: list[Node] = []
    for node in graph.ancestors(leaf.uuid):
        if node.uuid in owner:
            break
        own.append(node)
    return own[::-1]


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
        hint = f"`recollect show {hint_name(session.id, session.path)} --sub-agents` lists them"
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
            f"agent {name}: its log holds no conversation",
            hint="`recollect show --sub-agents` shows what it holds",
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
    graph = seen_from_inside(log.graph.nodes.values(), log.graph.marks)
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
        return whole_story(own).nodes
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
    """A sub-agent inside the session's own log is known by its first line, as ``recollect show --sub-agents`` names it."""
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


class SessionAgents(Struct, frozen=True):
    """The sub-agents of a session, in the order they started."""

    session: str
    agents: list[SubAgent]


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
    messages = _messages(session, str(file.agent_id or file.path.stem))
    agent = _summary(SubAgent(agent_name(file), file.layout, path=str(file.path), messages=messages), entries)
    if file.meta_path is None:
        return agent
    with open_regular(file.meta_path) as meta:
        return with_meta(agent, read_meta(meta.read(1 << 20)))


def _inline(session: Session, root: Node) -> SubAgent:
    entries = [entry for node in _below(session.graph, root) if (entry := session.load(node)) is not None]
    messages = _messages(session, root.uuid)
    return _summary(SubAgent(root.uuid, "inline", root=root.uuid, messages=messages), entries)


def _summary(agent: SubAgent, entries: list[Entry]) -> SubAgent:
    times = [entry.at for entry in entries if entry.at is not None]
    prompt = _asked(entries)
    return structs.replace(
        agent,
        prompt=prompt,
        is_warm_up=is_warm_up(prompt),
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
    return [structs.replace(agent, depth=depth_of(agent.id, parents)) for agent in named]


def depth_of(agent: str, parents: Mapping[str, str | None]) -> int:
    """How many agents sent one another down to this one; the session's own are at 1."""
    depth, seen = 1, {agent}
    above = parents.get(agent)
    while above is not None and above not in seen:
        seen.add(above)
        depth += 1
        above = parents.get(above)
    return depth
