"""Group the lines of a log into the messages they came from.

A message may take several lines. Those of an answer share its message id; those of a prompt have ids derived
from that of its first line. Together they are one ``ChatMessage`` again, under the id of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recollect.errors import NotFound
from recollect.model.blocks import TextBlock
from recollect.model.conversation.chain import Load
from recollect.model.conversation.conversation import spoken
from recollect.model.conversation.graph import Graph
from recollect.model.conversation.node import Node
from recollect.model.entry import Assistant
from recollect.model.made_ids import derived_uuid
from recollect.services.provider.chat_message import ChatMessage


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
