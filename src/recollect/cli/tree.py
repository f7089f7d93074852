"""``show --tree`` and ``show --sub-agents``: branches and sub-agents of a session."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from msgspec import Struct

from recollect.ask.conversation import documents
from recollect.ask.sessions.messages import SessionAgents, agents_of, is_prompt, speaks, whole_story
from recollect.ask.sessions.session import Session
from recollect.cli.terminal import conversation_view, output
from recollect.cli.terminal.conversation_view import DisplayOptions
from recollect.cli.terminal.options import add_json, add_session, flag
from recollect.cli.terminal.rows import print_data
from recollect.cli.terminal.sessions import named_session, tell_lost_beginning, tell_unknown
from recollect.cli.terminal.text import counted, shortened, visible, when
from recollect.errors import UsageError
from recollect.model.conversation.agents import SubAgent
from recollect.model.conversation.conversation import spoken
from recollect.model.conversation.graph import Graph, Node
from recollect.model.lines.ids import parsed_time, short_id

_PROMPT_COLUMNS = 72
_DEEPEST = 20  # deeper nesting is not indented further
_RUN_ENDS = 2  # prompts shown at either end of a long run


class _TreeRow(Struct):
    """An entry with its own line, and the depth of its branch."""

    node: Node
    depth: int
    leaf: str | None = None  # end of its branch, if no message follows
    is_fork: bool = False

    @property
    def stands_alone(self) -> bool:
        return self.leaf is not None or self.is_fork or self.node.is_boundary


def add_tree_options(parser: ArgumentParser) -> None:
    add_session(parser, "?")
    parser.add_argument("--diff", nargs=2, metavar="LEAF", help="show what each of two branches has alone")
    add_json(parser)


def run_tree(options: Namespace) -> int:
    if options.session is None:
        raise UsageError("show --tree: no session was named", hint="for example: recollect show @last --tree")
    session = named_session(options, options.session)
    if options.diff:
        _print_difference(session, *options.diff, as_json=options.json)
        return 0
    if options.json:
        output.print_json(_document(session))
    else:
        for line in _lines_tree(session):
            output.say(line)
    tell_lost_beginning(session)
    tell_unknown(session)
    return 0


# --- as JSON --------------------------------------------------------------------------------


def _document(session: Session) -> documents.TreeDocument:
    graph = session.graph
    active = _active(session)
    leaf = graph.active_leaf
    return documents.TreeDocument(
        session=session.id,
        nodes=[
            documents.TreeNodeDocument(
                node.uuid,
                graph.parent_of(node),
                node.type,
                node.timestamp,
                node.uuid in active,
                node.is_sidechain,
            )
            for node in graph.nodes.values()
        ],
        leaves=[node.uuid for node in graph.leaves if node.is_link and not node.is_sidechain],
        active_leaf=leaf.uuid if leaf is not None else None,
        agents=agents_of(session),
        compactions=session.compactions(),
        active_branches=session.active_branches(),
        orphans=[node.uuid for node in graph.orphans],
        duplicates=graph.duplicates,
        cycles=graph.cycles,
    )


def _active(session: Session) -> set[str]:
    """Entries of the whole story."""
    if session.graph.active_leaf is None:
        return set()
    return {node.uuid for node in whole_story(session).nodes}


# --- as text --------------------------------------------------------------------------------


def _lines_tree(session: Session) -> Iterator[str]:
    graph, active = session.graph, _active(session)
    rows = list(_rows(graph, active))
    ends = sum(row.leaf is not None and not _goes_on(session, row, active) for row in rows)
    cuts = sum(node.is_boundary for node in graph.nodes.values())
    facts = [f"entries {len(graph.nodes):,}", f"branches {ends:,}", f"compactions {cuts:,}"]
    yield output.styled(f"{visible(session.id)}  {', '.join(facts)}", "bold")
    for item in _folded(rows):
        yield item if isinstance(item, str) else _row_line(session, item, active)
    agents = agents_of(session)
    if agents:
        yield counted(len(agents), "sub-agent")
    for agent in agents:
        what = shortened(visible(agent.description or agent.prompt), _PROMPT_COLUMNS)
        sent = f"  sent by {visible(agent.spawned_by[:8])}" if agent.spawned_by else ""
        yield f"{'  ' * min(agent.depth, _DEEPEST)}{visible(agent.id[:17])}  {what}{sent}"


def _rows(graph: Graph, active: set[str]) -> Iterator[_TreeRow]:
    """Entries with their own line; a side branch comes before the branch that continues at its parent's depth."""
    main = {uuid: node for uuid, node in graph.nodes.items() if not node.is_sidechain}
    children = {uuid: [one for one in graph.children(uuid) if one in main] for uuid in main}
    starts = [uuid for uuid, node in main.items() if graph.parent_of(node) not in main]
    starts += [circle[0] for circle in graph.cycles if circle[0] in main]  # they have no root
    order = _downwards(children, starts)
    with_messages = _with_messages(graph, order, children)
    seen: set[str] = set()
    for start in starts:
        waiting = [(start, 0)]
        while waiting:
            uuid, depth = waiting.pop()
            if uuid in seen:
                continue
            seen.add(uuid)
            ways = [one for one in children[uuid] if one not in seen and one in with_messages]
            node = main[uuid]
            leaf = None
            if not ways and (uuid in with_messages or uuid == start):
                leaf = _end_below(children, uuid, active)
            row = _TreeRow(node, depth, leaf, len(ways) > 1)
            if is_prompt(node) or row.stands_alone:
                yield row
            onward = next((one for one in ways if one in active), ways[-1] if ways else None)
            if onward is not None:
                waiting.append((onward, depth))
                waiting += [(one, depth + 1) for one in reversed(ways) if one != onward]


def _downwards(children: dict[str, list[str]], starts: list[str]) -> list[str]:
    """Every entry once, parents before children, except inside a cycle."""
    order: list[str] = []
    seen: set[str] = set()
    for start in starts:
        waiting = [start]
        while waiting:
            uuid = waiting.pop()
            if uuid not in seen:
                seen.add(uuid)
                order.append(uuid)
                waiting += children[uuid]
    return order


def _with_messages(graph: Graph, order: list[str], children: dict[str, list[str]]) -> set[str]:
    """Entries with a message at or below them; all others are ends of tool calls."""
    found: set[str] = set()
    for uuid in reversed(order):
        node = graph.nodes[uuid]
        if node.is_boundary or speaks(graph, node) or any(one in found for one in children[uuid]):
            found.add(uuid)
    return found


def _end_below(children: dict[str, list[str]], uuid: str, active: set[str]) -> str:
    """The last entry of a branch without further messages."""
    seen = {uuid}
    while True:
        ways = [one for one in children[uuid] if one not in seen]
        if not ways:
            return uuid
        uuid = next((one for one in ways if one in active), ways[-1])
        seen.add(uuid)


def _goes_on(session: Session, row: _TreeRow, active: set[str]) -> bool:
    """Whether the whole story continues elsewhere: a compaction cut it here, or another tree of the log begins."""
    leaf = session.graph.active_leaf
    return row.leaf in active and (leaf is None or row.leaf != leaf.uuid)


def _folded(rows: list[_TreeRow]) -> Iterator[_TreeRow | str]:
    """The rows, with long runs of plain prompts shortened."""
    run: list[_TreeRow] = []
    for row in rows:
        if run and (row.depth != run[-1].depth or row.stands_alone):
            yield from _short_run(run)
            run = []
        if row.stands_alone:
            yield row
        else:
            run.append(row)
    yield from _short_run(run)


def _short_run(run: list[_TreeRow]) -> Iterator[_TreeRow | str]:
    if len(run) <= 2 * _RUN_ENDS + 1:
        yield from run
        return
    yield from run[:_RUN_ENDS]
    yield f"{_indent(run[0])}  … {counted(len(run) - 2 * _RUN_ENDS, 'more prompt')}"
    yield from run[-_RUN_ENDS:]


def _indent(row: _TreeRow) -> str:
    return "  " + "│ " * min(row.depth, _DEEPEST)


def _row_line(session: Session, row: _TreeRow, active: set[str]) -> str:
    node = row.node
    mark = "●" if node.uuid in active else "○"
    time = when(parsed_time(node.timestamp))
    words = [visible(node.uuid[:8]), time, _what(session, node)]
    words += [output.styled("fork", "yellow")] if row.is_fork else []
    if row.leaf is not None:
        words.append(_end(session, row, active))
    return f"{_indent(row)}{mark} {'  '.join(word for word in words if word)}"


def _end(session: Session, row: _TreeRow, active: set[str]) -> str:
    leaf = visible((row.leaf or "")[:8])
    if _goes_on(session, row, active):
        story = session.log.story.graph
        is_cut = any(story.nodes[uuid].is_boundary for uuid in story.children(row.leaf or ""))
        return output.styled("compacted" if is_cut else "goes on in another tree of the log", "yellow")
    if row.leaf in active:
        return output.styled(f"active leaf {leaf}", "green")
    return output.styled(f"leaf {leaf}", "yellow")


def _what(session: Session, node: Node) -> str:
    if node.is_boundary:
        return "compaction"
    said = spoken([node], session.load)
    text = shortened(visible(conversation_view.prompt_line(said)), _PROMPT_COLUMNS)
    return f"{visible(conversation_view.speaker(said))}: {text}" if text else visible(node.type)


# --- the difference -------------------------------------------------------------------------


def _print_difference(session: Session, left: str, right: str, *, as_json: bool) -> None:
    found = session.difference(left, right)
    if as_json:
        output.print_json(
            {
                "session": session.id,
                "common": found.common,
                "last_common": found.last_common,
                "only_left": [documents.message_document(one) for one in found.only_left],
                "only_right": [documents.message_document(one) for one in found.only_right],
            }
        )
        return
    shared = f", the last is {visible(found.last_common[:8])}" if found.last_common else ""
    output.say(f"{found.common:,} entries in common{shared}")
    for sign, style, messages in (("-", "red", found.only_left), ("+", "green", found.only_right)):
        for line in (line for one in messages for line in conversation_view.lines(one, DisplayOptions())):
            output.say(f"{output.styled(sign, style)} {line}" if line else output.styled(sign, style))


def add_agents_options(parser: ArgumentParser) -> None:
    add_session(parser)
    flag(parser, "--warm-ups", "include agents the client started to warm its cache")
    add_json(parser, csv=True)


def run_agents(options: Namespace) -> int:
    session = named_session(options, options.session)
    agents = agents_of(session, warm_ups=options.warm_ups)
    if print_data(options, SessionAgents(session.id, agents), agents):
        return 0
    output.say(
        f"{counted(len(agents), 'sub-agent')} of {short_id(session.id)}  {shortened(visible(session.title), 60)}"
    )
    for line in (line for agent in agents for line in _lines_agents(agent)):
        output.say(line)
    return 0


def _lines_agents(agent: SubAgent) -> Iterator[str]:
    indent = "  " * agent.depth
    took = ""
    if agent.first_at and agent.last_at:
        took = f", {(agent.last_at - agent.first_at).total_seconds():.0f} s"
    what = visible(agent.description or agent.prompt or "(no prompt)")
    kind = f" [{visible(agent.agent_type)}]" if agent.agent_type else ""
    yield f"{indent}{output.styled(visible(agent.id), 'cyan')}{kind}  {shortened(what, 70)}"
    call = f"call {visible(agent.tool_use_id)} ({agent.link})" if agent.tool_use_id else "no call found"
    yield f"{indent}  {counted(agent.messages, 'message')}{took}, {agent.layout}, {call}"
