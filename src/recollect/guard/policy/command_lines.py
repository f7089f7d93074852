"""Command lines: options and operands of a program, and the specifier of ``Bash(...)``.

``--opt=value``, ``--opt value``, ``-ovalue``, ``-abo value`` and ``--`` are equivalent and must get the same verdict
(B13). An unlisted option, an abbreviated long option, or an unknown word where an option could be makes the whole line
*not understood*: the result is ``None``, never a guess. The lists are in ``programs.json``.

A pattern is an exact command, a prefix, or a text with wildcards (R6). A ``*`` matches any text, spaces included. A
trailing `` *`` or ``:*`` means "nothing more, or a space and anything", so ``ls *`` does not match ``lsof``. A backslash
makes a star literal.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from recollect.guard.policy.terms import Word, fits_stars, names


@dataclass(frozen=True, slots=True)
class Options:
    """The known options of a program: without a value, with one, with an optional ``=value``."""

    flags: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    maybe_valued: frozenset[str] = frozenset()
    numeric: bool = False
    """``-5`` is an option (``head -5``, ``git log -3``)."""
    interspersed: bool = True
    """Options may follow operands; False for wrappers, whose first operand begins another command."""
    numbers: frozenset[str] = frozenset()
    """Options with a value that must be a number."""
    attached: frozenset[str] | None = None
    """Short options whose value may follow without a blank; None for all."""


def table(flags: str = "", valued: str = "") -> Options:
    """A description in which no value may be attached to a short option."""
    return Options(names(flags), names(valued), attached=frozenset())


_KNOWN: dict[str, Any] = json.loads(pkgutil.get_data("recollect.guard.policy", "programs.json") or b"")


def _words(value: str | list[str]) -> list[str]:
    return (value if isinstance(value, str) else " ".join(value)).split()


def in_order(key: str) -> tuple[str, ...]:
    """The words of an entry of ``programs.json``."""
    return tuple(_words(_KNOWN[key]))


def listed(key: str) -> frozenset[str]:
    """The same as a set."""
    return frozenset(in_order(key))


def lists(key: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(_words(value)) for name, value in _KNOWN[key].items()}


def lines(key: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(line.split()) for line in _KNOWN[key])


def options_by_program(key: str) -> dict[str, Options]:
    return {name: _described(entry) for name, entry in _KNOWN[key].items()}


def wrappers(key: str) -> dict[str, tuple[Options, int]]:
    return {
        name: (_described({**entry, "interspersed": False}), entry.get("operands", 0))
        for name, entry in _KNOWN[key].items()
    }


def _described(entry: dict[str, Any]) -> Options:
    flags, valued, maybe, numbers = (
        frozenset(_words(entry.get(name, ""))) for name in ("flags", "valued", "maybe", "numbers")
    )
    attached = frozenset(_words(entry["attached"])) if "attached" in entry else None
    numeric, interspersed = entry.get("numeric", False), entry.get("interspersed", True)
    return Options(flags, valued | numbers, maybe, numeric, interspersed, numbers, attached)


@dataclass(slots=True)
class CommandLine:
    """A command line split into options and operands."""

    given: list[tuple[str, str | None]] = field(default_factory=list)
    """Options as spelled in the description, with their values."""
    operands: list[Word] = field(default_factory=list)
    rest: int = 0
    """Index of the first operand in the words, or their number when there is none."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.given)

    def values(self, *names: str) -> list[str]:
        return [value for name, value in self.given if name in names and value is not None]


def take_apart(words: Sequence[Word], known: Options, *, unknown_words: bool = False) -> CommandLine | None:
    """The options and operands of the words after a program's name; None when one is not understood.

    With ``unknown_words`` an unknown word counts as an operand: for denies, and for programs that no
    option makes dangerous.
    """
    line = CommandLine(rest=len(words))
    position, only_operands = 0, False
    while position < len(words):
        word = words[position]
        text = word.text
        if only_operands or (text is not None and not _may_be_option(word)):
            if not line.operands:
                line.rest = position
            if not known.interspersed:
                line.operands.extend(words[position:])
                return line
            line.operands.append(word)
            position += 1
        elif text is None or (word.globs and not text.startswith("-")):
            if not unknown_words:
                return None
            line.rest = line.rest if line.operands else position
            line.operands.append(word)
            position += 1
        elif word.globs:
            return None
        elif text == "--":
            only_operands = True
            position += 1
        else:
            following = words[position + 1] if position + 1 < len(words) else None
            used = _option(text, following, known, line)
            if used == 0:
                return None
            position += used
    return line


def _may_be_option(word: Word) -> bool:
    """``*`` may become a file named ``-delete``; ``src/*`` may not."""
    text = word.text or ""
    return (text.startswith("-") and text != "-") or (word.globs and text[:1] in "*?[")


def _option(text: str, following: Word | None, known: Options, line: CommandLine) -> int:
    """How many words this option takes; 0 when it is not known."""
    if text.startswith("--"):
        return _long(text, following, known, line)
    if known.numeric and text[1:].isdecimal() and text.isascii():
        line.given.append(("-N", text[1:]))
        return 1
    return _cluster(text, following, known, line)


def _long(text: str, following: Word | None, known: Options, line: CommandLine) -> int:
    name, equals, value = text.partition("=")
    if equals:
        if name not in known.valued and name not in known.maybe_valued:
            return 0
        if name in known.numbers and not value.isdecimal():
            return 0
        line.given.append((name, value))
        return 1
    if name in known.flags or name in known.maybe_valued:
        line.given.append((name, None))
        return 1
    return _with_value(name, following, known, line)


def _with_value(name: str, following: Word | None, known: Options, line: CommandLine) -> int:
    if name not in known.valued or following is None or following.text is None or following.globs:
        return 0
    if name in known.numbers and not following.text.isdecimal():
        return 0
    line.given.append((name, following.text))
    return 2


def _cluster(text: str, following: Word | None, known: Options, line: CommandLine) -> int:
    for index in range(1, len(text)):
        name = "-" + text[index]
        rest = text[index + 1 :]
        if name in known.flags:
            line.given.append((name, None))
        elif name in known.maybe_valued:
            line.given.append((name, rest or None))
            return 1
        elif name in known.valued and rest:
            if (known.attached is not None and name not in known.attached) or (
                name in known.numbers and not rest.isdecimal()
            ):
                return 0
            line.given.append((name, rest))
            return 1
        else:
            return _with_value(name, following, known, line)
    return 1


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
_NO_VALUE = listed("no_value")
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
        core = "".join("*" if is_star else text for is_star, text in self._split[0])
        return bool(self.literal_start.strip()) and " " not in core.strip()

    def matches(self, command: str) -> bool:
        """Whether the pattern covers the whole of one simple command."""
        return self._whole.fullmatch(command) is not None

    def names_program(self, word: str) -> bool:
        """Whether the pattern covers a command whose name is this word."""
        return re.fullmatch(self._body, word, re.DOTALL) is not None

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
    def _body(self) -> str:
        return "".join(".*" if is_star else re.escape(text) for is_star, text in self._split[0])

    @cached_property
    def _whole(self) -> re.Pattern[str]:
        return re.compile(self._body + (r"(?:\s.*)?" if self._split[1] else ""), re.DOTALL)

    @cached_property
    def _anywhere(self) -> re.Pattern[str]:
        return re.compile(r"(?:^|[\s/])" + self._body + r"(?=\s|$)", re.DOTALL)


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _fits(token: str, word: str) -> bool:
    return fits_stars(token.split(_STAR), word) if _STAR in token else token == word


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


INTERPRETERS = listed("interpreters")
"""Programs that exist to run a text, a file or another program."""
HOW_IT_RUNS: dict[str, list[str]] = _KNOWN["how_it_runs"]
"""The program: how it runs others, and a narrower rule (``{}`` is the program)."""
