"""Which entries make up the conversation the client would load, in order.

Measured on client 2.1.325. From the leaf the parents are followed to the root. Where a parent is missing, of a
type unknown to the client, or visited before, the walk continues at an entry at most five seconds older.
Parallel tool calls fan out: each result is a child of its own call, so the lines of the same answer beside
the chain are gathered again. The last compaction hides what is before it, except for the lines it preserved.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

from msgspec import Struct

from recollect.model.conversation.graph import Graph, Node
from recollect.model.lines.blocks import ToolUseBlock
from recollect.model.lines.entry import Entry

Load = Callable[[Node], "Entry | None"]


def chain_to(graph: Graph, leaf: Node, load: Load) -> list[Node]:
    """The entries from the root to ``leaf``, including the lines of parallel calls."""
    found: list[Node] = []
    seen: set[str] = set()
    current: Node | None = leaf
    while current is not None:
        found.append(current)
        seen.add(current.uuid)
        current = _before(graph, current, seen)
    found.reverse()
    complete = _with_parallel_lines(graph, found, seen, load)
    return [*complete, *_last_notes(graph, found, seen)]


def _last_notes(graph: Graph, chain: list[Node], seen: set[str]) -> list[Node]:
    """The notes that hang off the last message, in file order, also where another branch continues from them."""
    last = next((node for node in reversed(chain) if node.is_message), None)
    found: list[Node] = []
    waiting, passed = ([last] if last is not None else []), set[str]()
    while waiting:
        for node in _followers(graph, waiting.pop()):
            if not _is_note(node) or node.is_sidechain or node.uuid in passed:
                continue
            passed.add(node.uuid)
            waiting.append(node)
            if node.uuid not in seen:
                found.append(node)
    return sorted(found, key=graph.place)


def parent_step(graph: Graph, node: Node, seen: set[str]) -> tuple[Node | None, str | None, bool]:
    """The parent of an entry, None at the root and where the path is broken.

    Then the id that could not be followed, if it is broken: it is not in the log, or, third, was visited before. Progress lines
    are passed through and added to ``seen``.
    """
    name = graph.parent_of(node)
    while name is not None:
        parent = graph.loaded(name)
        if parent is None or parent.uuid in seen:
            return None, name, parent is not None
        if parent.is_link:
            return parent, None, False
        seen.add(parent.uuid)
        name = graph.parent_of(parent)
    return None, None, False


def _before(graph: Graph, node: Node, seen: set[str]) -> Node | None:
    """The entry that the client treats as the parent: where the path is broken, one at most five seconds
    older.
    """
    parent, broken_at, _ = parent_step(graph, node, seen)
    return parent if broken_at is None else graph.elder(node, seen)


def _with_parallel_lines(graph: Graph, chain: list[Node], seen: set[str], load: Load) -> list[Node]:
    """Insert the other lines of each answer, and what hangs off its calls, in file order.

    They go between the answer's first line and the end of its span: the results and notes after its last line.
    A result that hangs elsewhere is found by the id of its call, if that has no other, and goes after that line.
    """
    aside = [
        node
        for node in graph.nodes.values()
        if node.uuid not in seen and not node.is_sidechain and node.uuid not in graph.removed
    ]
    if not aside:
        return chain
    answers = _answers(chain, aside)
    inserted: dict[int, list[Node]] = {}
    for index, node in enumerate(chain):
        if node.result_ids:
            inserted[index] = _reached(graph, [node], seen)
    strays: dict[str, list[Node]] = {}  # results that are not on the chain, by the call they answer
    for node in aside:
        for call in node.result_ids:
            strays.setdefault(call, []).append(node)
    answered = {call for node in chain for call in node.result_ids}
    last = max((answer.last for answer in answers), default=0)
    for answer in answers:
        beside = _beside(graph, answer.lines, seen)
        answered.update(call for node in beside for call in node.result_ids)
        inserted.setdefault(answer.start, []).extend(beside)
        if strays and (answer.last == last or not _is_answered(graph, answer.lines)):
            calls = [call for node in answer.lines if node.has_call for call in _calls(load(node))]
            found = [one for call in calls if call not in answered for one in strays.get(call, ())]
            inserted.setdefault(answer.last, []).extend(_reached(graph, found, seen))
    return _merged(graph, chain, inserted, {answer.start: answer.last for answer in answers})


def _merged(
    graph: Graph, chain: list[Node], inserted: dict[int, list[Node]], spans: dict[int, int]
) -> list[Node]:
    """The chain with the lines that may stand after each index, in file order within a span."""
    complete: list[Node] = []
    waiting: list[Node] = []  # the next one last
    end = 0
    for index, node in enumerate(chain):
        while waiting and (index >= end or graph.place(waiting[-1]) < graph.place(node)):
            complete.append(waiting.pop())
        complete.append(node)
        if index in spans:
            last = spans[index] + 1  # behind the results and notes that follow an answer's last line
            while last < len(chain) and (chain[last].result_ids or not chain[last].is_message):
                last += 1
            end = max(end, last)
        if inserted.get(index):
            waiting += inserted[index]
            waiting.sort(key=graph.place, reverse=True)
    return [*complete, *reversed(waiting)]


class _AnswerLines(Struct):
    """The lines of an answer, and the first and last index on the chain between which others may stand."""

    start: int
    last: int
    lines: list[Node]


def _answers(chain: list[Node], aside: list[Node]) -> list[_AnswerLines]:
    """The answers on the chain, with their lines beside it.

    What hangs off the only call of an answer comes after that call, and not after the answer's first line.
    """
    answers: dict[str, _AnswerLines] = {}
    places = {node.uuid: index for index, node in enumerate(chain)}
    for node in itertools.chain(chain, aside):
        if not node.message_id or node.type != "assistant" or not node.is_message:
            continue
        index = places.get(node.uuid)
        if index is None:
            if node.message_id in answers:
                answers[node.message_id].lines.append(node)
            continue
        answer = answers.setdefault(node.message_id, _AnswerLines(index, index, []))
        answer.last = index
        answer.lines.append(node)
    found = []
    for answer in answers.values():
        calls = [node for node in answer.lines if node.has_call]
        if len(calls) == 1:
            answer.start = places.get(calls[0].uuid, answer.start)
        found.append(answer)
    return found


def _beside(graph: Graph, answer: list[Node], seen: set[str]) -> list[Node]:
    """The other lines of an answer, and what hangs off it: results, and notes if it made calls."""
    lines = [node for node in answer if node.uuid not in seen]
    seen.update(node.uuid for node in lines)
    has_calls = any(node.has_call for node in answer)
    hanging = [one for node in answer for one in _followers(graph, node) if has_calls or one.result_ids]
    return lines + _reached(graph, hanging, seen)


def _is_answered(graph: Graph, answer: list[Node]) -> bool:
    """Whether a result hangs off each call: then no line need be read to look for others."""
    callers = (node for node in answer if node.has_call)
    return all(any(one.result_ids for one in _followers(graph, node)) for node in callers)


def _reached(graph: Graph, waiting: list[Node], seen: set[str]) -> list[Node]:
    """Of these entries, and of the notes that follow them, those that belong to a call."""
    found: list[Node] = []
    passed: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node.uuid not in seen and _hangs_off_a_call(graph, node):
            seen.add(node.uuid)
            found.append(node)
        elif node.uuid in passed or not (node.result_ids or (node.uuid in seen and _is_note(node))):
            continue
        passed.add(node.uuid)
        waiting += [one for one in _followers(graph, node) if not one.result_ids]
    return found


def _followers(graph: Graph, node: Node) -> list[Node]:
    """The entries that follow one, also behind lines that the client passes through."""
    found: list[Node] = []
    passed = {node.uuid}
    waiting = list(graph.children(node.uuid))
    while waiting:
        follower = graph.nodes[waiting.pop()]
        if not follower.is_bridge:
            found += [follower] if follower.uuid not in graph.removed else []
        elif follower.uuid not in passed:
            passed.add(follower.uuid)
            waiting += graph.children(follower.uuid)
    return found


def _hangs_off_a_call(graph: Graph, node: Node) -> bool:
    """A result, or a note or a line of the client from which no other branch continues."""
    if node.is_sidechain or node.result_ids:
        return not node.is_sidechain
    return (_is_note(node) or node.is_meta) and node.uuid not in graph.continued_notes


def _is_note(node: Node) -> bool:
    return node.type in ("attachment", "system") and not node.is_boundary


def _calls(entry: Entry | None) -> list[str]:

    message = entry.message if entry is not None else None
    return [block.id for block in message.blocks if isinstance(block, ToolUseBlock)] if message else []


def after_compaction(chain: list[Node]) -> list[Node]:
    """What is left of a chain after its last compaction; the whole chain if there was none."""
    cut = max((index for index, node in enumerate(chain) if node.is_boundary), default=0)
    return chain[cut:]


def grouped(nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
    """Group the neighbouring lines of one answer into one message each; notes and links are left out."""
    groups: list[list[Node]] = []
    for node in nodes:
        if (
            node.type == "assistant"
            and node.message_id
            and groups
            and (before := groups[-1][-1]).type == "assistant"
            and before.message_id == node.message_id
        ):
            groups[-1].append(node)
        elif node.is_shown:
            groups.append([node])
    return [tuple(group) for group in groups]


def entries_of(chain: Iterable[Node], load: Load) -> list[Entry]:
    """The entries of a chain; those that can no longer be read are left out."""
    return [entry for node in chain if (entry := load(node)) is not None]
