"""An MCP server over standard input and output, for agents that ask the past: two tools that only read.

``protocol`` speaks newline-delimited JSON-RPC. The official SDK is not used for that: importing it takes a second, and a
client waits for its servers. The tests talk to this server with the SDK. ``tools`` answers, and keeps
what is quoted apart from what we say.
"""
