"""Who said the words of a message: what people read counts more than what was thought or handed to a tool."""

from __future__ import annotations

# Prompts and answers weigh the same; copies of one line in several logs may even be either.
SAID, TITLE, THINKING, TOOL_INPUT, TOOL_OUTPUT = range(5)

WEIGHTS = (1.0, 1.0, 0.7, 0.6, 0.5)
TEXT_KIND = ("prose", "title", "thinking", "tool_input", "tool_result")
"""The kind of text that a role is quoted from; see ``line_views.facts.TEXT_KINDS``."""
