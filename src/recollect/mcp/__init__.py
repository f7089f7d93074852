"""The MCP host: tools of external servers, started only when trusted, called only when allowed.

    async with recollect.mcp.Host(project) as host:
        for tool in (await host.tools()).tools: ...
        result = await host.call("mcp__github__get_issue", {"number": 7})

The official SDK implements the protocol. It takes most of a second to import, so it is imported when
the first server starts. This package decides which servers may start, in which sandbox, within which
limits, how tools are named, and whether each call is allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.mcp.host import Host, ServerProblem, ToolListing
    from recollect.mcp.limits import McpLimits
    from recollect.mcp.result import CallResult
    from recollect.mcp.tools import Tool

__all__ = ["CallResult", "Host", "McpLimits", "ServerProblem", "Tool", "ToolListing"]

_HOMES = {"CallResult": "result", "McpLimits": "limits", "Tool": "tools"}


def __getattr__(name: str) -> object:
    """Import the host when it is used: the server beside it starts without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"recollect.mcp.{_HOMES.get(name, 'host')}"), name)
