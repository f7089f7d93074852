"""Content blocks: the pieces a message is made of.

Each kind keeps the fields recollect uses; everything else stays in the line's
own bytes. A block whose type is not known, or whose shape is not what its type
promises, becomes an ``UnknownBlock`` with its JSON kept, so that one odd block
never hides the others.

Every block says its ``type``, by which a type checker can tell them apart as well.

Inputs and structured results are left as undecoded JSON (``msgspec.Raw``): most
readers never look into them, and building them is what makes parsing slow.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.brief_repr import brief_repr


class _ContentBlock(Struct, frozen=True, tag_field="type"):
    __repr__ = brief_repr


class TextBlock(_ContentBlock, frozen=True, tag="text"):
    """Prose."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class ThinkingBlock(_ContentBlock, frozen=True, tag="thinking"):
    """Reasoning; the text may be empty where the client was told not to show it."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking: str = ""
    signature: str | None = None


class RedactedThinkingBlock(_ContentBlock, frozen=True, tag="redacted_thinking"):
    """Reasoning that only its author can read."""

    type: ClassVar[Literal["redacted_thinking"]] = "redacted_thinking"
    data: str = ""


class ToolUseBlock(_ContentBlock, frozen=True, tag="tool_use"):
    """A call the model asked for."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    name: str
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class ServerToolUseBlock(_ContentBlock, frozen=True, tag="server_tool_use"):
    """A call the API carried out itself, such as a web search."""

    type: ClassVar[Literal["server_tool_use"]] = "server_tool_use"
    id: str
    name: str
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class McpToolUseBlock(_ContentBlock, frozen=True, tag="mcp_tool_use"):
    """A call to a remote MCP server, carried out by the API."""

    type: ClassVar[Literal["mcp_tool_use"]] = "mcp_tool_use"
    id: str
    name: str
    server_name: str | None = None
    input: Raw = field(default_factory=lambda: Raw(b"{}"))


class ToolResultBlock(_ContentBlock, frozen=True, tag="tool_result"):
    """What a call gave back: text or blocks, left undecoded until asked for."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: Raw | UnsetType = UNSET
    is_error: bool | None = None

    def blocks(self) -> list[Block]:
        """The result as blocks; plain text is one text block."""
        return blocks_of(self.content)

    def text(self) -> str:
        """All text of the result, one block a paragraph."""
        return "\n".join(block.text for block in self.blocks() if isinstance(block, TextBlock))


class _ServerResult(_ContentBlock, frozen=True):
    tool_use_id: str | None = None
    content: Raw | UnsetType = UNSET


class WebSearchResultBlock(_ServerResult, frozen=True, tag="web_search_tool_result"):
    """Hits of a web search."""

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
    """Answer of a remote MCP server."""

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
    """A block of a type, or in a shape, that we do not know. ``json`` is what stood there.

    ``type_name`` is the type it claims to be. ``type`` is always "unknown", so that the others can be told by theirs.

    The tag only lets the class stand in a union beside the others; no line is decoded into it.
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
    """One block of JSON that is known to be well formed; never raises."""
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
    """Text or a list of blocks, as blocks; anything else is one unknown block, nothing is none."""
    if isinstance(content, UnsetType):
        return []
    try:
        parts = _text_or_parts.decode(content)
    except msgspec.ValidationError:
        return [UnknownBlock(None, bytes(content))]
    if parts is None:
        return []
    return [TextBlock(parts)] if isinstance(parts, str) else [decode_block(part) for part in parts]
