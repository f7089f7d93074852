"""Sessions for others: exports, the sync client, and the MCP server that answers agents.

Nothing leaves this machine unless asked, and secrets are removed on the way out. Open ``export`` for files,
``sync`` for a team server, ``mcp`` for agents that ask the past, ``convert`` for another client.
"""
