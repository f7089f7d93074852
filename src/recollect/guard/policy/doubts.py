"""What a deny rule cannot see in a command: names made at run time, and words behind an unknown program (B14).

Asked only where something broad allows the command and some commands are denied. Text that is decoded or assembled at
run time, or read from a script, is the sandbox's to hold; the answers say so. Also here: in which directories the shell
may be, and removals of everything (R18).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from recollect.guard.policy.command_lines import CommandPattern, listed
from recollect.guard.policy.path_judge import PathJudge
from recollect.guard.policy.paths import Workspace, absolute, collapsed
from recollect.guard.policy.programs import runs_unknown_text
from recollect.guard.policy.shell_quoting import plain
from recollect.guard.policy.terms import Analysis, Command

SANDBOX = "what is decoded or assembled at run time only the sandbox can hold"
_KNOWN_TEXT = re.compile(
    r"(?:set|shopt|trap|exec|let|enable|complete|bind|source|\.) changes |assignment to |printf that|test that"
    r"|(?:export|declare|typeset|local|readonly|unset|read|mapfile|readarray|getopts|wait) with "
)
"""Doubts that leave every command name readable."""
_STRUCTURE = re.compile(
    r"parenthesis after|two parsers|time before|word after|quote without|redirect|\S+ missing|unexpected"
)
_MAKES_NAMES = re.compile(
    r"\$(?!HOME\b)|[`*?\[\\]|\{[^\s{}]*(?:,|\.\.)|(?:^|[\s;|&(])(?:\.|eval|source|alias|hash|trap|exec|enable|xargs|parallel|\S*sh|fish|su"
    r"|sudo|busybox)(?=[\s;|&)]|$)"
)
"""Without any of these in it, a text names every command in plain letters."""
_DESCRIPTOR = re.compile(r"/dev/(?:stdin|fd/)|/proc/")
_DATA = listed("data_programs")
"""Programs whose words are data, sub-commands of their own, or were compared with the denies already."""
_WORDS = re.compile(r"[^\w./=+-]+")


def unreadable_name(analysis: Analysis) -> str | None:
    """Why a command's name in a text that is not understood cannot be read from it; None when all can."""
    for reason in analysis.unanalysable:
        plain_text = _STRUCTURE.match(reason) and not _MAKES_NAMES.search(analysis.text)
        if not plain_text and not _KNOWN_TEXT.match(reason):
            return reason
    for command in analysis.commands:
        name = command.words[0].text if command.words else None
        if name not in ("source", ".", "trap", "exec"):
            continue
        if any(word.text is None or _DESCRIPTOR.match(word.text) for word in command.words[1:]):
            return f"{name} with a text that is not known"
    return None


def unseen(
    views: Iterable[Command], denied: Callable[[Iterable[str]], Iterable[CommandPattern]]
) -> str | None:
    """Why a denied command may run inside one that is understood; ``denied`` gives the denies about some names."""
    for view in views:
        name = view.name
        if view.words and runs_unknown_text(view, name):
            return f"{name} would run a text that is not known"
        if not name or name in _DATA or len(view.words) < 2:
            continue
        rest = " ".join(_WORDS.split(plain(" ".join(word.text or word.raw for word in view.words[1:]))))
        programs = {word.rsplit("/", 1)[-1] for word in rest.split()}
        if any(pattern.literal_start and pattern.occurs_in(rest) for pattern in denied(programs)):
            return f"{name} may run the words behind it"
    return None


_BORDER = re.compile(r"[\s;|&()<>{}`$,=\"']+")
_EXPANSION = re.compile(r"\$\([^()]*\)|\$\{[^{}]*\}|`[^`]*`|\$\w+|\$[@*#?!-]")
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f]")


def readings_of(text: str) -> tuple[str, ...]:
    """The text as written, with quoting removed, and with expansions removed; words are one space apart."""
    joined = text.replace("\\\n", "")
    unquoted = re.sub(r"[\"'\\]", "", joined)
    visible = _INVISIBLE.sub("", unquoted)
    bare = re.sub(r"[\"'\\]", "", _EXPANSION.sub(" ", joined))
    spaced = re.sub(r"\$\{?IFS\}?", " ", unquoted)
    texts = (" ".join(_BORDER.split(each)).strip() for each in (text, unquoted, visible, bare, spaced))
    return tuple(dict.fromkeys(texts))


def words_in(readings: Iterable[str]) -> set[str]:
    return {word for text in readings for word in text.split(" ") if word}


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
        return bool(command.words) and command.words[0].text == "cd"

    def stays(self, command: Command) -> bool:
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
    return any(view.name == "git" for view in views)


_ACCEPTED = frozenset({"mkdir", "touch", "cp", "mv", "rm", "rmdir", "sed"})
_SED_OPTIONS = frozenset({"-i", "--in-place", "-E"})
_SED_EDIT = re.compile(r"s/[^/\\\n]+/[^/\\\n]*/[gi0-9]?")


def accepted_edit(command: Command) -> bool:
    """Whether ``acceptEdits`` runs the command. Its files are checked elsewhere (``path_gate``)."""
    argv = command.argv
    if not argv or argv[0] not in _ACCEPTED or command.words[0].raw != argv[0] or "--" in argv:
        return False
    flags = [word for word in argv[1:] if word.startswith("-")]
    if argv[0] == "touch":
        return not flags
    if argv[0] != "sed":
        return True
    operands = [word for word in argv[1:] if not word.startswith("-")]
    return len(operands) > 1 and set(flags) <= _SED_OPTIONS and _SED_EDIT.fullmatch(operands[0]) is not None


def removes_everything(command: Command, place: Workspace) -> bool:
    """Whether it is ``rm -r`` of the root, home, a directory just below the root, or an unknown path
    (R18)."""
    if command.name != "rm":
        return False
    rest = command.words[1:]
    if not any(
        word.text is None or (re.fullmatch(r"-[a-zA-Z]*[rR][a-zA-Z]*|--r\w*", word.text) is not None)
        for word in rest
    ):
        return False
    for word in rest:
        if word.text is None:
            return True
        if not word.text.startswith("-") and _everything(word.text, place):
            return True
    return False


def _everything(path: str, place: Workspace) -> bool:
    full = collapsed(absolute(re.sub(r"/\*+$", "/", path), place))
    above_home = place.home == full or place.home.startswith(full.rstrip("/") + "/")
    return above_home or (full.count("/") == 1 and path.startswith("/"))
