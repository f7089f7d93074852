"""The specifier of ``Bash(...)``: an exact command, a prefix, or a text with wildcards (R6).

A ``*`` matches any text, spaces included. A trailing `` *`` or ``:*`` means "nothing more, or a space
and anything", so ``ls *`` does not match ``lsof``. A backslash makes a star literal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_PIECES = re.compile(r"\\([\\*])|(\*+)|([^\\*]+|\\)", re.DOTALL)


@dataclass(frozen=True)
class CommandPattern:
    """One pattern, compiled at first use."""

    text: str

    @cached_property
    def exact(self) -> str | None:
        """The one command it matches, or None when it has a wildcard."""
        body, tail = self._split
        return None if tail or any(is_star for is_star, _ in body) else "".join(text for _, text in body)

    @cached_property
    def literal_start(self) -> str:
        """The text before the first wildcard."""
        start = ""
        for is_star, text in self._split[0]:
            if is_star:
                return start
            start += text
        return start + " " if self._split[1] else start

    @cached_property
    def first_word(self) -> str | None:
        """The program it names, or None when a wildcard covers the name."""
        words = self.literal_start.split()
        ends = self.exact is not None or len(words) > 1 or self.literal_start[-1:].isspace()
        return words[0] if words and ends else None

    @cached_property
    def covers_program_only(self) -> bool:
        """True for ``rm``, ``rm *`` and ``rm*``: the pattern covers the bare program or any use of it."""
        return bool(self.literal_start.strip()) and " " not in self._core.strip()

    def matches(self, command: str) -> bool:
        """Whether the pattern covers the whole of one simple command."""
        return self._whole.fullmatch(command) is not None

    def names_program(self, word: str) -> bool:
        """Whether the pattern covers a command whose name is this word."""
        return self._program.fullmatch(word) is not None

    def occurs_in(self, text: str) -> bool:
        """Whether a matching command could begin at some word of the text."""
        return self._anywhere.search(text) is not None

    @cached_property
    def _split(self) -> tuple[list[tuple[bool, str]], bool]:
        """Pieces (star or literal), and whether the pattern ends with "a space and anything"."""
        text, tail = self.text.strip(), False
        for ending in (":*", " *"):
            if text.endswith(ending) and len(text) > len(ending):
                text, tail = text[: -len(ending)].rstrip(), True
                break
        pieces = [
            (bool(star), "" if star else (escaped or literal))
            for escaped, star, literal in _PIECES.findall(text)
        ]
        return pieces, tail

    @cached_property
    def _core(self) -> str:
        return "".join("*" if is_star else text for is_star, text in self._split[0])

    @cached_property
    def _body(self) -> str:
        return "".join(".*" if is_star else re.escape(text) for is_star, text in self._split[0])

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self._body + (r"(?:\s.*)?" if self._split[1] else ""), re.DOTALL)

    @cached_property
    def _program(self) -> re.Pattern[str]:
        return re.compile(self._body, re.DOTALL)

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(r"(?:^|[\s/])" + self._body + r"(?=\s|$)", re.DOTALL)
