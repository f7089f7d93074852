"""The smallest MCP server over stdio: a tool that answers with its text, and one that fails."""

from __future__ import annotations

import json
import sys
from typing import Any

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "echo", "description": "Return the text.", "inputSchema": TEXT},
    {"name": "fail", "description": "Always fails.", "inputSchema": {"type": "object", "properties": {}}},
]


def result(method: str, asked: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "echo", "version": "1"}}
        return {"protocolVersion": asked["protocolVersion"], **about}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and asked["name"] == "echo":
        said = {"type": "text", "text": asked["arguments"]["text"]}
        return {"content": [said], "structuredContent": {"echoed": True}}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    return None


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            found = result(message["method"], message.get("params") or {})
            unknown = {"error": {"code": -32601, "message": "no such method"}}
            answer = unknown if found is None else {"result": found}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
