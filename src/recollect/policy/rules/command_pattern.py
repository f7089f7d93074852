"""The specifier of ``Bash(...)``: an exact command, a prefix, or a text with wildcards (R6).

A ``*`` matches any text, spaces included. A trailing `` *`` or ``:*`` means "nothing more, or a space
and anything", so ``ls *`` does not match ``lsof``. A backslash makes a star literal.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

_STAR = "\0"
_CLUSTER = re.compile(r"-[A-Za-z]{1,6}")
_LONG_FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    "rm": {"r": ("R", "--recursive"), "R": ("r", "--recursive"), "f": ("--force",)},
    "cp": {"r": ("R", "--recursive"), "R": ("r", "--recursive"), "f": ("--force",)},
    "chmod": {"R": ("--recursive",)},
    "chown": {"R": ("--recursive",)},
    "git": {"f": ("--force",), "n": ("--no-verify",), "d": ("--delete",)},
}
"""Other spellings of short options that deny rules name most."""
_NO_VALUE = frozenset(
    [
        "--no-pager",
        "--paginate",
        "--bare",
        "--no-replace-objects",
        "--literal-pathspecs",
        "--no-optional-locks",
        "--verbose",
        "--quiet",
        "--debug",
        "--help",
        "--version",
        "--yes",
        "--silent",
        "--no-color",
        "--dry-run",
    ]
)
"""Options of which it is known that the next word is not their value."""
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

    def covers_words(self, words: Sequence[str]) -> bool:
        """For denies: whether the words of the pattern stand in the command line in this order, whatever options
        stand between them, with or without a value, and however the options are spelled (B16)."""
        tokens = self._tokens
        if len(tokens) < 2 or not words or not _fits(tokens[0], words[0].rsplit("/", 1)[-1]):
            return False
        program = tokens[0]
        if not all(_given(token, words[1:], program) for token in tokens[1:] if _is_option(token)):
            return False
        return self._in_order([token for token in tokens[1:] if not _is_option(token)], words[1:])

    def _in_order(self, tokens: list[str], words: Sequence[str]) -> bool:
        """All positions are followed at once: an option may or may not take the next word."""
        places = _past_options({0}, words)
        for token in tokens:
            if token == _STAR:
                places = set(range(min(places, default=len(words)), len(words) + 1)) if places else set()
            else:
                places = {place + 1 for place in places if place < len(words) and _fits(token, words[place])}
            places = _past_options(places, words)
        open_end = self._split[1] or (bool(self._tokens) and self._tokens[-1].endswith(_STAR))
        return bool(places) and (open_end or len(words) in places)

    @cached_property
    def _tokens(self) -> tuple[str, ...]:
        """The words of the pattern; a star is marked, so that an escaped one is not taken for it."""
        return tuple("".join(_STAR if is_star else text for is_star, text in self._split[0]).split())

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


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _fits(token: str, word: str) -> bool:
    if _STAR not in token:
        return token == word
    return re.fullmatch(".*".join(map(re.escape, token.split(_STAR))), word, re.DOTALL) is not None


def _past_options(places: set[int], words: Sequence[str]) -> set[int]:
    """The positions, and those behind the options that stand there."""
    waiting, found = list(places), set(places)
    while waiting:
        place = waiting.pop()
        if place >= len(words) or not _is_option(words[place]):
            continue
        steps = [place + 1]
        if "=" not in words[place] and words[place] not in _NO_VALUE and place + 1 < len(words):
            steps.append(place + 2)
        waiting += [step for step in steps if step not in found]
        found.update(steps)
    return found


def _given(option: str, words: Sequence[str], program: str) -> bool:
    """Whether the option is among the words, alone, grouped with others, abbreviated or in its long form."""
    if any(_fits(option, word) for word in words):
        return True
    given = [word.partition("=")[0] for word in words if word.startswith("--") and len(word) > 3]
    letters = {letter for word in words if _CLUSTER.fullmatch(word) for letter in word[1:]}
    longer = _LONG_FORMS.get(program, {})
    if option.startswith("--"):
        short = {letter for letter, forms in longer.items() if option in forms}
        return bool(short & letters) or any(option.partition("=")[0].startswith(word) for word in given)
    if not _CLUSTER.fullmatch(option) or len(option) > 4:
        return False
    return all(
        letter in letters
        or any(
            form in letters or any(form.startswith(word) for word in given) for form in longer.get(letter, ())
        )
        for letter in option[1:]
    )
