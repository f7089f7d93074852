"""Entry: the meaning of one line, in any dialect.

An ``Entry`` wraps two things that never change: ``raw``, the exact bytes of the line, and ``body``, one of
the kinds below. Everything above the codec works with kinds and never asks which program wrote the line.

Fields that recollect uses are typed here. All others stay in ``raw`` and are reached by ``fields()``; they
are preserved because an unchanged entry is written as its own bytes.

Two kinds stand for what we do not understand. ``UnknownBody`` is a type that did not exist when this was
written. ``UnknownShapeBody`` is a known type whose contents do not match it; it still has id, parent and time
if it can, because the chain of a conversation may run through it.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.lines.blocks import Block, TextBlock, Usage, blocks_of
from recollect.model.lines.damage import Notice, brief_repr
from recollect.model.lines.ids import parsed_time
from recollect.model.lines.json_text import loose_object


class Dialect(enum.StrEnum):
    """Ways of writing entries."""

    CLAUDE = "claude"
    FLAT = "flat"
    EVENTS = "events"


class Kind(enum.StrEnum):
    """What an entry is. The values are the client's own type names where it has one."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    ATTACHMENT = "attachment"
    PROGRESS = "progress"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    SUMMARY = "summary"
    CUSTOM_TITLE = "custom-title"
    AI_TITLE = "ai-title"
    AGENT_NAME = "agent-name"
    AGENT_COLOR = "agent-color"
    AGENT_SETTING = "agent-setting"
    TAG = "tag"
    LAST_PROMPT = "last-prompt"
    PR_LINK = "pr-link"
    FRAME_LINK = "frame-link"
    CONTINUED_IN = "continued-in"
    BRIDGE_SESSION = "bridge-session"
    MODE = "mode"
    PERMISSION_MODE = "permission-mode"
    QUEUE_OPERATION = "queue-operation"
    FILE_HISTORY_SNAPSHOT = "file-history-snapshot"
    FILE_HISTORY_DELTA = "file-history-delta"
    FILE_HISTORY = "file-history"
    CONTENT_REPLACEMENT = "content-replacement"
    COST_STATE = "cost-state"
    TOOLS_USED = "tools-used"
    API_REQUEST_SHAPE = "api-request-shape"
    API_REQUEST_BLOB = "api-request-blob"
    API_REQUEST = "api-request"
    ATIS_LATCH = "atis-latch"
    FOREIGN_SOURCE = "foreign-source"
    FOREIGN_RECORD = "foreign-record"
    FOREIGN_USAGE = "foreign-usage"
    UNKNOWN = "unknown"
    UNKNOWN_SHAPE = "unknown-shape"


class Body(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """Fields that every kind may have."""

    session_id: str | None = None
    timestamp: str | None = None

    __repr__ = brief_repr


class ChainBody(Body, frozen=True, kw_only=True):
    """An entry that is a link of the conversation."""

    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    agent_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    user_type: str | None = None
    entrypoint: str | None = None
    slug: str | None = None
    forked_from: dict[str, Any] | None = None
    agent_name: str | None = None


class RawMessage(Struct, frozen=True):
    """A message. ``content`` is text or blocks, as in the line."""

    content: str | list[Block]
    role: str | None = None

    @property
    def blocks(self) -> list[Block]:
        """The content as blocks; plain text is one text block."""
        return [TextBlock(self.content)] if isinstance(self.content, str) else self.content

    __repr__ = brief_repr


class ApiMessage(RawMessage, frozen=True):
    """An answer of the API; several lines share one ``id`` and repeat its usage."""

    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    usage: Usage | None = None


class User(ChainBody, frozen=True, kw_only=True, tag="user"):
    """A prompt, a tool result, or text that the client wrote in the user's name."""

    message: RawMessage
    tool_use_result: Raw | UnsetType = UNSET
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    permission_mode: str | None = None


class Assistant(ChainBody, frozen=True, kw_only=True, tag="assistant"):
    """One line of an answer, usually one content block."""

    message: ApiMessage
    request_id: str | None = None
    # Beside the message, as some writers have it; ``message.model`` is the same then.
    model: str | None = None
    is_api_error_message: bool | None = None
    # The client's own estimate. Clients since 1.0.24 do not write it, other writers do.
    cost_usd: float | int | None = field(default=None, name="costUSD")
    duration_ms: float | int | None = None


class System(ChainBody, frozen=True, kw_only=True, tag="system"):
    """A note of the client. Some writers put the text into a ``message``."""

    subtype: str | None = None
    content: Raw | UnsetType = UNSET
    level: str | None = None
    message: RawMessage | None = None
    # The cause of a compaction (``trigger``), and how large the conversation was (``preTokens``).
    compact_metadata: dict[str, Any] | None = None
    duration_ms: float | int | None = None

    @property
    def text(self) -> str:
        """Its text, from either field."""
        blocks = self.message.blocks if self.message else blocks_of(self.content)
        return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


class Attachment(ChainBody, frozen=True, kw_only=True, tag="attachment"):
    """What the client sent to the model besides the prompt."""

    attachment: Raw
    rendered: Raw | UnsetType = UNSET
    rendered_role: str | None = None


class Progress(ChainBody, frozen=True, kw_only=True, tag="progress"):
    """News from a running tool (2.1.30); it is also a link in the chain."""

    data: Raw | UnsetType = UNSET
    tool_use_id: str | None = field(default=None, name="toolUseID")


class ToolCallBody(ChainBody, frozen=True, kw_only=True):
    """A call on a line of its own (``flat`` and ``events`` dialects)."""

    name: str
    call_id: str | None = None
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class ToolResultBody(ChainBody, frozen=True, kw_only=True):
    """A result on a line of its own (``flat`` and ``events`` dialects)."""

    name: str | None = None
    call_id: str | None = None
    content: Raw | UnsetType = UNSET
    error: str | None = None
    duration_ms: float | int | None = None


class Metadata(Body, frozen=True, kw_only=True):
    """A line about the session of a known type (``METADATA``) whose fields nothing here reads; ``Entry.fields()`` has them."""

    type_name: str


class Summary(Body, frozen=True, kw_only=True):
    """A title from early clients, or another writer's condensed conversation."""

    summary: str
    leaf_uuid: str | None = None
    message_count: int | None = None


class CustomTitle(Body, frozen=True, kw_only=True, tag="custom-title"):
    """The user's title; "" clears it."""

    custom_title: str


class AiTitle(Body, frozen=True, kw_only=True, tag="ai-title"):
    """A generated title."""

    ai_title: str


class Tag(Body, frozen=True, kw_only=True, tag="tag"):
    """The user's tag; "" clears it."""

    tag: str


class FileHistorySnapshot(Body, frozen=True, kw_only=True, tag="file-history-snapshot"):
    """Which backups belong to a prompt."""

    snapshot: Raw
    message_id: str | None = None


class FileHistoryDelta(Body, frozen=True, kw_only=True, tag="file-history-delta"):
    """A file first touched during a turn."""

    tracking_path: str
    backup: Raw | UnsetType = UNSET
    message_id: str | None = None
    snapshot_message_id: str | None = None


class FileHistoryNote(Body, frozen=True, kw_only=True, tag="file-history"):
    """Another writer's note that a file was edited, created or deleted."""

    path: str
    operation: str | None = None
    snippet: str | None = None


class UnknownBody(ChainBody, frozen=True, kw_only=True):
    """An unknown type. ``type_name`` is empty where the line names none."""

    type_name: str = ""


class UnknownShapeBody(ChainBody, frozen=True, kw_only=True):
    """A known type whose contents do not match it."""

    type_name: str
    problem: str


class Entry(Struct, frozen=True):
    """The meaning of one line together with its exact bytes.

    ``raw`` has no newline; ``length`` counts it, so ``offset + length`` is where to read on. ``ended`` is False
    where no newline follows: at the end of the log, or before bytes that the client ignores. ``offset`` is
    meaningful only within one log.
    """

    kind: Kind
    body: Body
    raw: bytes
    dialect: Dialect = Dialect.CLAUDE
    offset: int = 0
    notices: tuple[Notice, ...] = ()
    ended: bool = True

    @property
    def length(self) -> int:
        """Bytes the entry takes in its log, its newline included."""
        return len(self.raw) + self.ended

    @property
    def end(self) -> int:
        """Where to read on."""
        return self.offset + len(self.raw) + self.ended

    @property
    def chain(self) -> ChainBody | None:
        """The body if it is, or may be, a link of the conversation."""
        return self.body if isinstance(self.body, ChainBody) else None

    @property
    def uuid(self) -> str | None:
        """Id of the entry; metadata has none."""
        return self.body.uuid if isinstance(self.body, ChainBody) else None

    @property
    def parent_uuid(self) -> str | None:
        """Id of the entry it follows."""
        return self.body.parent_uuid if isinstance(self.body, ChainBody) else None

    @property
    def session_id(self) -> str | None:
        """The session the line names; the file name takes precedence."""
        return self.body.session_id

    @property
    def at(self) -> dt.datetime | None:
        """When it was written, in UTC; None without a readable time."""
        return parsed_time(self.body.timestamp)

    @property
    def message(self) -> RawMessage | None:
        """The message, for the kinds that have one."""
        body = self.body
        return body.message if isinstance(body, User | Assistant | System) else None

    def fields(self) -> Mapping[str, object]:
        """Every field of the line as plain values, including unknown ones."""

        return loose_object(self.raw)

    def __repr__(self) -> str:
        return f"<Entry {self.kind.value} {(self.uuid or '')[:40]!a}, {self.length} bytes at {self.offset}>"


# Kinds that the claude dialect decodes by their tag alone.
TAGGED: tuple[type[Body], ...] = (
    User,
    Assistant,
    System,
    Attachment,
    Progress,
    CustomTitle,
    AiTitle,
    Tag,
    FileHistorySnapshot,
    FileHistoryDelta,
    FileHistoryNote,
)
_KIND_OF: dict[type[Body], Kind] = {
    **{body: Kind(str(body.__struct_config__.tag)) for body in TAGGED},
    Summary: Kind.SUMMARY,
    ToolCallBody: Kind.TOOL_CALL,
    ToolResultBody: Kind.TOOL_RESULT,
    UnknownBody: Kind.UNKNOWN,
    UnknownShapeBody: Kind.UNKNOWN_SHAPE,
}
# Known types that are a ``Metadata``. In the mirror of another agent's home ``foreign-source`` names the file whose records
# follow, ``foreign-usage`` is one model call without its content.
METADATA = frozenset(Kind) - frozenset(_KIND_OF.values())


def kind_of(body: Body) -> Kind:
    return Kind(body.type_name) if isinstance(body, Metadata) else _KIND_OF[type(body)]
