"""Homes of other agents, mirrored read-only into logs of our own. See docs/design/agents.md."""
