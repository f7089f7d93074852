"""The answer to "may this call run?", with its reasons."""

from __future__ import annotations

import enum

from msgspec import Struct


class Verdict(enum.StrEnum):
    """Ordered by strictness; the strictest of several wins."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def strictness(self) -> int:
        """0 for allow, 2 for deny."""
        return ("allow", "ask", "deny").index(self.value)


class Scope(enum.StrEnum):
    """Where a rule or setting comes from, weakest first."""

    USER = "user"
    PROJECT = "project"
    LOCAL = "local"
    COMMAND_LINE = "command line"
    MANAGED = "managed"


class RuleSource(Struct, frozen=True, rename={"path": "file"}):
    """The file and line of a rule. ``anchor`` is the directory its ``/path`` rules start at."""

    scope: Scope
    path: str | None = None
    line: int | None = None
    anchor: str | None = None

    def __str__(self) -> str:
        if self.path is None:
            return self.scope.value
        return self.path if self.line is None else f"{self.path}:{self.line}"


class DecisionPart(Struct, frozen=True, rename={"verdict": "decision"}):
    """One simple command of a call (or the whole call), and its verdict."""

    text: str
    verdict: Verdict
    rule: str | None
    source: RuleSource | None
    why: str


class Decision(Struct, frozen=True, rename={"verdict": "decision"}):
    """The verdict, the rule behind it, the parts, and what could not be analysed.

    ``rule`` is the rule as its settings spell it and ``source`` its file and line; both are None
    where no rule decided, and ``why`` says what did. ``bound_to`` is a hash of the tool,
    arguments, directory and file identities. Compare it before running the call.
    """

    verdict: Verdict
    rule: str | None
    source: RuleSource | None
    why: str
    parts: tuple[DecisionPart, ...] = ()
    unanalysable: tuple[str, ...] = ()
    bound_to: str = ""
