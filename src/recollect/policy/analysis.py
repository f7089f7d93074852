"""What a shell text would run, as far as it can be known without running it.

The one idea: a text is either understood to the last word, or it is *unanalysable*, and then it
says why. Allow rules look only at understood commands; deny rules look at ``commands`` **and** at
``suspects``, every word the text could bring into command position. Nothing in between exists.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Word:
    """One word. ``text`` is its value after quote removal, or None when only a shell could tell."""

    raw: str
    text: str | None
    globs: bool = False
    """An unquoted ``*``, ``?`` or ``[``: the shell may put file names in its place."""
    likely: tuple[str, ...] = ()
    """When ``text`` is None: values it has if the assignments seen in the same text hold. For denies only."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """``2>>file`` and its kin. ``target`` is None for a descriptor copy (``2>&1``) and for heredocs."""

    operator: str
    target: Word | None
    descriptor: int | None = None

    @property
    def writes(self) -> bool:
        """Whether it may create or change its target."""
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
    """It stands inside a substitution, a subshell or another command's argument (``sh -c``)."""

    @property
    def argv(self) -> tuple[str, ...] | None:
        """The words' values, or None when one of them is not known."""
        values = [word.text for word in self.words]
        return None if None in values else tuple(value for value in values if value is not None)


@dataclass(frozen=True, slots=True)
class Analysis:
    """All simple commands of one text in order, and what could not be understood."""

    text: str
    commands: tuple[Command, ...] = ()
    unanalysable: tuple[str, ...] = ()
    """Why the text is not fully understood; empty means it is."""
    suspects: frozenset[str] = field(default_factory=frozenset)
    """Every word that may end up as a command's name: after unwrapping (``env``, ``sudo``), after quote
    removal, in substitutions, and, when unanalysable, every token of the raw text."""
