"""Words of the engine: commands of a shell text, facts about files, modes, the known tools.

A text is either fully understood or *unanalysable*, and then the reasons are listed. Allow rules look only at
understood commands; deny rules look at ``commands`` and at ``suspects``. Policy does no I/O: the ``World`` is passed in.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from recollect.model.files.reports import EDITING_TOOLS
from recollect.model.settings.decision import Verdict


@dataclass(frozen=True, slots=True)
class Word:
    """One word. ``text`` is its value after quote removal, or None when only a shell can compute it."""

    raw: str
    text: str | None
    globs: bool = False
    """It has an unquoted ``*``, ``?`` or ``[``: the shell may replace it by file names."""
    likely: tuple[str, ...] = ()
    """When ``text`` is None: possible values, from assignments in the same text. Used for denies only."""

    @property
    def seen(self) -> str:
        """Its value, or as it is written."""
        return self.raw if self.text is None else self.text


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
    def name(self) -> str:
        """The program's name without its directory; "" where it is not known."""
        return (self.words[0].text or "").rsplit("/", 1)[-1] if self.words else ""

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


class World(Protocol):
    """Answers about absolute paths. They never raise; an unreadable path counts as missing."""

    def resolved(self, path: str) -> str:
        """The path with links followed as far as it exists; the rest is appended as written."""

    def identity(self, path: str) -> tuple[int, int] | None:
        """Device and inode of the target (links followed), or None when it is missing."""

    def is_regular_or_missing(self, path: str) -> bool:
        """False for a FIFO, a device or a socket, which no tool may read as a file."""

    def is_directory(self, path: str) -> bool:
        """Whether the target (links followed) is a directory."""

    def names_in(self, path: str) -> frozenset[str] | None:
        """Every relative path below the directory, links not followed; None when it cannot be listed."""


class Mode(enum.StrEnum):
    """As spelled in the settings; ``manual`` is a synonym of ``default``."""

    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    PLAN = "plan"
    AUTO = "auto"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"

    @classmethod
    def _missing_(cls, value: object) -> Mode | None:
        return cls.DEFAULT if value == "manual" else None

    @property
    def edits_run(self) -> bool:
        """Whether edits inside the working directories run without asking."""
        return self in (Mode.ACCEPT_EDITS, Mode.AUTO)

    def final(self, verdict: Verdict) -> Verdict:
        """What an ask becomes in a mode that does not ask."""
        return Verdict.DENY if self is Mode.DONT_ASK and verdict is Verdict.ASK else verdict


def names(text: str) -> frozenset[str]:
    """The blank-separated names of a text, for tables that are long."""
    return frozenset(text.split())


READING_TOOLS = names("Read NotebookRead Grep Glob LS")
HARMLESS_TOOLS = names(
    "Agent BashOutput EnterPlanMode KillBash KillShell TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate"
    " TodoRead TodoWrite ToolSearch"
)
"""They touch nothing outside the session, or only start calls that are decided separately."""

SAME_TOOL = {"Task": "Agent"}
"""The old names of tools; rules and calls under either name are the same."""

INTERACTIVE_TOOLS = frozenset({"AskUserQuestion", "ExitPlanMode"})
"""They need a person at the terminal; a run without one does not have them."""

_OTHER_TOOLS = names("Bash PowerShell WebFetch WebSearch Skill SlashCommand Task Monitor LSP")
KNOWN_TOOLS = READING_TOOLS | EDITING_TOOLS | HARMLESS_TOOLS | INTERACTIVE_TOOLS | _OTHER_TOOLS

PATH_ARGUMENTS = ("file_path", "path", "notebook_path")
PRIMARY_ARGUMENTS = frozenset({"command", "url", *PATH_ARGUMENTS})

NAMING_ARGUMENTS = {
    "Agent": ("subagent_type",),
    "Skill": ("skill", "command", "name"),
    "SlashCommand": ("command",),
}
"""Tools whose rules name one thing: ``Agent(Explore)``, ``Skill(commit)``."""


def is_mcp(tool: str) -> bool:
    return tool.startswith("mcp__")


def covers(rule_name: str, tool: str) -> bool:
    """Whether a bare rule of that name covers the tool: by name, by glob, or by MCP server (R17)."""
    if rule_name == tool:
        return True
    if "*" in rule_name:
        return fits_stars(rule_name.split("*"), tool)
    return is_mcp(rule_name) and tool.startswith(rule_name + "__")


def fits_stars(pieces: Iterable[str], text: str) -> bool:
    """Whether the text is these pieces with anything between them."""
    return re.fullmatch(".*".join(map(re.escape, pieces)), text, re.DOTALL) is not None
