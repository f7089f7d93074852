"""What a tool call may do: permission rules, sandbox, MCP host, headless agent.

Never laxer than the client: what cannot be analysed is not allowed, and a deny rule is always met. Core knows nothing
of this house. Open ``policy`` for a decision, ``permissions`` for rules of this machine, ``sandbox`` for a run.
"""
