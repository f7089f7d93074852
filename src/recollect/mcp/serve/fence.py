"""What is quoted stands between two lines with a mark that it cannot contain.

Transcripts are written by anyone: they may hold instructions, fences, or this very form. The mark is random for every
answer, and drawn again if the quoted text has it, so no text can close its own fence.
"""

from __future__ import annotations

import os

from recollect.mcp.plain import plain


class Fence:
    """The fences of one answer, of which nothing is known before all text is."""

    def __init__(self, quoted: list[str]) -> None:
        self.mark = os.urandom(8).hex()
        while any(self.mark in text for text in quoted):
            self.mark = os.urandom(8).hex()

    def around(self, text: str) -> str:
        """A text between its two lines."""
        return f"<<< quoted {self.mark}\n{text}\n{self.mark} end >>>"


def shown(text: str, most: int) -> str:
    """The beginning of a text, every character of it visible; what was cut is marked."""
    whole = plain(text, len(text))
    return whole if len(whole) <= most else whole[: most - 1].rstrip() + "…"


def in_one_line(text: str, most: int) -> str:
    return shown(" ".join(text.split()), most)


def fitted(text: str, most: int) -> str:
    """The beginning of a text that takes no more than ``most`` bytes."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= most else data[: max(0, most - 3)].decode("utf-8", "ignore") + "…"
