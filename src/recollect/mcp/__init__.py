"""The MCP host: tools of foreign servers, started only when trusted, called only when allowed.

    async with recollect.mcp.Host(project) as host:
        for tool in (await host.tools()).tools: ...
        result = await host.call("mcp__github__get_issue", {"number": 7})

The official SDK speaks the protocol; it takes most of a second to import, so it is imported when the first
server is started and not before. What is ours is everything around it: who may be started, in which sandbox,
how long and how much a server may talk, what its tools may be called, and the decision before every call.
"""

from __future__ import annotations

from recollect.mcp.host import Host, ServerProblem, ToolListing
from recollect.mcp.limits import McpLimits
from recollect.mcp.result import CallResult
from recollect.mcp.tools import Tool

__all__ = ["CallResult", "Host", "McpLimits", "ServerProblem", "Tool", "ToolListing"]
