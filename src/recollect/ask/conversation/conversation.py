"""One view of a conversation as line positions: which lines form which message, and what belongs together.

A ``ConversationView`` selects it like the options of ``show``. ``ViewMessages`` lists its messages
with kinds and sizes, where each call is answered, which messages form one response, and the turns.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from pathlib import Path
from typing import Annotated, cast

from msgspec import Meta, Struct, structs

from recollect.ask.conversation.content import PageSession, signature_of
from recollect.ask.conversation.documents import MessageKind
from recollect.ask.sessions import messages as whole_session
from recollect.errors import NotFound, UsageError
from recollect.model.conversation.agents import read_meta
from recollect.model.conversation.chain import Load, grouped
from recollect.model.conversation.conversation import Conversation, Seam
from recollect.model.conversation.graph import Graph, Node
from recollect.model.lines.blocks import Block, ToolResultBlock
from recollect.model.lines.damage import Damage, Line
from recollect.model.views.facts import LineFacts, facts_of, usage_facts
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.reader import read_lines
from recollect.system.peek import open_regular

_CALL = b'{"type":"foreign-usage"'  # agents/lines.py writes the type first


class PlacedCall(Struct, frozen=True):
    """A call with the message that starts its turn, -1 before the first, and the message that it is shown with.

    ``message`` is None where the turn has no message: what was called before all of them.
    """

    turn: int
    message: int | None
    facts: LineFacts


_TimedCall = tuple[int, int, LineFacts]  # when it was made, where its line begins


def calls_in(log: Path) -> Iterator[tuple[LineFacts, Line]]:
    """The calls of a log, with their lines."""
    for line in read_lines(log):
        facts = usage_facts(line.data) if isinstance(line, Line) and line.data.startswith(_CALL) else None
        if isinstance(line, Line) and facts is not None and facts.response is not None:
            yield facts, line


def placed_calls(talk: ViewMessages) -> list[PlacedCall]:
    """The calls of the log of a view; those of turns of other branches are left out."""
    began = [at for at, _ in talk.turn_times]
    turns: dict[int, list[_TimedCall]] = {}
    for facts, line in calls_in(talk.log.path):
        place = bisect.bisect_right(began, facts.at or 0) - 1
        turn = talk.turn_times[place][1] if place >= 0 else None
        if turn != -1:
            call = facts.at or 0, line.offset, structs.replace(facts, decoded=None)
            turns.setdefault(-1 if turn is None else turn, []).append(call)
    ends = dict(zip((-1, *talk.turns), (*talk.turns, len(talk)), strict=True))
    return [
        PlacedCall(turn, message, facts)
        for turn, calls in turns.items()
        for message, facts in _answered(talk, range(max(turn, 0), ends[turn]), calls)
    ]


def _answered(
    talk: ViewMessages, messages: range, calls: list[_TimedCall]
) -> Iterator[tuple[int | None, LineFacts]]:
    """The calls of a turn, each with the message that it is shown with."""
    answers = [index for index in messages if talk.kinds[index] == "a"]
    if not answers:
        yield from ((messages.start if messages else None, facts) for _, _, facts in calls)
        return
    told = _times(talk, answers)
    asked = _times(talk, [index for index in messages if talk.kinds[index] != "a"])
    same = dict(told)
    first = talk.groups[answers[0]][-1]
    is_told_after = (first.at_ms or 0, first.offset) < min((at, offset) for at, offset, _ in calls)
    for at, _, facts in calls:
        if at in same:
            yield same[at], facts
        elif is_told_after:
            yield _last_before(told, at, answers[0]), facts
        else:
            yield _next_answer(answers, _last_before(asked, at, messages.start)), facts


def _times(talk: ViewMessages, messages: list[int]) -> list[tuple[int, int]]:
    """When some messages were written, in milliseconds, in the order of time."""
    return sorted((talk.groups[index][-1].at_ms or 0, index) for index in messages)


def _last_before(times: list[tuple[int, int]], at: int, otherwise: int) -> int:
    place = bisect.bisect_right(times, at, key=lambda one: one[0])
    return times[place - 1][1] if place else otherwise


def _next_answer(answers: list[int], after: int) -> int:
    """The last message of the next answer, which may be several; the last one where none follows."""
    place = min(bisect.bisect_right(answers, after), len(answers) - 1)
    while place + 1 < len(answers) and answers[place + 1] == answers[place] + 1:
        place += 1
    return answers[place]


KINDS: dict[str, MessageKind] = {
    "p": "prompt",
    "a": "answer",
    "r": "results",
    "u": "unmatched",
    "s": "summary",
    "b": "boundary",
    "c": "command",
    "o": "other",
}
_LARGEST_META = 1 << 20
# A command without an answer, such as one that clears the screen, belongs to the turn before.
_STARTS = re.compile("[pb]|c(?=[oru]*a)")
_AGENT_ID = re.compile(r"agentId: ([A-Za-z0-9_-]{1,64})")


_Id = Annotated[str, Meta(min_length=1, max_length=128)]


class ConversationView(Struct, frozen=True, forbid_unknown_fields=True):
    """Selects a conversation of a session. Without any field set: the one the client would load."""

    branch: Annotated[_Id, Meta(description="the conversation that ends at this entry")] | None = None
    before: Annotated[int, Meta(ge=1, le=100_000, description="before this compaction")] | None = None
    agent: Annotated[_Id, Meta(description="a sub-agent's own conversation")] | None = None
    whole: Annotated[bool, Meta(description="include what compactions hide")] = False

    def check(self) -> None:
        """Refuse contradictory selections."""
        if sum(one is not None for one in (self.branch, self.before, self.agent)) > 1:
            raise UsageError("branch, before and agent exclude each other", hint="give only one of them")
        if self.whole and (self.before is not None or self.agent is not None):
            raise UsageError("whole cannot be combined with before or agent", hint="leave one of them out")


class LinePosition(Struct, frozen=True):
    """Where a line is shown: the view, the index of its message, and its full id."""

    index: int
    view: ConversationView
    uuid: str


class ViewMessages:
    """The messages of one view, as positions in the log.

    ``context``: the lines that a sub-agent was given of another conversation. ``seams``: what begins with a message.
    """

    def __init__(
        self,
        groups: Sequence[tuple[Node, ...]],
        graph: Graph,
        log: LogGraph,
        context: AbstractSet[int] = frozenset(),
        seams: Mapping[int, tuple[Seam, ...]] | None = None,
    ) -> None:
        self.groups, self.graph, self.log, self.context = groups, graph, log, context
        self.seams = seams or {}

    @property
    def load(self) -> Load:
        return self.log.load

    def __len__(self) -> int:
        return len(self.groups)

    @functools.cached_property
    def kinds(self) -> str:
        """One letter of ``KINDS`` per message."""
        return "".join(self._kind(group[0]) for group in self.groups)

    def _kind(self, node: Node) -> str:
        if node.is_boundary:
            return "b"
        if node.type == "assistant":
            return "a"
        if node.type == "system":
            return "c" if node.subtype == "local_command" else "o"
        if node.is_compact_summary:
            return "s"
        if node.result_ids:
            return "r" if self._is_with_calls(node) else "u"
        points = self.log.points
        if node.offset in points.meta or node.offset in self.context:
            return "o"
        return "c" if node.offset in points.commands else "p"

    @functools.cached_property
    def places(self) -> dict[str, int]:
        """The index of the message of each line, by uuid."""
        return {node.uuid: index for index, group in enumerate(self.groups) for node in group}

    def shown_at(self, index: int) -> int:
        """Where a message is shown: results are shown with their call."""
        is_elsewhere = self.kinds[index] == "r"
        return self._called[self.groups[index][0].result_ids[0]] if is_elsewhere else index

    @functools.cached_property
    def _called(self) -> dict[str, int]:
        """The message that makes each call."""
        calls = self.log.points.calls
        found: dict[str, int] = {}
        for index, group in enumerate(self.groups):
            for node in group:
                for call in calls.get(node.offset, ()):
                    found.setdefault(call, index)
        return found

    def _is_with_calls(self, node: Node) -> bool:
        """Whether calls of this view show all of a line of results."""
        is_single = len(set(node.result_ids)) == len(node.result_ids)
        is_all = is_single and node.offset not in self.log.points.mixed
        return is_all and all(self._is_with_call(call, node) for call in node.result_ids)

    def _is_with_call(self, call: str, node: Node) -> bool:
        return call in self._called and self.results[call].offset == node.offset

    def own_blocks(self, index: int, blocks: Sequence[Block]) -> list[int]:
        """The places of the blocks of a message that no call shows: results that have no call in this view or are
        the second one of a call, and whatever is not a result.
        """
        own: list[int] = []
        seen: set[str] = set()
        for place, block in enumerate(blocks):
            call = block.tool_use_id if isinstance(block, ToolResultBlock) else None
            if call is None or call in seen or not self._is_with_call(call, self.groups[index][0]):
                own.append(place)
            seen.add(call or "")
        return own

    @functools.cached_property
    def results(self) -> dict[str, Node]:
        """The line that answers each call, preferably one of this conversation."""
        found: dict[str, Node] = {}
        for group in self.groups:
            for node in group:
                for call in node.result_ids:
                    found.setdefault(call, node)
        for node in self.graph.nodes.values():
            for call in node.result_ids:
                found.setdefault(call, node)
        return found

    @functools.cached_property
    def responses(self) -> dict[str, list[int]]:
        """The messages that hold lines of a response, by its id."""
        found: dict[str, list[int]] = {}
        for index, group in enumerate(self.groups):
            name = group[0].message_id if group[0].type == "assistant" else None
            if name:
                found.setdefault(name, []).append(index)
        return found

    @functools.cached_property
    def turns(self) -> list[int]:
        """The messages that start a turn: what a user typed, commands that the model answered, chapters."""
        return sorted({*(found.start() for found in _STARTS.finditer(self.kinds)), *self.chapters[1:]})

    @functools.cached_property
    def chapters(self) -> list[int]:
        """Where chapters begin: at compactions and seams. Nothing where there is only one."""
        found = sorted({*self.seams, *(place for place, kind in enumerate(self.kinds) if kind == "b")})
        return found if not found or found[0] == 0 else [0, *found]

    @functools.cached_property
    def turn_times(self) -> list[tuple[int, int]]:
        """When each turn of the log began, in milliseconds, and the message of this view that starts it; -1 for one of another branch."""
        others = (
            one
            for one in self.graph.nodes.values()
            if one.uuid not in self.places and self._kind(one) in "pb"
        )
        found = [(one, -1) for one in others] + [(self.groups[index][0], index) for index in self.turns]
        # Where a message was written again, both have its time: the one of this view counts.
        return sorted((at, index) for node, index in found if (at := node.at_ms) is not None)

    @functools.cached_property
    def calls(self) -> list[PlacedCall]:
        """The model calls that stand in lines of their own; in logs of Claude there are none."""
        return placed_calls(self)

    @functools.cached_property
    def boundaries(self) -> dict[str, int]:
        """The number of each compaction, as ``before`` counts them."""
        cuts = (node.uuid for node in self.graph.nodes.values() if node.is_boundary)
        return {uuid: number for number, uuid in enumerate(cuts, 1)}


def talk_of(session: PageSession, view: ConversationView) -> ViewMessages:
    """The messages of a view, cached for the next window."""
    view.check()
    with session.lock:
        if view.agent is None:
            return session.views.get(view, None, lambda: _made(session, view))
        state = _agent_signature(session, view.agent)
        return session.views.get(view, state, lambda: _agent(session, view))


def _made(session: PageSession, view: ConversationView) -> ViewMessages:
    if view.before is not None:
        conversation = whole_session.before_compaction(session, view.before)
    elif view.whole:
        story = whole_session.whole_story(session, view.branch)
        return ViewMessages(story.groups, session.graph, session.log, seams=story.seams)
    else:
        conversation = session.conversation(view.branch)
    return ViewMessages(grouped(conversation.nodes), session.graph, session.log)


def _agent_signature(session: PageSession, name: str) -> object:
    for file in session.agents():
        if str(file.agent_id or file.path.stem) == name:
            return signature_of(file.path)
    return None


def _agent(session: PageSession, view: ConversationView) -> ViewMessages:
    talk = whole_session.agent_talk(session, view.agent or "")
    conversation: Conversation = talk.conversation
    context = _copied_lines(conversation.graph, talk.log)
    return ViewMessages(grouped(conversation.nodes), conversation.graph, talk.log, context)


def _copied_lines(graph: Graph, log: LogGraph) -> AbstractSet[int]:
    """What a sub-agent was given of the conversation of who sent it; nothing where all of it was copied, with its session."""
    links = {node.offset for node in graph.nodes.values() if node.is_link}
    copied = {line.offset for line in read_lines(log.path) if line.offset in links and _is_copied(line)}
    return frozenset() if copied == links else copied


def _is_copied(line: Line | Damage) -> bool:
    facts = facts_of(line.data) if b'"forkedFrom"' in line.data else None
    return facts is not None and facts.is_forked


# ---- position of a line ----------------------------------------------------------------------------------


def offset_of(session: PageSession, agent: str | None, line: int) -> int:
    """Where a line begins, counted from 1: in the session's log, or in that of a sub-agent."""
    logs = {str(file.agent_id or file.path.stem): file.path for file in session.agents()} if agent else {}
    path = logs.get(agent, session.path) if agent else session.path
    with open_regular(path) as log:
        return sum(map(len, islice(log, line - 1)))


def position_of(
    session: PageSession, uuid: str | None, offset: int | None, agent: str | None, *, whole: bool = False
) -> LinePosition:
    """Where a line is shown; ``whole``: look there first."""
    for view in _views(session, agent, whole=whole):
        try:
            talk = talk_of(session, view)
        except NotFound:
            continue
        found = _in_talk(talk, view, uuid, offset)
        if found is not None:
            return found
    node = None if agent else _node_among(session.graph.nodes.values(), uuid, offset)
    if node is not None:
        view = ConversationView(branch=_leaf_below(session.graph, node), whole=True)
        found = _in_talk(talk_of(session, view), view, node.uuid, None)
        if found is not None:
            return found
    what = f"entry {uuid!r}" if uuid is not None else f"byte {offset}"
    raise NotFound(
        f"{what}: no message of this session", hint="the line may not be shown, or no longer exist"
    )


def _views(session: PageSession, agent: str | None, *, whole: bool) -> list[ConversationView]:
    if agent is not None:
        return [ConversationView(agent=agent)]
    if session.graph.active_leaf is None:
        return []
    return [ConversationView(whole=whole), ConversationView(whole=not whole)]


def _in_talk(
    talk: ViewMessages, view: ConversationView, uuid: str | None, offset: int | None
) -> LinePosition | None:
    if uuid is None or uuid not in talk.places:
        node = _node_among((node for group in talk.groups for node in group), uuid, offset)
        if node is None:
            return None
        uuid = node.uuid
    return LinePosition(talk.places[uuid], view, uuid)


def _node_among(nodes: object, uuid: str | None, offset: int | None) -> Node | None:
    for node in cast("Sequence[Node]", nodes):
        if uuid is not None and node.uuid.startswith(uuid):
            return node
        if uuid is None and offset is not None and node.offset <= offset < node.offset + node.length:
            return node
    return None


def _leaf_below(graph: Graph, node: Node) -> str:
    """An end of the conversation that passes through a line: the last child at each step."""
    seen = {node.uuid}
    current = node
    while True:
        below = [graph.nodes[uuid] for uuid in graph.children(current.uuid) if uuid not in seen]
        links = [one for one in below if one.is_link and not one.is_sidechain]
        if not links:
            return current.uuid
        current = links[-1]
        seen.add(current.uuid)


# ---- agents ----------------------------------------------------------------------------------------------


def agents_by_call(session: PageSession) -> dict[str, str]:
    """The agents that their meta file links to a call, as of the log's last change."""
    if session.senders is None:
        session.senders = _senders(session)
    return session.senders


def _senders(session: PageSession) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in session.agents():
        if file.meta_path is None or file.agent_id is None:
            continue
        try:
            with open_regular(file.meta_path) as meta:
                call = read_meta(meta.read(_LARGEST_META)).tool_use_id
        except OSError:
            continue
        if call:
            found[call] = str(file.agent_id)
    return found


def agent_in_text(text: str) -> str | None:
    """The agent named in the result of a call, as older clients wrote it."""
    found = _AGENT_ID.search(text)
    return None if found is None else found[1]
