"""Blocks that the API refuses whenever the session is resumed: empty text, unsigned thinking, images.

Only what would really be sent is changed. The client leaves out blank lines, thinking of another model and
thinking that nothing followed; such lines are common in healthy logs and stay.
"""

from __future__ import annotations

from typing import Any

from recollect.model.checks import images
from recollect.model.checks.api_400 import is_empty_text, misplaced, shows_its_thinking
from recollect.model.checks.resumed import model_of
from recollect.model.conversation.client_words import NO_CONTENT
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.entry import Assistant, Entry, User
from recollect.model.repair.calls import blocks_of
from recollect.model.repair.draft import RepairDraft, with_content

Json = dict[str, Any]


def mend_content(draft: RepairDraft) -> bool:
    """Replace or remove refused blocks of the active conversation; True if there were any."""
    graph = draft.graph()
    leaf = graph.active_leaf
    if leaf is None:
        return False
    nodes = Conversation(graph, leaf, draft.load).nodes
    done = len(draft.actions)
    model = _model(draft, nodes)
    emptied: list[Node] = []
    for node in nodes:
        entry = draft.load(node) if node.is_message else None
        if entry is None:
            continue
        if isinstance(entry.body, User):
            _mend_user(draft, node, entry)
        elif not _mend_answer(draft, node, entry, model):
            emptied.append(node)
    _take_out(draft, graph, nodes, emptied)
    return len(draft.actions) > done


def _model(draft: RepairDraft, nodes: list[Node]) -> str:
    """The model the client continues with."""
    entries = (draft.load(node) for node in reversed(nodes) if node.type == "assistant")
    return model_of(entry for entry in entries if entry is not None)


# ---- the user's side -------------------------------------------------------------------------------------


def _mend_user(draft: RepairDraft, node: Node, entry: Entry) -> None:
    message = entry.fields().get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        if not content.strip():
            why = "the API refuses empty text"
            draft.change(node.offset, with_content(entry, NO_CONTENT), "empty-text", why)
        return
    found: dict[str, str] = {}
    blocks = [_mended_block(block, found) for block in blocks_of(entry)]
    if any(misplaced("user", block) for block in blocks):
        found["misplaced-block"] = "a user message cannot hold thinking or calls"
        said = [block for block in blocks if not misplaced("user", block)]
        blocks = said or [{"type": "text", "text": NO_CONTENT}]
    texts = [block for block in blocks if not is_empty_text(block)]
    if texts and len(texts) < len(blocks):
        found["empty-text"] = "the API refuses empty text"
    elif blocks and not texts:
        texts = blocks  # the client itself sends "(no content)" for these
    for number, (code, why) in enumerate(found.items()):
        if number == 0:
            draft.change(node.offset, with_content(entry, texts), code, why)
        else:
            draft.act(code, node.offset, why, node.uuid)


def _mended_block(block: Json, found: dict[str, str]) -> Json:
    if block.get("type") == "image":
        reason = images.refusal(block)
        if reason is not None:
            found["image-replaced"] = f"{reason}; replaced by a note"
            return {"type": "text", "text": f"[Image removed: {reason}]"}
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        parts = [_mended_part(part, found) for part in block["content"]]
        return {**block, "content": parts} if parts != block["content"] else block
    return block


def _mended_part(part: Any, found: dict[str, str]) -> Any:
    if not isinstance(part, dict):
        return part
    if is_empty_text(part):
        found["empty-text"] = "the API refuses empty text"
        return {**part, "text": NO_CONTENT}
    return _mended_block(part, found)


# ---- the model's side ------------------------------------------------------------------------------------


def _mend_answer(draft: RepairDraft, node: Node, entry: Entry, resumed: str) -> bool:
    """Remove refused blocks from one line of an answer; False where nothing would be left."""
    body = entry.body
    if not isinstance(body, Assistant) or body.is_api_error_message:
        return True
    blocks, model = blocks_of(entry), body.message.model or ""
    if any(misplaced("assistant", block) for block in blocks):
        said = [block for block in blocks if not misplaced("assistant", block)]
        why = "an answer cannot hold images or results"
        content = said or [{"type": "text", "text": NO_CONTENT}]
        draft.change(node.offset, with_content(entry, content), "misplaced-block", why)
        return True  # the next round examines the rest
    refused = [block for block in blocks if model == resumed and _is_refused_thinking(block, model)]
    remaining = [block for block in blocks if block not in refused and not is_empty_text(block)]
    if refused and not remaining:
        return False
    if remaining and len(remaining) < len(blocks):
        code = "thinking-removed" if refused else "empty-text"
        why = "thinking that the API refuses" if refused else "the API refuses empty text"
        draft.change(node.offset, with_content(entry, remaining), code, why)
    return True


def _is_refused_thinking(block: Json, model: str) -> bool:
    if block.get("type") == "redacted_thinking":
        return not block.get("data")
    if block.get("type") != "thinking":
        return False
    return not block.get("signature") or (not block.get("thinking") and shows_its_thinking(model))


def _take_out(draft: RepairDraft, graph: Graph, nodes: list[Node], emptied: list[Node]) -> None:
    """Remove lines that hold only refused thinking, and relink what followed them.

    If such a line is the whole answer, the client leaves it out itself.
    """
    gone = {node.uuid for node in emptied}
    remaining = {node.message_id for node in nodes if node.type == "assistant" and node.uuid not in gone}
    leaving = {
        node.uuid: node.offset
        for node in emptied
        if node.message_id in remaining and node.uuid not in graph.relinked
    }
    if not leaving:
        return
    for uuid, number in leaving.items():
        draft.rows[number].reason = "thinking-removed"
        draft.act("thinking-removed", number, "a line of thinking that the API refuses: set aside", uuid)
    relink_around(draft, graph, set(leaving))
    draft.remove(set(leaving.values()))


def relink_around(draft: RepairDraft, graph: Graph, leaving: set[str]) -> None:
    """Relink everything that follows, or marks, a removed entry to the nearest earlier one that stays."""

    def stays(name: str | None) -> str | None:
        seen: set[str] = set()
        while name in leaving and name not in seen:
            seen.add(name)
            name = graph.nodes[name].parent
        return None if name in leaving else name

    for node in graph.nodes.values():
        if node.parent in leaving and node.uuid not in leaving:
            parent = stays(node.parent)
            draft.change(node.offset, {"parentUuid": parent}, "relinked", f"now follows {parent}")
    for mark in graph.marks:
        if mark.leaf in leaving:
            leaf = stays(mark.leaf)
            draft.change(mark.offset, {"leafUuid": leaf}, "relinked", f"now marks {leaf}")
