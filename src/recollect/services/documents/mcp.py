"""MCP servers, their tools, and what a call of one returned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType


class McpServerDocument(Struct, frozen=True, kw_only=True):
    """A configured server: names of variables and headers, never their values; what it is granted."""

    name: str
    state: str
    why: str
    scope: str
    transport: str
    target: str
    env: list[str]
    headers: list[str]
    variables: list[str]
    hash: str
    file: str
    allow_hosts: Sequence[str]
    write: Sequence[str]
    unconfined: bool
    private_address: bool


class McpProblemDocument(Struct, frozen=True):
    """A server that is not used, and why."""

    file: str
    name: str
    why: str


class McpServersDocument(Struct, frozen=True):
    """What ``mcp list --json`` prints."""

    project: str
    servers: list[McpServerDocument]
    problems: list[McpProblemDocument]


class McpTrustDocument(Struct, frozen=True):
    """A server that is trusted, with what it is granted."""

    server: McpServerDocument
    applied: bool


class McpRevocationDocument(Struct, frozen=True):
    """A server that is no longer trusted."""

    server: McpServerDocument
    was_trusted: bool
    applied: bool


class McpToolDocument(Struct, frozen=True, kw_only=True):
    """A tool as an agent sees it."""

    name: str
    server: str
    tool: str
    description: str
    input_schema: Any


class McpToolsDocument(Struct, frozen=True, kw_only=True):
    """What ``mcp tools --json`` prints; ``applied`` comes with ``mcp trust --tools``."""

    tools: list[McpToolDocument]
    refused: list[dict[str, Any]]
    problems: list[dict[str, Any]]
    applied: bool | UnsetType = UNSET


class McpCallDocument(Struct, frozen=True):
    """What a tool returned."""

    name: str
    is_error: bool
    content: Any
    structured: Any
