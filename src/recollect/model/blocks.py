"""Content blocks: the pieces a message is made of.

Each kind has the fields recollect uses; everything else stays in the line's own bytes. A block of an unknown
type or an unexpected shape becomes an ``UnknownBlock`` with its JSON, so one odd block never hides the others.

Every block has a literal ``type``, so that type checkers can distinguish them too.

Inputs and structured results are left as undecoded JSON (``msgspec.Raw``): most readers never look into them,
and decoding them is what makes parsing slow.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.brief_repr import brief_repr


class _ContentBlock(Struct, frozen=True, tag_field="type"):
    __repr__ = brief_repr


class TextBlock(_ContentBlock, frozen=True, tag="text"):
    """Plain text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class ThinkingBlock(_ContentBlock, frozen=True, tag="thinking"):
    """Reasoning; the text is empty where the client was configured not to show it."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str = ""
    signature: str | None = None


class RedactedThinkingBlock(_ContentBlock, frozen=True, tag="redacted_thinking"):
    """Encrypted reasoning that only the API can read."""

    type: ClassVar[Literal["redacted_thinking"]] = "redacted_thinking"
    data: str = ""


class ToolUseBlock(_ContentBlock, frozen=True, tag="tool_use"):
    """A tool call requested by the model."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    name: str
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class ServerToolUseBlock(_ContentBlock, frozen=True, tag="server_tool_use"):
    """A tool call that the API ran itself, such as a web search."""

    type: ClassVar[Literal["server_tool_use"]] = "server_tool_use"
    id: str
    name: str
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class McpToolUseBlock(_ContentBlock, frozen=True, tag="mcp_tool_use"):
    """A call to a remote MCP server, made by the API."""

    type: ClassVar[Literal["mcp_tool_use"]] = "mcp_tool_use"
    id: str
    name: str
    server_name: str | None = None
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class ToolResultBlock(_ContentBlock, frozen=True, tag="tool_result"):
    """The result of a tool call: text or blocks, decoded on demand."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: Raw | UnsetType = UNSET
    is_error: bool | None = None

    def blocks(self) -> list[Block]:
        """The result as blocks; plain text is one text block."""
        return blocks_of(self.content)

    def text(self) -> str:
        """All text of the result, one block per paragraph."""
        return "\n".join(block.text for block in self.blocks() if isinstance(block, TextBlock))


class _ServerResult(_ContentBlock, frozen=True):
    tool_use_id: str | None = None
    content: Raw | UnsetType = UNSET


class WebSearchResultBlock(_ServerResult, frozen=True, tag="web_search_tool_result"):
    """Results of a web search."""

    type: ClassVar[Literal["web_search_tool_result"]] = "web_search_tool_result"


class WebFetchResultBlock(_ServerResult, frozen=True, tag="web_fetch_tool_result"):
    """A fetched page."""

    type: ClassVar[Literal["web_fetch_tool_result"]] = "web_fetch_tool_result"


class CodeExecutionResultBlock(_ServerResult, frozen=True, tag="code_execution_tool_result"):
    """Output of code the API ran."""

    type: ClassVar[Literal["code_execution_tool_result"]] = "code_execution_tool_result"


class BashExecutionResultBlock(_ServerResult, frozen=True, tag="bash_code_execution_tool_result"):
    """Output of a shell command the API ran."""

    type: ClassVar[Literal["bash_code_execution_tool_result"]] = "bash_code_execution_tool_result"


class TextEditorResultBlock(_ServerResult, frozen=True, tag="text_editor_code_execution_tool_result"):
    """Outcome of an edit the API made."""

    type: ClassVar[Literal["text_editor_code_execution_tool_result"]] = (
        "text_editor_code_execution_tool_result"
    )


class McpToolResultBlock(_ServerResult, frozen=True, tag="mcp_tool_result"):
    """Result from a remote MCP server."""

    type: ClassVar[Literal["mcp_tool_result"]] = "mcp_tool_result"


class ImageBlock(_ContentBlock, frozen=True, tag="image"):
    """A picture; the source is left undecoded, as it is mostly base64."""

    type: ClassVar[Literal["image"]] = "image"
    source: Raw = field(default_factory=lambda: Raw(b"{}"))


class DocumentBlock(_ContentBlock, frozen=True, tag="document"):
    """A PDF or text document."""

    type: ClassVar[Literal["document"]] = "document"
    source: Raw = field(default_factory=lambda: Raw(b"{}"))
    title: str | None = None


class ToolReferenceBlock(_ContentBlock, frozen=True, tag="tool_reference"):
    """A tool named inside a tool result."""

    type: ClassVar[Literal["tool_reference"]] = "tool_reference"
    tool_name: str | None = None


class UnknownBlock(_ContentBlock, frozen=True, tag="\0recollect-unknown-block"):
    """A block of an unknown type or shape. ``json`` is its original JSON.

    ``type_name`` is the type it claims. ``type`` is always "unknown", so that type checkers can distinguish it.

    The tag exists only so that the class fits into the union; no line is decoded into it.
    """

    type: ClassVar[Literal["unknown"]] = "unknown"
    type_name: str | None
    json: bytes


KnownBlock = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ServerToolUseBlock
    | McpToolUseBlock
    | ToolResultBlock
    | WebSearchResultBlock
    | WebFetchResultBlock
    | CodeExecutionResultBlock
    | BashExecutionResultBlock
    | TextEditorResultBlock
    | McpToolResultBlock
    | ImageBlock
    | DocumentBlock
    | ToolReferenceBlock
)
Block = KnownBlock | UnknownBlock


class _BlockType(Struct):
    type: str


_one = msgspec.json.Decoder(KnownBlock)
_type = msgspec.json.Decoder(_BlockType)
_text_or_parts = msgspec.json.Decoder(str | list[Raw] | None)


def decode_block(raw: bytes | Raw) -> Block:
    """Decode one well-formed JSON block; never raises."""
    try:
        known: KnownBlock = _one.decode(raw)
        return known
    except msgspec.ValidationError:
        pass
    try:
        claimed: str | None = _type.decode(raw).type
    except msgspec.ValidationError:
        claimed = None
    return UnknownBlock(claimed, bytes(raw))


def blocks_of(content: Raw | UnsetType) -> list[Block]:
    """Text or a list of blocks, as blocks.

    Anything else becomes one unknown block; unset gives an empty list.
    """
    if isinstance(content, UnsetType):
        return []
    try:
        parts = _text_or_parts.decode(content)
    except msgspec.ValidationError:
        return [UnknownBlock(None, bytes(content))]
    if parts is None:
        return []
    return [TextBlock(parts)] if isinstance(parts, str) else [decode_block(part) for part in parts]
