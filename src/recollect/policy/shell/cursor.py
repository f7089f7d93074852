"""A position in a shell text, with the state all readers share and the basic steps.

A reader only moves forward over one immutable text. Inside backquotes and heredoc bodies ``end`` is
moved in, so nothing is read twice or copied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEEPEST = 30
"""Nesting levels that are read. Each costs about eight Python frames; deeper texts are refused."""


class Unclear(Exception):
    """The text's structure is not understood; the message is the reason."""


@dataclass(slots=True)
class Heredoc:
    """A heredoc whose body begins after the next newline."""

    delimiter: str
    literal: bool
    strip_tabs: bool


_BLANKS = re.compile(r"[ \t]+")
_COMMENT = re.compile(r"#[^\n]*")
_RESERVED = re.compile(
    r"(if|then|elif|else|fi|while|until|for|do|done|case|esac|select|function|coproc|in|\{|\}|!|\[\[)"
    r"(?=[ \t\n;&|()<>]|\Z)"
)
ENDS_WORD = re.compile(r"[ \t\n;&|()<>]|\Z")


class Cursor:
    """Reads one text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.end = len(text)
        self.depth = 0
        self.nested = False
        self.piped = False
        self.doubts: list[str] = []
        self.wary: dict[str, None] = {}
        """What the client asks about although its meaning is clear."""
        self.heredocs: list[Heredoc] = []
        self.assigned_names: list[str] = []
        """Variables that loops assign; commands carry their own."""
        self.values: dict[str, list[str]] = {"HOME": ["~"]}
        """Possible values of each variable, from the assignments of known values read so far."""

    def doubt(self, reason: str) -> None:
        """Record that the structure is clear but the meaning is not."""
        if reason not in self.doubts:
            self.doubts.append(reason)

    def beware(self, construct: str) -> None:
        """Record a construct that only a rule for the whole tool covers."""
        self.wary[construct] = None

    def _skip(self) -> None:
        """Skip blanks, continued lines and a comment, but no newline."""
        while self.at < self.end:
            blanks = _BLANKS.match(self.text, self.at, self.end)
            if blanks:
                self.at = blanks.end()
            elif self.text.startswith("\\\n", self.at) and self._blank_before():
                self.at += 2
            elif self.text[self.at] == "#" and self._begins_word():
                comment = _COMMENT.match(self.text, self.at, self.end)
                self.at = comment.end() if comment else self.at
            else:
                return

    def _blank_before(self) -> bool:
        # bash removes backslash-newline before it looks at anything, so `&\<newline>&` is one operator.
        return self.at == 0 or self.text[self.at - 1] in " \t\n"

    def _begins_word(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in " \t\n;&|()"

    def _reserved(self) -> str | None:
        found = _RESERVED.match(self.text, self.at, self.end)
        return found.group(1) if found else None

    def _keyword(self, word: str) -> None:
        if self._reserved() != word:
            raise Unclear(f"{word} missing")
        self.at += len(word)

    def _expect(self, letter: str) -> None:
        if self.at >= self.end or self.text[self.at] != letter:
            raise Unclear(f"{letter} missing")
        self.at += 1

    def _ends_word(self) -> None:
        if not ENDS_WORD.match(self.text, self.at, self.end):
            raise Unclear("unexpected character after a name")
