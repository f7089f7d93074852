"""The directories the shell may be in when a command of the text runs (R11, C06).

A ``cd`` may fail, or be in a subshell; so it adds a possible directory and removes none. An unknown
target makes the directory unknown, and no path relative to it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable

from recollect.policy.analysis import Command
from recollect.policy.paths.judge import PathJudge

_CHANGERS = frozenset({"cd", "chdir", "pushd", "popd"})
_MOST = 32


class Directories:
    """All directories the shell may be in; None stands for an unknown one."""

    def __init__(self, paths: PathJudge) -> None:
        self._paths = paths
        self.possible: list[str | None] = [paths.place.cwd]
        self.left = self.outside = False
        """A command may have left the working directories' own roots; the working directories altogether."""

    def changes(self, command: Command) -> bool:
        """Whether the command changes the directory by name."""
        return bool(command.words) and command.words[0].text == "cd"

    def stays(self, command: Command) -> bool:
        """Whether every possible target is the working directory itself."""
        return all(target == self._paths.place.cwd for target in self._targets(command))

    def after(self, command: Command, views: Iterable[Command]) -> None:
        """Record a command that may have run, under any wrapper."""
        if not any(map(_moves, views)):
            return
        for target in self._targets(command):
            if target is None or not self._paths.is_root(target):
                self.left = True
            if target is None or not self._paths.in_workspace(self._paths.file(target)):
                self.outside = True
            place = target if len(self.possible) < _MOST else None
            if place not in self.possible:
                self.possible.append(place)

    def _targets(self, command: Command) -> list[str | None]:
        if not command.words or command.words[0].text not in ("cd", "pushd", "chdir"):
            return [None]
        operands = [word for word in command.words[1:] if word.text not in ("-P", "-L", "-e", "--")]
        if not operands:
            return [self._paths.place.home]
        text = operands[0].text
        if len(operands) > 1 or text is None or operands[0].globs or text.startswith(("-", "+")):
            return [None]
        if text.startswith("/"):
            return [self._paths.file(text).written]
        return [None if cwd is None else self._paths.file(text, cwd).written for cwd in self.possible]


def _moves(command: Command) -> bool:
    return bool(command.words) and command.words[0].text in _CHANGERS


def runs_git(views: Iterable[Command]) -> bool:
    """Whether git may run, by the deny views of all commands."""
    return any(view.words and (view.words[0].text or "").rsplit("/", 1)[-1] == "git" for view in views)
