"""The title of a session: the one rule for every surface.

It is what the client's own list would show. Texts are as they stand in the log, only shortened: whatever
shows them makes them safe. Imports nothing: a list of sessions loads no more than it needs.
"""

from __future__ import annotations


def title_of(
    custom_title: str | None, ai_title: str | None, last_prompt: str | None, first_prompt: str | None
) -> str:
    """The custom title, else the generated one, else the last prompt, else the first; "" where there is none."""
    return custom_title or ai_title or last_prompt or first_prompt or ""
