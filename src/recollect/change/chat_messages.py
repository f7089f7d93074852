"""A message in the terms of agent frameworks, and the draft a log stores for it.

``ChatMessage`` is the same type for writing and reading. A role without a line type, or content that no
client would load, is refused with ``UsageError`` before anything is written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct, structs

from recollect.errors import NotFound, UsageError
from recollect.model.conversation.chain import Load
from recollect.model.conversation.conversation import spoken
from recollect.model.conversation.graph import Graph, Node
from recollect.model.cost.money import Spending
from recollect.model.lines import draft
from recollect.model.lines.blocks import (
    Block,
    McpToolUseBlock,
    ServerResultBlock,
    ServerToolUseBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    decode_block,
)
from recollect.model.lines.damage import Line, brief_repr
from recollect.model.lines.entry import Assistant
from recollect.model.lines.ids import derived_uuid
from recollect.model.lines.json_text import json_of
from recollect.model.views.facts import usage_facts
from recollect.model.views.ledger import Ledger
from recollect.store.logs.conversation_cache import LogGraph
from recollect.store.logs.reader import read_lines
from recollect.store.own_settings import price_list
from recollect.store.store import PlacedDraft

UNKNOWN_MODEL = "unknown"
"""Stored for an answer without a model; its tokens are counted and reported as unpriced."""

CALLS = (ToolUseBlock, ServerToolUseBlock, McpToolUseBlock)
RESULTS = (
    ToolResultBlock,
    ServerResultBlock,
)


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message, to be logged or as it was read.

    ``role`` is user, assistant or system. ``content`` is text, or blocks: ours, or mappings in Messages API
    form; a message read back has text where it is a single text. Only these two are required for logging.
    ``uuid`` makes a repeat harmless, ``parent_uuid`` starts a branch there, ``at`` is its time (default:
    now), the rest describes an answer.
    """

    role: str
    content: str | Sequence[Block | Mapping[str, Any]]
    uuid: str | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    at: dt.datetime | None = None
    model: str | None = None
    usage: Usage | None = None
    message_id: str | None = None
    request_id: str | None = None
    stop_reason: str | None = None
    is_meta: bool = False

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The content as blocks of ours."""
        if isinstance(self.content, str):
            return (TextBlock(self.content),)
        return tuple(
            (decode_block(json_of("content", dict(part))) if isinstance(part, Mapping) else part)
            for part in self.content
        )

    @property
    def text(self) -> str:
        """Its text, one block per paragraph."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    __repr__ = brief_repr


def placed_draft(message: ChatMessage) -> PlacedDraft:
    """The draft for a log: the message, its parent and its time."""
    parent = UNSET if message.parent_uuid is None else message.parent_uuid
    return PlacedDraft(draft=_draft_of(message), parent=parent, at=utc(message.at))


def _draft_of(message: ChatMessage) -> draft.Draft:
    content = message.content if isinstance(message.content, str) else message.blocks
    match message.role:
        case "assistant":
            return draft.assistant(
                content,
                model=message.model or UNKNOWN_MODEL,
                usage=message.usage,
                message_id=message.message_id,
                request_id=message.request_id,
                stop_reason=UNSET if message.stop_reason is None else message.stop_reason,
            )
        case "user":
            return draft.user(content, is_meta=message.is_meta)
        case "system":
            return draft.system(message.text)
    raise UsageError(f"role {message.role!r} is not supported", hint="use user, assistant or system")


def utc(moment: dt.datetime | None) -> dt.datetime | None:
    """A time without a zone counts as UTC."""
    return moment.replace(tzinfo=dt.UTC) if moment is not None and moment.tzinfo is None else moment


def gathered(nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
    """The lines of each message: of an answer those with its id, of a prompt those derived from its first id."""
    waiting = {node.uuid: node for node in nodes}
    groups: list[list[Node]] = []
    answers: dict[str, list[Node]] = {}
    for uuid, node in list(waiting.items()):
        if waiting.pop(uuid, None) is None:
            continue
        if node.type == "assistant" and node.message_id in answers:
            answers[node.message_id].append(node)
        elif node.is_message or node.type == "system":
            groups.append([node])
            if node.type == "assistant" and node.message_id:
                answers[node.message_id] = groups[-1]
            while node.type == "user":
                more = waiting.pop(derived_uuid(uuid, len(groups[-1])), None)
                if more is None:
                    break
                groups[-1].append(more)
    return [tuple(group) for group in groups]


def group_of(graph: Graph, uuid: str) -> tuple[Node, ...]:
    """The lines of the message that the line with this id belongs to."""
    for group in gathered(graph.nodes.values()):
        if any(node.uuid == uuid for node in group):
            return group
    raise NotFound(f"message {uuid!r}: not in this session", hint="see get_session_messages")


def chat_message(group: Sequence[Node], load: Load, session_id: str) -> ChatMessage:
    """The message that these lines hold."""
    said = spoken(group, load)
    last = said.entries[-1] if said.entries else None
    answer = last.body if last is not None and isinstance(last.body, Assistant) else None
    only = said.blocks[0] if len(said.blocks) == 1 else None
    return ChatMessage(
        role=said.role,
        content=only.text if isinstance(only, TextBlock) else said.blocks,
        uuid=group[0].uuid,
        parent_uuid=said.parent_uuid,
        session_id=session_id,
        agent_id=last.chain.agent_id if last is not None and last.chain is not None else None,
        at=said.at,
        model=said.model,
        usage=said.usage,
        message_id=answer.message.id if answer else None,
        request_id=answer.request_id if answer else None,
        stop_reason=answer.message.stop_reason if answer else None,
        is_meta=said.is_meta,
    )


class MessageFilter(Struct, frozen=True, kw_only=True):
    """Roles and times to return; tool calls can be left out of a message."""

    types: Collection[str] | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    skip_tools: bool = False
    skip_system: bool = False

    def of(self, message: ChatMessage) -> ChatMessage | None:
        """The message, or the rest of it; None where it is filtered out."""
        if self.types is not None and message.role not in self.types:
            return None
        if self.skip_system and (message.role == "system" or message.is_meta):
            return None
        is_timed = self.since is not None or self.until is not None
        if is_timed and (
            message.at is None
            or (self.since is not None and message.at < self.since)
            or (self.until is not None and message.at >= self.until)
        ):
            return None
        rest = tuple(block for block in message.blocks if not isinstance(block, (*CALLS, *RESULTS)))
        if not self.skip_tools or len(rest) == len(message.blocks):
            return message
        return structs.replace(message, content=rest) if rest else None


class ConversationStats(Struct, kw_only=True):
    """Counts of everything that was said, on all branches and by sub-agents; each answer is paid for once.

    ``user_messages`` leaves out tool results and what the user did not type.
    """

    sessions: int = 0
    agents: int = 0
    messages: int = 0
    user_messages: int = 0
    assistant_messages: int = 0
    system_messages: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    first_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    spending: Spending = Spending()


def statistics(sessions: Iterable[tuple[str, Path, Sequence[Path]]]) -> ConversationStats:
    """What sessions come to, each with its own log and those of its sub-agents."""
    stats, ledger, calls = ConversationStats(), Ledger(price_list()), set[str]()
    for session, own, agents in sessions:
        stats.sessions += 1
        stats.agents += len(agents)
        for path in (own, *agents):
            log = LogGraph(path)
            for group in gathered(log.graph.nodes.values()):
                _count(stats, calls, chat_message(group, log.load, session))
            for line in read_lines(path):
                ledger.add(usage_facts(line.data) if isinstance(line, Line) else None, path=str(path))
    stats.tool_calls, stats.spending = len(calls), ledger.total()
    return stats


def _count(stats: ConversationStats, calls: set[str], message: ChatMessage) -> None:
    stats.messages += 1
    results = sum(isinstance(block, RESULTS) for block in message.blocks)
    stats.tool_results += results
    calls.update(block.id for block in message.blocks if isinstance(block, CALLS))
    if message.role == "assistant":
        stats.assistant_messages += 1
    elif message.role == "system":
        stats.system_messages += 1
    elif not (message.is_meta or results == len(message.blocks)):
        stats.user_messages += 1
    if message.at is not None:
        stats.first_at = min(stats.first_at or message.at, message.at)
        stats.last_at = max(stats.last_at or message.at, message.at)
