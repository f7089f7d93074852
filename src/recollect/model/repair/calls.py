"""Every call has its result, every result its call, and every id is used once.

On resume client 2.1.325 drops what does not fit: a call without result, a result without call, the second
pair with the same id. Older clients send it and are refused permanently. Here nothing is dropped: a missing
result is created and says that it was lost, a result without its call becomes text, and the later pair of a
repeated id, or of one that the API refuses, gets an id of its own.

Only the active conversation after its last compaction is examined. The calls at its very end are left to the
client, which closes them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from recollect.model.checks.api_400 import is_call_id
from recollect.model.conversation.chain import after_compaction
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.entry import Assistant, Entry, User
from recollect.model.made_ids import derived_id, derived_uuid
from recollect.model.repair.draft import RepairDraft, with_content

Json = dict[str, Any]
LOST = "[The result of this tool call was lost and could not be restored. Whether it took effect is unknown.]"
ORPHAN = "[Result of a tool call that is no longer in this session]"
_COPIED = (
    "isSidechain",
    "userType",
    "cwd",
    "sessionId",
    "version",
    "gitBranch",
    "entrypoint",
    "slug",
    "agentId",
)


_MOST_MOVED = 1000


class _CallPairs(Struct):
    """The calls and results so far, along the chain."""

    used: dict[str, str | None]
    open_calls: dict[str, Node]
    answered: set[str]
    renamed: dict[str, str]


def mend_calls(draft: RepairDraft) -> bool:
    """Pair calls and results of the active conversation; True if anything changed."""
    done = len(draft.actions)
    while _move_a_late_line(draft) and len(draft.actions) < done + _MOST_MOVED:
        pass
    graph = draft.graph()
    leaf = graph.active_leaf
    if leaf is None:
        return False
    nodes = Conversation(graph, leaf, draft.load).nodes
    pairs = _CallPairs({}, {}, set(), {})
    for node in nodes:
        entry = draft.load(node) if node.has_call or node.result_ids else None
        if entry is not None and isinstance(entry.body, Assistant):
            _take_calls(draft, node, entry, pairs)
        elif entry is not None and isinstance(entry.body, User):
            _take_results(draft, node, entry, pairs)
    _make_results(draft, graph, leaf, list(pairs.open_calls.items()))
    return len(draft.actions) > done


def blocks_of(entry: Entry) -> list[Json]:
    """The content as plain blocks; empty where it is text."""
    message = entry.fields().get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _take_calls(draft: RepairDraft, node: Node, entry: Entry, pairs: _CallPairs) -> None:
    blocks, is_changed = blocks_of(entry), False
    for block in blocks:
        name = block.get("id")
        if block.get("type") != "tool_use" or not isinstance(name, str):
            continue
        if name in pairs.used and node.message_id is not None and pairs.used[name] == node.message_id:
            # Copies of one growing answer repeat their calls; the client takes the first of them.
            block["id"] = pairs.renamed.get(name, name)
            is_changed |= block["id"] != name
            continue
        fresh = name
        pairs.renamed.pop(name, None)
        if name in pairs.used or not is_call_id(name):
            fresh = derived_id("toolu_", f"{name} {node.uuid}")
            block["id"] = pairs.renamed[name] = fresh
            is_changed = True
        pairs.used[fresh] = pairs.used[name] = node.message_id
        pairs.open_calls[fresh] = node
    if is_changed:
        why = "its call has the id of an earlier one, or an id that the API refuses"
        draft.change(node.offset, with_content(entry, blocks), "call-renamed", why)


def _take_results(draft: RepairDraft, node: Node, entry: Entry, pairs: _CallPairs) -> None:
    blocks = blocks_of(entry)
    kept: list[Json] = []
    codes: list[str] = []
    for block in blocks:
        name = block.get("tool_use_id")
        if block.get("type") != "tool_result" or not isinstance(name, str):
            kept.append(block)
            continue
        name = pairs.renamed.get(name, name)
        if name in pairs.open_calls:
            del pairs.open_calls[name]
            pairs.answered.add(name)
            codes += ["result-renamed"] if name != block["tool_use_id"] else []
            kept.append({**block, "tool_use_id": name})
        elif name in pairs.answered:
            kept.append(block)  # a second result: the client takes the first
        else:
            codes.append("orphan-result")
            kept += _as_text(block)
    if codes:
        why = {
            "orphan-result": "a result whose call is not in the conversation: kept as text",
            "result-renamed": "follows its call, which has a new id",
        }
        draft.change(node.offset, with_content(entry, kept), codes[0], why[codes[0]])


def _as_text(block: Json) -> list[Json]:
    content = block.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": f"{ORPHAN}\n{content}".rstrip()}]
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    shown = [
        part
        for part in parts
        if part.get("type") == "image" or (part.get("type") == "text" and str(part.get("text", "")).strip())
    ]
    return [{"type": "text", "text": ORPHAN}, *shown]


# ---- misplaced lines --------------------------------------------------------------------------------------


def _move_a_late_line(draft: RepairDraft) -> bool:
    """Move one line that follows a later answer back to the answer it belongs to."""
    graph = draft.graph()
    leaf = graph.active_leaf
    chain = after_compaction(_walked(graph, leaf)) if leaf is not None else []
    for index, (node, before) in _late_lines(draft, chain):
        after = chain[index + 1] if index + 1 < len(chain) else None
        moved = [node.uuid, before, after.uuid if after else None]
        if before is not None and not graph.relinked.keys() & set(moved):
            _move(draft, graph, node, graph.nodes[before], after)
            return True
    return False


def _late_lines(draft: RepairDraft, chain: list[Node]) -> Iterator[tuple[int, tuple[Node, str | None]]]:
    """Lines of an answer after lines of another, and results alone on their line after a later answer.

    Each with its position on the chain, and the entry that should follow it.
    """
    callers: dict[str, Node] = {}
    ends: dict[str, int] = {}
    answer: Node | None = None
    for index, node in enumerate(chain):
        if node.type == "assistant":
            end = ends.get(node.message_id or "")
            if end is not None and answer is not None and not _is_one_answer(answer, node):
                yield index, (node, chain[end + 1].uuid)
            answer, ends[node.message_id or node.uuid] = node, index
            callers.update((name, node) for name in _call_ids(draft, node))
        elif node.is_message and not node.result_ids:
            ends.clear()  # an answer that continues after a prompt is another one, even with the same id
        caller = callers.pop(node.result_ids[0], None) if len(node.result_ids) == 1 else None
        if caller is not None and answer is not None and not _is_one_answer(caller, answer):
            yield index, (node, _following(chain, caller))


def _call_ids(draft: RepairDraft, node: Node) -> list[str]:
    entry = draft.load(node) if node.has_call else None
    blocks = blocks_of(entry) if entry is not None else []
    return [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]


def _is_one_answer(one: Node, other: Node) -> bool:
    return one.uuid == other.uuid or (one.message_id is not None and one.message_id == other.message_id)


def _move(draft: RepairDraft, graph: Graph, late: Node, before: Node, after: Node | None) -> None:
    code = "result-moved" if late.result_ids else "line-moved"
    if after is not None:
        draft.change(after.offset, {"parentUuid": late.parent}, "relinked", f"now follows {late.parent}")
    why = "it follows a later answer than the one it belongs to"
    draft.change(late.offset, {"parentUuid": graph.parent_of(before)}, code, why)
    draft.change(before.offset, {"parentUuid": late.uuid}, "relinked", f"now follows {late.uuid}")
    if before.offset < late.offset:
        draft.move(late.offset, before.offset)


# ---- results that were lost ------------------------------------------------------------------------------


def _make_results(draft: RepairDraft, graph: Graph, leaf: Node, calls: list[tuple[str, Node]]) -> None:
    """Insert a result after the answer that made the call, and relink what followed to the result."""
    chain = after_compaction(_walked(graph, leaf))
    places: dict[str, list[str]] = {}
    for name, node in calls:
        following = _following(chain, node)
        if following is not None:
            places.setdefault(following, []).append(name)
    # From the end, so that the rows before a new one keep their numbers.
    for uuid in sorted(places, key=lambda one: graph.nodes[one].offset, reverse=True):
        node = graph.nodes[uuid]
        if uuid in graph.relinked:
            draft.notes.append(f"entry {uuid}: a compaction put it there, so no lost result is put before it")
            continue
        made = derived_uuid(f"lost result {places[uuid][0]} {uuid}", 0)
        why = f"{len(places[uuid])} calls had no result: the client would drop them"
        draft.change(node.offset, {"parentUuid": made}, "relinked", f"now follows the new result {made}")
        line = _result_line(draft, node, graph.parent_of(node), made, places[uuid])
        draft.insert(node.offset, line, "result-made", why, made)


def _walked(graph: Graph, leaf: Node) -> list[Node]:
    return list(graph.ancestors(leaf.uuid))[::-1]


def _following(chain: list[Node], call: Node) -> str | None:
    """The entry after the answer of a call and its results; None where the answer is the end."""
    own = [
        index
        for index, node in enumerate(chain)
        if node.uuid == call.uuid or (call.message_id and node.message_id == call.message_id)
    ]
    if not own:
        return None
    index = own[-1] + 1
    while index < len(chain) and (chain[index].result_ids or not chain[index].is_message):
        index += 1
    return chain[index].uuid if index < len(chain) else None


def _result_line(draft: RepairDraft, before: Node, parent: str | None, uuid: str, calls: list[str]) -> bytes:
    entry = draft.load(before)
    fields = entry.fields() if entry is not None else {}
    blocks = [
        {"type": "tool_result", "tool_use_id": name, "content": LOST, "is_error": True} for name in calls
    ]
    line = {
        "parentUuid": parent,
        **{name: fields[name] for name in _COPIED if name in fields},
        "type": "user",
        "message": {"role": "user", "content": blocks},
        "uuid": uuid,
        "timestamp": before.timestamp,
    }
    return msgspec.json.encode(line)
