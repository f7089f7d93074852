"""Content blocks: the pieces a message is made of.

Each kind has the fields recollect uses; everything else stays in the line's own bytes. A block of an unknown
type or an unexpected shape becomes an ``UnknownBlock`` with its JSON, so one odd block never hides the others.

Every block has a literal ``type``, so that type checkers can distinguish them too.

Inputs and structured results are left as undecoded JSON (``msgspec.Raw``): most readers never look into them,
and decoding them is what makes parsing slow.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Literal, get_args, get_type_hints

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from recollect.model.lines.damage import brief_repr
from recollect.model.lines.json_text import encoded, given, loose_value


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


class ServerResultBlock(_ContentBlock, frozen=True):
    """The result of a call that the API ran itself; ``type`` says of which tool."""

    type: ClassVar[
        Literal[
            "web_search_tool_result",
            "web_fetch_tool_result",
            "code_execution_tool_result",
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "mcp_tool_result",
        ]
    ]
    tool_use_id: str | None = None
    content: Raw | UnsetType = UNSET


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


_Block = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ServerToolUseBlock
    | McpToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
    | ToolReferenceBlock
)
if TYPE_CHECKING:
    KnownBlock = _Block | ServerResultBlock
else:  # msgspec wants a class for each tag
    of_tag = functools.partial(msgspec.defstruct, fields=[], bases=(ServerResultBlock,), frozen=True)
    tags = get_args(get_args(get_type_hints(ServerResultBlock)["type"])[0])
    results = [of_tag("ServerResultBlock", tag=tag, namespace={"type": tag}) for tag in tags]
    KnownBlock = functools.reduce(operator.or_, results, _Block)
Block = KnownBlock | UnknownBlock


_one = msgspec.json.Decoder(KnownBlock)
_text_or_parts = msgspec.json.Decoder(str | list[Raw] | None)


def decode_block(raw: bytes | Raw) -> Block:
    """Decode one well-formed JSON block; never raises."""
    try:
        known: KnownBlock = _one.decode(raw)
        return known
    except msgspec.ValidationError:
        value = loose_value(raw)
        claimed = value.get("type") if isinstance(value, dict) else None
        return UnknownBlock(claimed if isinstance(claimed, str) else None, bytes(raw))


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


# A line without these bytes in its iterations asked no advisor.
ADVISOR = b"advisor_message"


class CacheCreation(Struct, frozen=True):
    """Cache writes by lifetime; an hour costs more than five minutes."""

    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


def cache_writes(whole: int | None, split: CacheCreation | None) -> tuple[int, int]:
    """Cache writes of five minutes and of an hour. Without a sum the split alone is counted."""
    if split is None:
        return whole or 0, 0
    hour = split.ephemeral_1h_input_tokens or 0
    if not whole:
        return split.ephemeral_5m_input_tokens or 0, hour
    hour = min(hour, whole)
    return whole - hour, hour


class ServerToolUse(Struct, frozen=True):
    """Calls the API made itself; searches are billed one by one."""

    web_search_requests: int | None = None


class OutputDetails(Struct, frozen=True):
    """How the output divides."""

    thinking_tokens: int | None = None


class Usage(Struct, frozen=True):
    """The ``usage`` of one response."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    server_tool_use: ServerToolUse | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    output_tokens_details: OutputDetails | None = None
    iterations: Raw | UnsetType = UNSET

    @property
    def web_searches(self) -> int:
        """Searches the API made for this response."""
        return (self.server_tool_use.web_search_requests or 0) if self.server_tool_use else 0

    def tokens(self) -> Tokens:
        """The counts that are added and priced. A count below zero must not lower a total."""
        five, hour = cache_writes(self.cache_creation_input_tokens, self.cache_creation)
        return Tokens(
            input=max(self.input_tokens or 0, 0),
            output=max(self.output_tokens or 0, 0),
            cache_write_5m=max(five, 0),
            cache_write_1h=max(hour, 0),
            cache_read=max(self.cache_read_input_tokens or 0, 0),
            web_searches=max(self.web_searches, 0),
        )


class _Iteration(Usage, frozen=True):
    type: str | None = None
    model: str | None = None


def advisors(usage: Usage) -> list[tuple[str, Usage]]:
    """What a response asked of advisors, by model; an iteration that names no model is billed to no one."""
    if isinstance(usage.iterations, UnsetType) or ADVISOR not in bytes(usage.iterations):
        return []
    try:
        found = msgspec.json.decode(usage.iterations, type=list[_Iteration])  # rare: not worth a decoder
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [
        (
            one.model,
            Usage(
                input_tokens=one.input_tokens,
                output_tokens=one.output_tokens,
                cache_creation_input_tokens=one.cache_creation_input_tokens,
                cache_read_input_tokens=one.cache_read_input_tokens,
                cache_creation=one.cache_creation,
                # An advisor answers at the usual speed, in the same place.
                inference_geo=usage.inference_geo,
            ),
        )
        for one in found
        if one.type == "advisor_message" and one.model
    ]


# The classes of tokens, and searches, of anything that has them; in the order in which ``Price.cost`` takes them.
counts_of: Callable[[object], tuple[int, int, int, int, int, int]] = operator.attrgetter(
    "input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches"
)


class Tokens(Struct, frozen=True):
    """Counts that can be added. ``input`` excludes everything cached."""

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    web_searches: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(*map(operator.add, self.counts, other.counts))

    @property
    def counts(self) -> tuple[int, int, int, int, int, int]:
        """All of them, in the order in which ``Price.cost`` takes them."""
        return counts_of(self)

    @property
    def total(self) -> int:
        """All tokens of all classes; searches are not tokens."""
        return self.input + self.output + self.cache_write_5m + self.cache_write_1h + self.cache_read


def block_json(block: Block) -> Raw:
    """A block as written in a line: fields without a value are left out."""
    if isinstance(block, UnknownBlock):
        return Raw(block.json)
    return Raw(encoded({"type": block.__struct_config__.tag, **given(block)}))


def block_list(blocks: Iterable[Block]) -> Raw:
    return Raw(b"[" + b",".join(bytes(block_json(block)) for block in blocks) + b"]")
