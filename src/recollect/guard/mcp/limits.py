"""What is accepted from a server: time, bytes, messages, addresses, names of tools, their descriptions and results.

A line is refused as soon as it is too long, and a message is counted before it is parsed, since parsing multiplies its
size. A host name is resolved once per connection, every address is checked, and the connection goes to a checked
address, so DNS rebinding gains nothing.

A tool is called ``mcp__server__tool``. A name with the separator, with characters other than letters, digits and
``_ - . /``, or that occurs twice is refused, with all its copies. A fingerprint covers everything a model is shown of a
tool. If it differs from the accepted one, the tool is neither listed nor called until the user accepts it again.
"""

from __future__ import annotations

import collections
import hashlib
import ipaddress
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from msgspec import UNSET, Struct, UnsetType

from recollect.errors import RecollectError
from recollect.guard.mcp.servers import SEPARATOR
from recollect.guard.policy.hosts import is_private_address
from recollect.model.text.snippet import plain

if TYPE_CHECKING:
    import mcp_types
    from mcp import ClientSession

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class McpLimits:
    """Exceeding a limit ends that server's connection; other servers continue.

    A line over stdio and an answer over HTTP have the same bound. ``values`` counts list items and
    object members: a short line can hold a million empty lists, and each costs memory.
    """

    start_seconds: float = 30.0
    list_seconds: float = 30.0
    call_seconds: float = 120.0
    stop_seconds: float = 1.0
    message_bytes: int = 3 * MIB
    depth: int = 64
    values: int = 50_000
    messages_per_second: float = 200.0
    message_burst: int = 500
    tools: int = 1_000
    pages: int = 50
    description_chars: int = 4_000
    schema_bytes: int = 64 * 1024
    result_chars: int = 1_000_000
    argument_bytes: int = MIB
    stderr_bytes: int = 64 * 1024
    memory_bytes: int = 4 << 30
    restarts: int = 5
    backoff_seconds: float = 0.5
    backoff_most_seconds: float = 30.0

    def backoff(self, failures: int) -> float:
        """Seconds to wait after this many consecutive failures: doubled each time, with an upper bound."""
        doubled = self.backoff_seconds * 2.0 ** min(failures - 1, 30)
        return min(doubled, self.backoff_most_seconds) if failures > 0 else 0.0


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_OPENING_OR_CLOSING = re.compile(rb"[\[\]{}]")


class BrokenFrame(Exception):
    """The server broke a limit, and its connection ends. The message is ours, not the server's."""


class LineSplitter:
    """Splits a stream of bytes at newlines."""

    def __init__(self, limits: McpLimits) -> None:
        self._most = limits.message_bytes
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, without their newline."""
        *complete, rest = data.split(b"\n")
        lines: list[bytes] = []
        for piece in complete:
            self._add(piece)
            lines.append(bytes(self._begun).rstrip(b"\r"))
            self._begun.clear()
        self._add(rest)
        return lines

    def _add(self, piece: bytes) -> None:
        if len(self._begun) + len(piece) > self._most:
            self._begun.clear()
            raise BrokenFrame(f"a message of more than {self._most:,} bytes")
        self._begun += piece


def require_small(message: bytes, limits: McpLimits) -> None:
    """Refuse a message with too much nesting or too many values, before it is parsed."""
    if len(message) > limits.message_bytes:
        raise BrokenFrame(f"a message of more than {limits.message_bytes:,} bytes")
    opened = message.count(b"[") + message.count(b"{")
    # Counting inside strings too is fast and never too low; only a suspicious message is checked closely.
    if opened <= limits.depth and opened + message.count(b",") <= limits.values:
        return
    bare = _STRING.sub(b"", message)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > limits.values:
        raise BrokenFrame(f"a message of more than {limits.values:,} values")
    depth = 0
    for bracket in _OPENING_OR_CLOSING.finditer(bare):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > limits.depth:
            raise BrokenFrame(f"a message nested deeper than {limits.depth}")


def require_few_tools(result: object, limits: McpLimits) -> None:
    """Refuse a list with too many tools before they become SDK objects."""
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list) and len(tools) > limits.tools:
        raise BrokenFrame(f"more than {limits.tools:,} tools")


class MessageRateLimit:
    """Limits messages to a burst and a steady rate per second."""

    def __init__(self, limits: McpLimits) -> None:
        self._per_second = limits.messages_per_second
        self._burst = float(limits.message_burst)
        self._left = self._burst
        self._last: float | None = None

    def count(self, now: float) -> None:
        if self._last is not None:
            self._left = min(self._burst, self._left + (now - self._last) * self._per_second)
        self._last = now
        self._left -= 1
        if self._left < 0:
            raise BrokenFrame(f"more than {self._per_second:g} messages a second")


class Connection:
    """One connection to a server: several callers may await its start, and whoever sees why it ends says so."""

    def __init__(self) -> None:
        self.requested = anyio.Event()
        self.started = anyio.Event()
        """Set when there is a ``session``, or none will come."""
        self.session: ClientSession | None = None
        self.problem: RecollectError | None = None
        self.why = ""
        self.ended = anyio.Event()
        self.settled = anyio.Event()
        """Set when the connection is closed and ``why`` is complete."""

    def note(self, why: str) -> None:
        """Mark the connection as ended. The first reason stays: later ones are its consequences."""
        self.why = self.why or why
        self.ended.set()


class AddressRefused(Exception):
    """The address may not be used; the message is ours, not the server's."""


UrlOrigin = tuple[str, str, int]
"""Scheme, host and port; requests stay within it."""


async def usable_address(origin: UrlOrigin, *, private_allowed: bool) -> str:
    """An address of the host that may be used; plain http is never used for a public address."""
    scheme, host, port = origin
    try:
        addresses = [str(ipaddress.ip_address(host))]
    except ValueError:
        try:
            found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as cause:
            raise AddressRefused("its host name cannot be resolved") from cause
        addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        private = is_private_address(address)
        if private and not private_allowed:
            raise AddressRefused("it is at a private address, which was not allowed for this server")
        if not private and scheme != "https":
            raise AddressRefused("plain http to a public address; use https")
    return addresses[0]


_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
PREFIX = "mcp__"


class Tool(Struct, frozen=True, rename={"schema": "input_schema"}):
    """A callable tool: our name for it, and its description as plain data."""

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, object]
    fingerprint: str


class RefusedTool(Struct, frozen=True):
    """A tool that is not used, and why. ``name`` is the server's, with escapes."""

    server: str
    name: str
    why: str
    changed: bool = False


class ServerProblem(Struct, frozen=True):
    """A server whose tools are not in the listing, and why."""

    server: str
    why: str
    hint: str


class ToolListing(Struct, frozen=True):
    """The usable tools, the refused ones, and the servers that returned none."""

    tools: tuple[Tool, ...]
    refused: tuple[RefusedTool, ...]
    problems: tuple[ServerProblem, ...] = ()
    applied: bool | UnsetType = UNSET
    """With ``mcp trust --tools --json``: whether they were accepted."""


def full_name(server: str, tool: str) -> str:
    return f"{PREFIX}{server}{SEPARATOR}{tool}"


def split_name(name: str) -> tuple[str, str] | None:
    """Server and tool of ``mcp__server__tool``; None for any other name."""
    server, separator, tool = name.removeprefix(PREFIX).partition(SEPARATOR)
    if not name.startswith(PREFIX) or not separator or not server or not tool:
        return None
    return server, tool


def check_tools(server: str, described: Sequence[mcp_types.Tool], limits: McpLimits) -> ToolListing:
    """The tools with usable names, and the refused ones."""
    times = collections.Counter(one.name for one in described)
    tools: list[Tool] = []
    refused: dict[tuple[str, str], RefusedTool] = {}
    for one in described:
        why = _fault(one, times[one.name], limits)
        if why is None:
            tools.append(_tool(server, one, limits))
        else:
            shown = plain(one.name[:80], 80).replace("\n", " ").replace("\t", " ")
            refused[shown, why] = RefusedTool(server, shown, why)
    return ToolListing(tuple(tools), tuple(refused.values()))


def refuse_changed(listing: ToolListing, pins: Mapping[str, str]) -> ToolListing:
    """The same, where tools that changed since they were accepted are refused."""
    unchanged: list[Tool] = []
    changed: list[RefusedTool] = []
    for tool in listing.tools:
        if pins.get(tool.tool) == tool.fingerprint:
            unchanged.append(tool)
        else:
            what = "its description changed" if tool.tool in pins else "it is new"
            changed.append(
                RefusedTool(tool.server, tool.tool, f"{what} since its server was accepted", changed=True)
            )
    return ToolListing(tuple(unchanged), (*listing.refused, *changed))


def _fault(one: mcp_types.Tool, times: int, limits: McpLimits) -> str | None:
    if SEPARATOR in one.name:
        return "its name contains '__', which separates server and tool"
    if not _NAME.fullmatch(one.name):
        return "its name is not 1 to 128 letters, digits and '_-./'"
    if times > 1:
        return f"the server has {times} tools of this name"
    if len(_canonical(one.input_schema)) > limits.schema_bytes:
        return f"its schema is larger than {limits.schema_bytes:,} bytes"
    return None


def _tool(server: str, one: mcp_types.Tool, limits: McpLimits) -> Tool:
    description = plain(one.description or one.title or "", limits.description_chars)
    hints = one.annotations.model_dump(mode="json", exclude_none=True) if one.annotations else {}
    shown = [one.name, one.title or "", one.description or "", one.input_schema, hints]
    fingerprint = hashlib.sha256(_canonical(shown)).hexdigest()
    return Tool(full_name(server, one.name), server, one.name, description, one.input_schema, fingerprint)


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode()


_BASE64 = re.compile(r"[A-Za-z0-9+/_=-]*+")


class CallResult(Struct, frozen=True):
    """``content`` has the shape of Messages API blocks where possible: text, image, else as received."""

    name: str
    content: tuple[dict[str, object], ...]
    is_error: bool
    structured: object = None

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(str(block["text"]) for block in self.content if block.get("type") == "text")


def call_result(
    name: str, blocks: Sequence[dict[str, object]], structured: object, is_error: bool, limits: McpLimits
) -> CallResult:
    """A server's answer, bounded: all texts together have at most ``limits.result_chars`` characters."""
    left = limits.result_chars
    content: list[dict[str, object]] = []
    for block in blocks:
        text = block.get("text") if block.get("type") == "text" else None
        if isinstance(text, str):
            bounded = _bounded({**block, "text": ""}, limits.result_chars) | {"text": plain(text, left)}
            left = max(left - len(text), 0)
        else:
            bounded = _bounded(block, limits.result_chars)
        content.append(bounded)
    return CallResult(name, tuple(content), is_error, _plain_value(structured, limits.result_chars))


def _bounded(block: dict[str, object], most: int) -> dict[str, object]:
    # Cutting base64 would break the image, and its message was bounded as a whole.
    return {
        key: value
        if key in ("data", "blob") and (isinstance(value, str) and _BASE64.fullmatch(value) is not None)
        else _plain_value(value, most)
        for key, value in block.items()
    }


def _plain_value(value: object, most: int) -> object:
    """Escape all texts inside. Depth was bounded when the message was read."""
    if isinstance(value, str):
        return plain(value, most)
    if isinstance(value, dict):
        return {plain(str(key), 200): _plain_value(one, most) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(one, most) for one in value]
    return value
