"""Checks a server's list of tools: usable names, and descriptions that have not changed.

A name becomes ``mcp__server__tool``. One with the separator, with characters other than letters, digits
and ``_ - . /``, or that occurs twice is refused, with all its copies. A tool's fingerprint covers
everything a model is shown. If it differs from the accepted one, the tool is neither listed nor called
until the user accepts it again (the "rug pull").
"""

from __future__ import annotations

import collections
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from recollect.mcp.limits import McpLimits
from recollect.mcp.plain import plain
from recollect.model.settings.mcp_config import SEPARATOR

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
PREFIX = "mcp__"


class ToolDescription(NamedTuple):
    """A tool as the server describes it; untrusted in every part."""

    name: str
    title: str
    description: str
    schema: Mapping[str, object]
    hints: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Tool:
    """A callable tool: our name for it, and its description as plain data."""

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, object]
    fingerprint: str


class RefusedTool(NamedTuple):
    """A tool that is not used, and why. ``name`` is the server's, with escapes."""

    server: str
    name: str
    why: str
    changed: bool = False


def full_name(server: str, tool: str) -> str:
    """The name used in rules and by models."""
    return f"{PREFIX}{server}{SEPARATOR}{tool}"


def split_name(name: str) -> tuple[str, str] | None:
    """Server and tool of ``mcp__server__tool``; None for any other name."""
    server, separator, tool = name.removeprefix(PREFIX).partition(SEPARATOR)
    if not name.startswith(PREFIX) or not separator or not server or not tool:
        return None
    return server, tool


def judged(
    server: str, described: Sequence[ToolDescription], limits: McpLimits
) -> tuple[tuple[Tool, ...], tuple[RefusedTool, ...]]:
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
    return tuple(tools), tuple(refused.values())


def unpinned(
    tools: Sequence[Tool], pins: Mapping[str, str]
) -> tuple[tuple[Tool, ...], tuple[RefusedTool, ...]]:
    """The tools that are unchanged since they were accepted, and the others."""
    unchanged: list[Tool] = []
    changed: list[RefusedTool] = []
    for tool in tools:
        if pins.get(tool.tool) == tool.fingerprint:
            unchanged.append(tool)
        else:
            what = "its description changed" if tool.tool in pins else "it is new"
            changed.append(
                RefusedTool(tool.server, tool.tool, f"{what} since its server was accepted", changed=True)
            )
    return tuple(unchanged), tuple(changed)


def _fault(one: ToolDescription, times: int, limits: McpLimits) -> str | None:
    if SEPARATOR in one.name:
        return "its name contains '__', which separates server and tool"
    if not _NAME.fullmatch(one.name):
        return "its name is not 1 to 128 letters, digits and '_-./'"
    if times > 1:
        return f"the server has {times} tools of this name"
    if len(_canonical(one.schema)) > limits.schema_bytes:
        return f"its schema is larger than {limits.schema_bytes:,} bytes"
    return None


def _tool(server: str, one: ToolDescription, limits: McpLimits) -> Tool:
    description = plain(one.description or one.title, limits.description_chars)
    return Tool(full_name(server, one.name), server, one.name, description, one.schema, _fingerprint(one))


def _fingerprint(one: ToolDescription) -> str:
    shown = [one.name, one.title, one.description, one.schema, one.hints]
    return hashlib.sha256(_canonical(shown)).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=str).encode()
