"""Who said the words of a message: what people read counts more than what was thought or handed to a tool."""

from __future__ import annotations

PROMPT, ANSWER, TITLE, THINKING, TOOL_INPUT, TOOL_OUTPUT = range(6)

WEIGHTS = (1.0, 1.0, 1.0, 0.7, 0.6, 0.5)
TEXT_KIND = ("prose", "prose", "title", "thinking", "tool_input", "tool_result")
"""The kind of text that a role is quoted from; see ``line_views.facts.TEXT_KINDS``."""
