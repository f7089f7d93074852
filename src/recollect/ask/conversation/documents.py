"""A conversation as JSON: messages, windows of messages, branches, and the page's header.

``show --json`` writes one message per line as it reads them, so that a session of any size needs the
memory of one message. Blocks are unchanged from the log, unknown fields included.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from recollect.ask.cost.price import Performance, performance
from recollect.ask.sessions.session import ActiveBranch, Compaction
from recollect.model.conversation.agents import SubAgent
from recollect.model.conversation.conversation import (
    Branch,
    Message,
    Seam,
    as_json,
    content_of,
    is_said,
    made_of,
    text_block,
)
from recollect.model.conversation.tool_calls import ToolCallStatus
from recollect.model.cost.money import AmountDocument, SpendingDocument
from recollect.model.lines.blocks import Usage
from recollect.model.lines.damage import Damage, DamageCode
from recollect.model.lines.entry import Entry
from recollect.model.lines.json_text import encode_json

# The page has its own type of this name; the log may hold anything.
BlockDocument = Annotated[Any, Meta(title="Block", description="A content block as in the log.")]
MessageKind = Literal["prompt", "answer", "results", "unmatched", "summary", "boundary", "command", "other"]


# ---- messages --------------------------------------------------------------------------------------------


class MessageDocument(Struct, frozen=True, kw_only=True):
    """One message, as ``show --json`` prints it; ``performance`` is asked for, and null where it is no answer with usage.

    ``seams``, of the whole story only: another tree of the log begins with it, continued from a "summary", after a
    "gap" or at a new "start", or what a resume would load does ("loaded").
    """

    uuid: str
    parent_uuid: str | None
    role: str
    at: dt.datetime | None
    blocks: list[BlockDocument]
    model: str | None
    usage: Usage | None
    seams: list[Seam] | UnsetType = UNSET
    performance: Performance | UnsetType | None = UNSET


class LinePlaceDocument(Struct, frozen=True):
    """Where a line of a message is in the log."""

    uuid: str
    offset: int
    length: int


class ToolCallDocument(Struct, frozen=True, kw_only=True):
    """The outcome of a tool call. ``structured`` is the client's structured form of the result.

    ``added`` and ``removed`` are lines of an edit that was made.
    """

    status: ToolCallStatus
    duration_ms: float | None
    in_background: bool
    result_index: int | None
    result_uuid: str | None
    at: dt.datetime | None
    blocks: list[BlockDocument]
    structured: Any
    agent: str | None
    added: int | None
    removed: int | None


class PageMessageDocument(MessageDocument, frozen=True, kw_only=True):
    """One message of a page. The cost of a response is on the message with its last line; of another agent an answer has the cost of
    the calls that its client noted beside it.

    ``results`` are shown with their calls; of an ``unmatched`` one the blocks at ``own`` are shown by themselves: results
    without a call or beyond the first of a call, and what is not a result.
    """

    index: int
    kind: MessageKind
    bytes: int
    is_meta: bool
    is_summary: bool
    lines: list[LinePlaceDocument]
    calls: dict[str, ToolCallDocument]
    cost: SpendingDocument | None
    response_index: int
    is_copied: bool
    turn: int
    compaction: int | UnsetType | None = UNSET
    own: list[int] | UnsetType = UNSET
    cut: bool


class MessageWindowDocument(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Some messages of a conversation. ``signature`` changes with the log."""

    session: str
    from_: int
    total: int
    signature: str
    messages: list[PageMessageDocument]


class PromptDocument(Struct, frozen=True):
    """The beginning of a prompt."""

    index: int
    text: str
    uuid: str


class PromptsDocument(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Some prompts of a conversation, and how many there are."""

    prompts: list[PromptDocument]
    from_: int
    total: int


class ChapterDocument(Struct, frozen=True):
    """Where a chapter begins, at a compaction or a seam."""

    index: int
    seams: list[Seam]


class ConversationMapDocument(Struct, frozen=True, kw_only=True):
    """Kinds (a letter each), sizes and times of all messages, where turns and chapters start, and the newest prompts."""

    total: int
    signature: str
    kinds: str
    bytes: list[int]
    at: list[int | None]
    prompts: list[PromptDocument]
    turns: list[int]
    chapters: list[ChapterDocument]


class TurnCostDocument(SpendingDocument, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Cost and work of one turn. ``edits`` are calls that changed a file, ``added`` and ``removed`` their lines."""

    from_: int
    to: int
    at: dt.datetime | None
    calls: int
    failed: int
    edits: int
    added: int
    removed: int


class TurnCostsDocument(SpendingDocument, frozen=True, kw_only=True):
    """The cost of each turn of a conversation, and of the whole session."""

    turns: list[TurnCostDocument]
    session: AmountDocument


# ---- branches and header ---------------------------------------------------------------------------------


class BranchNodeDocument(Branch, frozen=True, kw_only=True):
    """A branch in the tree: where it leaves its parent, and its first text."""

    parent: str | None
    depth: int
    messages: int
    from_uuid: str | None
    from_index: int | None
    from_text: str
    text: str


class BranchesDocument(Struct, frozen=True):
    """All branches of a conversation."""

    branches: list[BranchNodeDocument]


# ---- the tree of a session -------------------------------------------------------------------------------


class TreeNodeDocument(Struct, frozen=True):
    """One entry of ``show --tree --json``."""

    uuid: str
    parent_uuid: str | None
    type: str
    at: str | None
    active: bool
    sidechain: bool


class TreeDocument(Struct, frozen=True, kw_only=True):
    """All entries of a session and how they are linked."""

    session: str
    nodes: list[TreeNodeDocument]
    leaves: list[str]
    active_leaf: str | None
    agents: list[SubAgent]
    compactions: list[Compaction]
    active_branches: list[ActiveBranch]
    orphans: list[str]
    duplicates: list[str]
    cycles: list[list[str]]


class DamageDocument(Struct, frozen=True):
    """A line that cannot be read."""

    code: DamageCode
    offset: int
    what: str


# ---- builders --------------------------------------------------------------------------------------------


def conversation_pieces(
    session: str,
    messages: Iterable[Message],
    total: int,
    findings: Iterable[Damage],
    *,
    is_whole: bool,
    with_performance: bool = False,
) -> Iterator[bytes]:
    """The document of ``show --json``, one message per line; ``findings`` are read last.

    ``is_whole``: ``total`` counts all that was said, not only what a resume would load.
    """
    yield b'{"session": ' + encode_json(session) + b',\n"messages": ['
    separator = b"\n"
    for message in messages:
        document = message_document(message)
        if with_performance:
            document = structs.replace(document, performance=performance(message))
        yield separator + encode_json(document)
        separator = b",\n"
    yield b'\n],\n"total": ' + encode_json(total) + b',\n"is_whole": ' + encode_json(is_whole) + b",\n"
    yield b'"findings": ' + encode_json([damage_document(damage) for damage in findings]) + b"}\n"


def message_document(message: Message) -> MessageDocument:
    return MessageDocument(
        uuid=message.uuid,
        parent_uuid=message.parent_uuid,
        role=message.role,
        at=message.at,
        blocks=_blocks(message),
        model=message.model,
        usage=message.usage,
        seams=list(message.seams) or UNSET,
    )


def _blocks(message: Message) -> list[object]:
    if not is_said(message):
        return [as_json(block) for block in message.blocks]
    return [block for entry in message.entries for block in _written(entry)]


def _written(entry: Entry) -> list[object]:
    content = content_of(entry)
    if content is None:
        return [as_json(block) for block in made_of(entry)]
    return [text_block(content)] if isinstance(content, str) else list(content)


def damage_document(damage: Damage) -> DamageDocument:
    return DamageDocument(damage.code, damage.offset, damage.detail)
