"""Splits a program's command line into options and operands.

``--opt=value``, ``--opt value``, ``-ovalue``, ``-abo value`` and ``--`` are equivalent and must get the
same verdict (B13). An unlisted option, an abbreviated long option, or an unknown word where an option
could be makes the whole line *not understood*: the result is ``None``, never a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from recollect.policy.analysis import Word


def names(text: str) -> frozenset[str]:
    """The blank-separated names of a text, for tables that are long."""
    return frozenset(text.split())


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


def options(
    flags: str = "",
    valued: str = "",
    maybe: str = "",
    *,
    numbers: str = "",
    numeric: bool = False,
    interspersed: bool = True,
    attached: str | None = None,
) -> Options:
    """Build a description from blank-separated lists of options."""
    return Options(
        frozenset(flags.split()),
        frozenset(valued.split() + numbers.split()),
        frozenset(maybe.split()),
        numeric,
        interspersed,
        frozenset(numbers.split()),
        None if attached is None else frozenset(attached.split()),
    )


def table(flags: str = "", valued: str = "", maybe: str = "", **more: Any) -> Options:
    """A description in which no value may be attached to a short option, unless it is named."""
    return options(flags, valued, maybe, **{"attached": "", **more})


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
