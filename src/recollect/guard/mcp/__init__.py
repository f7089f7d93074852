"""The MCP host: tools of external servers, started only when trusted, called only when allowed.

    async with recollect.guard.mcp.Host(project) as host:
        for tool in (await host.tools()).tools: ...
        result = await host.call("mcp__github__get_issue", {"number": 7})

The official SDK implements the protocol; it is imported when the first server starts. This package decides which
servers may start, in which sandbox, within which limits, how tools are named, and whether each call is allowed.
"""

from __future__ import annotations

from recollect.guard.mcp.host import Host
from recollect.guard.mcp.limits import CallResult, McpLimits, ServerProblem, Tool, ToolListing

__all__ = ["CallResult", "Host", "McpLimits", "ServerProblem", "Tool", "ToolListing"]
