"""Proof that a session can be resumed: what would be sent against the rules of the API, the history against the old.

The rules are those whose breach the API answers with 400 whenever the session goes on. The list
is what ``model/conversation/api.py`` says client 2.1.325 sends, after that client's own corrections.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from recollect.model.conversation.chain import chain_to
from recollect.model.conversation.conversation import Conversation
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.entry import System
from recollect.model.repair import images
from recollect.model.repair.draft import RepairDraft

Json = dict[str, Any]


class RepairProof(Struct, frozen=True):
    """What was shown of the result. ``problems`` is empty where everything holds."""

    messages_sent: int
    history_before: int
    history_after: int
    gained: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether the client resumes it with no less than before, and the API takes it."""
        return not self.problems


def sent(draft: RepairDraft) -> list[Json]:
    """The messages the client would send on resuming; none where it finds no conversation."""
    graph = draft.graph()
    leaf = graph.active_leaf
    return Conversation(graph, leaf, draft.load).to_api() if leaf is not None else []


def history(draft: RepairDraft) -> list[str]:
    """Ids of the messages from the root to the active leaf, also those that compactions hide."""
    graph = draft.graph()
    leaf = graph.active_leaf
    found: dict[str, None] = {}
    walked: set[str] = set()
    chain = chain_to(graph, leaf, draft.load) if leaf is not None else []
    while chain and chain[0].uuid not in walked:
        walked.update(node.uuid for node in chain)
        found.update(dict.fromkeys(node.uuid for node in chain if node.is_message))
        hidden = _hidden_by(draft, graph, chain[0])
        # A long session has many compactions: only what the client loads is gathered in full.
        chain = list(graph.ancestors(hidden))[::-1] if hidden is not None else []
    return list(found)


def _hidden_by(draft: RepairDraft, graph: Graph, first: Node) -> str | None:
    """The last entry before a compaction, where a conversation starts with one."""
    entry = draft.load(first) if first.is_boundary else None
    name = entry.body.logical_parent_uuid if entry is not None and isinstance(entry.body, System) else None
    return name if name in graph.nodes else None


def proved(draft: RepairDraft, before: list[str]) -> RepairProof:
    """The proof of a draft whose history was ``before``."""
    after, messages = history(draft), sent(draft)
    before = still_owed(draft, before, after)
    problems = list(broken_rules(messages))
    if len(after) < len(before):
        problems.append(f"the history would have {len(after)} messages, and has {len(before)}")
    known = set(before)
    gained = tuple(uuid for uuid in after if uuid not in known)
    return RepairProof(len(messages), len(before), len(after), gained, tuple(problems))


def still_owed(draft: RepairDraft, before: list[str], after: list[str]) -> list[str]:
    """The history that must not get shorter: all of it but lines of thinking that the API refuses."""
    removed = {action.uuid for action in draft.actions if action.code == "thinking-removed"} - set(after)
    return [uuid for uuid in before if uuid not in removed]


# ---- the rules of the API --------------------------------------------------------------------------------


def broken_rules(messages: list[Json]) -> Iterator[str]:
    """Every rule that the messages break, in words."""
    # Neighbours of one role are no breach: the client sends notes so, and the API takes them as one message.
    talk = [one for one in messages if one["role"] != "system"]
    for index, one in enumerate(talk):
        place = f"messages.{index}"
        blocks = _blocks(one)
        if not blocks:
            yield f"{place}: content is empty"
        before = _calls(talk[index - 1]) if index and one["role"] == "user" else []
        following = talk[index + 1] if index + 1 < len(talk) else None
        yield from (f"{place}: {problem}" for problem in _pairing(one, before, following))
        for block in blocks:
            yield from (f"{place}: {problem}" for problem in _refusals(block))


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _calls(message: Json) -> list[Any]:
    return [block.get("id") for block in _blocks(message) if block.get("type") == "tool_use"]


def _results(message: Json | None) -> list[Any]:
    blocks = _blocks(message) if message is not None and message["role"] == "user" else []
    return [block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"]


def _pairing(message: Json, before: list[Any], following: Json | None) -> Iterator[str]:
    calls, results = _calls(message), _results(message)
    if len(set(calls)) < len(calls):
        yield "`tool_use` ids must be unique"
    for name in calls:
        if name not in _results(following):
            yield f"`tool_use` {name} without `tool_result` in the next message"
    for name in results:
        if name not in before or results.count(name) > 1:
            yield f"unexpected `tool_result` {name}"


def _refusals(block: Json) -> Iterator[str]:
    kind = block.get("type")
    if kind == "text" and not str(block.get("text") or "").strip():
        yield "text content blocks must be non-empty"
    if kind == "thinking" and not block.get("signature"):
        yield "thinking without signature"
    if kind == "image" and (reason := images.refusal(block)) is not None:
        yield reason
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for part in block["content"]:
            if isinstance(part, dict):
                yield from _refusals(part)
