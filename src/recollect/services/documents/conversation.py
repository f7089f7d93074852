"""A conversation as JSON: messages, windows of messages, branches, and the page's header.

``show --json`` writes one message per line as it reads them, so that a session of any size needs the
memory of one message. Blocks are unchanged from the log, unknown fields included.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from recollect.model.conversation.conversation import Branch, Message
from recollect.model.conversation.tool_calls import ToolCallStatus
from recollect.model.conversation.written_blocks import as_json, content_of, is_said, made_of, text_block
from recollect.model.cost.report import Performance
from recollect.model.cost.usage import Usage
from recollect.model.damage import Damage, DamageCode
from recollect.model.entry import Entry
from recollect.services.cost.price import performance
from recollect.services.documents.cost.spending import AmountDocument, SpendingDocument
from recollect.services.documents.encoding import encoded
from recollect.services.session import ActiveBranch, Compaction

# The page has its own type of this name; the log may hold anything.
BlockDocument = Annotated[Any, Meta(title="Block", description="A content block as in the log.")]
MessageKind = Literal["prompt", "answer", "results", "unmatched", "summary", "boundary", "command", "other"]


# ---- messages --------------------------------------------------------------------------------------------


class MessageDocument(Struct, frozen=True, kw_only=True):
    """One message, as ``show --json`` prints it."""

    uuid: str
    parent_uuid: str | None
    role: str
    at: dt.datetime | None
    blocks: list[BlockDocument]
    model: str | None
    usage: Usage | None


class TimedMessageDocument(MessageDocument, frozen=True, kw_only=True):
    """One message of ``show --performance --json``; null where it is no answer with usage."""

    performance: Performance | None


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


class ConversationMapDocument(Struct, frozen=True, kw_only=True):
    """Kinds (a letter each), sizes and times of all messages, where turns start, and the newest prompts."""

    total: int
    signature: str
    kinds: str
    bytes: list[int]
    at: list[int | None]
    prompts: list[PromptDocument]
    turns: list[int]


class ViewDocument(Struct, frozen=True):
    """Selects a conversation of a session. With nothing set: the one the client would load."""

    branch: str | None
    before: int | None
    agent: str | None
    whole: bool


class PositionDocument(Struct, frozen=True):
    """Where a line is shown."""

    index: int
    view: ViewDocument
    uuid: str


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


class CompactionDocument(Struct, frozen=True, kw_only=True):
    """Where the client compacted the conversation; ``number`` counts from 1."""

    number: int
    uuid: str
    at: str | None
    trigger: str | None
    pre_tokens: int | None
    before: str | None


class SessionHeadDocument(Struct, frozen=True, kw_only=True):
    """The header of a conversation. Costs are null while the index does not know them, or if no usage was recorded.

    ``is_only_read``: it belongs to another agent, and `fork` and `repair` would refuse it.
    """

    id: str
    agent: str
    title: str
    custom_title: str | None
    tag: str | None
    project: str
    cwd: str | None
    branch: str | None
    path: str
    home: str
    first_at: dt.datetime | None
    last_at: dt.datetime | None
    bytes: int
    version: str | None
    live: bool
    is_archive_only: bool
    is_only_read: bool
    messages: int
    lines: int | None
    hidden: int
    active_leaf: str | None
    problem: str | None
    branches: list[Branch]
    compactions: list[CompactionDocument]
    agents: int
    responses: int | None = None
    cost_usd: str | None = None
    known_cost_usd: str | None = None
    unpriced: list[str] = []
    models: list[str] = []
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_write_5m_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    cache_read_tokens: int | None = None
    web_searches: int | None = None
    is_indexed: bool = False
    expires_at: dt.datetime | None
    is_archived: bool
    damaged: int | None
    commands: dict[str, str]
    person: str | UnsetType | None = UNSET


# ---- the tree of a session -------------------------------------------------------------------------------


class TreeNodeDocument(Struct, frozen=True):
    """One entry of ``tree --json``."""

    uuid: str
    parent_uuid: str | None
    type: str
    at: str | None
    active: bool
    sidechain: bool


class TreeAgentDocument(Struct, frozen=True):
    """One sub-agent of ``tree --json``."""

    id: str
    layout: str
    tool_use_id: str | None
    spawned_by: str | None
    parent_agent: str | None
    messages: int


class TreeDocument(Struct, frozen=True, kw_only=True):
    """All entries of a session and how they are linked."""

    session: str
    nodes: list[TreeNodeDocument]
    leaves: list[str]
    active_leaf: str | None
    agents: list[TreeAgentDocument]
    compactions: list[Compaction]
    active_branches: list[ActiveBranch]
    orphans: list[str]
    duplicates: list[str]
    cycles: list[list[str]]


class BranchDifferenceDocument(Struct, frozen=True, kw_only=True):
    """Two branches side by side."""

    session: str
    common: int
    last_common: str | None
    only_left: list[MessageDocument]
    only_right: list[MessageDocument]


class ApiMessagesDocument(Struct, frozen=True):
    """What ``show --api --json`` prints: the Messages-API list that the client would send on resume."""

    session: str
    messages: list[dict[str, Any]]


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
    with_performance: bool = False,
) -> Iterator[bytes]:
    """The document of ``show --json``, one message per line; ``findings`` are read last."""
    yield b'{"session": ' + encoded(session) + b',\n"messages": ['
    separator = b"\n"
    for message in messages:
        document = message_document(message)
        yield separator + encoded(_timed(document, message) if with_performance else document)
        separator = b",\n"
    yield b'\n],\n"total": ' + encoded(total) + b",\n"
    yield b'"findings": ' + encoded([damage_document(damage) for damage in findings]) + b"}\n"


def message_document(message: Message) -> MessageDocument:
    return MessageDocument(
        uuid=message.uuid,
        parent_uuid=message.parent_uuid,
        role=message.role,
        at=message.at,
        blocks=_blocks(message),
        model=message.model,
        usage=message.usage,
    )


def _timed(document: MessageDocument, message: Message) -> TimedMessageDocument:
    return TimedMessageDocument(**structs.asdict(document), performance=performance(message))


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
