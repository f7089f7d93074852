"""What a shell text would run, as far as that can be known without running it.

A text is either fully understood or *unanalysable*, and then the reasons are listed. Allow rules look
only at understood commands. Deny rules look at ``commands`` and at ``suspects``.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    """One word. ``text`` is its value after quote removal, or None when only a shell can compute it."""

    raw: str
    text: str | None
    globs: bool = False
    """It has an unquoted ``*``, ``?`` or ``[``: the shell may replace it by file names."""
    likely: tuple[str, ...] = ()
    """When ``text`` is None: possible values, from assignments in the same text. Used for denies only."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirection such as ``2>>file``. ``target`` is None for a descriptor copy (``2>&1``) and for
    heredocs."""

    operator: str
    target: Word | None
    descriptor: int | None = None

    @property
    def writes(self) -> bool:
        return ">" in self.operator and self.target is not None


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command as the shell would start it, with the text it was read from."""

    raw: str
    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    piped: bool = False
    """It reads another command's output."""
    nested: bool = False
    """It is inside a substitution, a subshell or another command's argument (``sh -c``)."""

    @property
    def argv(self) -> tuple[str, ...] | None:
        """The values of the words, or None when one is unknown."""
        values = [word.text for word in self.words]
        return None if None in values else tuple(value for value in values if value is not None)


@dataclass(frozen=True, slots=True)
class Analysis:
    """All simple commands of one text in order, and what could not be understood."""

    text: str
    commands: tuple[Command, ...] = ()
    unanalysable: tuple[str, ...] = ()
    """Why the text is not fully understood; empty means it is."""
    wary: tuple[str, ...] = ()
    """Constructs that are understood and still asked about, as the client does (R23)."""
    suspects: frozenset[str] = field(default_factory=frozenset)
    """Every word that may become a command's name: after unwrapping (``env``, ``sudo``) and quote removal,
    in substitutions, and, when unanalysable, every token of the raw text."""
