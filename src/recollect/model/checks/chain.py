"""Ids and links: does the client find the conversation, and does it find all of it?

The path from the active leaf to the root is walked as client 2.1.325 walks it. A missing parent on that path
is an error only where history is lost by it: the client joins an orphan to an entry at most five seconds
older, and entries before the last compaction are not sent anyway. Behind a cut the walk goes on where the
history should go on, so that every cut is found, not only the last; ``RuleViolation.parent`` names that entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from recollect.model.checks.rules import RuleViolation
from recollect.model.conversation.chain import parent_step
from recollect.model.conversation.client_words import MISSING_RESULT
from recollect.model.conversation.graph import MESSAGE_TYPES, Graph, LeafMark, Node
from recollect.model.lines.blocks import Block, ToolResultBlock, ToolUseBlock
from recollect.model.lines.damage import Line
from recollect.model.lines.entry import (
    Assistant,
    Dialect,
    Entry,
    Kind,
    ToolCallBody,
    ToolResultBody,
    UnknownShapeBody,
    User,
)
from recollect.model.lines.ids import is_uuid, parsed_time
from recollect.model.settings.schema import SettingsProblem, layer_of

_ANY_TIME = "2000-01-01T00:00:00.000Z"


class ChainWalk(Struct):
    """The path from the active leaf: the entries on it, the cuts, and where the client jumps.

    ``begins_at`` is the offset of the compaction before which nothing is sent; 0 where there is none.
    ``passed`` are ids that could not be followed.
    """

    walked: dict[str, Node] = field(default_factory=dict)
    cuts: list[RuleViolation] = field(default_factory=list)
    joined: list[tuple[Node, str]] = field(default_factory=list)
    circles: list[Node] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    begins_at: int = 0


def id_fault(entry: Entry) -> RuleViolation | None:
    """A message without an id, or with one that is not a UUID."""
    body = entry.body
    named = body.type_name if isinstance(body, UnknownShapeBody) else ""
    is_link = isinstance(body, User | Assistant) or named in (Kind.USER.value, Kind.ASSISTANT.value)
    if entry.dialect != Dialect.CLAUDE or not is_link:
        return None
    uuid = entry.uuid
    if not uuid:
        return RuleViolation("missing-id", "a message without id", entry.offset)
    if not is_uuid(uuid):
        return RuleViolation("invalid-id", f"the id {uuid[:60]!r} is not a UUID", entry.offset, uuid)
    return None


def duplicate_fault(first: Line, again: Line, uuid: str) -> RuleViolation:
    if first.data == again.data:
        return RuleViolation("repeated-entry", f"the same line as at byte {first.offset}", again.offset, uuid)
    return RuleViolation(
        "duplicate-id", f"another line with this id is at byte {first.offset}", again.offset, uuid
    )


def link_faults(graph: Graph, walk: ChainWalk) -> Iterator[RuleViolation]:
    """Every link problem of a session's log."""
    yield from walk.cuts
    known = {cut.uuid for cut in walk.cuts}
    around = {uuid for circle in graph.cycles for uuid in circle}
    for node in walk.circles:
        if node.uuid not in known | around:
            what = "the path to the root returns to an entry that was already visited"
            yield RuleViolation("circle", what, node.offset, node.uuid)
    for node, name in walk.joined:
        yield _missing(node, name, "the client joins it to an entry at most five seconds older")
    known |= {node.uuid for node, _ in walk.joined}
    for orphan in graph.orphans:
        # Entries that are only passed through have no finding; the entry that follows them has it.
        if orphan.uuid not in known and (orphan.is_link or orphan.parent not in walk.passed):
            yield _missing(orphan, orphan.parent)
    yield from circles(graph, known)
    yield from _second_roots(graph, walk)


def orphan_faults(graph: Graph) -> Iterator[RuleViolation]:
    """The same for a sub-agent's log, which no client resumes directly."""
    for orphan in graph.orphans:
        yield _missing(orphan, orphan.parent)


def circles(graph: Graph, known: set[str | None] | None = None) -> Iterator[RuleViolation]:
    """Entries that are their own ancestors, except where an entry of the circle is ``known`` as a cut."""
    for circle in graph.cycles:
        if known and not known.isdisjoint(circle):
            continue
        first = min((graph.nodes[uuid] for uuid in circle), key=lambda node: node.offset)
        what = "an entry follows itself" if len(circle) == 1 else f"{len(circle)} entries in a circle"
        yield RuleViolation("circle", what, first.offset, first.uuid)


def _missing(orphan: Node, name: str | None, how: str = "") -> RuleViolation:
    what = _broken_link(name, is_circle=False)
    return RuleViolation("missing-parent", f"{what}; {how}" if how else what, orphan.offset, orphan.uuid)


# ---- the path the client takes ---------------------------------------------------------------------------


def walk_of(graph: Graph, lost: Mapping[str, str]) -> ChainWalk:
    """From the active leaf back to where the history begins; ``lost`` has the parents of lost entries.

    Where the client finds no end for lack of a time, from the end that it would find with one.
    """
    walk = ChainWalk()
    seen: set[str] = set()
    if graph.active_leaf is None:
        graph = Graph(_timed(graph))
    current = graph.active_leaf
    while current is not None:
        walk.walked[current.uuid] = current
        seen.add(current.uuid)
        if current.is_boundary:
            walk.begins_at = current.offset
            break
        following, broken_at, is_circle = parent_step(graph, current, seen)
        if broken_at is not None:
            following = graph.elder(current, seen)
            if following is None:
                cut = _fault("history-cut", _broken_link(broken_at, is_circle=is_circle), current)
                following = _cut(graph, walk, current, cut, _named(graph, current, lost, seen))
            elif not is_circle:
                walk.joined.append((current, broken_at))
            if is_circle:
                walk.circles.append(current)
            walk.passed.add(broken_at)
        elif following is None and _begins_with_an_answer(walk):
            cut = _fault("unlinked-answer", "an answer that names no parent", current)
            following = _cut(graph, walk, current, cut, None)
        current = following
    return walk


def _broken_link(name: str | None, *, is_circle: bool) -> str:
    return (
        "it follows itself in a circle"
        if is_circle
        else f"its parent {(name or '')[:60]!r} is not in the log"
    )


def _begins_with_an_answer(walk: ChainWalk) -> bool:
    """No conversation begins with an answer; a prompt that follows nothing begins a new one."""
    begins = next((node for node in reversed(walk.walked.values()) if node.is_message), None)
    return begins is not None and (begins.type == "assistant" or bool(begins.result_ids))


def _fault(code: str, why: str, node: Node) -> RuleViolation:
    return RuleViolation(code, f"{why}: nothing before it is sent on resume", node.offset, node.uuid)


def _cut(graph: Graph, walk: ChainWalk, node: Node, cut: RuleViolation, named: Node | None) -> Node | None:
    """Note that nothing before an entry is sent, if there is something; returns where the history goes on."""
    if not any(_is_before(one, node, walk) and one.is_message for one in graph.nodes.values()):
        return None
    earlier = (one for one in reversed(graph.nodes.values()) if one.is_link and _is_before(one, node, walk))
    # A line that a compaction put there does not go by its own link: another link would not help.
    following = None if node.uuid in graph.relinked else named or next(earlier, None)
    walk.cuts.append(structs.replace(cut, parent=following.uuid if following is not None else None))
    return following


def _is_before(one: Node, node: Node, walk: ChainWalk) -> bool:
    is_open = not one.is_sidechain and not one.has_odd_key and one.uuid not in walk.walked
    return is_open and one.offset < node.offset


def _named(graph: Graph, node: Node, lost: Mapping[str, str], seen: set[str]) -> Node | None:
    """The entry that an orphan's lost parent followed, where what is left of that one says so."""
    name, passed = node.parent or "", 0
    while name in lost and passed < len(lost):
        name, passed = lost[name], passed + 1
    named = graph.nodes.get(name)
    is_usable = named is not None and named.is_link and not named.is_sidechain and named.uuid not in seen
    return named if is_usable else None


def _second_roots(graph: Graph, walk: ChainWalk) -> Iterator[RuleViolation]:
    """Other conversations; what a compaction hides belongs to the one that is resumed."""
    for root in graph.roots:
        is_talk = root.type == "user" and not root.is_sidechain and not root.is_compact_summary
        is_other = root.uuid not in walk.walked and root.offset >= walk.begins_at
        if is_talk and is_other and walk.walked and graph.children(root.uuid):
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
    messages = [node for node in graph.nodes.values() if node.type in MESSAGE_TYPES]
    own = [node for node in messages if not node.is_sidechain]
    if not own:
        only = "sub-agent lines" if messages else "lines other than messages"
        return RuleViolation("no-conversation", f"it holds only {only}")
    leaf = graph.active_leaf
    if leaf is not None and is_sent:
        return None
    end = own[-1]
    if leaf is not None or not any(node.is_message for node in own):
        return RuleViolation("nothing-said", "the client says there is no conversation", end.offset, end.uuid)
    what = "the client says there is no conversation: its last entry "
    if (last := graph.timeless) is None:
        return RuleViolation("session-not-found", f"{what}belongs to a sub-agent", end.offset, end.uuid)
    what += "has no readable time"
    return RuleViolation("session-not-found", what, last.offset, last.uuid, subject="timestamp")


def _timed(graph: Graph) -> Iterator[Node | LeafMark]:
    """The same graph as if every entry had a time."""
    for node in graph.nodes.values():
        yield node if node.at_ms is not None else structs.replace(node, timestamp=_ANY_TIME)
    yield from graph.marks


class CallSite(Struct, gc=False):
    """Where an id was first called, and by which answer."""

    offset: int
    uuid: str | None
    message_id: str | None


class ToolTrace(Struct):
    """The calls and results of a log, collected line by line."""

    calls: dict[str, CallSite] = field(default_factory=dict)
    results: dict[str, CallSite] = field(default_factory=dict)
    repeated_calls: list[tuple[str, CallSite]] = field(default_factory=list)
    repeated_results: list[tuple[str, CallSite]] = field(default_factory=list)

    def take(self, entry: Entry) -> None:
        """Record the calls and results of one entry."""
        body = entry.body
        if isinstance(body, Assistant):
            for block in _blocks(body):
                if type(block) is ToolUseBlock:
                    self._called(block.id, CallSite(entry.offset, body.uuid, body.message.id))
        elif isinstance(body, User):
            for block in _blocks(body):
                if type(block) is ToolResultBlock:
                    self._answered(block.tool_use_id, CallSite(entry.offset, body.uuid, None))
        elif isinstance(body, ToolCallBody) and body.call_id:
            self._called(body.call_id, CallSite(entry.offset, entry.uuid, None))
        elif isinstance(body, ToolResultBody) and body.call_id:
            self._answered(body.call_id, CallSite(entry.offset, entry.uuid, None))

    def _called(self, name: str, call: CallSite) -> None:
        first = self.calls.setdefault(name, call)
        # Copies of one growing answer, and repeated lines, repeat their calls.
        same_answer = call.message_id is not None and call.message_id == first.message_id
        if first is not call and not same_answer and (call.uuid is None or call.uuid != first.uuid):
            self.repeated_calls.append((name, call))

    def _answered(self, name: str, result: CallSite) -> None:
        first = self.results.setdefault(name, result)
        if first is not result and (result.uuid is None or result.uuid != first.uuid):
            self.repeated_results.append((name, result))


def _blocks(body: User | Assistant) -> Sequence[Block]:
    """The blocks of a message; plain text needs none made of it here."""
    content = body.message.content
    return () if isinstance(content, str) else content


def tool_faults(
    tools: ToolTrace, sent: Sequence[Entry] | None, messages: Sequence[dict[str, Any]] = ()
) -> Iterator[RuleViolation]:
    """Calls and results that do not match. ``sent`` are the entries of the resumed conversation, if there is
    one.

    ``messages`` are those that would be sent.
    """
    for name, call in tools.repeated_calls:
        yield RuleViolation(
            "duplicate-call-id",
            f"the id {name[:60]!r} was called before",
            call.offset,
            call.uuid,
            subject=name,
        )
    offsets = None if sent is None else {entry.offset for entry in sent}
    for name, result in tools.repeated_results:
        if offsets is None or result.offset in offsets:
            what = f"{name[:60]!r} had a result before"
            yield RuleViolation("duplicate-result", what, result.offset, result.uuid, subject=name)
    yield from _unanswered(tools, sent)
    for name, result in tools.results.items():
        if name not in tools.calls:
            what = f"no call in the log has the id {name[:60]!r}"
            yield RuleViolation("result-without-call", what, result.offset, result.uuid, subject=name)
    if sent is not None:
        yield from _out_of_reach(tools, sent, messages)


def _unanswered(tools: ToolTrace, sent: Sequence[Entry] | None) -> Iterator[RuleViolation]:
    inner = _offsets_before_the_end(sent) if sent is not None else set()
    for name, call in tools.calls.items():
        if name in tools.results:
            continue
        code = "call-without-result" if call.offset in inner else "open-call"
        yield RuleViolation(
            code, f"the call {name[:60]!r} has no result", call.offset, call.uuid, subject=name
        )


def _offsets_before_the_end(sent: Sequence[Entry]) -> set[int]:
    """Answers that were followed by more of the conversation.

    The client closes the calls of the very last answer.
    """
    end = len(sent)
    answers = [index for index, entry in enumerate(sent) if isinstance(entry.body, Assistant)]
    prompts = [
        index for index, entry in enumerate(sent) if isinstance(entry.body, User) and not _is_result(entry)
    ]
    if answers and (not prompts or prompts[-1] < answers[-1]):
        last = sent[answers[-1]].body
        name = last.message.id if isinstance(last, Assistant) else None
        end = answers[-1]
        while end and _is_part_of(sent[end - 1], name):
            end -= 1
    return {entry.offset for entry in sent[:end]}


def _is_part_of(entry: Entry, message_id: str | None) -> bool:
    body = entry.body
    if isinstance(body, Assistant):
        return message_id is not None and body.message.id == message_id
    return not isinstance(body, User) or _is_result(entry)


def _is_result(entry: Entry) -> bool:
    message = entry.message
    return message is not None and any(isinstance(block, ToolResultBlock) for block in message.blocks)


def _out_of_reach(
    tools: ToolTrace, sent: Sequence[Entry], messages: Sequence[dict[str, Any]]
) -> Iterator[RuleViolation]:
    """Pairs of which the conversation has only one half, or has one in a place where it does not count."""
    here = ToolTrace()
    for entry in sent:
        here.take(entry)
    for name, result in here.results.items():
        if name in tools.calls and name not in here.calls:
            what = f"the call {name[:60]!r} of this result is not in the conversation that is resumed"
            yield RuleViolation("result-cut-off", what, result.offset, result.uuid, subject=name)
    for name, call in here.calls.items():
        if name in tools.results and name not in here.results:
            what = f"the result of {name[:60]!r} is not in the conversation that is resumed"
            yield RuleViolation("result-not-reached", what, call.offset, call.uuid, subject=name)
    missing = set(_said_to_be_missing(messages))
    for name, result in here.results.items():
        if name in here.calls and name in missing:
            what = f"the result of {name[:60]!r} does not follow its call; the client reports it to the API as missing"
            yield RuleViolation("result-not-sent", what, result.offset, result.uuid, subject=name)


def _said_to_be_missing(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Calls for which the client sends a result of its own."""
    for message in messages:
        content = message["content"]
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result" and block.get("content") == MISSING_RESULT:
                yield str(block.get("tool_use_id"))


# Clients stamp a line when it is created, not when it is written, so lines of one moment may be out of order.
_SAME_MOMENT_MS = 1000


def time_faults(graph: Graph) -> Iterator[RuleViolation]:
    """Times that cannot be read, and messages that are older than what they answer."""
    times = {name: parsed_time(node.timestamp) for name, node in graph.nodes.items()}
    for node in graph.nodes.values():
        moment = times[node.uuid]
        if moment is None:
            problem = f"{node.timestamp[:40]!r} is not a time" if node.timestamp else "it has no time"
            yield RuleViolation("bad-timestamp", problem, node.offset, node.uuid)
            continue
        before = times.get(node.parent or "")
        if before is not None and moment < before:  # seldom, and only then anything else is asked
            yield from _order_fault(graph.nodes[node.parent or ""], node)


def _order_fault(before: Node, node: Node) -> Iterator[RuleViolation]:
    at, earlier = node.at_ms, before.at_ms
    same_answer = node.message_id is not None and node.message_id == before.message_id
    # All lines of one command are the user's, and the first of them is stamped last.
    is_dialogue = before.is_message and node.is_message and not before.type == node.type == "user"
    if at is None or earlier is None or same_answer or not is_dialogue:
        return
    if at + _SAME_MOMENT_MS < earlier:
        what = f"{(earlier - at) / 1000:g} s older than the entry it follows"
        yield RuleViolation("time-order", what, node.offset, node.uuid)


def settings_fault(data: bytes) -> RuleViolation | None:
    """Why the client would ignore this settings file; None where it reads it."""
    wrong = next((problem for problem in layer_of("user", None, data).problems if problem.whole_file), None)
    if wrong is None:
        return None
    denied = " Its deny rules do not count either." if b'"deny"' in data else ""
    what = f"{why(wrong)} (line {wrong.line}); the client ignores the whole file.{denied}"
    return RuleViolation("ignored-settings", what, line=wrong.line)


def why(problem: SettingsProblem) -> str:
    """What is wrong, briefly and without any value from the file."""
    if problem.key:
        return f"{problem.key} is not {problem.expected}"
    return f"it is not JSON: {problem.found}" if problem.expected == "JSON" else "it is not an object"
