"""Where the shell may be standing when a command of the text runs (R11, C06).

A ``cd`` may fail, or stand in a subshell; so it adds a possible directory and takes none away. A
target that is not known makes the directory unknown, and nothing relative to it is trusted.
"""

from __future__ import annotations

from collections.abc import Iterable

from recollect.policy.analysis import Command
from recollect.policy.path_judge import PathJudge

_CHANGERS = frozenset({"cd", "chdir", "pushd", "popd"})
_MOST = 32


class Directories:
    """All directories the shell may be in; None stands for one that cannot be known."""

    def __init__(self, paths: PathJudge) -> None:
        self._paths = paths
        self.possible: list[str | None] = [paths.place.cwd]
        self.left = False
        """A command may have gone to a directory that is none of the working directories themselves."""

    def changes(self, command: Command) -> bool:
        """Whether it moves the shell by name."""
        return bool(command.words) and command.words[0].text == "cd"

    def stays_inside(self, command: Command) -> bool:
        """Whether each place it could lead to is in a working directory."""
        targets = self._targets(command)
        return all(target is not None and self._inside(target) for target in targets)

    def after(self, command: Command, views: Iterable[Command]) -> None:
        """Take note of a command that has run, or has not, under whatever wrapper."""
        if not any(map(_moves, views)):
            return
        for target in self._targets(command):
            if target is None or not self._paths.is_root(target):
                self.left = True
            place = target if len(self.possible) < _MOST else None
            if place not in self.possible:
                self.possible.append(place)

    def _inside(self, path: str) -> bool:
        return self._paths.in_workspace(self._paths.file(path))

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


def git_after_leaving(views: Iterable[Command], directories: Directories) -> bool:
    """Whether git may run in a directory that the text itself went to: it may hold a repository of its own.

    ``views`` are all that the commands of the text may turn out to be.

    The client asks also below a working directory, where anybody may have put a bare repository.
    """
    if not directories.left:
        return False
    return any(view.words and (view.words[0].text or "").rsplit("/", 1)[-1] == "git" for view in views)
